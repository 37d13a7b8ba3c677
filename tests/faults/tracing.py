"""System calls that fail or kill, by strace: attached to a child before its first step, so that the calls are its own.

`when=N` counts the child's calls of that name from its first. The trace tells whether the fault was met, and whether what an
answer rests on was on disk when it was given: that is judged in every trial, the undisturbed one included.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import structs

from tests.faults import script
from tests.faults.fork_server import Job, Report
from tests.faults.trials import PATIENCE, Ended, ForkServer, Judge, Verdict, bury, closed

CALLS: Final = ("openat", "pread64", "pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink", "flock")
"""Calls on files that can fail. (SQLite's own locks, by fcntl, cannot fail for want of disk.)"""
STRACE: Final = shutil.which("strace")

_CALL: Final = re.compile(r"^\d+ +(\w+)\((?:\d+<(.*?)>)?(.*)$", re.MULTILINE)
_OFFSET: Final = re.compile(r", (\d+)\) = \d+$")
_ANSWER: Final = re.compile(r'\{\\"step\\":(-?\d+),\\"an')


class Tracer:
    """One strace on one child."""

    def __init__(self, log: Path, inject: str = "") -> None:
        self._log, self._inject = log, inject
        self._process: subprocess.Popen[bytes] | None = None

    def attach(self, child: int) -> None:
        """Return once every further call of the child is seen."""
        assert STRACE is not None
        calls = ",".join((*CALLS, "sendto"))
        command = [STRACE, "-f", "-y", "-s", "24", "-o", str(self._log), "-e", f"trace={calls}", "-p", str(child)]
        if self._inject:
            command += ["-e", f"inject={self._inject}"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        words = self._process.stderr.readline()
        assert b"attached" in words, words

    def wait(self) -> str:
        """The whole trace, once the child is gone."""
        assert self._process is not None
        self._process.communicate(timeout=PATIENCE)
        return self.text()

    def text(self) -> str:
        """The trace so far: strace writes a line before it lets the child go on."""
        return self._log.read_text("utf-8", "replace")


def not_on_disk(trace: str, clean_states: dict[int, list[str]]) -> list[int]:
    """The steps that were answered, had an effect, and rested on frames that no successful sync had put on disk.

    A frame of the WAL is on disk once a sync of the WAL succeeded after it was written. If a sync failed, the pages are
    clean in the page cache whether they were written or not, and a later sync proves nothing: they must be written anew, or
    have been checkpointed into the database and synced there.
    """
    pending: set[str] = set()
    suspect: set[str] = set()
    moved = False
    early: list[int] = []
    for name, file, rest in _CALL.findall(trace):
        good = not re.search(r"= (-1|\?)", rest)
        if name == "pwrite64" and good and file.endswith("-wal"):
            found = _OFFSET.search(rest)
            assert found is not None, rest
            if found.group(1) == "0":  # the WAL begins anew: nothing in it counts any more
                suspect.clear()
            suspect.discard(found.group(1))
            pending.add(found.group(1))
        elif name == "pwrite64" and good and file.endswith(".db"):
            moved = True
        elif name in ("fdatasync", "fsync") and file.endswith("-wal"):
            if not good:
                suspect |= pending
            pending.clear()
        elif name in ("fdatasync", "fsync") and file.endswith(".db"):
            if good and moved:
                suspect.clear()
            moved = False
        elif name == "sendto" and (answered := _ANSWER.search(rest)):
            step = int(answered.group(1))
            if (pending or suspect) and len(clean_states.get(step, [])) > 1:
                early.append(step)
    return early


def count(fork_server: ForkServer, canary: str = "") -> Counter[str]:
    """How often an undisturbed child makes each call."""
    path = fork_server.new_path()
    tracer = Tracer(path.parent / "trace")
    ended = fork_server.run(Job(path=str(path), stepwise=False, canary=canary), lambda _: None, tracer.attach)
    trace = tracer.wait()
    assert ended.status == 0, ended
    assert not not_on_disk(trace, fork_server.clean.states)
    return Counter(name for name, _, _ in _CALL.findall(trace) if name in CALLS)


def errors(fork_server: ForkServer, inject: str, canary: str = "", *, lasting: bool = False) -> Verdict:
    """Calls fail, the process lives on. A lasting fault may make it give up; then a new process must be able to go on."""
    path = fork_server.new_path()
    judge = Judge(fork_server, path)
    tracer = Tracer(path.parent / "trace", inject)

    def look(report: Report) -> None:
        if not (lasting and report.gave_up):
            judge.follow(structs.replace(report, fired=tracer.text().count("(INJECTED)")))

    ended = fork_server.run(Job(path=str(path), canary=canary), look, tracer.attach)
    _judge_trace(judge, tracer)
    if lasting and ended.status:
        judge.after_death()
        judge.resume(2)
    else:
        judge.the_end(ended)
    return closed(judge)


def kill(fork_server: ForkServer, inject: str, again: str | None = None, canary: str = "") -> Verdict:
    """The process is killed at a call (and its successor, while it reopens the file, at another)."""
    path = fork_server.new_path()
    judge = Judge(fork_server, path)
    for life, one in enumerate([inject] if again is None else [inject, again]):
        if judge.next > script.CLOSE:
            break
        tracer = Tracer(path.parent / f"trace-{life}", one)
        job = Job(path=str(path), life=life, first=judge.next, answers=judge.answers, stepwise=False, canary=canary)
        ended: Ended = fork_server.run(job, lambda _: None, tracer.attach)
        _judge_trace(judge, tracer)
        bury(judge, ended)
    judge.resume(2)
    return closed(judge)


def _judge_trace(judge: Judge, tracer: Tracer) -> None:
    trace = tracer.wait()
    judge.verdict.fired = max(judge.verdict.fired, trace.count("(INJECTED)"))
    for step in not_on_disk(trace, judge.clean.states):
        judge.say(step, "acknowledged before it was on disk")
