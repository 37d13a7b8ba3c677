"""The PostgreSQL engine passes the kit, with one lane and with many."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, Group, PlaceHold, Sweep
from holdkit.core.model import Leg
from holdkit.core.reading import FindEnds, FindPool, ReadJournal, entry_of
from holdkit.engines.clocks import Clock
from holdkit.engines.port import Engine
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.migrating import Layout
from holdkit.testing.conformance import DurableEngineConformance
from holdkit.testing.conformance.concurrency import follow, together
from holdkit.testing.conformance.harness import Harness, placing, require, require_equal
from holdkit.testing.conformance.suite import run_check


class Postgres(DurableEngineConformance):
    lanes = 1
    layout: Layout = "one server"

    @pytest.fixture(autouse=True)
    def place(self, migrated: Callable[..., str]) -> None:
        self.migrated = migrated

    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        self.url = self.migrated(self.layout, self.lanes, limits)
        return PostgresEngine(self.url, clock=clock, limits=limits)

    def reopen(self, engine: Engine) -> Engine:
        assert isinstance(engine, PostgresEngine)
        return PostgresEngine(self.url, clock=engine.clock, limits=engine.limits)


class TestOneLane(Postgres):
    lanes = 1


class TestManyLanes(Postgres):
    lanes = 64


class Distributed(Postgres):
    """Everything said as where the tables are distributed by lane. There a batch is a transaction per lane, each whole or not
    at all: the checks that take a batch for one transaction are said of groups."""

    lanes = 16
    layout: Layout = "as if"

    def test_error_leaves_nothing(self) -> None:
        run_check(error_leaves_nothing_of_its_group, self.make_engine, self.reopen)

    def test_failed_batch_stays_gone(self) -> None:
        run_check(failed_group_stays_gone, self.make_engine, self.reopen)

    def test_readers_see_whole_batches(self) -> None:
        run_check(followers_see_whole_transactions, self.make_engine, self.reopen)


class TestDistributed(Distributed):
    pass


def poison(number: int) -> PlaceHold:
    return placing(number, metadata={"poison": object()})


def error_leaves_nothing_of_its_group(harness: Harness) -> None:
    """Nor of those that share its transaction; the others are done, and nobody's answer is lost."""
    harness.pools(a=5, b=5)
    before = harness.ends()
    ghost = Group((placing(2, op="op-2"), CreatePool(id="ghost", total=1), poison(3)))
    applied = harness.engine.apply([Group((placing(1),)), ghost, Group((placing(4, "b"),))])
    require_equal(sorted(applied.failed), [1], "groups that failed")
    require(applied.failed[1].effect == "none", f"an error that certainly did nothing: {applied.failed[1]!r}")
    require_equal([len(group) for group in applied.outcomes], [1, 0, 1], "answers beside a group that failed")
    require_equal(harness.engine.read(FindPool(("", "ghost"))), None, "a pool of a failed group")
    require_equal(
        [harness.hold(number) is not None for number in (1, 2, 3, 4)],
        [True, False, False, True],
        "which holds are there",
    )
    entries = [entry for row in harness.rows(before) if not (entry := entry_of(row)).part]
    require_equal(len(entries), 2, "what was journaled")
    require(not harness.done(placing(2, op="op-2")).replayed, "an operation of a failed group was remembered")
    harness.verify()


def failed_group_stays_gone(harness: Harness) -> None:
    """Also after opening again."""
    harness.pools(a=5)
    before = harness.rows()
    require_equal(
        sorted(harness.engine.apply([Group((poison(2),)), Group((Sweep(),))]).failed), [0], "groups that failed"
    )
    harness.reopen(close=False)
    require_equal(harness.rows(), before, "the journal after a failed group")
    harness.granted(2)
    harness.verify()


def followers_see_whole_transactions(harness: Harness) -> None:
    """What one group did in several lanes comes with one commit; nothing of one that failed is ever seen."""
    harness.pools(a=500, b=500)
    finished = Event()

    def write() -> None:
        try:
            for number in range(1, 40):
                harness.done(placing(number, [Leg("a"), Leg("b")]))
                mixed = [Group((placing(100 + number, "b"),)), Group((poison(900),))]
                require_equal(sorted(harness.engine.apply(mixed).failed), [1], "groups that failed")
        finally:
            finished.set()

    def watch() -> None:
        last, seen = dict[int, int](), dict[int, int]()
        while not finished.is_set() or seen != last:
            last = {end.lane: end.seq for end in harness.engine.read(FindEnds())}
            follow(seen, harness.engine.read(ReadJournal(None, dict(seen), limit=50)))

    together(write, watch, watch)
    require_equal((harness.pool("a").held, harness.pool("b").held), (39, 78), "units held")
    harness.verify()
