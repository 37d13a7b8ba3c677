"""R8 and R11: one engine on one machine, with repeated faults under client processes that keep ledgers: power cuts, crashes,
full disks.

A trial has several lives. In each, callers work until they have some dozens of answers; then the fault is injected, the engine
is started again, and the harness checks every ledger, of this life and the earlier ones. A power cut may be followed by another one while the
engine recovers.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

import holdkit
from holdkit.testing.postgres.server import ServerFailed
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign.callers import TOTALS
from tests.faults.campaign.check import Told, Verdict, check
from tests.faults.campaign.client import Job
from tests.faults.campaign.clients import Clients, wait_until
from tests.faults.campaign.disk import Disk
from tests.faults.campaign.ledger import Line, now
from tests.faults.campaign.stores import Postgres, Store, open_store

LIVES: Final = 25
"""Faults until a trial begins anew: the check reads all of its ledgers each time."""
RECOVERY: Final = 0.25
"""The share of power cuts that are followed by another one during recovery."""


class FaultResult(Struct, kw_only=True):
    """The result of one fault."""

    kind: str
    store: str
    verdict: Verdict
    during_recovery: int = 0


class Trial:
    """An engine, its clients, and what they were told before each fault."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.seed = store, seed
        self.chance = random.Random(seed)
        self._scratch = tempfile.TemporaryDirectory(prefix="holdkit-ledgers-", dir=memory())
        self.clients = Clients(Path(self._scratch.name))
        self.lives = 0
        self._told: list[Line] = []
        self._earlier = Told()
        with holdkit.connect(store.url) as hk:
            for id, total in TOTALS.items():
                hk.create_pool(id, total)
        store.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.kill()
        self.store.close()
        self._scratch.cleanup()

    def live(self) -> None:
        """New client processes, until they were told some answers."""
        self.lives += 1
        for name, style in self.store.styles:
            name, store = f"{name}.{self.lives}", self.store
            job = Job(
                name=name, style=style, url=store.url, ledgers=self.clients.folder, seed=self.seed, canary=store.canary
            )
            self.clients.start(job)
        self.clients.await_answers(self.chance.randrange(5, 60))

    def die(self, before: float | None = None) -> None:
        """The clients are gone; what they were told after that moment does not count."""
        self.clients.kill()
        until = float("inf") if before is None else before
        fresh = self.clients.reader.lines[:]
        self.clients.reader.lines.clear()
        self._told += [line for line in fresh if line.said == "asked" or line.at < until]

    def check(self) -> Verdict:
        """All lives so far; an engine that does not come up has lost everything."""
        verdict = Verdict()
        try:
            with holdkit.connect(self.store.url) as hk:
                verdict = check(hk, [*self._told, *self.clients.reader.lines])
        except holdkit.HoldkitError as error:
            verdict.unsound.append(f"cannot be opened: {error}")
        return verdict.since(self._earlier)


def power_cuts(kind: str, number: int, seed: int, *, unsafe: bool = False) -> Iterator[FaultResult]:
    """So many of them, on a disk of its own."""
    with Disk() as disk:
        store = open_store(kind, disk.path, unsafe=unsafe)
        with Trial(store, seed) as trial:
            disk.sync()
            for _ in range(number):
                trial.live()
                yield cut(trial, disk, kind)


def cut(trial: Trial, disk: Disk, kind: str) -> FaultResult:
    """The power goes; perhaps once more while the engine recovers."""
    result = FaultResult(kind="power_cut", store=kind, verdict=Verdict())
    before = disk.cut()
    trial.store.kill()
    trial.die(before)
    disk.restore()
    while trial.chance.random() < RECOVERY:
        cut_during_recovery(trial, disk)
        result.during_recovery += 1
    try:
        trial.store.start()
    except ServerFailed as error:
        result.verdict.unsound.append(f"does not start: {error}")
    else:
        result.verdict = trial.check()
    return result


def cut_during_recovery(trial: Trial, disk: Disk) -> None:
    """Somebody begins to open it, and the power goes again."""
    job = Job(
        name=f"nobody.{trial.lives}.{now()}", url=trial.store.url, ledgers=trial.clients.folder, seed=0, habits=()
    )
    until = now() + trial.chance.random() * (0.3 if isinstance(trial.store, Postgres) else 0.08)
    if isinstance(trial.store, Postgres):
        trial.store.server.launch()
    else:
        trial.clients.start(job)
    wait_until(lambda: now() >= until, "")
    before = disk.cut()
    trial.store.kill()
    trial.die(before)
    disk.restore()


def crashes(kind: str, number: int, seed: int, *, unsafe: bool = False) -> Iterator[FaultResult]:
    """SIGKILL: the clients of an embedded engine, all processes or the first one of a server."""
    with scratch() as folder:
        settings = {"synchronous_commit": "off", "wal_writer_delay": "10s"} if unsafe else None
        store = Postgres(folder, settings) if kind == "postgres" else open_store(kind, folder)
        with Trial(store, seed) as trial:
            for _ in range(number):
                trial.live()
                if isinstance(store, Postgres):
                    crash_server(store, trial)
                trial.die()
                yield FaultResult(kind="crash", store=kind, verdict=trial.check())


def crash_server(store: Postgres, trial: Trial) -> None:
    """Its clients live on, and ask again until they know."""
    if trial.chance.random() < 0.5:
        store.server.kill_postmaster()
    store.kill()
    store.start()
    if not store.unsafe:  # the canary has perhaps no pools left to serve them from
        trial.clients.await_each(now())


def full_disks(kind: str, number: int, seed: int) -> Iterator[FaultResult]:
    """No room: nothing is lost, and it goes on when there is room again."""
    with Disk(128 if kind == "postgres" else 16) as disk:
        store = open_store(kind, disk.path)
        with Trial(store, seed) as trial:
            for _ in range(number):
                trial.live()
                disk.fill()
                await_disk_full(trial)
                disk.empty()
                start_again(store)
                trial.clients.await_each(now())
                trial.die()
                yield FaultResult(kind="full_disk", store=kind, verdict=trial.check())


def await_disk_full(trial: Trial) -> None:
    """Until callers have met the full disk."""
    since = len(trial.clients.reader.lines)

    def met() -> bool:
        trial.clients.reader.more()
        return sum(line.said in ("none", "unknown") for line in trial.clients.reader.lines[since:]) >= 3

    wait_until(met, "nobody met the full disk")


def start_again(store: Store) -> None:
    """A server that ended for want of room."""
    if isinstance(store, Postgres) and not store.server.is_running():
        store.server.end()
        store.server.start()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that a server can get through."""
    with tempfile.TemporaryDirectory(prefix="holdkit-crash-", dir=memory()) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


PARTS: Final = {"power_cuts": power_cuts, "crashes": crashes, "full_disks": full_disks}
