"""Checks of time: expiry to the slot, on the pools that are touched, once, in order, and never backwards."""

from __future__ import annotations

from ...core.commands import ConfirmHold, ExpireHold, ExtendHold, ReleaseHold, Sweep
from ...core.entries import Action
from ...core.model import Leg, State
from ...core.outcomes import Reason
from ...core.reading import FindEnds, ListHolds, ListPools
from .harness import START, TOKEN, Rig, demand, equal, hold_id, placing


def deadline_is_exact(rig: Rig) -> None:
    """One slot before its deadline a hold is alive for everyone; at the deadline it is expired for everyone."""
    rig.pools(a=1, b=1, c=1)
    for number, pool in ((1, "a"), (2, "b"), (3, "c")):
        rig.place(number, pool, ttl=10)
    rig.at(9)
    equal(rig.pool().held, 1, "units held one slot before the deadline")
    rig.refused(placing(4), Reason.INSUFFICIENT_CAPACITY)
    rig.refused(ExpireHold(id=hold_id(1)), Reason.NOT_DUE)
    rig.done(ConfirmHold(id=hold_id(3), owner=TOKEN))
    rig.at(10)
    equal(rig.pool().held, 0, "units held at the deadline, as read")
    rig.place(4)
    rig.refused(ConfirmHold(id=hold_id(1), owner=TOKEN), Reason.HOLD_EXPIRED)
    rig.refused(ReleaseHold(id=hold_id(2), owner=TOKEN), Reason.HOLD_EXPIRED)
    rig.refused(ExtendHold(id=hold_id(2), owner=TOKEN, by_slots=5), Reason.HOLD_EXPIRED)
    equal(rig.done(ExpireHold(id=hold_id(1))).position, None, "position of an expiry that was there already")
    rig.at(11)
    rig.refused(ExpireHold(id=hold_id(3)), Reason.ALREADY_CONFIRMED)
    rig.sound()


def reads_count_due_as_returned(rig: Rig) -> None:
    """Reads count a due leg as returned and show its hold as expired, at the deadline and not before, without writing."""
    rig.pools(a=5, b=5)
    rig.done(placing(1, [Leg("a", 2), Leg("b", 3)], ttl=10))
    rig.place(2, "a", 1, ttl=20)
    ends = rig.engine.read(FindEnds())
    for slot, held, states in ((9, [3, 3], ["held", "held"]), (10, [1, 0], ["expired", "held"])):
        rig.at(slot)
        equal([pool.held for pool in rig.engine.read(ListPools(""))], held, f"units held in a list at {slot}")
        equal([rig.pool(name).held for name in ("a", "b")], held, f"units held at {slot}")
        equal([hold.state.value for hold in rig.engine.read(ListHolds(""))], states, f"states in a list at {slot}")
        alive = [hold.id for hold in rig.engine.read(ListHolds("", state=State.HELD))]
        equal(len(alive), states.count("held"), f"holds listed as held at {slot}")
    seen = rig.hold(1)
    demand(seen is not None and seen.state is State.EXPIRED, "a due hold must read as expired")
    assert seen is not None
    equal((seen.ended_at, [leg.held for leg in seen.legs]), (START + 10, [0, 0]), "end and legs of a due hold, as read")
    equal(rig.engine.read(FindEnds()), ends, "the journal's ends after reads")
    rig.sound()


def touched_pools_only(rig: Rig) -> None:
    """A command returns the due legs on the pools it touches, and no others; those come back once, when touched or swept."""
    rig.pools(a=5, b=5, c=5)
    rig.done(placing(1, [Leg("a", 2), Leg("b", 3), Leg("c", 1)], ttl=10))
    rig.at(10)
    for number, pool, action in ((2, "a", Action.HOLD_EXPIRED), (3, "b", Action.LEG_RETURNED)):
        before = rig.ends()
        rig.place(number, pool, 5)
        returned = [entry for entry in rig.journal(before) if entry.subject == hold_id(1)]
        equal([entry.action for entry in returned if not entry.part], [action], f"what touching pool {pool} returned")
        changed = [effect.pool.id for entry in returned for effect in entry.effects]
        equal(changed, [pool], f"pools changed by touching pool {pool}")
        equal([entry.subject for entry in rig.along(pool, before)], [hold_id(1), hold_id(number)], "who came first")
    swept = rig.done(Sweep())
    equal(swept.expired, 0, "holds a sweep expired, where one had only a leg left to return")
    rig.done(Sweep())
    story = [entry.action.value for entry in rig.story(1)]
    equal(story, ["hold.held", "hold.expired", "leg.returned", "leg.returned"], "the hold's story")
    equal([rig.pool(name).held for name in "abc"], [5, 5, 0], "units held")
    rig.sound()


def due_in_order(rig: Rig) -> None:
    """Due legs return in order of (deadline, hold id), before the command that finds them is decided."""
    rig.pools(a=9)
    for number, ttl in ((5, 30), (4, 20), (9, 10), (2, 20), (3, 40)):
        rig.place(number, ttl=ttl)
    rig.at(30)
    rig.place(1, quantity=8)
    late = [entry for entry in rig.along("a") if entry.action is Action.HOLD_EXPIRED]
    equal([entry.subject for entry in late], [hold_id(number) for number in (9, 2, 4, 5)], "order of expiry")
    rig.sound()


def backlog_goes_first(rig: Rig) -> None:
    """With more legs due than one transaction may return, all are returned, once each, before the command is decided."""
    rig.open(max_due=5)
    rig.pools(a=23, b=23)
    for number in range(1, 24):
        rig.done(placing(number, [Leg("a"), Leg("b")], ttl=10 + number % 7))
    rig.at(50)
    rig.place(99, "a", 23)
    entries = rig.along("a")
    returned = [entry.subject for entry in entries if entry.action is Action.HOLD_EXPIRED]
    equal(sorted(returned), [hold_id(number) for number in range(1, 24)], "holds expired by a backlog, once each")
    equal(entries[-1].action, Action.HOLD_HELD, "the last entry")
    equal(rig.actions().count("hold.expired"), 23, "holds expired, each with one entry")
    equal(rig.actions().count("leg.returned"), 0, "legs of other pools")
    rig.sound()
    rig.place(98, "b", 23)
    equal([rig.pool(name).held for name in "ab"], [23, 23], "units held after the backlog")
    rig.sound()


def never_backwards(rig: Rig) -> None:
    """Time never moves backwards along a pool: after a jump back it stands still there, and nobody is revived."""
    rig.pools(a=1, b=1)
    rig.place(1, ttl=10)
    rig.at(10)
    rig.place(2, ttl=10)
    rig.at(3)
    rig.refused(ConfirmHold(id=hold_id(1), owner=TOKEN), Reason.HOLD_EXPIRED)
    rig.refused(placing(3), Reason.INSUFFICIENT_CAPACITY)
    equal(rig.done(ConfirmHold(id=hold_id(2), owner=TOKEN)).slot, START + 10, "slot of a confirm after a jump back")
    equal(rig.place(4, "b", ttl=4).slot, START + 3, "slot on a pool that the future has not touched")
    slots: dict[str, int] = {}
    for number, entry in enumerate(rig.journal(), start=1):
        for effect in entry.effects:
            last = slots.get(effect.pool.id, 0)
            demand(entry.slot >= last, f"entry {number} on pool {effect.pool.id} goes back from {last} to {entry.slot}")
            slots[effect.pool.id] = entry.slot
    rig.sound()


def extension_counts(rig: Rig) -> None:
    """An extended hold is not expired at its old deadline, by nobody; its new one counts, to the slot."""
    rig.pools(a=1)
    rig.place(1, ttl=10)
    rig.at(9)
    equal(rig.done(ExtendHold(id=hold_id(1), owner=TOKEN, by_slots=10)).hold, rig.hold(1), "the extended hold")
    rig.at(10)
    equal(rig.done(Sweep()).expired, 0, "holds swept at the old deadline")
    rig.refused(placing(2), Reason.INSUFFICIENT_CAPACITY)
    rig.at(19)
    equal(rig.pool().held, 1, "units held one slot before the new deadline")
    rig.at(20)
    rig.place(3)
    rig.sound()


def endless_never_comes_due(rig: Rig) -> None:
    """A hold whose deadline a face took away is nobody's to expire; only its end gives the units back."""
    rig.pools(a=2)
    rig.place(1, ttl=10)
    rig.place(2, ttl=10)
    rig.at(9)
    rig.refused(ExtendHold(id=hold_id(1), forever=True), Reason.NOT_OWNER)
    equal(rig.done(ExtendHold(id=hold_id(1), forever=True, trusted=True)).hold, rig.hold(1), "the endless hold")
    rig.at(10_000_000)
    equal(rig.done(Sweep()).expired, 1, "holds swept long after both deadlines")
    equal(rig.pool().held, 1, "units held by the endless one")
    rig.refused(ExpireHold(id=hold_id(1)), Reason.NOT_DUE)
    rig.done(ReleaseHold(id=hold_id(1), trusted=True))
    equal(rig.pool().held, 0, "units held in the end")
    rig.sound()


CHECKS = (deadline_is_exact, reads_count_due_as_returned, touched_pools_only, due_in_order, backlog_goes_first,
          never_backwards, extension_counts, endless_never_comes_due)  # fmt: skip
