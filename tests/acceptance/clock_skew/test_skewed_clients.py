"""Every time that a kernel on PostgreSQL reports comes from the database's clock, however wrong the process's clock is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import Allowance
from holdkit.core.model import SECOND
from holdkit.kernel.times import datetime_of, moment
from tests.support.threads import CallerThreads, wait_until

TTL = 3000.0
SLACK = 300.0
"""Far more than a slow machine needs, and less than the smallest skew."""


def told(seconds: float, most: float = TTL) -> None:
    """What is left of a span just granted: nearly all of it, and never more."""
    assert most - SLACK < seconds <= most


def database_slot(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").fetchone()
    assert row is not None
    return int(row[0])


def test_a_fresh_claim_is_alive_for_its_ttl(hk: Any) -> None:
    assert hk.claims.hold("email", "a@x.org", ttl=TTL).state == "held"
    assert hk.claims.is_taken("email", "a@x.org")


def test_a_claim_that_is_looked_up_tells_the_same(hk: Any) -> None:
    hk.claims.hold("email", "a@x.org", ttl=TTL)
    found = hk.claims.get("email", "a@x.org")
    assert found is not None
    assert found.state == "held"
    told(found.remaining)
    (listed,) = hk.claims.list()
    told(listed.remaining)


def test_an_extended_claim_has_its_new_ttl(hk: Any) -> None:
    hk.extend(hk.claims.hold("email", "a@x.org", ttl=60), ttl=TTL)
    told(hk.claims.get("email", "a@x.org").remaining)


def test_who_comes_second_hears_how_long(hk: Any) -> None:
    hk.claims.hold("email", "a@x.org", ttl=TTL)
    with pytest.raises(holdkit.AlreadyClaimed) as refused:
        hk.claims.hold("email", "a@x.org", ttl=TTL)
    told(refused.value.remaining or 0)


def test_a_rate_says_when_to_come_back(hk: Any, postgres_url: str) -> None:
    api = hk.rate("api", Allowance(1, per="day"))
    api.consume("client")
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        api.consume("client")
    day = 86_400 * SECOND
    left = (day - database_slot(postgres_url) % day) / SECOND
    assert refused.value.retry_after is not None
    assert abs(refused.value.retry_after - left) < SLACK
    assert 0 < refused.value.retry_after <= 86_400


def test_a_budget_says_when_to_come_back(hk: Any, postgres_url: str) -> None:
    budgets = hk.budget("llm", tokens=Allowance(10, per="week"))
    budgets.consume("client", 10)
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        budgets.consume("client", 1)
    (usage,) = budgets.usage("client")
    assert usage.consumed == 10
    left = (moment(usage.closes) - database_slot(postgres_url)) / SECOND
    assert refused.value.retry_after is not None
    assert abs(refused.value.retry_after - left) < SLACK
    assert 0 < refused.value.retry_after <= 7 * 86_400


def test_a_lease_just_taken_is_not_lost(hk: Any) -> None:
    hk.create_pool("gpu", 1)
    with hk.lease("gpu", 1, ttl=TTL) as lease:
        lease.check()
        lease.renew()
        lease.check()
        assert not lease.lost


def test_a_block_ends_its_hold(hk: Any) -> None:
    hk.create_pool("gpu", 1)
    with hk.holding("gpu", 1, ttl=TTL) as hold:
        assert hk.get(hold).state == "held"
    assert hk.get(hold).state == "confirmed"


def test_items_are_held_as_long_as_they_are(hk: Any) -> None:
    hk.items.add(["a1"])
    hk.items.hold(["a1"], ttl=TTL)
    assert [item.state for item in hk.items.get(["a1"])] == ["held"]


def test_a_fresh_id_is_not_found_rather_than_retired(hk: Any) -> None:
    hk.create_pool("gpu", 1)
    id = hk.hold("gpu", 1, ttl=TTL).id
    with pytest.raises(holdkit.errors.HoldNotFound):
        hk.get(f"{id[:-4]}beef")


def test_nights_of_a_calendar_are_over_by_the_database(hk: Any, postgres_url: str) -> None:
    rooms = hk.calendar("hotel", {"double": 2}, every="15m")
    opened = database_slot(postgres_url) // (900 * SECOND) * 900 * SECOND
    begin, end = (datetime_of(opened + quarters * 900 * SECOND) for quarters in (-2, 6))
    over = [cell.available for cell in rooms.available("double", begin, end).nights]
    assert over in ([0, 0] + [2] * 6, [0, 0, 0] + [2] * 5)  # a quarter may have ended meanwhile


class Slow(holdkit.Saga):
    """Meets itself: while its effect runs, somebody else wants to drive it too."""

    name = "slow"
    lease = TTL

    def __init__(self, other: Any = None) -> None:
        self.other, self.heard = other, list[float]()

    def reserve(self, intent: Any, step: Any) -> Any:
        return "gpu"

    def effect(self, intent: Any, step: Any) -> Any:
        with pytest.raises(holdkit.errors.SagaBusy) as busy:
            self.other.run("s", intent)
        self.heard.append(busy.value.retry_after)


def test_who_meets_a_driven_saga_hears_how_long(hk: Any, postgres_url: str) -> None:
    hk.create_pool("gpu", 1)
    with holdkit.connect(postgres_url) as other:
        saga = Slow(other.sagas.register(Slow()))
        done = hk.sagas.register(saga).run("s", {})
    assert done.phase == "done"
    (heard,) = saga.heard
    told(heard)
    assert abs(moment(done.since) - database_slot(postgres_url)) < SLACK * SECOND
    assert hk.sagas.stuck("5m") == []


def test_a_blocked_call_is_served_in_time_and_keeps_its_units_for_the_ttl(hk: Any, postgres_url: str) -> None:
    blocks(hk, postgres_url)


def blocks(hk: Any, url: str) -> None:
    """By a release, by a deadline, and not at all."""
    hk.create_pool("gpu", 1)
    taken = hk.hold("gpu", 1, ttl=TTL)
    callers = CallerThreads()
    callers.start(lambda: hk.hold("gpu", 1, ttl=TTL, wait="10m"))
    wait_until(lambda: hk.pool("gpu").waiting == 1)
    with pytest.raises(holdkit.InsufficientCapacity):
        hk.hold("gpu", 1, ttl=TTL, wait=0.05)
    hk.release(taken)
    (served,) = callers.join()
    told((served.raw.deadline - database_slot(url)) / SECOND)
    hk.release(served)
    hk.hold("gpu", 1, ttl=0.3)
    with hk.lease("gpu", 1, ttl=TTL, wait="10m") as lease:
        assert lease.hold.raw.number == 3, "offered when the hold before it had ended"
        told((lease.hold.raw.deadline - database_slot(url)) / SECOND)
