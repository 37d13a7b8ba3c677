"""B1-B6 and B17: what a deadline frees, and what a full table may stop."""

from __future__ import annotations

import pytest

import holdkit
from tests.support.kernels import Store, differences

SECOND = 1_000_000


@pytest.mark.parametrize("first", ["a", "b"])
def test_b01_a_long_hold_never_hides_a_short_one(store: Store, first: str) -> None:
    """Pool 10; A holds 5 until 1000, B 5 until 3; at 20 a hold of 5 is granted, live and after a reopening alike."""
    hk = store.open()
    hk.create_pool("p", 10)
    deadlines = {"a": 1000, "b": 3}
    for name in (first, *(deadlines.keys() - {first})):
        hk.hold("p", 5, deadline=deadlines[name] * SECOND, token=name)
    store.clock.set(20 * SECOND)
    hk = store.reopen(hk)
    assert hk.pool("p").available == 5
    assert hk.hold("p", 5, ttl=60).state == "held"
    hk = store.reopen(hk)
    assert (hk.pool("p").held, hk.pool("p").available) == (10, 0)
    assert differences(hk) == ()


def test_b02_a_bounded_table_never_stays_full(store: Store) -> None:
    """Place and end for ever, each way: there is always room. Only live holds fill the table."""
    hk = store.open(holdkit.Limits(max_holds=3))
    hk.create_pool("p", 1_000)
    for turn in range(40):
        hk.release(hk.hold("p", 1, ttl=60))
        hk.confirm(hk.hold("p", 1, ttl=60))
        hk.consume("p", 1)
        hk.hold("p", 1, ttl=1)  # left to expire, and nobody sweeps
        store.clock.advance(1)
        assert len(hk.holds(limit=1_000)) <= 3, f"turn {turn}"
    held = [hk.hold("p", 1, ttl=60) for _ in range(3)]
    for _ in range(3):
        with pytest.raises(holdkit.errors.HoldTableFull) as full:
            hk.hold("p", 1, ttl=60)
        assert full.value.transient
    hk.release(held.pop())
    hk.hold("p", 1, ttl=60)
    assert (hk.pool("p").held, hk.pool("p").consumed) == (3, 80)
    assert differences(hk) == ()


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("end", ["confirm", "release", "extend"])
def test_b03_at_the_deadline_it_is_over_for_everyone(store: Store, end: str, swept: bool) -> None:
    """At slot == deadline: the holder gets `hold_expired`, another's hold is granted; with and without a sweep."""
    hk = store.open()
    hk.create_pool("p", 1)
    mine = hk.hold("p", 1, ttl=60)
    store.clock.set(mine.raw.deadline)
    if swept:
        hk.sweep()
    with pytest.raises(holdkit.HoldExpired):
        getattr(hk, end)(mine, **({"by": 60} if end == "extend" else {}))
    assert hk.hold("p", 1, ttl=60).state == "held"
    with pytest.raises(holdkit.HoldExpired):
        hk.release(mine)
    assert [entry.action for entry in hk.history(mine)] == ["hold.held", "hold.expired"]


def test_b04_a_full_operation_table_stops_no_confirm_and_no_release(store: Store) -> None:
    hk = store.open(holdkit.Limits(max_operations=2))
    hk.create_pool("p", 10)
    holds = [hk.hold("p", 1, ttl=60) for _ in range(4)]
    for op in ("one", "two"):
        hk.admin.resize_pool("p", 11, op=op)
    with pytest.raises(holdkit.errors.OperationTableFull):
        hk.hold("p", 1, ttl=60, op="three")
    assert hk.confirm(holds[0], op="pay-0").state == "confirmed"
    assert hk.release(holds[1], op="drop-1").state == "released"
    assert hk.confirm(holds[2], op="pay-2", entity="order:2").state == "confirmed"
    hk = store.reopen(hk)
    for answer in (hk.confirm(holds[0], op="pay-0"), hk.release(holds[1], op="drop-1")):
        assert answer.replayed, "the hold itself remembers the operation that ended it"
    with pytest.raises(holdkit.OperationConflict):
        hk.confirm(holds[2], op="pay-2", entity="order:3")
    with pytest.raises(holdkit.errors.OperationTableFull):
        hk.hold("p", 1, ttl=60, op="three")
    assert (hk.pool("p").held, hk.pool("p").consumed) == (1, 2)


@pytest.mark.parametrize("first", ["expire", "sweep", "hold", "confirm"])
def test_b05_expiring_twice_is_a_quiet_no_op(store: Store, first: str) -> None:
    """Whoever notices first ends it; every further expire answers the same and writes nothing."""
    hk = store.open()
    hk.create_pool("p", 2)
    hold = hk.hold("p", 1, ttl=60)
    store.clock.set(hold.raw.deadline)
    if first == "expire":
        hk.admin.expire(hold)
    elif first == "sweep":
        assert hk.sweep().expired == 1
    elif first == "hold":
        hk.hold("p", 1, ttl=60)
    else:
        with pytest.raises(holdkit.HoldExpired):
            hk.confirm(hold)
    end = hk.journal.cursor()
    for _ in range(3):
        again = hk.admin.expire(hold)
        assert (again.state, again.raw.ended_at) == ("expired", hold.raw.deadline)
        assert hk.sweep().expired == 0
        hk = store.reopen(hk)
    assert hk.journal.list(after=end) == []
    assert [entry.action for entry in hk.history(hold)] == ["hold.held", "hold.expired"]


@pytest.mark.parametrize("late", [0, 1, SECOND, 86_400 * SECOND])
def test_b06_a_late_confirm_is_late_whether_or_not_anybody_swept(store: Store, late: int) -> None:
    hk = store.open()
    hk.create_pool("p", 3)
    hold = hk.hold("p", 3, ttl=60)
    store.clock.set(hold.raw.deadline + late)
    for _ in range(2):
        with pytest.raises(holdkit.HoldExpired):
            hk.confirm(hold)
        hk = store.reopen(hk)
    pool = hk.pool("p")
    assert (pool.held, pool.consumed, pool.available) == (0, 0, 3)
    assert hk.get(hold).raw.ended_at == hold.raw.deadline
    assert differences(hk) == ()


@pytest.mark.parametrize("noticed", ["by nobody", "on one pool", "and taken"])
def test_b17_an_unswept_hold_is_not_confirmed_after_its_deadline(store: Store, noticed: str) -> None:
    """Also not if only one of its pools has been touched since, nor if another has its units by now."""
    hk = store.open()
    hk.create_pool("p", 1)
    hk.create_pool("q", 1)
    hold = hk.hold({"p": 1, "q": 1}, ttl=60)
    store.clock.set(hold.raw.deadline)
    other = None
    if noticed == "on one pool":
        hk.admin.resize_pool("p", 2)
    elif noticed == "and taken":
        other = hk.hold({"p": 1, "q": 1}, ttl=60)
    for quantity in (None, {"p": 1}, {"q": 1}):
        with pytest.raises(holdkit.HoldExpired):
            hk.confirm(hold, quantity=quantity)
    assert [hk.pool(name).consumed for name in ("p", "q")] == [0, 0]
    if other is not None:
        assert hk.confirm(other).state == "confirmed"
    assert differences(hk) == ()
