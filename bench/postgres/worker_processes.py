"""Several processes that call concurrently. They are started once for all runs: starting Python would take longer than a run."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from ..rows import BenchFailed
from .callers import Calls, run_threads
from .scenarios import PROCESSES, Interval, Scenario, pool_names
from .stores import Variant, open_threads


class Job(Struct, frozen=True):
    """The job of one process."""

    variant: Variant
    dsn: str
    callers: int
    pools: int
    connections: int
    name: str


class WorkerProcesses:
    """The processes, and a pipe to each."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks held by other threads
        self._pipes: list[Connection[Any, Any]] = []
        self._workers = []
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            worker = context.Process(target=work, args=(theirs,), daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()  # the process reads the end, and exits
        for worker in self._workers:
            worker.join(10)
            if worker.is_alive():
                worker.terminate()

    def open(self, scenario: Scenario, variant: Variant, dsn: str, connections: int) -> None:
        """Every process connects."""
        for number, pipe in enumerate(self._pipes):
            pipe.send(Job(variant, dsn, scenario.callers // PROCESSES, scenario.pools, connections, f"worker-{number}"))
        for pipe in self._pipes:
            self._answer(pipe)

    def run(self, interval: Interval) -> Calls:
        """Every process makes its calls, then disconnects."""
        whole = Calls([], 0)
        for pipe in self._pipes:
            pipe.send(interval)
        for pipe in self._pipes:
            whole.add(self._answer(pipe))
        return whole

    def _answer(self, pipe: Connection[Any, Any]) -> Any:
        answer = pipe.recv()
        if isinstance(answer, str):
            raise BenchFailed(f"one of the processes failed: {answer}")
        return answer


def work(pipe: Connection[Any, Any]) -> None:
    """One process: receive a job and an interval, answer, repeat until the pipe is closed."""
    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        try:
            with closing(open_threads(job.variant, job.dsn, job.callers, job.connections)) as store:
                pipe.send(None)
                calls = run_threads(store, job.callers, pool_names(job.pools), pipe.recv(), job.name)
        except Exception as error:  # noqa: BLE001 - reported by the process that waits
            pipe.send(f"{type(error).__name__}: {error}")
            continue
        pipe.send(calls)
