"""The processes that call, a group for each revision. They are started once for all runs: starting Python would take longer than a run."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Final, Self

import msgspec

from ..revision import Revision
from ..rows import BenchFailed
from .callers import Calls
from .scenarios import PROCESSES, Interval, Scenario
from .stores import Variant
from .worker import Answer, Check, Job, Prepare, receive, send

_answer: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


class WorkerProcess:
    """One process, and a pipe in each direction."""

    def __init__(self, revision: Revision) -> None:
        command = [revision.python, "-m", "bench.postgres.worker", str(revision.source)]
        pipe = subprocess.PIPE
        self._name = revision.name
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=revision.env(), cwd=revision.root)
        self.pid = self._process.pid

    def send(self, message: object) -> None:
        """One request, or the interval of a job."""
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, message)
        except BrokenPipeError:
            raise BenchFailed(f"a process of {self._name} has ended") from None

    def answer(self) -> Calls | None:
        """The answer to the last request."""
        assert self._process.stdout is not None
        body = receive(self._process.stdout)
        if not body:
            raise BenchFailed(f"a process of {self._name} has ended")
        answer = _answer.decode(body)
        if isinstance(answer, str):
            raise BenchFailed(f"a process of {self._name} failed: {answer}")
        return answer

    def ask(self, message: object) -> Calls | None:
        """One request and its answer."""
        self.send(message)
        return self.answer()

    def close(self) -> None:
        """It reads the end, and exits."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()


class WorkerProcesses:
    """The processes of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._workers = [WorkerProcess(revision) for _ in range(PROCESSES)]
        self._busy: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.close()

    @property
    def pids(self) -> list[int]:
        """Those that make the calls of the current run."""
        return [worker.pid for worker in self._busy]

    def prepare(self, variant: Variant, place: str, pools: int) -> None:
        """Fill an empty database."""
        self._workers[0].ask(Prepare(variant, place, pools))

    def check(self, variant: Variant, place: str, granted: int, scenario: Scenario) -> None:
        """Fail unless the database has what was granted, and nothing else."""
        self._workers[0].ask(Check(variant, place, granted, scenario.work))

    def open(
        self, scenario: Scenario, variant: Variant, place: str, connections: int, rate: float | None = None
    ) -> None:
        """Every process that the scenario needs connects."""
        self._busy = self._workers[: scenario.processes]
        each = scenario.callers // scenario.processes
        for number, worker in enumerate(self._busy):
            name = f"worker-{number}"
            worker.send(
                Job(variant, place, scenario.kind, each, scenario.pools, scenario.work, connections, name, rate)
            )
        for worker in self._busy:
            worker.answer()

    def start(self, interval: Interval) -> None:
        """The processes make their calls in this interval."""
        for worker in self._busy:
            worker.send(interval)

    def calls(self) -> Calls:
        """What they did; they have disconnected."""
        whole = Calls([], 0)
        for worker in self._busy:
            answer = worker.answer()
            assert answer is not None
            whole.add(answer)
        return whole
