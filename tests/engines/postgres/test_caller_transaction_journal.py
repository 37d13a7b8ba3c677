"""Journal entries of callers' transactions get their numbers later: once each, in order, without gaps, never after a rollback."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import Kernel
from holdkit.core.commands import AnyCommand, Group, PlaceHold
from holdkit.core.lanes import lane_of_hold, lane_of_pool
from holdkit.core.model import SECOND, Leg
from holdkit.core.outcomes import Done
from holdkit.engines.postgres import PostgresEngine
from holdkit.kernel.prepare import Mint
from holdkit.testing import FakeClock
from tests.support.frameworks import make_tables
from tests.support.modes import Sync
from tests.support.threads import CallerThreads, wait_until

POOLS = [f"p{number}" for number in range(6)]


class Shop:
    """A kernel whose clock stands still, and its engine."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock(start=1_000_000 * SECOND)
        self.engine = PostgresEngine(url, clock=self.clock)
        self.mint = Mint(self.engine.clock, random.Random(7).randbytes, self.engine.lanes)
        self.hk: Kernel = Sync().open(self.engine)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)

    def plain(self, command: AnyCommand) -> Done:
        """A call without `tx`, that waits for what it needs."""
        applied = self.engine.apply([Group((self.mint.prepare(command),))], wait_for_locks=True)
        assert not applied.skipped_locked
        (outcome,) = applied.outcomes[0]
        assert isinstance(outcome, Done), outcome
        return outcome

    def told(self) -> list[holdkit.JournalEntry]:
        """The whole journal, page by page, after checking that it has no gap."""
        entries: list[holdkit.JournalEntry] = []
        while page := self.hk.journal.list(after=entries[-1].cursor if entries else None, limit=500):
            entries += page
        with self.connect() as tx:  # the kernel hides its own cursors' entries
            gaps = tx.execute("""select h.lane, h.seq, count(j.seq), max(j.seq) from holdkit.heads h
                                 left join holdkit.journal j on j.lane = h.lane group by h.lane
                                 having h.seq <> count(j.seq) or h.seq <> coalesce(max(j.seq), 0)""").fetchall()
        assert gaps == []
        return entries


@pytest.fixture(params=[1, 4], ids=["one lane", "four lanes"])
def shop(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Shop]:
    make_tables(postgres_url, lanes=request.param)
    shop = Shop(postgres_url)
    with shop.hk:
        for pool in POOLS:
            shop.hk.create_pool(pool, 1_000_000)
        yield shop


def test_the_same_pool_by_one_caller_after_another(shop: Shop) -> None:
    expected = []
    for turn in range(6):
        with shop.connect() as tx:
            hold = shop.hk.hold("p0", 1, ttl=60, tx=tx)
            shop.hk.extend(hold, by=60, tx=tx)
            (shop.hk.confirm if turn % 2 else shop.hk.release)(hold, tx=tx)
        expected += [(hold.id, "hold.held"), (hold.id, "hold.extended"),
                     (hold.id, "hold.confirmed" if turn % 2 else "hold.released")]  # fmt: skip
    told = [(entry.subject, str(entry.action)) for entry in shop.told() if entry.action.startswith("hold")]
    assert told == expected
    assert shop.hk.admin.verify().ok


def test_records_have_no_pool_to_order_them(shop: Shop) -> None:
    for number in range(8):
        with shop.connect() as tx:
            shop.hk.admin.records.put("note", "n", f"{2 * number}", tx=tx)
            shop.hk.admin.records.put("note", "n", f"{2 * number + 1}", tx=tx)
    bodies = [entry.raw.entry.record.body for entry in shop.hk.journal.history("note/n") if entry.raw.entry.record]
    assert bodies == [str(number) for number in range(16)]
    assert [e.raw.entry.record.body for e in shop.told() if e.raw.entry.record] == bodies
    assert shop.hk.admin.verify().ok


def test_history_shows_them_before_and_after_they_are_numbered(shop: Shop) -> None:
    with shop.connect() as tx:
        hold = shop.hk.hold("p0", 1, ttl=60, tx=tx)
        assert shop.hk.history(hold.id) == []
        shop.hk.confirm(hold, tx=tx)
    for _ in range(2):
        assert [str(entry.action) for entry in shop.hk.history(hold.id)] == ["hold.held", "hold.confirmed"]
        shop.told()
    assert shop.hk.admin.verify().ok


def test_verify_counts_what_has_no_number_yet(shop: Shop) -> None:
    with shop.connect() as tx:
        shop.hk.hold("p0", 1, ttl=60, tx=tx)
    assert shop.hk.admin.verify().ok
    with shop.connect() as tx:
        assert tx.execute("select count(*) from holdkit.unnumbered").fetchone() == (1,)
        tx.execute("delete from holdkit.unnumbered")
    assert not shop.hk.admin.verify().ok, "it would have noticed"


@pytest.mark.parametrize("shop", [4], indirect=True)
@pytest.mark.parametrize("turned", [False, True])
def test_an_expiry_that_waited_for_a_callers_comes_behind_it(shop: Shop, turned: bool) -> None:
    """Two legs of one hold, in two lanes, expire in two transactions: the hold's own entries keep their order."""
    lanes = {pool: lane_of_pool(("", pool), 4) for pool in POOLS}
    pair = [POOLS[0], next(pool for pool in POOLS if lanes[pool] != lanes[POOLS[0]])]
    here, there = reversed(pair) if turned else pair
    hold = shop.hk.hold(dict.fromkeys(pair, 1), ttl=60)
    shop.clock.advance(61)
    with shop.connect() as tx:
        shop.hk.hold(here, 1, ttl=3600, tx=tx)  # returns this leg
        callers = CallerThreads()
        callers.start(lambda: shop.plain(PlaceHold(legs=(Leg(there, 1),), ttl=3600 * SECOND)))  # returns the other
        wait_until(lambda: _someone_waits(shop.url))
    assert isinstance(callers.join()[0], Done), callers.results[0]
    home = [entry for entry in shop.told() if entry.subject == hold.id and not entry.raw.entry.part]
    assert {entry.raw.position.lane for entry in home} == {lane_of_hold(hold.id, 4)}
    assert [str(entry.action) for entry in home] == ["hold.held", "hold.expired", "leg.returned"]
    assert shop.hk.admin.verify().ok


def _someone_waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        ask = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        row = connection.execute(ask).fetchone()
        return row is not None and row[0] > 0


class Traffic:
    """Callers' transactions, plain calls and a follower at once, and what each of them believes."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.seed = shop, seed
        self.kept: dict[str, list[str]] = {}
        self.lost: set[str] = set()
        self.over = threading.Event()

    def caller(self, number: int) -> None:
        dice = random.Random(f"{self.seed}/{number}")
        hk = self.shop.hk
        with self.shop.connect() as tx:
            for _ in range(25):
                mine: dict[str, list[str]] = {}
                pools = dice.sample(POOLS, dice.randint(1, 3))
                hk.lock(pools, tx=tx)
                for pool in pools:
                    hold = hk.hold(pool, 1, ttl=60, tx=tx)
                    mine[hold.id] = ["hold.held"]
                    if dice.random() < 0.5:
                        hk.confirm(hold, tx=tx)
                        mine[hold.id].append("hold.confirmed")
                if dice.random() < 0.3:
                    tx.rollback()
                    self.lost.update(mine)
                else:
                    tx.commit()
                    self.kept.update(mine)

    def plain(self, number: int) -> None:
        dice = random.Random(f"{self.seed}/plain/{number}")
        hk = self.shop.hk
        for _ in range(25):
            hold = hk.hold(dict.fromkeys(dice.sample(POOLS, dice.randint(1, 2)), 1), ttl=60)
            self.kept[hold.id] = ["hold.held"]
            if dice.random() < 0.5:
                hk.release(hold)
                self.kept[hold.id].append("hold.released")

    def follow(self) -> dict[str, list[str]]:
        seen: list[holdkit.JournalEntry] = []
        while True:
            last = self.over.is_set()
            seen += self.shop.hk.journal.follow("mail", wait=False)
            if last:
                return by_hold(seen)


def by_hold(entries: list[holdkit.JournalEntry]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for entry in entries:
        if entry.action.startswith("hold") and not entry.raw.entry.part:
            told.setdefault(entry.subject, []).append(str(entry.action))
    return told


@pytest.mark.parametrize("seed", [1, 2])
def test_callers_and_plain_calls_all_at_once(shop: Shop, seed: int) -> None:
    """What was committed is told once and in order, what was rolled back never; the clock stands still throughout."""
    traffic = Traffic(shop, seed)
    follower, callers = CallerThreads(), CallerThreads()
    follower.start(traffic.follow)
    for number in range(4):
        callers.start(partial(traffic.caller, number))
        callers.start(partial(traffic.plain, number))
    results = callers.join()
    traffic.over.set()
    assert results == [None] * 8
    assert follower.join() == [traffic.kept]
    assert by_hold(shop.told()) == traffic.kept
    assert traffic.lost
    assert not traffic.lost & traffic.kept.keys()
    assert shop.hk.admin.verify().ok
    with shop.connect() as tx:
        ask = "select pg_stat_get_db_deadlocks(oid) from pg_database where datname = current_database()"
        assert tx.execute(ask).fetchone() == (0,)
