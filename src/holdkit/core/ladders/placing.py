"""PlaceHold and Consume: take every leg, or refuse with the exact reason."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from ..codec import canonical_json, hash_owner
from ..commands import Consume, PlaceHold
from ..entries import HOLD_HELD, Action, Effect
from ..face_legs import FaceLeg
from ..limits import for_keys, places_key
from ..model import HELD, MAX_QUANTITY, MAX_SLOT, HeldLeg, Leg, Pool, Slot, State, StoredHold
from ..outcomes import Done, Invalid, Outcome, Reason, Refusal, Shortfall
from ..outstanding import Level
from ..trees import SEPARATOR, all_levels
from ..view import View
from .accounts import over_limit
from .finding import erased_fence, in_use, taken_id
from .lines import enter, somebody_waits
from .recording import became, counted, effects_of, levels_after, linked, moved, pools_of, record, with_child


def place_hold(view: View, command: PlaceHold, now: Slot) -> Outcome:
    """Take every leg until the deadline, or nothing at all."""
    deadline = command.deadline if command.ttl_slots is None else now + command.ttl_slots
    assert deadline is None or isinstance(deadline, int)
    if deadline is not None:
        if deadline > MAX_SLOT:
            return Refusal(Reason.SLOT_OVERFLOW, found=deadline)
        if deadline <= now:
            return Refusal(Reason.DEADLINE_PASSED, found=now)
        if deadline - now > view.limits.max_lifetime:
            return Refusal(Reason.LIFETIME_EXCEEDED, found=view.limits.max_lifetime)
        if command.deadline is not None and deadline - now > view.limits.max_claim_ttl and places_key(command.legs):
            return Invalid("deadline", "deadline_too_late", for_keys(view.limits))
    hold = take(view, command, deadline, now)
    if isinstance(hold, Refusal):
        if command.wait_slots is not None and hold.reason in _WORTH_WAITING:
            assert command.offer_slots is not None
            return enter(view, command, command.wait_slots, command.offer_slots, now)
        return hold
    return Done(now, hold, token=command.token)


_WORTH_WAITING: Final = (Reason.INSUFFICIENT_CAPACITY, Reason.LINE_AHEAD)


def consume(view: View, command: Consume, now: Slot) -> Outcome:
    """Hold and confirm in one step: two entries, one answer."""
    taken = take(view, command, None, now)
    if isinstance(taken, Refusal):
        return taken
    spent = [leg.held for leg in taken.legs]
    freed = [-units for units in spent]
    effects = effects_of(view, taken, pools_of(view, taken), now, freed, spent, taken.entity)
    legs = tuple([HeldLeg(leg.pool, leg.quantity, 0, leg.held) for leg in taken.legs])
    view.grown[1] -= 1
    above = levels_after(taken, freed)
    change = became(taken, legs, state=State.CONFIRMED, ended_at=now, command=command, above=above)
    record(view, Action.HOLD_CONFIRMED, taken.id, now, command, effects=effects, change=change, forced=command.force)
    hold = view.holds.get(taken.key)
    return Done(slot=now, hold=hold, token=command.token)


def take(view: View, command: PlaceHold | Consume, deadline: Slot | None, now: Slot) -> StoredHold | Refusal:
    """Pass the rungs after the deadline, and grant."""
    assert command.id is not None, "the kernel mints ids"
    assert command.token is not None, "the kernel mints tokens"
    legs = command.legs
    levels, above = (legs, ()) if len(legs) == 1 and SEPARATOR not in legs[0].pool else all_levels(legs)
    found = find_pools(view, command, levels, now)
    if isinstance(found, Refusal):
        return found
    pools, new, short, special = found
    if special or view.holds.get((command.tenant, command.id)) is not None:
        refusal = refused(view, command, levels, pools, now)
        if refusal is not None:
            return refusal
    full = bounds_reached(view, new)
    if full is not None:
        return Refusal(full)
    if special or short:
        refusal = out_of_units(view, command, levels, pools)
        if refusal is not None:
            return refusal
    if new:
        pools = create_missing(view, command, pools, now)
    return grant(view, command, levels, above, pools, deadline, now)


def find_pools(
    view: View, command: PlaceHold | Consume, levels: tuple[Leg, ...], now: Slot
) -> tuple[list[Pool], int, bool, bool] | Refusal:
    """Return the pools of these legs; how many of them are not stored yet; whether any has too few units; and whether any has a line, a
    limit, a window, or is archived."""
    tenant = command.tenant
    pools: list[Pool] = []
    new, short, special = 0, False, False
    for leg in levels:
        pool = view.pools.get((tenant, leg.pool)) if view.loaded.names is None else in_use(view, tenant, leg.pool)
        if pool is None:
            pool = born(view, tenant, leg, now)
            if pool is None:
                return Refusal(Reason.POOL_NOT_FOUND, leg.pool)
            new += 1
        elif type(leg) is FaceLeg and leg.total is not None:
            pool = answered(view, command, leg, pool, now)
        pools.append(pool)
        if pool.held + pool.consumed + leg.quantity > pool.total:
            short = True
        if (
            pool.waiting
            or pool.archived
            or pool.per_account is not None
            or (type(leg) is FaceLeg and leg.closes is not None)
        ):
            special = True
    return pools, new, short, special


def refused(
    view: View, command: PlaceHold | Consume, levels: tuple[Leg, ...], pools: list[Pool], now: Slot
) -> Refusal | None:
    """Pass the rungs before those of the bounded tables."""
    assert command.id is not None
    for leg, pool in zip(levels, pools, strict=True):
        shut = shut_to(leg, pool, now)
        if shut is not None:
            return shut
    if command.account is None and not command.force:
        for pool in pools:
            if pool.per_account is not None:
                return Refusal(Reason.ACCOUNT_REQUIRED, pool.id)
    if taken_id(view, command.tenant, command.id, now):
        return Refusal(Reason.HOLD_EXISTS, command.id)
    return None


def out_of_units(
    view: View, command: PlaceHold | Consume, levels: tuple[Leg, ...], pools: list[Pool]
) -> Refusal | None:
    """Pass the rungs of the units: the account's limit, the available units, the holds that wait in line."""
    if command.account is not None and not command.force:
        asked = [(pool, leg.quantity) for leg, pool in zip(levels, pools, strict=True)]
        beyond = over_limit(view, command.account, asked)
        if beyond is not None:
            return beyond
    short = fell_short(levels, pools)
    if short is not None:
        return short
    for pool in pools:
        if somebody_waits(view, pool):
            return Refusal(Reason.LINE_AHEAD, pool.id, found=pool.waiting)
    return None


def shut_to(leg: Leg, pool: Pool, now: Slot) -> Refusal | None:
    """Return why this pool grants nothing to this leg, however much is available."""
    if pool.archived:
        return Refusal(Reason.POOL_ARCHIVED, pool.id)
    if isinstance(leg, FaceLeg) and leg.closes is not None and not (leg.opens or 0) <= now < leg.closes:
        return Refusal(Reason.WINDOW_CLOSED, pool.id, found=now)
    return None


def fell_short(levels: tuple[Leg, ...], pools: list[Pool]) -> Refusal | None:
    """Return a refusal that names every pool with fewer units available than the command asks for."""
    shortfalls = [
        Shortfall(
            pool.id,
            leg.quantity,
            pool.available,
            pool.total,
            pool.label,
            pool.holder,
            confirmed=pool.label is not None and not pool.held,
        )
        for leg, pool in zip(levels, pools, strict=True)
        if leg.quantity > pool.available
    ]
    return Refusal(Reason.INSUFFICIENT_CAPACITY, shortfalls[0].pool, tuple(shortfalls)) if shortfalls else None


def born(view: View, tenant: str, leg: Leg, now: Slot) -> Pool | None:
    """Return the pool that the leg creates, not stored yet (version 0); None if it creates none."""
    total, label, closes = leg.create_with_total, None, None
    if isinstance(leg, FaceLeg):
        label, closes = leg.label, leg.closes
        if leg.total is not None:
            total = total_of(leg, 0)
    if total is None:
        return None
    floor = max(view.fence_floor(tenant), erased_fence(view, tenant, leg.pool))
    return Pool(tenant, leg.pool, total, fence=floor, slot=now, version=0, on_demand=True, label=label, closes=closes,
                floor=floor)  # fmt: skip


def answered(view: View, command: PlaceHold | Consume, leg: FaceLeg, pool: Pool, now: Slot) -> Pool:
    """Return the pool with the total that the application answered, and the end of its window. They stand even if the command is refused,
    because they are facts, not requests. With a total below the units in use the pool is over: nothing is cancelled, and nothing more is
    granted."""
    total = total_of(leg, pool.held + pool.consumed)
    if (total, leg.closes) == (pool.total, pool.closes):
        return pool
    effect = moved(structs.replace(pool, closes=leg.closes), now, total=total - pool.total)
    record(view, Action.POOL_RESIZED, pool.id, now, command, effects=(effect,))
    return effect.pool


def total_of(leg: FaceLeg, in_use: int) -> int:
    """Return the total for an answer: the pool's own counters plus the units that the application calls free."""
    assert leg.total is not None
    if leg.in_use is None:
        return leg.total
    return min(MAX_QUANTITY, max(0, leg.total - leg.in_use + in_use))


def bounds_reached(view: View, new_pools: int) -> Reason | None:
    """Return the bounded table that has no room for this hold and the pools that it creates."""
    limits, counts, grown = view.limits, view.loaded.counts, view.grown
    if new_pools and limits.max_pools is not None and counts.pools + grown[0] + new_pools > limits.max_pools:
        return Reason.POOL_TABLE_FULL
    if limits.max_holds is not None and counts.live_holds + grown[1] >= limits.max_holds:
        return Reason.HOLD_TABLE_FULL
    return None


def create_missing(view: View, command: PlaceHold | Consume, pools: list[Pool], now: Slot) -> list[Pool]:
    """Create those of these pools that do not exist yet, parents first; returns all of them as they are then."""
    for pool in sorted([pool for pool in pools if pool.version == 0], key=lambda pool: pool.id):
        view.grown[0] += 1
        created = moved(pool, now, fence=pool.fence).pool
        effects = with_child(view, Effect(created, total=pool.total), now, 1)
        record(view, Action.POOL_CREATED, pool.id, now, command, effects=effects)
    return [view.pools.get(pool.key) or pool for pool in pools]


def grant(
    view: View,
    command: PlaceHold | Consume,
    levels: tuple[Leg, ...],
    above: tuple[Level, ...],
    pools: list[Pool],
    deadline: Slot | None,
    now: Slot,
) -> StoredHold:
    """Record the hold, after every rung is passed."""
    assert command.id is not None
    assert command.token is not None
    fence = 1 + (pools[0].fence if len(pools) == 1 else max([pool.fence for pool in pools]))
    effects: list[Effect] = []
    held = tuple([HeldLeg(leg.pool, leg.quantity, leg.quantity) for leg in command.legs])
    for leg, pool in zip(levels, pools, strict=True):
        effect = moved(pool, now, held=leg.quantity, fence=fence)
        effects.append(effect if pool.label is None else linked(effect, None, command.id))
    if command.account is not None:
        effects = [counted(view, effect, command.account, effect.held) for effect in effects]
    metadata = None if command.metadata is None else canonical_json(command.metadata)
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    hold = StoredHold(
        command.tenant, command.id, held, hash_owner(command.token), now, fence, deadline, HELD, command.entity, None, None,
        command.actor, correlation_id, metadata, None, 1, None, last_end(pools), command.account, above)  # fmt: skip
    view.grown[1] += 1
    record(view, HOLD_HELD, command.id, now, command, effects=tuple(effects), hold=hold, forced=command.force)
    return hold


def last_end(pools: list[Pool]) -> Slot | None:
    """Return the end of the last of these windows; None if any pool has no end."""
    last: Slot | None = None
    for pool in pools:
        if pool.closes is None:
            return None
        last = pool.closes if last is None else max(last, pool.closes)
    return last
