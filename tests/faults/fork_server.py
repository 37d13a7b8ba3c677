"""A process that has imported everything and forks one child per trial, so that a trial costs milliseconds.

The child performs the script on a file and reports every answer on a socket *after* it has it and before the next call;
what it reported is the ledger. It may die at any point: that is what it is for. Opens nothing before it forks.
"""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import holdkit
from holdkit.engines.sqlite import checkpointing
from holdkit.testing import FakeClock
from tests.faults import canaries, fault_points, script
from tests.faults.fault_points import POINTS, Fault

ATTEMPTS = 6
"""How often a step that failed is tried before the child gives up."""


class Job(Struct, frozen=True, kw_only=True):
    """What one child is to do."""

    path: str
    first: int = script.OPEN
    """The first step: what lies before it was acknowledged in an earlier life."""
    answers: script.Answers = {}
    life: int = 0
    faults: list[Fault] = []
    watch: bool = False
    """Report every commit too."""
    stepwise: bool = True
    """Wait for a nod after every report, so that the file can be looked at."""
    canary: str = ""
    pages: int = 30
    """A checkpoint after about so many."""


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger."""

    step: int
    answer: script.Answer | None = None
    failed: str = ""
    """The class of the error, where there is no answer."""
    words: str = ""
    effect: str = ""
    attempt: int = 0
    committed: bool = False
    gave_up: bool = False
    fired: int = 0
    count: int = 0
    """Statements so far."""
    kinds: list[str] = []
    """With the last report: every statement's kind."""


class Child:
    """One life of the scripted run."""

    def __init__(self, job: Job, line: socket.socket) -> None:
        self._job, self._line = job, line
        self._clock, self._minter = FakeClock(script.START), script.Minter(job.life)
        self._answers = dict(job.answers)
        self._step, self._attempt = job.first, 0

    def live(self) -> None:
        """From the first step to the last."""
        job = self._job
        POINTS.reset(job.faults)
        checkpointing.PAGES = job.pages  # type: ignore[misc]
        if job.watch:
            POINTS.on_commit = lambda: self.report(committed=True)
        canaries.install(job.canary)
        path = Path(job.path)
        hk: holdkit.Kernel = self._try(script.OPEN, lambda _: script.connect(path, self._clock, self._minter))
        self.report(answer={})
        for index in range(max(job.first, 0), len(script.STEPS)):
            answer = self._try(index, self._call(hk, index))
            self._answers[script.STEPS[index].name] = answer
            self.report(answer=answer)
        self._try(script.CLOSE, lambda _: hk.close())
        self.report(answer={}, kinds=POINTS.kinds)

    def _call(self, hk: holdkit.Kernel, index: int) -> Any:
        return lambda attempt: script.perform(hk, self._clock, self._minter, index, attempt, self._answers)

    def _try(self, step: int, call: Any) -> Any:
        self._step = step
        for attempt in range(ATTEMPTS):
            self._attempt = attempt
            try:
                return call(attempt)
            except Exception as error:  # noqa: BLE001 - whatever comes is the harness's to judge
                effect = getattr(error, "effect", "")
                self.report(failed=type(error).__name__, words=_words(error), effect=effect)
        self.report(gave_up=True)
        os._exit(3)

    def report(self, **fields: Any) -> None:
        """Tell the parent, and wait for its nod if it wants to look."""
        seen: dict[str, Any] = {
            "step": self._step,
            "attempt": self._attempt,
            "fired": POINTS.fired,
            "count": len(POINTS.kinds),
        }
        report = Report(**seen, **fields)
        self._line.send(msgspec.json.encode(report))
        if self._job.stepwise:
            self._line.recv(1)


def _words(error: BaseException) -> str:
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        parts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return " <- ".join(parts)


def allow_tracing() -> None:
    """Let strace attach to this process where the kernel asks for permission (Yama); elsewhere it changes nothing."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(0xFFFFFFFFFFFFFFFF), 0, 0, 0)


def serve(control: socket.socket) -> None:
    """Fork a child per job until nobody asks any more."""
    _warm_up()
    gc.freeze()  # what was made so far is never looked at again, so the children share it
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not text:
            return
        job = msgspec.json.decode(text, type=Job)
        line = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if not pid:
            allow_tracing()
            control.send(str(os.getpid()).encode())  # by the child: what runs at a fork is over, so no tracer sees it
            control.close()
            if line.recv(1):  # the parent may want to attach a tracer first
                Child(job, line).live()
            os._exit(0)
        line.close()
        _, status = os.waitpid(pid, 0)
        control.send(str(status).encode())


def _warm_up() -> None:
    """Import and cache whatever a run needs, so that the children's system calls are the engine's own."""
    with tempfile.TemporaryDirectory() as directory, _Deaf() as line:
        Child(Job(path=str(Path(directory) / "warm.db"), stepwise=False), line).live()


class _Deaf(socket.socket):
    """A line with nobody at the other end."""

    def send(self, *_: Any) -> int:
        return 0


def main() -> None:
    """Serve on the socket whose number is the argument."""
    fault_points.install()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control)


if __name__ == "__main__":
    main()
