"""Refusals in the journal: where auditing is on, a refused command gets an entry `command.refused`, which changes nothing.

The entry says who asked for what, and why it was refused. It is written in the transaction that decided the command: in a caller's own
transaction it comes and goes with that. A recorded answer that is given again is no new refusal. Of an atomic group, the command that
was refused has an entry, and those that were not applied because of it have none. What the kernel itself asks for has none either: its
records, by which processes agree on who does what, are refused as a matter of course.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .commands import Amounts, AnyCommand, CreatePool, ResizePool, ReturnToPool
from .entries import Action, AskedLeg, Entry, RefusedCommand
from .face_legs import FaceLeg
from .ladders.finding import in_use
from .limits import SUBJECT
from .model import Leg, Slot
from .outcomes import Outcome, Reason, Refusal
from .touching import touched
from .view import View


def journal_refusals(view: View, commands: Sequence[AnyCommand], outcomes: Sequence[Outcome]) -> None:
    """Append an entry for each of these commands that was refused just now."""
    for command, outcome in zip(commands, outcomes, strict=False):
        if not isinstance(outcome, Refusal) or outcome.replayed or outcome.reason is Reason.ABORTED:
            continue
        if command.audited:
            view.entries.append(_entry(view, command, outcome))


def _entry(view: View, command: AnyCommand, refusal: Refusal) -> Entry:
    subject = _subject(view, command)
    legs = _legs(view, command, refusal)
    refused = RefusedCommand(
        command.verb, refusal.reason, None if refusal.subject in ("", subject) else refusal.subject, legs, refusal.found,
        getattr(command, "entity", None), getattr(command, "account", None), command.op,
    )  # fmt: skip
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    return Entry(
        _slot(view, command), Action.COMMAND_REFUSED, subject, command.tenant, actor=command.actor, correlation_id=correlation_id,
        reason=command.reason, forced=getattr(command, "force", False), client_id=command.client_id, refused=refused,
        trace=command.trace,
    )  # fmt: skip


def _subject(view: View, command: AnyCommand) -> str:
    if command.names == "legs":
        return _asked(view, command.tenant, command.legs[0]).pool
    return (
        command.id if command.names == "hold" or command.names == "pool" else SUBJECT
    )  # of all others, changes of limits are audited


def _legs(view: View, command: AnyCommand, refusal: Refusal) -> tuple[AskedLeg, ...]:
    """Return the requested amounts, by pool; and the shortfalls of the pools above these, or of the hold's pools."""
    if command.names == "legs":
        legs = [_asked(view, command.tenant, leg) for leg in command.legs]
        asked = {leg.pool: leg for leg in legs}
    else:
        asked = {pool: AskedLeg(pool, units) for pool, units in _amounts(view, command).items()}
    for short in refusal.shortfalls:
        asked[short.pool] = AskedLeg(short.pool, short.requested, short.label, short.available, short.total)
    return tuple(asked.values())


def _asked(view: View, tenant: str, leg: Leg) -> AskedLeg:
    """Return the request of a leg. The key of an erased claim is not written down anew."""
    pool = in_use(view, tenant, leg.pool)
    if pool is None or pool.id == leg.pool:
        return AskedLeg(leg.pool, leg.quantity, leg.label if isinstance(leg, FaceLeg) else None)
    return AskedLeg(pool.id, leg.quantity, pool.label)


def _amounts(view: View, command: AnyCommand) -> Mapping[str, int]:
    """Return the amounts that a command about a hold or a pool names: units of some pools, or the new total of a pool."""
    if isinstance(command, CreatePool | ResizePool):
        return {command.id: command.total}
    if isinstance(command, ReturnToPool):
        return {command.id: command.quantity}
    quantity: Amounts = getattr(command, "quantity", None)
    if isinstance(quantity, int):  # of the hold's one leg
        hold = view.holds.get((command.tenant, _subject(view, command)))
        return {} if hold is None else {hold.legs[0].pool: quantity}
    return quantity or {}


def _slot(view: View, command: AnyCommand) -> Slot:
    """Return the slot of the decision: never before the last change of its pools."""
    pools = [view.pools.get((command.tenant, name)) for name in touched(view, command)]
    return max([view.loaded.slot, *(pool.slot for pool in pools if pool is not None)])
