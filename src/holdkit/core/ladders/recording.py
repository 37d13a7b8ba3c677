"""How a ladder writes: pool arithmetic and entries. It contains no rule."""

from __future__ import annotations

from msgspec import structs

from ..commands import Command
from ..entries import Action, Change, Effect, Entry
from ..fold import fold
from ..model import HeldLeg, Pool, Record, Slot, State, StoredHold
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
) -> Effect:
    """The pool with its counters changed, and the deltas."""
    after = Pool(pool.tenant, pool.id, pool.total + total, pool.held + held, pool.consumed + consumed,
                 pool.fence if fence is None else fence, now, pool.version + 1, pool.on_demand, pool.label, pool.closes,
                 pool.holder, pool.entity, pool.archived, pool.loose + loose, pool.floor)  # fmt: skip
    return Effect(after, total, held, consumed, loose)


def linked(effect: Effect, entity: str | None, holder: str | None = None) -> Effect:
    """A labelled pool also records the entity of its last confirm and its last hold; other pools do not."""
    pool = effect.pool
    if pool.label is None:
        return effect
    after = structs.replace(pool, entity=entity, holder=pool.holder if holder is None else holder)
    return Effect(after, effect.total, effect.held, effect.consumed, effect.loose)


def became(
    hold: StoredHold,
    legs: tuple[HeldLeg, ...],
    *,
    state: State = State.HELD,
    ended_at: Slot | None = None,
    deadline: Slot | None = None,
    endless: bool = False,
    command: Command | None = None,
    entity: str | None = None,
    last_op: str | None = None,
    returned_at: Slot | None = None,
) -> Change:
    """The changed fields of a hold; others stay. `endless` removes the deadline."""
    reason = command.reason if command is not None else None
    return Change(
        state=state,
        was=hold.state,
        version=hold.version + 1,
        legs=legs,
        deadline=hold.deadline if deadline is None and not endless else deadline,
        was_deadline=hold.deadline,
        entity=hold.entity if entity is None else entity,
        ended_at=hold.ended_at if ended_at is None else ended_at,
        reason=hold.reason if reason is None else reason,
        last_op=hold.last_op if last_op is None else last_op,
        returned_at=hold.returned_at if returned_at is None else returned_at,
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
