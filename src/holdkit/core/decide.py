"""Decide: a pure function from a view and groups of commands to outcomes.

For each command: rung 0 (operation ids), then the due legs of the pools that it touches, then its ladder. Deterministic: the
same view and the same commands give the same outcomes and the same entries, on every engine, live and simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from . import commands
from .commands import AnyCommand, Group, Sweep
from .ladders.accounts import limit_pool, reassign_hold
from .ladders.ending import confirm_hold, extend_hold, release_hold, return_units
from .ladders.expiry import expire_hold, return_due_legs, sweep
from .ladders.lines import feed, feed_line, join_line, leave_line
from .ladders.placing import consume, place_hold
from .ladders.plain import PLAIN
from .ladders.pools import (
    archive_pool,
    create_pool,
    remove_idle_pools,
    remove_pool,
    resize_pool,
    unarchive_pool,
)
from .ladders.records import change_limits, put_record
from .ladders.retiring import retire_holds, return_to_pool
from .model import Key, Slot, State
from .outcomes import Done, Outcome, Position, Reason, Refusal
from .refusals import journal_refusals
from .remembering import UNSETTLED, operations_full, recall, remember
from .touching import bound_touched, touched
from .validation import unfit_for
from .view import View


class SweepList(Struct, frozen=True):
    """The work of a sweep: holds with due legs in order of (deadline, id), on-demand pools that may be removed, and ended
    holds that may be dropped, both in order of (since when, id)."""

    holds: list[Key]
    pools: list[Key]
    more: bool = False
    pressed: bool = False
    """A bounded table is full: pools and ended holds that are kept only to be read may be removed too."""
    retiring: list[Key] = []
    """Ended holds whose units are consumed, with all of their pools."""
    lines: list[Key] = []
    """Pools with a line and with units available."""


NOTHING_DUE = SweepList([], [])


LADDERS: Final[dict[type[Any], Callable[[View, Any, Slot], Outcome]]] = {
    commands.PlaceHold: place_hold,
    commands.ConfirmHold: confirm_hold,
    commands.ReleaseHold: release_hold,
    commands.ExtendHold: extend_hold,
    commands.ReturnUnits: return_units,
    commands.ReassignHold: reassign_hold,
    commands.Consume: consume,
    commands.JoinLine: join_line,
    commands.LeaveLine: leave_line,
    commands.ExpireHold: expire_hold,
    commands.CreatePool: create_pool,
    commands.ResizePool: resize_pool,
    commands.LimitPool: limit_pool,
    commands.FeedLine: feed_line,
    commands.RemovePool: remove_pool,
    commands.ArchivePool: archive_pool,
    commands.UnarchivePool: unarchive_pool,
    commands.ReturnToPool: return_to_pool,
    commands.PutRecord: put_record,
    commands.ChangeLimits: change_limits,
}
"""The ladder of each command."""


def decide_groups(view: View, groups: Iterable[Group], due: SweepList = NOTHING_DUE) -> list[list[Outcome]]:
    """Decide every group in order, each on the state that the ones before it left."""
    return [decide_group(view, group, due) for group in groups]


def positions_of(view: View, outcomes: Iterable[Sequence[Outcome]]) -> list[list[Position | None]]:
    """Return where in a journal with one lane each outcome of `decide_groups` has its entry; None: it has none."""
    positions = iter([Position(0, number) if number else None for number in view.numbers])
    return [[next(positions) for _ in group] for group in outcomes]


def decide_group(view: View, group: Group, due: SweepList = NOTHING_DUE) -> list[Outcome]:
    """Decide each command on its own; or, if atomic, all of them or none. Rung 0 of a guarded group is its guard.

    No outcomes: nothing of the group was done, because the transaction has no room for the legs that it touches, or for the offers
    that are due on its pools."""
    if len(group.commands) > 1 or view.touched >= view.limits.max_touched_legs or view.put_off:
        refused = bound_touched(view, group)
        if refused is not None:
            return refused
    if view.has_lines and not feed_first(view, group):
        view.put_off.add(group.commands[0].tenant)
        return []
    view.recheck = group.checked is not None and group.checked != view.limits.version
    if group.guard is not None:
        known = recall(view, group.guard)
        if isinstance(known, Refusal):
            view.numbers += [0] * len(group.commands)
            refusals: list[Outcome] = [known] * len(group.commands)
            if view.limits.audit_refusals:
                journal_refusals(view, group.commands[:1], refusals)
            return refusals
        if known is None:  # first, so that no command of the group can take the guard's operation id
            remember(view, group.guard, Done(slot=view.loaded.slot))
    if group.atomic:
        outcomes = _all_or_none(view, group, due)
    elif len(group.commands) == 1:  # most groups; and a comprehension has a frame of its own
        outcomes = [answer(view, group.commands[0], due)]
    else:
        outcomes = [answer(view, command, due) for command in group.commands]
    if view.limits.audit_refusals:
        journal_refusals(view, group.commands, outcomes)
    return outcomes


def _all_or_none(view: View, group: Group, due: SweepList) -> list[Outcome]:
    """Decide the commands of an atomic group."""
    view.begin_atomic()
    outcomes: list[Outcome] = []
    for command in group.commands:
        outcomes.append(answer(view, command, due))
        if not isinstance(outcomes[-1], Done):
            view.roll_back()
            return abort(view, group, len(outcomes) - 1, outcomes[-1])
    view.keep()
    if view.has_lines:
        for command in group.commands:
            feed(view, command.tenant, touched(view, command), view.loaded.slot)
        outcomes = [_as_offered(view, *answered) for answered in zip(group.commands, outcomes, strict=True)]
    return outcomes


def _as_offered(view: View, command: AnyCommand, outcome: Outcome) -> Outcome:
    """Return the outcome of a command of an atomic group after the lines have been fed, and record it in this state."""
    now = current(view, outcome)
    if command.op is not None and now is not outcome and isinstance(now, Done) and not now.replayed:
        key = (command.tenant, command.op)
        recorded = view.operations.get(key)
        if recorded is not None and recorded.outcome is outcome:
            view.operations.put(key, structs.replace(recorded, outcome=now))
    return now


def feed_first(view: View, group: Group) -> bool:
    """Feed the lines of all pools that a group touches, before any of its commands is decided; return whether that could be completed."""
    for command in group.commands:
        names = touched(view, command)
        lines = [
            name for name in names if (pool := view.pools.get((command.tenant, name))) is not None and pool.waiting
        ]
        if lines:
            now = catch_up(view, command.tenant, lines, view.loaded.slot)
            feed(view, command.tenant, lines, now)
            if any((command.tenant, name) in view.unfed for name in lines):
                return False
    return True


def current(view: View, outcome: Outcome) -> Outcome:
    """Return the outcome; if the hold has been offered units since, with the hold as it is now."""
    if isinstance(outcome, Done) and outcome.hold is not None and outcome.hold.state is State.WAITING:
        hold = view.holds.get(outcome.hold.key)
        return outcome if hold is outcome.hold else structs.replace(outcome, hold=hold)
    return outcome


def abort(view: View, group: Group, culprit: int, outcome: Outcome) -> list[Outcome]:
    """Apply no command, because one was refused; record each answer under its operation id.

    Nothing is recorded if that refusal settles nothing: then the same group may succeed in its next attempt.
    """
    settled = isinstance(outcome, Refusal) and outcome.reason not in UNSETTLED
    aborted = Refusal(Reason.ABORTED, outcome.reason if isinstance(outcome, Refusal) else "invalid_request")
    answers: list[Outcome] = []
    for index, command in enumerate(group.commands):
        known = recall(view, command)
        if index == culprit:
            known, view.written = outcome, 0
        if settled:
            remember(view, command, known or aborted)
        answers.append(known or aborted)
        view.numbers.append(view.written)
    return answers


def answer(view: View, command: AnyCommand, due: SweepList = NOTHING_DUE) -> Outcome:
    """Pass rung 0, then execute the command; record a refusal like a grant."""
    outcome = decide(view, command, due) if command.op is None else _answer_once(view, command, command.op, due)
    view.numbers.append(view.written)
    return outcome


def _answer_once(view: View, command: AnyCommand, op: str, due: SweepList) -> Outcome:
    """Return the recorded answer of the operation id; the first time, decide the answer and record it."""
    outcome = recall(view, command)
    if outcome is None:
        is_full = operations_full(view)
        if is_full and not command.kept_by_hold:
            return Refusal(Reason.OPERATION_TABLE_FULL, op)  # the hold itself records these two
        outcome = decide(view, command, due)
        remember(view, command, outcome, has_room=not is_full)
    return outcome


def decide(view: View, command: AnyCommand, due: SweepList = NOTHING_DUE) -> Outcome:
    """Decide one command at its slot: max(the engine's clock, the last slot of its pools)."""
    plain = PLAIN.get(type(command))
    if plain is not None and not (view.has_lines or view.recheck or view.atomic):
        granted = plain(view, command)
        if granted is not None:
            view.touched += 1
            view.written = view.loaded.next_seq + len(view.entries) - 1
            return granted
    now = view.loaded.slot
    view.written = 0
    if isinstance(command, Sweep):
        return sweep_up(view, command, due, now)
    if view.recheck and (unfit := unfit_for(command, view.limits)) is not None:
        return unfit
    names = touched(view, command)
    view.touched += len(names)
    now = catch_up(view, command.tenant, names, now)
    before = len(view.entries)  # after those of the catch-up, which are not the command's own
    outcome = LADDERS[type(command)](view, command, now)
    if len(view.entries) > before:
        view.written = view.next_seq - 1
    if view.has_lines and not view.atomic:
        feed(view, command.tenant, names, now)
        outcome = current(view, outcome)
    return outcome


def sweep_up(view: View, command: Sweep, due: SweepList, now: Slot) -> Outcome:
    """Expire the listed holds, up to this sweep's own limit, and remove the pools, for all tenants. The answer lists other
    tenants' holds only for the default tenant."""
    before = len(view.entries)
    expired, more = sweep(view, due.holds, command.limit, now)
    remove_idle_pools(view, due.pools, now, pressed=due.pressed)
    more |= retire_holds(view, due.retiring, command.limit, now, pressed=due.pressed)
    if view.has_lines:
        swept = [hold for key in due.holds if (hold := view.holds.get(key)) is not None]
        for tenant, name in sorted({*due.lines, *((hold.tenant, name) for hold in swept for name in hold.pools)}):
            feed(view, tenant, (name,), now)
        more |= bool(view.unfed)
    if len(view.entries) > before:
        view.written = view.next_seq - 1
    told = tuple(key for key in expired if command.tenant in ("", key[0]))
    return Done(slot=now, swept=told, more=more or due.more)


def catch_up(view: View, tenant: str, names: list[str], now: Slot) -> Slot:
    """Bring the touched pools up to date: advance their slot, never backwards, and return their due legs."""
    for name in names:
        pool = view.pools.get((tenant, name))
        if pool is not None and pool.slot > now:
            now = pool.slot
    return_due_legs(view, tenant, names, now)
    return now
