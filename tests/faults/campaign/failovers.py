"""R12: failovers of a synchronous pair, under client processes that keep ledgers.

One round: callers work; the primary fails; the standby is promoted; the callers find it and go on; the old primary comes back as
the new standby, by pg_rewind or a new base backup; all clients pause, and the harness checks every ledger.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

import holdkit
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign.callers import TOTALS
from tests.faults.campaign.check import Told, Verdict, check, check_follower
from tests.faults.campaign.client import Job, Style
from tests.faults.campaign.clients import Clients, NotServed
from tests.faults.campaign.ledger import now
from tests.faults.campaign.pair import Pair, await_that

WARM: Final = 60
"""Answers before a fault."""
FENCE: Final = 15.0
"""Seconds until an old primary that still runs is ended."""
CANCELS: Final = 10
"""Waits that are cancelled in one round."""


class Round(Struct, kw_only=True):
    """The result of one failover."""

    kind: str
    verdict: Verdict
    from_fault: list[float] = []
    """Seconds until each caller was served again, from the fault on."""
    from_writable: list[float] = []
    """The same, from the moment the new primary took writes."""
    cancelled: int = 0
    guarded: int = 0
    """Commands that have passed a guard, in this round and those before it."""
    fenced: bool = False
    """The old primary, alive and in reach, kept callers until it was ended."""


class Trial:
    """A pair, its clients, and what is known of them."""

    def __init__(self, pair: Pair, seed: int, canary: str = "") -> None:
        self.pair, self.chance = pair, random.Random(seed)
        self._scratch = tempfile.TemporaryDirectory(prefix="holdkit-ledgers-", dir=memory())
        self.clients = Clients(Path(self._scratch.name))
        with holdkit.connect(pair.direct) as hk:
            for id, total in TOTALS.items():
                hk.create_pool(id, total)
        styles: tuple[tuple[str, Style], ...] = (
            ("one", "sync"),
            ("two", "sync"),
            ("three", "async"),
            ("follower", "follower"),
        )
        self.jobs = [
            Job(
                name=name,
                style=style,
                url=pair.url,
                ledgers=self.clients.folder,
                seed=seed,
                canary=canary,
                eager=name != "one",
            )
            for name, style in styles
        ]
        self.clients.start(*self.jobs)
        self._earlier = Told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.kill()
        self._scratch.cleanup()

    def round(self, kind: str) -> Round:
        """Make the primary fail in the given way, fail over, check."""
        found = Round(kind=kind, verdict=Verdict())
        self.clients.await_each(now())
        self.clients.await_answers(self.chance.randrange(WARM, 2 * WARM))
        began = now()
        KINDS[kind](self, found)
        writable = now()
        served = self.served(writable, found)
        found.from_fault = [at - began for at in served.values()]
        found.from_writable = [at - writable for at in served.values()]
        if kind == "healed_late":
            self.pair.standby.link.heal()
            self.clients.await_answers(WARM)
            self.served(now(), found)
        self.pair.bring_back(rewound=self.chance.random() < 0.5)
        found.verdict = self.check()
        counted = {line.caller: line.call for line in self.clients.reader.lines if line.said == "guarded"}
        found.guarded = sum(counted.values())
        return found

    def served(self, after: float, found: Round) -> dict[str, float]:
        """When each caller was first served after that moment. An old primary that can be reached and still runs may keep
        some of them: after a while it is ended, as a cluster manager would end it."""
        if found.kind not in REACHABLE:
            return self.clients.await_each(after)
        try:
            return self.clients.await_each(after, FENCE)
        except NotServed:
            found.fenced = True
            self.pair.standby.server.end()
            return self.clients.await_each(after)

    def check(self) -> Verdict:
        """Pause all clients, and check every ledger."""
        self.clients.pause()
        with holdkit.connect(self.pair.direct) as hk:
            verdict = check(hk, self.clients.reader.lines)
            check_follower(hk, self.clients.reader.lines, verdict)
        self.clients.resume()
        return verdict.since(self._earlier)


def killed(trial: Trial, _: Round) -> None:
    """All processes of the primary die at once."""
    trial.pair.primary.server.kill()
    trial.pair.promote()


def postmaster_killed(trial: Trial, _: Round) -> None:
    """The postmaster dies; the other processes end when they notice."""
    trial.pair.primary.server.kill_postmaster()
    trial.pair.promote()


def stopped(trial: Trial, _: Round) -> None:
    """SIGSTOP: every connection stays open, and the server does not answer."""
    trial.pair.primary.server.pause()
    trial.pair.promote()


def network_cut(trial: Trial, _: Round) -> None:
    """Nothing passes between the primary and anybody else."""
    trial.pair.primary.link.cut()
    trial.pair.promote()


def smart(trial: Trial, _: Round) -> None:
    """It takes no new connections and waits for the old ones, which go on."""
    trial.pair.primary.server.begin_stop("smart")
    trial.pair.promote()


def fast(trial: Trial, _: Round) -> None:
    """An orderly end: the standby gets everything first."""
    trial.pair.primary.server.stop("fast")
    trial.pair.promote()


def immediate(trial: Trial, _: Round) -> None:
    """Every process ends where it stands."""
    trial.pair.primary.server.stop("immediate")
    trial.pair.promote()


def cancelled_waits(trial: Trial, found: Round) -> None:
    """The standby is gone; commits wait for it, and their waits are cancelled, some with their session, again and again; then
    the primary dies, and the standby, which has seen none of that, takes over."""
    pair = trial.pair
    pair.standby.server.kill()
    until, chance = now() + 30, random.Random(trial.chance.random())  # how often it is asked depends on the machine
    while found.cancelled < CANCELS and now() < until:
        found.cancelled += pair.end_waits("cancel" if chance.random() < 0.8 else "terminate")
    wait_a_moment(trial, 0.3)
    fail_over_to_the_past(pair)


def crash_alone(trial: Trial, found: Round) -> None:
    """The standby is gone; the primary crashes, recovers by itself and shows what the standby never got; then it dies."""
    pair = trial.pair
    pair.standby.server.kill()
    wait_a_moment(trial, 0.3)
    pair.primary.server.kill()
    pair.primary.server.start()
    await_that(lambda: bool(pair.primary.ask("select 1")), "the primary does not recover")
    wait_a_moment(trial, 2.0)
    fail_over_to_the_past(pair)


def fail_over_to_the_past(pair: Pair) -> None:
    """The primary dies; the standby comes up with what it had, and takes over."""
    pair.primary.server.kill()
    pair.standby.server.start()
    pair.promote()


def wait_a_moment(trial: Trial, seconds: float) -> None:
    """Wait, so that a wrong answer has time to reach a caller."""
    until = now() + seconds
    while now() < until:
        trial.clients.reader.more()


def standby_stopped(trial: Trial, _: Round) -> None:
    """The standby stands still; then the primary dies, and the standby takes over with what it had. Whoever waits for it gets no answer
    meanwhile; whoever does not is told what the failover takes back."""
    pair = trial.pair
    pair.standby.server.pause()
    if pair.synchronous:
        wait_a_moment(trial, 0.3)
    else:
        trial.clients.await_answers(WARM, now())
    pair.primary.server.kill()
    pair.standby.server.kill()
    pair.standby.server.start()
    pair.promote()


FAILOVERS: Final[Mapping[str, Callable[[Trial, Round], None]]] = {
    "killed": killed,
    "postmaster_killed": postmaster_killed,
    "stopped": stopped,
    "network_cut": network_cut,
    "smart": smart,
    "fast": fast,
    "immediate": immediate,
    "healed_late": network_cut,
}
"""The eight kinds of failure."""
CUT_BACK: Final = frozenset({"cancelled_waits", "crash_alone"})
"""Here a commit can be read that the failover takes back: no answer rests on it, and no follower is shown it."""
REACHABLE: Final = frozenset({"smart", "healed_late"})
"""Here the old primary goes on beside the new one. It cannot commit: nobody confirms that the standby has it."""
KINDS: Final = {
    **FAILOVERS,
    "cancelled_waits": cancelled_waits,
    "crash_alone": crash_alone,
    "standby_stopped": standby_stopped,
}


def canary(name: str, kind: str, rounds: int, seed: int) -> Iterator[Round]:
    """Clients with a canary: "unproved", whose answers from reads wait for no standby, or "unproved pages", whose followers wait for
    none. A failover takes back some of what they say."""
    with Pair() as pair, Trial(pair, seed, name) as trial:
        for _ in range(rounds):
            yield trial.round(kind)


def asynchronous(seed: int) -> Round:
    """An asynchronous standby that stands still for a moment: what is answered meanwhile is lost, and each answer said so."""
    with Pair(synchronous=False) as pair, Trial(pair, seed) as trial:
        found = Round(kind="asynchronous_standby", verdict=Verdict())
        trial.clients.await_answers(WARM)
        standby_stopped(trial, found)
        trial.clients.await_each(now())
        found.verdict = trial.check()
        return found
