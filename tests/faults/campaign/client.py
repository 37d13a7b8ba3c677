"""A client process: a kernel, sync or async, and several callers on it, each with its ledger. It may be killed at any moment.

Told to pause, every caller ends the call it is in; a call that can be repeated is repeated until it is settled.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import psycopg
from msgspec import Struct, structs

import holdkit
from tests.faults.campaign import canaries
from tests.faults.campaign.callers import EFFECTS, HABITS, SETTLES, Answer, Attempt
from tests.faults.campaign.check import LISTENER, told_of
from tests.faults.campaign.guarded_callers import GUARDED_HABITS, OWNER, POOLS, go_by_the_guard
from tests.faults.campaign.ledger import Ledger, Line, Said, now

MOMENT: Final = 0.02
"""Seconds between two attempts of one call."""
SLOW: Final = (0.05, 0.25)
"""Seconds for which a slow caller keeps its transaction open."""
BROKEN: Final = (holdkit.errors.PromiseBroken, holdkit.InvalidRequest)
"""What no caller here may be told: repeated, a call with wrong arguments would be wrong for ever."""


Style: TypeAlias = Literal["sync", "async", "follower", "slow"]
EVERY_HABIT: Final = {**HABITS, **GUARDED_HABITS}


class Job(Struct, frozen=True, kw_only=True):
    """The task of one client process."""

    name: str
    url: str
    ledgers: Path
    seed: int
    style: Style = "sync"
    habits: tuple[str, ...] = tuple(HABITS)
    canary: str = ""
    eager: bool = False
    """Batches go by the guard even where that has just missed: for tests of the guard, not of the guesses about it."""


class Control:
    """Receives the harness's commands: go on, pause, stop."""

    def __init__(self, line: Connection, callers: int) -> None:
        self._line, self._callers = line, callers
        self._waiting = 0
        self._changed = threading.Condition()
        self.going, self.over = True, False
        self.before_pause: Callable[[], None] = lambda: None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self.going, self.over = {"go": (True, False), "pause": (False, False), "stop": (True, True)}[
                    self._line.recv()
                ]
                with self._changed:
                    self._changed.notify_all()
        self.going = self.over = True

    def waits(self, by: int) -> None:
        """One more caller has paused, or one has gone on."""
        with self._changed:
            self._waiting += by
            if self._waiting == self._callers and not self.going:
                self.before_pause()
                self._line.send("paused")

    def wait(self) -> None:
        """Block while paused."""
        if not self.going:
            self.waits(1)
            self._wait_until_going()
            self.waits(-1)

    def _wait_until_going(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.going)

    async def wait_async(self) -> None:
        """Block while paused, and let other tasks run."""
        if not self.going:
            self.waits(1)
            await asyncio.to_thread(self._wait_until_going)
            self.waits(-1)


def run(job: Job, line: Connection) -> None:
    """Run until the harness says stop."""
    canaries.install(job.canary)
    if job.eager:
        go_by_the_guard()
    ledger = Ledger(job.ledgers / f"{job.name}.jsonl")
    if job.style == "sync":
        run_sync(job, ledger, line)
    elif job.style == "async":
        asyncio.run(run_async(job, ledger, line))
    elif job.style == "slow":
        run_slow(job, ledger, Control(line, 1))
    else:
        follow(job, ledger, Control(line, 1))


def run_sync(job: Job, ledger: Ledger, line: Connection) -> None:
    """A thread per caller, one kernel."""
    hk = opened(lambda: holdkit.connect(job.url))
    control = Control(line, len(job.habits))
    control.before_pause = lambda: ledger.write(guarded(job, hk))
    callers = [
        threading.Thread(target=live, args=(hk, job, habit, ledger, control), daemon=True) for habit in job.habits
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    with suppress(holdkit.HoldkitError):
        hk.close()


def live(hk: holdkit.Kernel, job: Job, name: str, ledger: Ledger, control: Control) -> None:
    """Run one caller until the harness says stop."""
    habit = EVERY_HABIT[name](f"{job.name}.{name}", random.Random(f"{job.seed} {job.name} {name}"))
    attempt = next(habit)
    while not control.over:
        if attempt.attempt == 0:
            control.wait()
        ledger.write(asked(attempt))
        try:
            told = method(hk, attempt)(*attempt.arguments, **attempt.options, correlation_id=attempt.key)
        except Exception as error:  # noqa: BLE001 - written down, whatever it is
            answer, line = refused(attempt, error)
        else:
            answer, line = done(attempt, told)
        ledger.write(line)
        if answer.said in ("none", "unknown", "broken"):
            threading.Event().wait(MOMENT)
        attempt = habit.send(answer)


async def run_async(job: Job, ledger: Ledger, line: Connection) -> None:
    """A task per caller, one kernel."""
    hk = await opened_async(job.url)
    control = Control(line, len(job.habits))
    control.before_pause = lambda: ledger.write(guarded(job, hk))
    await asyncio.gather(*(live_async(hk, job, habit, ledger, control) for habit in job.habits))
    with suppress(holdkit.HoldkitError):
        await hk.close()


async def live_async(hk: holdkit.AsyncKernel, job: Job, name: str, ledger: Ledger, control: Control) -> None:
    """Run one caller until the harness says stop."""
    habit = EVERY_HABIT[name](f"{job.name}.{name}", random.Random(f"{job.seed} {job.name} {name}"))
    attempt = next(habit)
    while not control.over:
        if attempt.attempt == 0:
            await control.wait_async()
        ledger.write(asked(attempt))
        try:
            told = await method(hk, attempt)(*attempt.arguments, **attempt.options, correlation_id=attempt.key)
        except Exception as error:  # noqa: BLE001 - written down, whatever it is
            answer, line = refused(attempt, error)
        else:
            answer, line = done(attempt, told)
        ledger.write(line)
        if answer.said in ("none", "unknown", "broken"):
            await asyncio.sleep(MOMENT)
        attempt = habit.send(answer)


def run_slow(job: Job, ledger: Ledger, control: Control) -> None:
    """A caller with transactions of its own, which it keeps open for a while: what it was told counts once it has committed."""
    hk, chance = opened(lambda: holdkit.connect(job.url)), random.Random(job.seed)
    name, calls = f"{job.name}.{job.habits[0]}", count()
    while not control.over:
        control.wait()
        lines: list[Line] = []
        with suppress(psycopg.Error), psycopg.connect(job.url) as tx:
            held: list[holdkit.Hold] = []
            for _ in range(chance.randint(1, 2)):
                if held and chance.random() < 0.5:
                    attempt = Attempt(name, next(calls), 0, "release", (held.pop(),))
                else:
                    attempt = Attempt(
                        name, next(calls), 0, "hold", (chance.choice(list(POOLS)), 1), {"ttl": 0.2, "token": OWNER}
                    )
                ledger.write(asked(attempt))
                lines.append(written(attempt, "none", words="rolled back"))
                try:
                    told = method(hk, attempt)(*attempt.arguments, **attempt.options, correlation_id=attempt.key, tx=tx)
                except holdkit.HoldkitError as error:
                    lines[-1] = refused(attempt, error)[1]
                    if not isinstance(error, holdkit.Refused):
                        break
                else:
                    held.append(told)
                    lines[-1] = written(attempt, "unknown", hold=told.id)
            threading.Event().wait(chance.uniform(*SLOW))
            if chance.random() < 0.3 or lines[-1].said == "none":
                tx.rollback()
                lines = [structs.replace(line, said="none", at=now(), words="rolled back") for line in lines]
            else:
                tx.commit()
                lines = [
                    structs.replace(line, said="done" if line.said == "unknown" else line.said, at=now())
                    for line in lines
                ]
        for line in lines:
            ledger.write(line)
    hk.close()


def follow(job: Job, ledger: Ledger, control: Control) -> None:
    """A named follower and, beside it, a listener: each writes down every entry it is shown, and goes on after every error. A cursor
    that was lost is left, and another name begins anew."""
    hk = opened(lambda: holdkit.connect(job.url))
    names = 0

    def show(caller: str, entry: holdkit.JournalEntry) -> None:
        lane, seq = entry.raw.row.lane, entry.raw.row.seq
        ledger.write(Line(said="shown", at=now(), caller=caller, call=names, lane=lane, seq=seq, words=told_of(entry)))

    listen_when_served(hk, partial(show, f"{job.name}.{LISTENER}"))
    while not control.over:
        pausing = not control.going
        try:
            for entry in hk.journal.follow(name=f"{job.name}-{names}", wait=False):
                show(job.name, entry)
            if pausing:  # and this pass began after everybody else had paused: nothing is left to be shown
                control.wait()
        except holdkit.errors.CursorLost as error:
            names += 1
            ledger.write(Line(said="cursor_lost", at=now(), caller=job.name, call=names, words=str(error)))
        except holdkit.HoldkitError:
            pass
        threading.Event().wait(MOMENT)
    with suppress(holdkit.HoldkitError):
        hk.close()


def listen_when_served(hk: holdkit.Kernel, listen: Callable[[holdkit.JournalEntry], None]) -> None:
    """Have a listener called; if the server is down, wait for it."""
    while True:
        try:
            hk.journal.on(None, listen)
        except holdkit.HoldkitError:
            threading.Event().wait(MOMENT)
        else:
            return


def guarded(job: Job, hk: holdkit.Kernel | holdkit.AsyncKernel) -> Line:
    """The ledger line that says how many commands have passed a guard."""
    counted = hk._executor.stats.guards
    return Line(
        said="guarded",
        at=now(),
        caller=job.name,
        call=counted.passed,
        attempt=counted.returned,
        words=str(counted.misses),
    )


def asked(attempt: Attempt) -> Line:
    """The ledger line for an attempt that begins."""
    return written(attempt, "asked")


def done(attempt: Attempt, thing: Any) -> tuple[Answer, Line]:
    """The ledger line for a hold, pool or limits that the kernel returned."""
    if not isinstance(thing, holdkit.Hold):
        return Answer("done", thing), written(attempt, "done", words="done, ")
    lane, seq = (thing.position or "0.0").split(".")
    words = f"done, {thing.durability or ''}"
    return Answer("done", thing), written(attempt, "done", hold=thing.id, lane=int(lane), seq=int(seq), words=words)


def refused(attempt: Attempt, error: Exception) -> tuple[Answer, Line]:
    """The answer and the ledger line for an exception of the kernel."""
    said: Said = "broken"
    if isinstance(error, holdkit.Refused):
        alone = (
            attempt.caller.rpartition(".")[2] not in GUARDED_HABITS
        )  # of the holds of these, others are not told who ended them
        said = "settled" if alone and SETTLES.get(attempt.verb) == error.reason else "refused"
    elif isinstance(error, holdkit.HoldkitError) and not isinstance(error, BROKEN):
        said = error.effect
    return Answer(said), written(attempt, said, words=f"{type(error).__name__}: {error}"[:300])


def written(attempt: Attempt, said: Said, **more: Any) -> Line:
    """A line about this attempt."""
    assert attempt.verb in EFFECTS
    caller, call, number, verb = attempt.caller, attempt.call, attempt.attempt, attempt.verb
    op = "op" in attempt.options
    return Line(said=said, at=now(), caller=caller, call=call, attempt=number, verb=verb, op=op, **more)


def method(hk: Any, attempt: Attempt) -> Callable[..., Any]:
    """The kernel's method, or a face's."""
    found: Callable[..., Any] = hk
    for name in attempt.verb.split("."):
        found = getattr(found, name)
    return found


def opened(connect: Callable[[], holdkit.Kernel]) -> holdkit.Kernel:
    """Connect; if the server is down, wait for it."""
    while True:
        try:
            return connect()
        except holdkit.HoldkitError:
            threading.Event().wait(MOMENT)


async def opened_async(url: str) -> holdkit.AsyncKernel:
    """The same."""
    while True:
        try:
            return await holdkit.connect_async(url)
        except holdkit.HoldkitError:
            await asyncio.sleep(MOMENT)
