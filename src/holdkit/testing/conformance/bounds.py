"""Checks of bounds and housekeeping: full tables, retention, sweeping, fences."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from ...core.codec import minted_id
from ...core.commands import (
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    Group,
    ReleaseHold,
    ReturnToPool,
    ReturnUnits,
    Sweep,
)
from ...core.entries import Action
from ...core.model import Leg
from ...core.outcomes import Done, Reason, Refusal
from ...core.reading import FindHold, FindPool, ListHolds
from .harness import START, TOKEN, Harness, hold_id, placing, require, require_equal


def bounded_pools(harness: Harness) -> None:
    """At `max_pools` no further pool is created, neither by a command nor by a leg; existing pools keep working."""
    harness.open(max_pools=2)
    harness.pools(a=1, b=1)
    harness.refused(CreatePool(id="c", total=1), Reason.POOL_TABLE_FULL)
    harness.refused(CreatePool(id="a", total=1), Reason.POOL_EXISTS)
    harness.refused(placing(1, [Leg("a"), Leg("d", 1, 1)]), Reason.POOL_TABLE_FULL)
    harness.granted(1)
    harness.verify()


def bounded_holds(harness: Harness) -> None:
    """`max_holds` bounds live holds: at the bound the next one is refused; ended and due holds make room, again and
    again."""
    harness.open(max_holds=3)
    harness.pools(a=9)
    for number in (1, 2, 3):
        harness.granted(number, ttl=10 * number)
    harness.refused(placing(4), Reason.HOLD_TABLE_FULL)
    for number, slot in ((4, 10), (5, 20), (6, 30)):
        harness.at(slot)
        harness.granted(number, ttl=900)
        harness.refused(placing(7), Reason.HOLD_TABLE_FULL)
    for number in range(10, 40):
        harness.done(ReleaseHold(id=hold_id(6 if number == 10 else number - 1), token=TOKEN))
        harness.granted(number, ttl=900)
        harness.refused(placing(50), Reason.HOLD_TABLE_FULL)
    require_equal(harness.pool().held, 3, "units held")
    harness.verify()


def retired_after_retention(harness: Harness) -> None:
    """An ended hold is kept until `retention` has passed, to the slot; then reads and commands no longer find it,
    its history remains."""
    harness.open(retention=50)
    harness.pools(a=9)
    minted = minted_id(START, b"conformity")
    harness.granted(1, ttl=5)
    harness.done(placing(2, ttl=5, token=TOKEN))
    harness.done(ReleaseHold(id=hold_id(2), token=TOKEN))
    command = placing(3)
    harness.done(type(command)(id=minted, legs=command.legs, ttl_slots=9, token=TOKEN))
    harness.done(ReleaseHold(id=minted, token=TOKEN))
    harness.at(49)
    require(harness.hold(2) is not None, "one slot before the retention ends the hold must be there")
    harness.refused(ConfirmHold(id=hold_id(2), token=TOKEN), Reason.ALREADY_RELEASED)
    harness.at(50)
    require(harness.hold(2) is None, "at the end of the retention the hold must be gone")
    require_equal(harness.engine.read(FindHold(("", minted))), None, "a minted hold at the end of the retention")
    harness.refused(ConfirmHold(id=hold_id(2), token=TOKEN), Reason.HOLD_NOT_FOUND)
    harness.refused(ConfirmHold(id=minted, token=TOKEN), Reason.HOLD_RETIRED)
    require(harness.hold(1) is not None, "a hold that expired later than another ended must be there still")
    harness.at(55)
    require_equal([hold.id for hold in harness.engine.read(ListHolds(""))], [], "holds listed after the retention")
    require_equal(len(harness.history_of(2)), 2, "entries in the history of a retired hold")
    harness.verify()
    harness.granted(2)
    harness.verify()


def consumption_outlives_retention(harness: Harness) -> None:
    """A hold whose units are consumed is kept for `retention_consumed` from its last change, until a sweep retires
    it with an entry; then its units can be returned by pool only."""
    harness.open(retention=50, retention_consumed=200)
    harness.pools(a=9, b=9)
    mine: dict[str, Any] = {"id": hold_id(1), "token": TOKEN}
    by_pool: dict[str, Any] = {"id": "a", "force": True, "reason": "refund"}
    harness.done(Consume(legs=(Leg("a", 3), Leg("b", 1)), **mine))
    harness.at(199)
    harness.done(Sweep())
    harness.done(ReturnUnits(quantity={"a": 1}, **mine))
    harness.refused(ReturnToPool(quantity=1, **by_pool), Reason.QUANTITY_EXCEEDS_CONSUMED)
    harness.at(398)
    harness.done(Sweep())
    require(harness.hold(1) is not None, "one slot before its time is over the hold must be there")
    harness.at(1_000)
    harness.granted(2)
    require(harness.hold(1) is not None, "a hold whose units are consumed must be there until a sweep drops it")
    require_equal(
        [hold.id for hold in harness.engine.read(ListHolds(""))], [hold_id(1), hold_id(2)], "holds before the sweep"
    )
    harness.done(Sweep())
    require(harness.hold(1) is None, "the sweep must drop a hold whose time is over")
    require_equal(harness.history_of(1)[-1].action, Action.HOLD_RETIRED, "the last entry of a hold that was dropped")
    harness.refused(ReturnUnits(**mine), Reason.HOLD_NOT_FOUND)
    require_equal(
        [(harness.pool(name).consumed, harness.pool(name).loose) for name in "ab"],
        [(2, 2), (1, 1)],
        "consumed and loose",
    )
    harness.refused(ReturnToPool(quantity=3, **by_pool), Reason.QUANTITY_EXCEEDS_CONSUMED)
    harness.done(ReturnToPool(quantity=2, **by_pool))
    require_equal(
        (harness.pool("a").consumed, harness.pool("a").loose), (0, 0), "consumed and loose of pool a in the end"
    )
    harness.granted(1)
    harness.verify()


def dropped_for_room(harness: Harness) -> None:
    """In a bounded table the oldest holds make room, also those whose units are consumed: these with an entry."""
    harness.open(max_holds=3)
    harness.pools(a=99)
    for number in range(1, 12):
        harness.done(Consume(id=hold_id(number), legs=(Leg("a", number),), token=TOKEN))
    kept = harness.engine.read(ListHolds(""))
    require_equal([hold.id for hold in kept], [hold_id(number) for number in (9, 10, 11)], "holds that are kept")
    require_equal((harness.pool().consumed, harness.pool().loose), (66, 36), "consumed and loose")
    require_equal(harness.actions().count("hold.retired"), 8, "holds dropped with an entry")
    harness.verify()


def dropped_in_portions(harness: Harness) -> None:
    """A sweep retires up to `limit` holds, oldest first, and says whether there are more."""
    harness.open(retention=10, retention_consumed=20)
    harness.pools(a=9)
    for slot, number in enumerate(range(5, 0, -1)):
        harness.at(slot)
        harness.done(Consume(id=hold_id(number), legs=(Leg("a"),), token=TOKEN))
    harness.at(40)
    for loose, more in ((2, True), (4, True), (5, False), (5, False)):
        require_equal(harness.done(Sweep(limit=2)).more, more, "more of a sweep of 2")
        require_equal(harness.pool().loose, loose, "loose after a sweep of 2")
    gone = [entry.subject for entry in harness.entries_of_pool("a") if entry.action is Action.HOLD_RETIRED]
    require_equal(gone, [hold_id(number) for number in range(5, 0, -1)], "holds in the order they were dropped")
    harness.verify()


def swept_in_portions(harness: Harness) -> None:
    """A sweep expires up to `limit` holds, earliest deadline first, and says whether there are more."""
    harness.pools(a=9, b=9)
    for number in range(1, 8):
        harness.done(placing(number, [Leg("a"), Leg("b")], ttl=20 - number))
    harness.granted(9, ttl=30)
    harness.at(20)
    for numbers, more in (((7, 6, 5), True), ((4, 3, 2), True), ((1,), False), ((), False)):
        swept = harness.done(Sweep(limit=3))
        require_equal((swept.expired, swept.more), (len(numbers), more), "expired and more of a sweep of 3")
        require_equal(
            swept.swept, tuple(("", hold_id(number)) for number in numbers), "the holds that a sweep of 3 names"
        )
    gone = [entry.subject for entry in harness.entries_of_pool("a") if entry.action is Action.HOLD_EXPIRED]
    require_equal(gone, [hold_id(number) for number in range(7, 0, -1)], "holds in the order they were swept")
    require_equal((harness.pool("a").held, harness.pool("b").held), (1, 0), "units held after the sweeps")
    require_equal(harness.actions().count("leg.returned"), 0, "legs returned apart from their holds")
    harness.verify()


def fences_never_repeat(harness: Harness) -> None:
    """A pool's fence grows with every grant, also across its removal and re-creation."""
    fences = []
    for number in range(1, 6):
        done = harness.done(placing(number, [Leg("fleeting", 1, 1)], ttl=5))
        assert done.hold is not None
        fences.append(done.hold.fence)
        if number % 2:
            harness.done(ReleaseHold(id=hold_id(number), token=TOKEN))
        harness.at(10 * number)
        harness.done(Sweep())
        harness.done(Sweep())
        require_equal(harness.engine.read(FindPool(("", "fleeting"))), None, "an empty on-demand pool after a sweep")
        harness.verify()
    require(fences == sorted(set(fences)), f"fences must grow across removal and re-creation, but were {fences}")
    if harness.engine.lanes > 1:
        return  # each lane has a floor of its own
    harness.pools(later=1)
    done = harness.granted(9, "later")
    assert done.hold is not None
    require(done.hold.fence > fences[-1], "a pool created later must start above every fence of a removed one")


def fences_stay_with_their_tenant(harness: Harness) -> None:
    """New pools begin above the fences of the removed pools of their own tenant, whatever other tenants have removed."""
    fences = []
    for number, tenant in enumerate(("acme", "acme", "acme", "", "acme", ""), start=1):
        done = harness.done(placing(number, [Leg("fleeting", 1, 1)], tenant=tenant))
        assert done.hold is not None
        fences.append((tenant, done.hold.fence))
        harness.done(ReleaseHold(id=hold_id(number), token=TOKEN, tenant=tenant))
        harness.done(Sweep())
    expected = [("acme", 1), ("acme", 2), ("acme", 3), ("", 1), ("acme", 4), ("", 2)]
    require_equal(fences, expected, "fences of two tenants that remove and create pools in turn")
    harness.verify()


def fences_grow_across_recreation_in_a_batch(harness: Harness) -> None:
    """A pool that a batch removes and creates again continues with higher fences, and the journal agrees."""
    again = [Leg("a", 1, create_with_total=1)]
    fences = [hold.fence for hold in (harness.done(placing(1, again)).hold,) if hold is not None]
    harness.done(ReleaseHold(id=hold_id(1), token=TOKEN))
    applied = harness.apply(Group((Sweep(),)), Group((placing(2, again),)))
    fences += [
        answer.hold.fence for answer in applied.outcomes[1] if isinstance(answer, Done) and answer.hold is not None
    ]
    require(len(fences) == 2 and fences[0] < fences[1], f"two holds with growing fences, but they were {fences}")
    harness.verify()


def changed_limits(harness: Harness) -> None:
    """Limits that are stored with the data can be changed: the next command obeys them, and what exists stays."""
    harness.open(retention=1_000_000, retry_window=50)
    harness.pools(a=9)
    harness.granted(1, ttl=100)
    harness.done(placing(2, op="before"))
    changed = harness.done(ChangeLimits(changes={"retry_window": 10, "max_holds": 2}, actor="user:1", reason="r"))
    require(changed.record is not None and changed.record.version == 1, "the answer of a change has its record")
    harness.refused(placing(3), Reason.HOLD_TABLE_FULL)
    require_equal(
        (harness.engine.limits.retry_window, harness.engine.limits.version), (10, 1), "the limits after a change"
    )
    harness.done(ChangeLimits(changes={"max_holds": None}))
    harness.done(placing(3, op="after"))
    harness.at(10)
    require(harness.done(placing(2, op="before")).replayed, "an operation keeps the window that it was written under")
    harness.refused(placing(3, op="after"), Reason.HOLD_EXISTS)
    harness.refused(ChangeLimits(changes={"retention": 5}, if_version=1), Reason.VERSION_CONFLICT)
    (entry,) = [entry for entry in harness.journal() if entry.action is Action.LIMITS_CHANGED][:1]
    require_equal((entry.subject, entry.actor, entry.reason), ("~limits", "user:1", "r"), "the entry of a change")
    harness.verify()


def bounds_changed_within_a_group(harness: Harness) -> None:
    """A bound applies to the commands after it in the same group, and counts what existed before."""
    harness.open()
    harness.pools(a=9, b=1)
    harness.done(placing(1, op="one"))
    changed, pool, hold, operation = harness.execute(
        ChangeLimits(changes={"max_pools": 2, "max_holds": 1, "max_operations": 1}),
        CreatePool(id="c", total=1),
        placing(2),
        placing(3, op="two"),
    )
    require(isinstance(changed, Done), "limits are changed")
    reasons = [outcome.reason for outcome in (pool, hold, operation) if isinstance(outcome, Refusal)]
    require_equal(
        reasons,
        [Reason.POOL_TABLE_FULL, Reason.HOLD_TABLE_FULL, Reason.OPERATION_TABLE_FULL],
        "what a bound refuses right behind its change",
    )
    harness.verify()


def retired_holds_stay_retired(harness: Harness) -> None:
    """A hold that retired under a shorter retention stays retired when the retention is raised, whether its row was
    pruned or not."""
    ms = 1000
    harness.open(retention=100 * ms)
    harness.pools(a=9)
    early, late = minted_id(START, b"0" * 10), minted_id(START + 80 * ms, b"1" * 10)
    harness.done(structs.replace(placing(1), id=early))
    harness.done(ReleaseHold(id=early, token=TOKEN))
    harness.at(80 * ms)
    harness.done(structs.replace(placing(2), id=late))
    harness.done(ReleaseHold(id=late, token=TOKEN))
    harness.done(ChangeLimits(changes={"retention": 50 * ms}))
    harness.done(ChangeLimits(changes={"retention": 1_000 * ms}))
    harness.at(200 * ms)
    harness.done(Sweep())
    harness.refused(ReleaseHold(id=early, token=TOKEN), Reason.HOLD_RETIRED)
    harness.refused(ReleaseHold(id=late, token=TOKEN), Reason.ALREADY_RELEASED)
    require_equal(harness.engine.read(FindHold(("", early))), None, "a hold that has retired")
    harness.verify()


CHECKS = (bounded_pools, bounded_holds, retired_after_retention, consumption_outlives_retention, dropped_for_room,
          dropped_in_portions, swept_in_portions, fences_never_repeat, fences_stay_with_their_tenant,
          fences_grow_across_recreation_in_a_batch, changed_limits, bounds_changed_within_a_group, retired_holds_stay_retired)  # fmt: skip
