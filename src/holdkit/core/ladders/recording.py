"""The writes of a ladder: pool arithmetic and entries. It contains no rule.

A hold knows what it holds by leg; what the pools above count is the sum of the legs below them. Confirm, release and return move all
levels at once, because they lock all of them, with the tallies of the hold's account. Expiry returns units pool by pool (`expiry.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ..command_kinds import Command
from ..entries import Action, Change, Effect, Entry
from ..fold import fold
from ..model import HeldLeg, Pool, Record, Slot, State, StoredHold
from ..outstanding import Level, Tally, tallied
from ..trees import ancestors, parent_of
from ..view import View


def moved(
    pool: Pool,
    now: Slot,
    *,
    held: int = 0,
    consumed: int = 0,
    total: int = 0,
    loose: int = 0,
    fence: int | None = None,
    waiting: int = 0,
    children: int = 0,
) -> Effect:
    """Return the effect of changing a pool's counters: the pool afterwards, and the deltas."""
    after = Pool(pool.tenant, pool.id, pool.total + total, pool.held + held, pool.consumed + consumed,
                 pool.fence if fence is None else fence, now, pool.version + 1, pool.on_demand, pool.label, pool.closes,
                 pool.holder, pool.entity, pool.archived, pool.loose + loose, pool.floor,
                 pool.waiting + waiting, pool.last_number, pool.children + children, pool.per_account, pool.line)  # fmt: skip
    return Effect(after, total, held, consumed, loose, waiting, children)


def counted(view: View, effect: Effect, account: str | None, used: int, *, loose: int = 0) -> Effect:
    """Return the effect, which also changes the account's tally on this pool."""
    pool = effect.pool
    if tallied(pool.id, account) is None or not (used or loose):
        return effect
    assert account is not None
    before = view.tallies.get((pool.tenant, pool.id, account)) or Tally(account, 0)
    tally = Tally(account, before.used + used, before.loose + loose)
    return structs.replace(effect, used=used, loose=loose, tally=tally)


def linked(effect: Effect, entity: str | None, holder: str | None = None) -> Effect:
    """Record the entity of the last confirm and the last hold on a labelled pool; leave other pools as they are."""
    pool = effect.pool
    if pool.label is None:
        return effect
    after = structs.replace(pool, entity=entity, holder=pool.holder if holder is None else holder)
    return structs.replace(effect, pool=after)


def with_child(view: View, effect: Effect, now: Slot, more: int) -> tuple[Effect, ...]:
    """Return the effect of creating or removing a pool, and that on its parent, which counts its children."""
    pool = effect.pool
    parent = parent_of(pool.id)
    if parent is None:
        return (effect,)
    above = view.pools.get((pool.tenant, parent))
    assert above is not None, "a pool is created below an existing one, and that is not removed before it"
    return effect, moved(above, now, children=more)


def pools_of(view: View, hold: StoredHold) -> list[Pool]:
    """Return the pools of a hold's legs, in leg order. A pool that was swept away is replaced by an empty one of version 0, even if another
    pool has its id by now."""
    return [pool_of(view, hold, leg.pool) for leg in hold.legs]


def pool_of(view: View, hold: StoredHold, name: str) -> Pool:
    """Return the pool of a leg, or one above it."""
    pool = view.pools.get((hold.tenant, name))
    there = pool is not None and pool.floor < hold.fence
    return pool if pool is not None and there else Pool(hold.tenant, name, 0, version=0)


def effects_of(
    view: View,
    hold: StoredHold,
    pools: Sequence[Pool],
    now: Slot,
    held: Sequence[int],
    consumed: Sequence[int],
    entity: str | None = None,
) -> tuple[Effect, ...]:
    """Return the effects of changing the held and consumed units of each leg, on every level. A pool that was swept away has none."""
    if hold.above or hold.account is not None:
        return _on_all_levels(view, hold, now, held, consumed, entity)
    effects = []
    for pool, more_held, more_consumed in zip(pools, held, consumed, strict=True):
        if (more_held or more_consumed) and pool.version:
            effect = moved(pool, now, held=more_held, consumed=more_consumed)
            effects.append(linked(effect, entity) if more_consumed else effect)
    return tuple(effects)


def _on_all_levels(
    view: View, hold: StoredHold, now: Slot, held: Sequence[int], consumed: Sequence[int], entity: str | None
) -> tuple[Effect, ...]:
    moves = {leg.pool: (more, spent) for leg, more, spent in zip(hold.legs, held, consumed, strict=True)}
    held_above, consumed_above = sums_above(hold, held), sums_above(hold, consumed)
    for name, more in held_above.items():
        own = moves.get(name, (0, 0))
        moves[name] = own[0] + more, own[1] + consumed_above[name]
    effects = []
    for name, (more, spent) in moves.items():
        pool = pool_of(view, hold, name)
        if (more or spent) and pool.version:
            effect = moved(pool, now, held=more, consumed=spent)
            effect = linked(effect, entity) if spent else effect
            effects.append(counted(view, effect, hold.account, more + spent))
    return tuple(effects)


def sums_above(hold: StoredHold, by_leg: Sequence[int]) -> dict[str, int]:
    """Sum a number of each leg for each pool above: over the legs below that pool."""
    sums = {level.pool: 0 for level in hold.above}
    for leg, amount in zip(hold.legs, by_leg, strict=True):
        if amount:
            for name in ancestors(leg.pool):
                sums[name] += amount
    return sums


def levels_after(hold: StoredHold, held: Sequence[int]) -> tuple[Level, ...]:
    """Return the units outstanding above the legs after each leg's held units have changed."""
    if not hold.above:
        return ()
    sums = sums_above(hold, held)
    return tuple(Level(level.pool, level.held + sums[level.pool]) for level in hold.above)


def became(
    hold: StoredHold,
    legs: tuple[HeldLeg, ...],
    *,
    state: State | None = None,
    ended_at: Slot | None = None,
    deadline: Slot | None = None,
    endless: bool = False,
    command: Command | None = None,
    entity: str | None = None,
    last_op: str | None = None,
    returned_at: Slot | None = None,
    above: tuple[Level, ...] | None = None,
) -> Change:
    """Return the changed fields of a hold; others stay. `endless` removes the deadline."""
    reason = None if command is None else command.reason
    return Change(
        hold.state if state is None else state,
        hold.state,
        hold.version + 1,
        legs,
        hold.deadline if deadline is None and not endless else deadline,
        hold.deadline,
        hold.entity if entity is None else entity,
        hold.ended_at if ended_at is None else ended_at,
        hold.reason if reason is None else reason,
        hold.last_op if last_op is None else last_op,
        hold.returned_at if returned_at is None else returned_at,
        hold.above if above is None else above,
    )


def record(
    view: View,
    action: Action,
    subject: str,
    now: Slot,
    command: Command,
    *,
    effects: tuple[Effect, ...] = (),
    hold: StoredHold | None = None,
    change: Change | None = None,
    stored: Record | None = None,
    removed: bool = False,
    forced: bool = False,
) -> None:
    """Append one entry and fold it into the view."""
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    entry = Entry(now, action, subject, command.tenant, effects, hold, change, stored, removed, command.actor, correlation_id, command.reason, command.op, forced, False, command.client_id, None, command.trace)  # fmt: skip
    view.entries.append(entry)
    fold(view, entry)
