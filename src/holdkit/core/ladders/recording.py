"""How a ladder writes: pool arithmetic and entries. It contains no rule."""

from __future__ import annotations

from msgspec import structs

from ..commands import Command
from ..entries import Action, Change, Effect, Entry
from ..fold import fold
from ..model import HeldLeg, Pool, Record, Slot, State, StoredHold
from ..outstanding import Level, Tally, tallied
from ..trees import parent_of
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
    """The pool with its counters changed, and the deltas."""
    after = Pool(pool.tenant, pool.id, pool.total + total, pool.held + held, pool.consumed + consumed,
                 pool.fence if fence is None else fence, now, pool.version + 1, pool.on_demand, pool.label, pool.closes,
                 pool.holder, pool.entity, pool.archived, pool.loose + loose, pool.floor,
                 pool.waiting + waiting, pool.last_number, pool.children + children, pool.per_account, pool.line)  # fmt: skip
    return Effect(after, total, held, consumed, loose, waiting, children)


def counted(view: View, effect: Effect, account: str | None, used: int, *, loose: int = 0) -> Effect:
    """The same effect with the account's tally on this pool changed too."""
    pool = effect.pool
    if tallied(pool.id, account) is None or not (used or loose):
        return effect
    assert account is not None
    before = view.tallies.get((pool.tenant, pool.id, account)) or Tally(account, 0)
    tally = Tally(account, before.used + used, before.loose + loose)
    return structs.replace(effect, used=used, loose=loose, tally=tally)


def linked(effect: Effect, entity: str | None, holder: str | None = None) -> Effect:
    """A labelled pool also records the entity of its last confirm and its last hold; other pools do not."""
    pool = effect.pool
    if pool.label is None:
        return effect
    after = structs.replace(pool, entity=entity, holder=pool.holder if holder is None else holder)
    return structs.replace(effect, pool=after)


def with_child(view: View, effect: Effect, now: Slot, more: int) -> tuple[Effect, ...]:
    """The effect of creating or removing a pool, and that on its parent, which counts its children."""
    pool = effect.pool
    parent = parent_of(pool.id)
    if parent is None:
        return (effect,)
    above = view.pools.get((pool.tenant, parent))
    assert above is not None, "a pool is created below an existing one, and that is not removed before it"
    return effect, moved(above, max(now, above.slot), children=more)


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
    """The changed fields of a hold; others stay. `endless` removes the deadline."""
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
    entry = Entry(now, action, subject, command.tenant, effects, hold, change, stored, removed, command.actor, correlation_id, command.reason, command.op, forced, False, command.client_id)  # fmt: skip
    view.entries.append(entry)
    fold(view, entry)
