"""Checks of time: expiry to the slot, on the pools that are touched, once, in order, and never backwards."""

from __future__ import annotations

from ...core.commands import ConfirmHold, ExpireHold, ExtendHold, ReleaseHold, Sweep
from ...core.entries import Action
from ...core.model import Leg, State
from ...core.outcomes import Reason
from ...core.reading import FindEnds, ListHolds, ListPools
from .harness import START, TOKEN, Harness, hold_id, placing, require, require_equal


def deadline_is_exact(harness: Harness) -> None:
    """One slot before its deadline a hold is held for every caller; at the deadline it is expired for every caller."""
    harness.pools(a=1, b=1, c=1)
    for number, pool in ((1, "a"), (2, "b"), (3, "c")):
        harness.granted(number, pool, ttl=10)
    harness.at(9)
    require_equal(harness.pool().held, 1, "units held one slot before the deadline")
    harness.refused(placing(4), Reason.INSUFFICIENT_CAPACITY)
    harness.refused(ExpireHold(id=hold_id(1)), Reason.NOT_DUE)
    harness.done(ConfirmHold(id=hold_id(3), token=TOKEN))
    harness.at(10)
    require_equal(harness.pool().held, 0, "units held at the deadline, as read")
    harness.granted(4)
    harness.refused(ConfirmHold(id=hold_id(1), token=TOKEN), Reason.HOLD_EXPIRED)
    harness.refused(ReleaseHold(id=hold_id(2), token=TOKEN), Reason.HOLD_EXPIRED)
    harness.refused(ExtendHold(id=hold_id(2), token=TOKEN, by_slots=5), Reason.HOLD_EXPIRED)
    require_equal(
        harness.done(ExpireHold(id=hold_id(1))).position, None, "position of an expiry that was there already"
    )
    harness.at(11)
    harness.refused(ExpireHold(id=hold_id(3)), Reason.ALREADY_CONFIRMED)
    harness.verify()


def reads_count_due_as_returned(harness: Harness) -> None:
    """Reads count a due leg as returned and show its hold as expired, at the deadline and not before, without writing."""
    harness.pools(a=5, b=5)
    harness.done(placing(1, [Leg("a", 2), Leg("b", 3)], ttl=10))
    harness.granted(2, "a", 1, ttl=20)
    ends = harness.engine.read(FindEnds())
    for slot, held, states in ((9, [3, 3], ["held", "held"]), (10, [1, 0], ["expired", "held"])):
        harness.at(slot)
        require_equal(
            [pool.held for pool in harness.engine.read(ListPools(""))], held, f"units held in a list at {slot}"
        )
        require_equal([harness.pool(name).held for name in ("a", "b")], held, f"units held at {slot}")
        require_equal(
            [hold.state.value for hold in harness.engine.read(ListHolds(""))], states, f"states in a list at {slot}"
        )
        alive = [hold.id for hold in harness.engine.read(ListHolds("", state=State.HELD))]
        require_equal(len(alive), states.count("held"), f"holds listed as held at {slot}")
    seen = harness.hold(1)
    require(seen is not None and seen.state is State.EXPIRED, "a due hold must read as expired")
    assert seen is not None
    require_equal(
        (seen.ended_at, [leg.held for leg in seen.legs]), (START + 10, [0, 0]), "end and legs of a due hold, as read"
    )
    require_equal(harness.engine.read(FindEnds()), ends, "the journal's ends after reads")
    harness.verify()


def due_legs_return_on_touched_pools_only(harness: Harness) -> None:
    """A command returns the due legs on the pools it touches, and no others; those come back once, when touched or swept."""
    harness.pools(a=5, b=5, c=5)
    harness.done(placing(1, [Leg("a", 2), Leg("b", 3), Leg("c", 1)], ttl=10))
    harness.at(10)
    for number, pool, action in ((2, "a", Action.HOLD_EXPIRED), (3, "b", Action.LEG_RETURNED)):
        before = harness.ends()
        harness.granted(number, pool, 5)
        returned = [entry for entry in harness.journal(before) if entry.subject == hold_id(1)]
        require_equal(
            [entry.action for entry in returned if not entry.part], [action], f"what touching pool {pool} returned"
        )
        changed = [effect.pool.id for entry in returned for effect in entry.effects]
        require_equal(changed, [pool], f"pools changed by touching pool {pool}")
        require_equal(
            [entry.subject for entry in harness.entries_of_pool(pool, before)],
            [hold_id(1), hold_id(number)],
            "who came first",
        )
    swept = harness.done(Sweep())
    require_equal(swept.expired, 0, "holds a sweep expired, where one had only a leg left to return")
    harness.done(Sweep())
    history_of = [entry.action.value for entry in harness.history_of(1)]
    require_equal(history_of, ["hold.held", "hold.expired", "leg.returned", "leg.returned"], "the history of the hold")
    require_equal([harness.pool(name).held for name in "abc"], [5, 5, 0], "units held")
    harness.verify()


def due_in_order(harness: Harness) -> None:
    """Due legs return in order of (deadline, hold id), before the command that finds them is decided."""
    harness.pools(a=9)
    for number, ttl in ((5, 30), (4, 20), (9, 10), (2, 20), (3, 40)):
        harness.granted(number, ttl=ttl)
    harness.at(30)
    harness.granted(1, quantity=8)
    late = [entry for entry in harness.entries_of_pool("a") if entry.action is Action.HOLD_EXPIRED]
    require_equal([entry.subject for entry in late], [hold_id(number) for number in (9, 2, 4, 5)], "order of expiry")
    harness.verify()


def due_backlog_is_returned_first(harness: Harness) -> None:
    """With more legs due than one transaction may return, all are returned, once each, before the command is decided."""
    harness.open(max_due=5)
    harness.pools(a=23, b=23)
    for number in range(1, 24):
        harness.done(placing(number, [Leg("a"), Leg("b")], ttl=10 + number % 7))
    harness.at(50)
    harness.granted(99, "a", 23)
    entries = harness.entries_of_pool("a")
    returned = [entry.subject for entry in entries if entry.action is Action.HOLD_EXPIRED]
    require_equal(
        sorted(returned), [hold_id(number) for number in range(1, 24)], "holds expired by a backlog, once each"
    )
    require_equal(entries[-1].action, Action.HOLD_HELD, "the last entry")
    require_equal(harness.actions().count("hold.expired"), 23, "holds expired, each with one entry")
    require_equal(harness.actions().count("leg.returned"), 0, "legs of other pools")
    harness.verify()
    harness.granted(98, "b", 23)
    require_equal([harness.pool(name).held for name in "ab"], [23, 23], "units held after the backlog")
    harness.verify()


def time_never_moves_backwards(harness: Harness) -> None:
    """Time never moves backwards along a pool: after the clock was set back it stands still there, and no hold
    becomes live again."""
    harness.pools(a=1, b=1)
    harness.granted(1, ttl=10)
    harness.at(10)
    harness.granted(2, ttl=10)
    harness.at(3)
    harness.refused(ConfirmHold(id=hold_id(1), token=TOKEN), Reason.HOLD_EXPIRED)
    harness.refused(placing(3), Reason.INSUFFICIENT_CAPACITY)
    require_equal(
        harness.done(ConfirmHold(id=hold_id(2), token=TOKEN)).slot, START + 10, "slot of a confirm after a jump back"
    )
    require_equal(harness.granted(4, "b", ttl=4).slot, START + 3, "slot on a pool that the future has not touched")
    slots: dict[str, int] = {}
    for number, entry in enumerate(harness.journal(), start=1):
        for effect in entry.effects:
            last = slots.get(effect.pool.id, 0)
            require(
                entry.slot >= last, f"entry {number} on pool {effect.pool.id} goes back from {last} to {entry.slot}"
            )
            slots[effect.pool.id] = entry.slot
    harness.verify()


def extension_counts(harness: Harness) -> None:
    """An extended hold does not expire at its old deadline; its new deadline is exact to the slot."""
    harness.pools(a=1)
    harness.granted(1, ttl=10)
    harness.at(9)
    require_equal(
        harness.done(ExtendHold(id=hold_id(1), token=TOKEN, by_slots=10)).hold, harness.hold(1), "the extended hold"
    )
    harness.at(10)
    require_equal(harness.done(Sweep()).expired, 0, "holds swept at the old deadline")
    harness.refused(placing(2), Reason.INSUFFICIENT_CAPACITY)
    harness.at(19)
    require_equal(harness.pool().held, 1, "units held one slot before the new deadline")
    harness.at(20)
    harness.granted(3)
    harness.verify()


def hold_without_deadline_never_expires(harness: Harness) -> None:
    """A hold whose deadline a face has removed never expires; only its end returns the units."""
    harness.pools(a=2)
    harness.granted(1, ttl=10)
    harness.granted(2, ttl=10)
    harness.at(9)
    harness.refused(ExtendHold(id=hold_id(1), forever=True), Reason.NOT_OWNER)
    require_equal(
        harness.done(ExtendHold(id=hold_id(1), forever=True, trusted=True)).hold, harness.hold(1), "the endless hold"
    )
    harness.at(10_000_000)
    require_equal(harness.done(Sweep()).expired, 1, "holds swept long after both deadlines")
    require_equal(harness.pool().held, 1, "units held by the endless one")
    harness.refused(ExpireHold(id=hold_id(1)), Reason.NOT_DUE)
    harness.done(ReleaseHold(id=hold_id(1), trusted=True))
    require_equal(harness.pool().held, 0, "units held in the end")
    harness.verify()


CHECKS = (deadline_is_exact, reads_count_due_as_returned, due_legs_return_on_touched_pools_only, due_in_order, due_backlog_is_returned_first,
          time_never_moves_backwards, extension_counts, hold_without_deadline_never_expires)  # fmt: skip
