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
from .harness import START, TOKEN, Rig, demand, equal, hold_id, placing


def bounded_pools(rig: Rig) -> None:
    """At `max_pools` no further pool is made, neither by command nor by a leg; what is there works on."""
    rig.open(max_pools=2)
    rig.pools(a=1, b=1)
    rig.refused(CreatePool(id="c", total=1), Reason.POOL_TABLE_FULL)
    rig.refused(CreatePool(id="a", total=1), Reason.POOL_EXISTS)
    rig.refused(placing(1, [Leg("a"), Leg("d", 1, 1)]), Reason.POOL_TABLE_FULL)
    rig.place(1)
    rig.sound()


def bounded_holds(rig: Rig) -> None:
    """`max_holds` bounds live holds: at the bound the next is refused; ended and due ones make room, for ever."""
    rig.open(max_holds=3)
    rig.pools(a=9)
    for number in (1, 2, 3):
        rig.place(number, ttl=10 * number)
    rig.refused(placing(4), Reason.HOLD_TABLE_FULL)
    for number, slot in ((4, 10), (5, 20), (6, 30)):
        rig.at(slot)
        rig.place(number, ttl=900)
        rig.refused(placing(7), Reason.HOLD_TABLE_FULL)
    for number in range(10, 40):
        rig.done(ReleaseHold(id=hold_id(6 if number == 10 else number - 1), owner=TOKEN))
        rig.place(number, ttl=900)
        rig.refused(placing(50), Reason.HOLD_TABLE_FULL)
    equal(rig.pool().held, 3, "units held")
    rig.sound()


def retired_after_retention(rig: Rig) -> None:
    """An ended hold is there until `retention` has passed, to the slot; then gone for reads and commands, not for history."""
    rig.open(retention=50)
    rig.pools(a=9)
    minted = minted_id(START, b"conformity")
    rig.place(1, ttl=5)
    rig.done(placing(2, ttl=5, owner=TOKEN))
    rig.done(ReleaseHold(id=hold_id(2), owner=TOKEN))
    command = placing(3)
    rig.done(type(command)(id=minted, legs=command.legs, ttl_slots=9, owner=TOKEN))
    rig.done(ReleaseHold(id=minted, owner=TOKEN))
    rig.at(49)
    demand(rig.hold(2) is not None, "one slot before the retention ends the hold must be there")
    rig.refused(ConfirmHold(id=hold_id(2), owner=TOKEN), Reason.ALREADY_RELEASED)
    rig.at(50)
    demand(rig.hold(2) is None, "at the end of the retention the hold must be gone")
    equal(rig.engine.read(FindHold(("", minted))), None, "a minted hold at the end of the retention")
    rig.refused(ConfirmHold(id=hold_id(2), owner=TOKEN), Reason.HOLD_NOT_FOUND)
    rig.refused(ConfirmHold(id=minted, owner=TOKEN), Reason.HOLD_RETIRED)
    demand(rig.hold(1) is not None, "a hold that expired later than another ended must be there still")
    rig.at(55)
    equal([hold.id for hold in rig.engine.read(ListHolds(""))], [], "holds listed after the retention")
    equal(len(rig.story(2)), 2, "entries in the history of a retired hold")
    rig.sound()
    rig.place(2)
    rig.sound()


def consumption_outlives_retention(rig: Rig) -> None:
    """A hold whose units are consumed is kept for `retention_consumed` from its last change, and there until a sweep drops
    it, with an entry; then its units come back by pool, and by nothing else."""
    rig.open(retention=50, retention_consumed=200)
    rig.pools(a=9, b=9)
    mine: dict[str, Any] = {"id": hold_id(1), "owner": TOKEN}
    by_pool: dict[str, Any] = {"id": "a", "force": True, "reason": "refund"}
    rig.done(Consume(legs=(Leg("a", 3), Leg("b", 1)), **mine))
    rig.at(199)
    rig.done(Sweep())
    rig.done(ReturnUnits(quantity={"a": 1}, **mine))
    rig.refused(ReturnToPool(quantity=1, **by_pool), Reason.QUANTITY_EXCEEDS_CONSUMED)
    rig.at(398)
    rig.done(Sweep())
    demand(rig.hold(1) is not None, "one slot before its time is over the hold must be there")
    rig.at(1_000)
    rig.place(2)
    demand(rig.hold(1) is not None, "a hold whose units are consumed must be there until a sweep drops it")
    equal([hold.id for hold in rig.engine.read(ListHolds(""))], [hold_id(1), hold_id(2)], "holds before the sweep")
    rig.done(Sweep())
    demand(rig.hold(1) is None, "the sweep must drop a hold whose time is over")
    equal(rig.story(1)[-1].action, Action.HOLD_RETIRED, "the last entry of a hold that was dropped")
    rig.refused(ReturnUnits(**mine), Reason.HOLD_NOT_FOUND)
    equal([(rig.pool(name).consumed, rig.pool(name).loose) for name in "ab"], [(2, 2), (1, 1)], "consumed and loose")
    rig.refused(ReturnToPool(quantity=3, **by_pool), Reason.QUANTITY_EXCEEDS_CONSUMED)
    rig.done(ReturnToPool(quantity=2, **by_pool))
    equal((rig.pool("a").consumed, rig.pool("a").loose), (0, 0), "consumed and loose of pool a in the end")
    rig.place(1)
    rig.sound()


def dropped_for_room(rig: Rig) -> None:
    """In a bounded table the oldest holds make room, also those whose units are consumed: these with an entry."""
    rig.open(max_holds=3)
    rig.pools(a=99)
    for number in range(1, 12):
        rig.done(Consume(id=hold_id(number), legs=(Leg("a", number),), owner=TOKEN))
    kept = rig.engine.read(ListHolds(""))
    equal([hold.id for hold in kept], [hold_id(number) for number in (9, 10, 11)], "holds that are kept")
    equal((rig.pool().consumed, rig.pool().loose), (66, 36), "consumed and loose")
    equal(rig.actions().count("hold.retired"), 8, "holds dropped with an entry")
    rig.sound()


def dropped_in_portions(rig: Rig) -> None:
    """A sweep drops up to `limit` holds, oldest first, and says whether there are more."""
    rig.open(retention=10, retention_consumed=20)
    rig.pools(a=9)
    for slot, number in enumerate(range(5, 0, -1)):
        rig.at(slot)
        rig.done(Consume(id=hold_id(number), legs=(Leg("a"),), owner=TOKEN))
    rig.at(40)
    for loose, more in ((2, True), (4, True), (5, False), (5, False)):
        equal(rig.done(Sweep(limit=2)).more, more, "more of a sweep of 2")
        equal(rig.pool().loose, loose, "loose after a sweep of 2")
    gone = [entry.subject for entry in rig.along("a") if entry.action is Action.HOLD_RETIRED]
    equal(gone, [hold_id(number) for number in range(5, 0, -1)], "holds in the order they were dropped")
    rig.sound()


def swept_in_portions(rig: Rig) -> None:
    """A sweep expires up to `limit` holds, earliest deadline first, and says whether there are more."""
    rig.pools(a=9, b=9)
    for number in range(1, 8):
        rig.done(placing(number, [Leg("a"), Leg("b")], ttl=20 - number))
    rig.place(9, ttl=30)
    rig.at(20)
    for numbers, more in (((7, 6, 5), True), ((4, 3, 2), True), ((1,), False), ((), False)):
        swept = rig.done(Sweep(limit=3))
        equal((swept.expired, swept.more), (len(numbers), more), "expired and more of a sweep of 3")
        equal(swept.swept, tuple(("", hold_id(number)) for number in numbers), "the holds that a sweep of 3 names")
    gone = [entry.subject for entry in rig.along("a") if entry.action is Action.HOLD_EXPIRED]
    equal(gone, [hold_id(number) for number in range(7, 0, -1)], "holds in the order they were swept")
    equal((rig.pool("a").held, rig.pool("b").held), (1, 0), "units held after the sweeps")
    equal(rig.actions().count("leg.returned"), 0, "legs returned apart from their holds")
    rig.sound()


def fences_grow_for_ever(rig: Rig) -> None:
    """A pool's fence grows with every grant, also across its removal and re-creation."""
    fences = []
    for number in range(1, 6):
        done = rig.done(placing(number, [Leg("fleeting", 1, 1)], ttl=5))
        assert done.hold is not None
        fences.append(done.hold.fence)
        if number % 2:
            rig.done(ReleaseHold(id=hold_id(number), owner=TOKEN))
        rig.at(10 * number)
        rig.done(Sweep())
        rig.done(Sweep())
        equal(rig.engine.read(FindPool(("", "fleeting"))), None, "an empty on-demand pool after a sweep")
        rig.sound()
    demand(fences == sorted(set(fences)), f"fences must grow across removal and re-creation, but were {fences}")
    if rig.engine.lanes > 1:
        return  # each lane has a floor of its own
    rig.pools(later=1)
    done = rig.place(9, "later")
    assert done.hold is not None
    demand(done.hold.fence > fences[-1], "a pool created later must start above every fence of a removed one")


def fences_outlive_a_pool_that_is_back_at_once(rig: Rig) -> None:
    """A pool that a batch sweeps away and makes anew goes on with higher fences, and the journal agrees."""
    again = [Leg("a", 1, create_with_total=1)]
    fences = [hold.fence for hold in (rig.done(placing(1, again)).hold,) if hold is not None]
    rig.done(ReleaseHold(id=hold_id(1), owner=TOKEN))
    applied = rig.apply(Group((Sweep(),)), Group((placing(2, again),)))
    fences += [
        answer.hold.fence for answer in applied.outcomes[1] if isinstance(answer, Done) and answer.hold is not None
    ]
    demand(len(fences) == 2 and fences[0] < fences[1], f"two holds with growing fences, but they were {fences}")
    rig.sound()


def changed_limits(rig: Rig) -> None:
    """Limits that are stored with the data can be changed: the next command goes by them, and what is there stays."""
    rig.open(retention=1_000_000, retry_window=50)
    rig.pools(a=9)
    rig.place(1, ttl=100)
    rig.done(placing(2, op="before"))
    changed = rig.done(ChangeLimits(changes={"retry_window": 10, "max_holds": 2}, actor="user:1", reason="r"))
    demand(changed.record is not None and changed.record.version == 1, "the answer of a change has its record")
    rig.refused(placing(3), Reason.HOLD_TABLE_FULL)
    equal((rig.engine.limits.retry_window, rig.engine.limits.version), (10, 1), "the limits after a change")
    rig.done(ChangeLimits(changes={"max_holds": None}))
    rig.done(placing(3, op="after"))
    rig.at(10)
    demand(rig.done(placing(2, op="before")).replayed, "an operation keeps the window that it was written under")
    rig.refused(placing(3, op="after"), Reason.HOLD_EXISTS)
    rig.refused(ChangeLimits(changes={"retention": 5}, if_version=1), Reason.VERSION_CONFLICT)
    (entry,) = [entry for entry in rig.journal() if entry.action is Action.LIMITS_CHANGED][:1]
    equal((entry.subject, entry.actor, entry.reason), ("~limits", "user:1", "r"), "the entry of a change")
    rig.sound()


def bounds_set_on_the_way(rig: Rig) -> None:
    """A bound counts for what follows it in the same group, together with all that was there before."""
    rig.open()
    rig.pools(a=9, b=1)
    rig.done(placing(1, op="one"))
    changed, pool, hold, operation = rig.do(
        ChangeLimits(changes={"max_pools": 2, "max_holds": 1, "max_operations": 1}),
        CreatePool(id="c", total=1),
        placing(2),
        placing(3, op="two"),
    )
    demand(isinstance(changed, Done), "limits are changed")
    reasons = [outcome.reason for outcome in (pool, hold, operation) if isinstance(outcome, Refusal)]
    equal(
        reasons,
        [Reason.POOL_TABLE_FULL, Reason.HOLD_TABLE_FULL, Reason.OPERATION_TABLE_FULL],
        "what a bound refuses right behind its change",
    )
    rig.sound()


def retention_of_the_past(rig: Rig) -> None:
    """What retired under a shorter retention stays so when it is raised, whether its row was pruned or not."""
    ms = 1000
    rig.open(retention=100 * ms)
    rig.pools(a=9)
    early, late = minted_id(START, b"0" * 10), minted_id(START + 80 * ms, b"1" * 10)
    rig.done(structs.replace(placing(1), id=early))
    rig.done(ReleaseHold(id=early, owner=TOKEN))
    rig.at(80 * ms)
    rig.done(structs.replace(placing(2), id=late))
    rig.done(ReleaseHold(id=late, owner=TOKEN))
    rig.done(ChangeLimits(changes={"retention": 50 * ms}))
    rig.done(ChangeLimits(changes={"retention": 1_000 * ms}))
    rig.at(200 * ms)
    rig.done(Sweep())
    rig.refused(ReleaseHold(id=early, owner=TOKEN), Reason.HOLD_RETIRED)
    rig.refused(ReleaseHold(id=late, owner=TOKEN), Reason.ALREADY_RELEASED)
    equal(rig.engine.read(FindHold(("", early))), None, "a hold that has retired")
    rig.sound()


CHECKS = (bounded_pools, bounded_holds, retired_after_retention, consumption_outlives_retention, dropped_for_room,
          dropped_in_portions, swept_in_portions, fences_grow_for_ever, fences_outlive_a_pool_that_is_back_at_once,
          changed_limits, bounds_set_on_the_way, retention_of_the_past)  # fmt: skip
