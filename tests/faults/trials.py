"""Trials: one scripted run each, disturbed in one way, and judged.

The judge knows the undisturbed run: every answer, and every state of the file between two commits. A *done* must be in the
file, what certainly had no effect must not be, an *unknown* may be either and must become exactly one effect when it is
asked again, by a stranger and by the same kernel; and whatever happened, the run goes on and ends as if nothing had.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from holdkit.testing import FakeClock
from tests.faults import script
from tests.faults.crashed_files import copy_as_crashed, difference, dump
from tests.faults.fault_points import Fault
from tests.faults.fork_server import Job, Report

PATIENCE = 120.0
"""Seconds without a word from a child before it counts as hanging."""
CERTAIN = frozenset({"EngineError", "Overloaded"})

Look = Callable[[Report], None]


class Ended(Struct):
    """What became of a child."""

    status: int
    reports: list[Report]
    hung: bool = False

    @property
    def killed(self) -> bool:
        """Whether it died of SIGKILL."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL


class Clean(Struct):
    """The undisturbed run."""

    answers: dict[int, str]
    states: dict[int, list[str]]
    """By step: the file before it, and after each of its commits."""
    kinds: list[str]
    step_at: list[int]
    """The step that each statement belongs to."""

    def final(self, step: int) -> str:
        """The file after this step."""
        return self.states[step][-1]

    def without_effect(self, step: int) -> list[str]:
        """The file as it may be if this step did not happen (a backlog of expiries may have been worked on)."""
        if not _once(step):  # what opening leaves behind is no effect of a command; a sweep is several
            return self.states[step]
        return self.states[step][:-1] or self.states[step]


class Verdict(Struct):
    """What was seen in one trial."""

    violations: list[str]
    fired: int = 0
    refused: int = 0
    """Answered with an error that certainly had no effect."""
    unknown: int = 0


class ForkServer:
    """The process that the children are born in, a place for their files, and the judge."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._executor, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._executor.settimeout(PATIENCE)
        command = [sys.executable, "-m", "tests.faults.fork_server", str(theirs.fileno())]
        self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[2])
        theirs.close()
        self._trials = 0
        self.clean = self._undisturbed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()
        self._server.wait(PATIENCE)

    def new_path(self) -> Path:
        """A file in a directory of its own."""
        self._trials += 1
        directory = self.place / f"trial-{self._trials}"
        directory.mkdir()
        return directory / "holds.db"

    def run(self, job: Job, look: Look, attach: Callable[[int], None] | None = None) -> Ended:
        """One child's life; `attach` gets its process id before it does anything."""
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with line:
            socket.send_fds(self._executor, [msgspec.json.encode(job)], [theirs.fileno()])
            theirs.close()
            child = int(self._executor.recv(64))
            ended = Ended(0, [])
            line.settimeout(PATIENCE)
            if attach is not None:
                attach(child)
            try:
                line.send(b"!")
                while text := line.recv(1 << 20):
                    report = msgspec.json.decode(text, type=Report)
                    ended.reports.append(report)
                    look(report)
                    if job.stepwise:
                        with suppress(BrokenPipeError):
                            line.send(b".")
            except TimeoutError:
                ended.hung = True
                os.kill(child, signal.SIGKILL)
            except ConnectionResetError:  # killed while a nod was on its way
                pass
            ended.status = int(self._executor.recv(64))
            return ended

    def _undisturbed(self) -> Clean:
        path = self.new_path()
        clean = Clean({}, {}, [], [])
        nothing = ""
        states = {script.OPEN: [nothing]}
        last = nothing

        def look(report: Report) -> None:
            nonlocal last
            mine = states.setdefault(report.step, [last])
            if report.committed:
                last = self.state(path)
                mine.append(last)
            else:
                assert report.answer is not None, report
                clean.answers[report.step] = script.canonical_answer(report.answer)
                clean.step_at += [report.step] * (report.count - len(clean.step_at))
                clean.kinds = report.kinds

        ended = self.run(Job(path=str(path), watch=True), look)
        assert ended.status == 0, ended
        clean.states = states
        assert self.state(path) == clean.final(script.CLOSE)
        return clean

    def state(self, path: Path) -> str:
        """The rows that a stranger would find in the file now."""
        copy = copy_as_crashed(path, path.parent / "look")
        return dump(copy) if copy.exists() else ""


class Judge:
    """Follows one trial."""

    def __init__(self, fork_server: ForkServer, path: Path) -> None:
        self.fork_server, self.clean, self.path = fork_server, fork_server.clean, path
        self.verdict = Verdict([])
        self.answers: script.Answers = {}
        self.next = script.OPEN
        """The first step that was not acknowledged."""
        self.began_before: int | None = None
        """The step that an earlier life may have half done."""
        self._looked = 0
        self._unknown: int | None = None

    def say(self, step: int, words: str) -> None:
        """A promise was broken."""
        self.verdict.violations.append(f"{script.name_of(step)}: {words}")

    def follow(self, report: Report) -> None:
        """While the child waits: take its word, and where something happened look at the file."""
        step = report.step
        if report.gave_up:
            self.say(step, "gave up")
        elif report.failed:
            if not self.verdict.violations:  # after a broken promise a later step may lack what it needs
                self._failed(report)
        else:
            self.acknowledged(report)
            if report.fired > self._looked:
                self._expect(step, [self.clean.final(step)], "done, but not in the file")
                self._verify(step)
        self._looked = self.verdict.fired = report.fired

    def acknowledged(self, report: Report) -> None:
        """An answer: it must be the one of the undisturbed run."""
        step, answer = report.step, report.answer
        assert answer is not None
        if _once(step) or (not report.attempt and step != self.began_before):
            self._same(step, answer)
        if 0 <= step < script.CLOSE:
            self.answers[script.STEPS[step].name] = answer
        self.next = step + 1

    def _failed(self, report: Report) -> None:
        step = report.step
        if report.failed == "OutcomeUnknown" and report.effect == "unknown":
            self.verdict.unknown += 1
            self._unknown = step
            self._expect(step, self.clean.states[step], "unknown, and the file is in between")
        elif report.failed in CERTAIN and report.effect == "none":
            self.verdict.refused += 1
            settled = self._unknown != step  # being turned away says nothing of an earlier attempt that is unknown
            allowed = self.clean.without_effect(step) if settled else self.clean.states[step]
            self._expect(step, allowed, f"{report.failed}, yet it had an effect")
        else:
            self.say(step, f"raised {report.words}")
        self._verify(step, ask_again=True)

    def _expect(self, step: int, allowed: list[str], words: str) -> None:
        found = self.fork_server.state(self.path)
        if found not in allowed:
            self.say(step, f"{words}\n    {difference(found, allowed[-1])}")

    def _verify(self, step: int, *, ask_again: bool = False) -> None:
        """A stranger opens a copy of the file: it is sound, and (asked again) the step happens exactly once."""
        copy = copy_as_crashed(self.path, self.path.parent / "stranger")
        clock, minter = FakeClock(script.START), script.Minter(3)
        with closing(script.connect(copy, clock, minter)) as hk:
            if ask_again and 0 <= step < script.CLOSE:
                answer = script.perform(hk, clock, minter, step, 0, self.answers)
                if _once(step) and script.canonical_answer(answer) != self.clean.answers[step]:
                    self.say(step, f"asked again by a stranger: {answer}, undisturbed {self.clean.answers[step]}")
            differences = hk.admin.verify().differences
        if differences:
            self.say(step, f"verify: {differences[:3]}")
        if ask_again and dump(copy) != self.clean.final(step):
            self.say(step, f"asked again by a stranger:\n    {difference(dump(copy), self.clean.final(step))}")

    def after_death(self) -> None:
        """The child is gone: everything acknowledged is there, what was in flight is whole or not there."""
        step = self.next
        if step > script.CLOSE:
            return
        self._expect(step, self.clean.states[step], "after the kill the file is in between")

    def resume(self, life: int) -> None:
        """A new process goes on: acknowledged steps answer as before, and the run ends as if nothing had happened."""
        clock, minter = FakeClock(script.START), script.Minter(life)
        first = max(self.next, 0)
        with closing(script.connect(self.path, clock, minter)) as hk:
            before = self.fork_server.state(self.path)
            for step in range(first):
                if _once(step) and _remembered(before, step):
                    self._same(step, script.perform(hk, clock, minter, step, 0, self.answers))
            if before and self.fork_server.state(self.path) != before:
                self.say(first, "asking again for what was acknowledged changed something")
            for step in range(first, script.CLOSE):
                answer = script.perform(hk, clock, minter, step, 0, self.answers)
                if step > first or _once(step):
                    self._same(step, answer)
                self.answers[script.STEPS[step].name] = answer
            differences = hk.admin.verify().differences
        if differences:
            self.say(script.CLOSE, f"verify: {differences[:3]}")
        self._expect(script.CLOSE, [self.clean.final(script.CLOSE)], "the end differs from the undisturbed run's")

    def _same(self, step: int, answer: script.Answer) -> None:
        if script.canonical_answer(answer) != self.clean.answers[step]:
            self.say(step, f"answered {answer}, undisturbed {self.clean.answers[step]}")

    def the_end(self, ended: Ended) -> None:
        """The child went through to its end."""
        if ended.hung:
            self.say(ended.reports[-1].step if ended.reports else script.OPEN, "hangs")
        elif ended.status != 0:
            self.say(self.next, f"ended with status {ended.status}")
        else:
            self._expect(script.CLOSE, [self.clean.final(script.CLOSE)], "the end differs from the undisturbed run's")
            self._verify(script.CLOSE)


def _remembered(state: str, step: int) -> bool:
    """Whether the file still has this step's operation record."""
    return any(f"holdkit_operations ['', 'op-{script.STEPS[step].name}{end}" in state for end in ("'", ".1'"))


def _once(step: int) -> bool:
    return 0 <= step < script.CLOSE and script.STEPS[step].once


def errors(fork_server: ForkServer, faults: list[Fault], canary: str = "") -> Verdict:
    """Statements fail, the process lives on: the same kernel must go on and reach the same end."""
    path = fork_server.new_path()
    judge = Judge(fork_server, path)
    ended = fork_server.run(Job(path=str(path), faults=faults, canary=canary), judge.follow)
    judge.the_end(ended)
    return closed(judge)


def kill(fork_server: ForkServer, fault: Fault, again: Fault | None = None, canary: str = "") -> Verdict:
    """The process is killed at a statement (and its successor, while it reopens the file, at another)."""
    path = fork_server.new_path()
    judge = Judge(fork_server, path)
    for life, one in enumerate([fault] if again is None else [fault, again]):
        job = Job(path=str(path), faults=[one], life=life, first=judge.next, answers=judge.answers, stepwise=False,
                  canary=canary)  # fmt: skip
        if judge.next > script.CLOSE:
            break
        ended = fork_server.run(job, lambda _: None)
        bury(judge, ended)
    judge.resume(2)
    return closed(judge)


def bury(judge: Judge, ended: Ended) -> None:
    """Read the ledger of a child that is gone, then look at its file."""
    for report in ended.reports:
        if report.failed or report.gave_up:
            judge.say(report.step, f"raised {report.words}")
        elif report.step >= judge.next:  # a second life opens anew
            judge.acknowledged(report)
    if ended.killed:
        judge.verdict.fired += 1
    elif ended.status or ended.hung:
        judge.say(judge.next, "hangs" if ended.hung else f"ended with status {ended.status}")
    judge.after_death()
    judge.began_before = max(judge.next, 0)


def closed(judge: Judge) -> Verdict:
    if not judge.verdict.violations:
        shutil.rmtree(judge.path.parent)
    return judge.verdict
