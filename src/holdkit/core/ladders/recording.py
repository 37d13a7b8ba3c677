"""How a ladder writes: pool arithmetic and entries. No rule lives here."""

from __future__ import annotations

from ..commands import Command
from ..entries import Action, Change, Effect, Entry
from ..fold import fold
from ..model import HeldLeg, Pool, Record, Slot, State, StoredHold
from ..view import View


def moved(
    pool: Pool, now: Slot, *, held: int = 0, consumed: int = 0, total: int = 0, fence: int | None = None
) -> Effect:
    """The pool with its counters moved, and by how much."""
    after = Pool(
        tenant=pool.tenant,
        id=pool.id,
        total=pool.total + total,
        held=pool.held + held,
        consumed=pool.consumed + consumed,
        fence=pool.fence if fence is None else fence,
        slot=now,
        version=pool.version + 1,
        on_demand=pool.on_demand,
    )
    return Effect(pool=after, total=total, held=held, consumed=consumed)


def became(
    hold: StoredHold,
    legs: tuple[HeldLeg, ...],
    *,
    state: State = State.HELD,
    ended_at: Slot | None = None,
    deadline: Slot | None = None,
    command: Command | None = None,
    entity: str | None = None,
    last_op: str | None = None,
) -> Change:
    """What a hold becomes; what is not named stays."""
    reason = command.reason if command is not None else None
    return Change(
        state=state,
        was=hold.state,
        version=hold.version + 1,
        legs=legs,
        deadline=hold.deadline if deadline is None else deadline,
        was_deadline=hold.deadline,
        entity=hold.entity if entity is None else entity,
        ended_at=hold.ended_at if ended_at is None else ended_at,
        reason=hold.reason if reason is None else reason,
        last_op=hold.last_op if last_op is None else last_op,
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
    entry = Entry(
        seq=view.loaded.next_seq + len(view.entries),
        slot=now,
        action=action,
        subject=subject,
        tenant=command.tenant,
        effects=effects,
        hold=hold,
        change=change,
        record=stored,
        removed=removed,
        actor=command.actor,
        correlation_id=command.correlation_id,
        reason=command.reason,
        op=command.op,
        forced=forced,
    )
    view.entries.append(entry)
    fold(view, entry)
