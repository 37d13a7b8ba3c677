"""Several processes that call at once. Started once and kept for all runs: starting Python would take longer than a run."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from ..rows import BenchFailed
from .callers import Calls, run_threads
from .scenarios import PROCESSES, Scenario, Shift, pool_names
from .sides import Side, open_threads


class Job(Struct, frozen=True):
    """What one process is to do."""

    side: Side
    dsn: str
    callers: int
    pools: int
    connections: int
    name: str


class Crew:
    """The processes, and a line to each."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take along locks held by other threads
        self._lines: list[Connection[Any, Any]] = []
        self._members = []
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            member = context.Process(target=work, args=(theirs,), daemon=True)
            member.start()
            theirs.close()
            self._lines.append(ours)
            self._members.append(member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for line in self._lines:
            line.close()  # the member reads the end, and goes
        for member in self._members:
            member.join(10)
            if member.is_alive():
                member.terminate()

    def open(self, scenario: Scenario, side: Side, dsn: str, connections: int) -> None:
        """Everybody connects."""
        for number, line in enumerate(self._lines):
            line.send(Job(side, dsn, scenario.callers // PROCESSES, scenario.pools, connections, f"member-{number}"))
        for line in self._lines:
            self._answer(line)

    def run(self, shift: Shift) -> Calls:
        """Everybody calls; then everybody has disconnected."""
        whole = Calls([], 0)
        for line in self._lines:
            line.send(shift)
        for line in self._lines:
            whole.add(self._answer(line))
        return whole

    def _answer(self, line: Connection[Any, Any]) -> Any:
        answer = line.recv()
        if isinstance(answer, str):
            raise BenchFailed(f"one of the processes failed: {answer}")
        return answer


def work(line: Connection[Any, Any]) -> None:
    """One member: a job, a shift, an answer, again, until the line is closed."""
    while True:
        try:
            job: Job = line.recv()
        except EOFError:
            return
        try:
            with closing(open_threads(job.side, job.dsn, job.callers, job.connections)) as store:
                line.send(None)
                calls = run_threads(store, job.callers, pool_names(job.pools), line.recv(), job.name)
        except Exception as error:  # noqa: BLE001 - reported by the process that waits
            line.send(f"{type(error).__name__}: {error}")
            continue
        line.send(calls)
