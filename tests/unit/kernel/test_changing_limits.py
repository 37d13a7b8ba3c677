"""`change_limits`: on every engine, sync and async, in every process from its next batch on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import holdkit
from holdkit import AsyncKernel, InvalidRequest, Kernel
from holdkit.errors import HoldNotFound, HoldRetired, VersionConflict
from holdkit.testing import FakeClock

DAY = 86_400


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        postgres: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(postgres)
        return postgres
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}[request.param]


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where several kernels work side by side."""
    if request.param == "postgres":
        postgres: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(postgres)
        return postgres
    return f"sqlite:///{tmp_path}/holds.db"


def test_a_change_is_told_journaled_and_verified(url: str) -> None:
    clock = FakeClock()
    with holdkit.connect(url, clock=clock) as hk:
        changed = hk.admin.change_limits(retention="90d", max_ttl=timedelta(days=60), actor="user:7", reason="audit")
        assert (changed.retention, changed.max_ttl) == (timedelta(days=90), timedelta(days=60))
        assert hk._limits == changed == hk.admin.limits()
        assert hk._limits.version == 1
        (entry,) = hk.journal.list()
        assert (str(entry.action), entry.subject, entry.tenant) == ("limits.changed", "~limits", "")
        assert (entry.actor, entry.reason) == ("user:7", "audit")
        assert entry.before == {"retention": 30 * DAY, "max_ttl": 30 * DAY}
        assert entry.after == {"retention": 90 * DAY, "max_ttl": 60 * DAY}
        hk.create_pool("p", 1)
        assert hk.hold("p", ttl="59d").state == "held"
        assert hk.admin.verify().ok
    if not url.startswith("memory"):
        with holdkit.connect(url, clock=clock) as hk:
            assert hk._limits == changed
            assert hk.admin.verify().ok


def test_holds_that_left_for_room_are_not_missed_once_there_is_no_bound(url: str) -> None:
    clock = FakeClock()
    with holdkit.connect(url, clock=clock) as hk:
        hk.admin.change_limits(max_holds=2)
        hk.create_pool("p", 9)
        kept = list[holdkit.Hold]()
        for _ in range(5):
            clock.advance(1)
            kept.append(hk.release(hk.hold("p", ttl=60)))
        assert len(hk.holds()) == 2
        hk.admin.change_limits(max_holds=None)
        assert hk.admin.verify().differences == ()
        hk.admin.change_limits(retry_window="2d")
        assert hk.admin.verify().differences == ()
        assert [hold.id for hold in hk.holds()] == [hold.id for hold in kept[3:]]


def test_a_lowered_bound_counts_at_once(url: str) -> None:
    clock = FakeClock()
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("p", 9)
        ended = list[str]()
        for _ in range(4):
            clock.advance(1)
            ended.append(hk.release(hk.hold("p", ttl=60)).id)
        hk.admin.change_limits(max_holds=3)
        assert [hold.id for hold in hk.holds()] == ended[1:], "the oldest that has ended leaves, for room"
        held = [hk.hold("p", ttl=60).id for _ in range(3)]
        hk.admin.change_limits(max_holds=1)
        assert sorted(hold.id for hold in hk.holds()) == sorted(held), "a lowered limit cancels nothing"
        assert hk.admin.verify().ok


def test_what_is_swept_for_a_lowered_bound_leaves_with_it(url: str) -> None:
    """More are alive than there may be, and one of them is due: it is the next to leave."""
    clock = FakeClock()
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("p", 9)
        due, *held = [hk.hold("p", ttl=ttl) for ttl in (5, 60, 60)]
        clock.advance(6)
        hk.admin.change_limits(max_holds=2)
        with pytest.raises(HoldNotFound):
            hk.extend(due, by=60)
        assert sorted(hold.id for hold in hk.holds()) == sorted(hold.id for hold in held)
        assert hk.admin.verify().ok


def test_async_too(url: str) -> None:
    asyncio.run(_async_too(url))


async def _async_too(url: str) -> None:
    async with await holdkit.connect_async(url, clock=FakeClock()) as hk:
        assert isinstance(hk, AsyncKernel)
        changed = await hk.admin.change_limits(max_legs=2)
        assert (changed.max_legs, changed.version) == (2, 1)
        assert hk._limits == await hk.admin.limits() == changed
        with pytest.raises(InvalidRequest) as caught:
            await hk.hold({"a": 1, "b": 1, "c": 1}, ttl=5)
        assert caught.value.code == "legs_too_many"


def test_who_may_and_how(url: str) -> None:
    with holdkit.connect(url, clock=FakeClock()) as hk:
        with pytest.raises(InvalidRequest) as caught:
            hk.tenant("acme").admin.change_limits(retention="90d")
        assert caught.value.code == "tenant_bound"
        with pytest.raises(InvalidRequest) as caught:
            hk.admin.change_limits(retentoin="90d")
        assert (caught.value.field, caught.value.code) == ("retentoin", "limit_unknown")
        with pytest.raises(InvalidRequest) as caught:
            hk.admin.change_limits(retention="quarter")
        assert (caught.value.field, caught.value.code) == ("retention", "retention_malformed")
        with pytest.raises(InvalidRequest):
            hk.admin.change_limits()
        with pytest.raises(VersionConflict):
            hk.admin.change_limits(retention="90d", if_version=3)
        hk.admin.change_limits(retention="90d", if_version=0, op="once")
        assert hk.admin.change_limits(retention="90d", if_version=0, op="once").version == 1
        assert len(hk.journal.list()) == 1


def test_every_process_obeys_from_its_next_batch(shared: str) -> None:
    clock = FakeClock()
    with holdkit.connect(shared, clock=clock) as here, holdkit.connect(shared, clock=clock) as there:
        here.create_pool("p", 100)
        there.hold("p", ttl="30d")
        here.admin.change_limits(max_ttl="1h", max_legs=1)
        with pytest.raises(InvalidRequest) as caught:
            there.hold("p", ttl="2h")  # it passed the check of one who knew nothing of it yet
        assert (caught.value.field, caught.value.code) == ("ttl", "ttl_too_long")
        assert there._limits == here._limits
        here.admin.change_limits(max_ttl="40d", max_legs=2)
        assert there.hold({"p": 1}, ttl="35d").state == "held"  # refused by what it knew, and by nobody else
        here.create_pool("q", 100)
        here.admin.change_limits(max_legs=3)
        here.create_pool("r", 100)
        assert len(there.hold({"p": 1, "q": 1, "r": 1}, ttl=5).legs) == 3
        assert there.pool("p").held == 3  # nothing was cancelled
        assert here.admin.verify().ok


def test_a_bound_that_another_process_sets(shared: str) -> None:
    clock = FakeClock()
    with holdkit.connect(shared, clock=clock) as here, holdkit.connect(shared, clock=clock) as there:
        there.create_pool("a", 1)
        here.admin.change_limits(max_pools=2)
        there.create_pool("b", 1)
        with pytest.raises(holdkit.errors.PoolTableFull):
            there.create_pool("c", 1)
        here.admin.change_limits(max_pools=None)
        there.create_pool("c", 1)


def test_a_callers_transaction_obeys_too(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    with (
        holdkit.connect(postgres_url) as here,
        holdkit.connect(postgres_url) as there,
        psycopg.connect(postgres_url) as tx,
    ):
        here.create_pool("p", 9)
        here.admin.change_limits(max_ttl="1h")
        with pytest.raises(InvalidRequest) as caught:
            there.hold("p", ttl="2h", tx=tx)
        assert caught.value.code == "ttl_too_long"
        there.hold("p", ttl="1h", tx=tx)
        tx.commit()
        assert here.pool("p").held == 1


def retired(hk: Kernel, id: str) -> str:
    try:
        return str(hk.get(id).state)
    except HoldRetired:
        return "retired"
    except HoldNotFound:
        return "not found"


def test_retention_lowered_and_raised(url: str) -> None:
    clock = FakeClock(10**15)
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("p", 9)
        early = hk.hold("p", ttl="1d")
        hk.release(early)
        clock.advance(5 * DAY)
        late = hk.hold("p", ttl="1d")
        hk.release(late)
        hk.admin.change_limits(retention="3d")
        assert (retired(hk, early.id), retired(hk, late.id)) == ("retired", "released")
        hk.admin.change_limits(retention="60d")
        assert (retired(hk, early.id), retired(hk, late.id)) == ("retired", "released")  # what is gone is gone
        clock.advance(30 * DAY)
        hk.sweep()
        assert (retired(hk, early.id), retired(hk, late.id)) == ("retired", "released")
        assert hk.admin.verify().ok


def test_an_operation_keeps_its_window(url: str) -> None:
    clock = FakeClock()
    with holdkit.connect(url, clock=clock) as hk:
        hk.admin.change_limits(retry_window="10m")
        hk.create_pool("p", 9)
        first = hk.hold("p", ttl="1d", op="a")
        hk.admin.change_limits(retry_window="1m")
        second = hk.hold("p", ttl="1d", op="b")
        clock.advance(60)
        assert hk.hold("p", ttl="1d", op="a").id == first.id
        assert hk.hold("p", ttl="1d", op="b").id != second.id
        clock.advance(540)
        assert hk.hold("p", ttl="1d", op="a").id != first.id
    if not url.startswith("memory"):
        with holdkit.connect(url, clock=clock) as hk:
            assert hk._limits.retry_window == timedelta(minutes=1)
            hk.create_pool("q", 1)
            assert hk.admin.verify().ok


def test_a_reader_obeys_without_a_batch(shared: str) -> None:
    clock = FakeClock(10**15)
    with holdkit.connect(shared, clock=clock) as here, holdkit.connect(shared, clock=clock) as there:
        here.create_pool("p", 9)
        hold = here.hold("p", ttl="1d")
        here.release(hold)
        clock.advance(10 * DAY)
        assert len(there.holds()) == 1
        here.admin.change_limits(retention="3d")
        assert there.holds() == []
        assert retired(there, hold.id) == "retired"


def test_whoever_asked_for_what_it_was_created_with_may_go_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    limits = holdkit.Limits(max_legs=7)
    with holdkit.connect(url, limits=limits) as hk:
        hk.admin.change_limits(max_legs=9)
    with holdkit.connect(url, limits=limits) as hk:
        assert hk._limits.max_legs == 9
    with pytest.raises(InvalidRequest) as caught:
        holdkit.connect(url, limits=holdkit.Limits(max_legs=8))
    assert caught.value.code == "limits_differ"
