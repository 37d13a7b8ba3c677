"""The past that the bench makes is one that Holdkit could have had, and the calls after it are counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg

import holdkit
from bench.postgres import growth
from bench.postgres.past import EACH, POOL, Past
from bench.verifying import Verified


def test_a_copied_past_verifies_and_can_be_used(migrated: Callable[[], str]) -> None:
    dsn = migrated()
    steps: list[int] = []
    made = Past(dsn)
    made.make(3 * EACH, steps.append)
    assert sum(steps) == 2 * EACH, "the template is the first pool"
    with closing(holdkit.connect(dsn)) as hk:
        assert [(pool.consumed, pool.held) for pool in hk.pools()] == [(EACH, 0)] * 3
        assert hk.admin.verify().ok
        newest = hk.holds(limit=1_000, pool=POOL.format(2))
        assert len(newest) == EACH == len({hold.entity for hold in newest})
        assert [entry.action for entry in hk.history(newest[0].id)] == ["hold.held", "hold.confirmed"]
        hk.admin.return_units(newest[0].id, reason="test")
        hk.hold(POOL.format(2), 1, ttl=60)
        assert hk.admin.verify().ok
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute("update holdkit.journal set crc = crc + 1 where subject = %s", (newest[1].id,))
    with closing(holdkit.connect(dsn)) as hk:
        assert not hk.admin.verify().ok, "what is not as Holdkit writes it is found"


def test_every_kind_of_call_is_timed_after_the_past(migrated: Callable[[], str]) -> None:
    dsn = migrated()
    made = Past(dsn)
    made.make(2 * EACH, lambda _: None)
    took = growth.one_round(dsn, made.some(5))
    assert list(took) == list(growth.WHATS)
    assert all(0 < seconds < 10 for seconds in took.values())


def test_what_grows_is_short_of_its_target() -> None:
    def ran(past: int, factor: float) -> growth.Round:
        return growth.Round(past, {what: 1e-3 * (factor if what == "confirm" else 1) for what in growth.WHATS})

    rounds = [ran(growth.FEW, 1), ran(10**7, 2), ran(10**7, 2), ran(growth.FEW, 1)]
    found = growth.figures(
        growth.Grown(10**7, 60.0, 2 * 10**10, rounds, {10**7: Verified(0, 99.0, 10 * 2**20, 60 * 2**20)})
    )
    assert [one.name for one in found if one.reached is False] == ["confirm, 10,000 → 10,000,000 past holds"]
    assert (found[-2].ours, found[-2].note, found[-1].ours) == (50.0, "99.0 s", 2_000.0)
