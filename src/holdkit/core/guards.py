"""Guards: commands whose outcome is the same in every state that a guard admits.

Theory of operation. The core decides on loaded state. For the commonest commands it can decide beforehand: in every state that passes a
*guard*, the outcome differs only in a few numbers, the slot, the fence, the counters after it. A store that can evaluate the guard itself,
next to the data, then needs neither to load the state nor to wait for the core; it fills in the numbers. So the core decides here for all
states that the guard admits. Whatever does not pass is not refused: it is decided by `decide`, on loaded state, as ever.

*Which commands* (`guardable`): PlaceHold of one leg on an existing pool, for no account, by ttl or without a deadline; ConfirmHold
and ReleaseHold of all that is held, by the owner; each in a group of its own, checked under the limits in force.

*The guard on a pool*: it exists; it has no label, window, limit per account, children or waiters; it is neither on
demand, nor archived, nor over; its line is strict; the limits are those that the commands were checked under; no leg is due on it, or each
due leg is returned first, as `catch_up` would.

*The guard on a place*: with it and everything before it in the batch the pool is not over its total. From the first that does not fit, no
later one on the same pool passes, so that none overtakes it.

*The guard on an end*: the hold is held, by this owner, whole, of one leg, on no pool above it, for no account, never in a line; its deadline
has not come; its pool is the one that granted it (`floor < fence`); it has no reason and no last operation yet; and nothing before it in the
batch ends it.

`granted` and `ended` are the outcomes, the same as those of `ladders.placing` and `ladders.ending`; a property test
compares them, entries and rows included, for random states and batches.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from .bounds import Limits
from .commands import ConfirmHold, Group, PlaceHold, ReleaseHold
from .model import HELD, HeldLeg, Leg, Slot, State, StoredHold
from .outcomes import Done
from .trees import SEPARATOR

Ending: TypeAlias = ConfirmHold | ReleaseHold


def guardable(group: Group, limits: Limits) -> PlaceHold | Ending | None:
    """Return the one command of this group, if a guard may decide it under these limits."""
    if (
        len(group.commands) != 1
        or group.atomic
        or group.guard is not None
        or group.checked not in (None, limits.version)
    ):
        return None
    command = group.commands[0]
    if type(command) is PlaceHold:
        return command if _is_plain_place(command, limits) else None
    if type(command) is ConfirmHold or type(command) is ReleaseHold:
        special = command.quantity is not None or command.force or command.trusted or command.token is None
        return None if special else command
    return None


def _is_plain_place(command: PlaceHold, limits: Limits) -> bool:
    ttl = command.ttl_slots
    if command.deadline is not None or (ttl is not None and not 0 < ttl <= limits.max_lifetime):
        return False
    if len(command.legs) != 1 or command.account is not None or command.force or command.wait_slots is not None:
        return False
    leg = command.legs[0]
    return type(leg) is Leg and leg.create_with_total is None and leg.pool[0] != "~" and SEPARATOR not in leg.pool


def granted(command: PlaceHold, owner_hash: str, metadata: str | None, slot: Slot, fence: int) -> Done:
    """Return the outcome of placing a hold at this slot, under this fence; the metadata as canonical JSON."""
    assert command.id is not None, "the kernel mints ids"
    leg = command.legs[0]
    deadline = None if command.ttl_slots is None else slot + command.ttl_slots
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    hold = StoredHold(command.tenant, command.id, (HeldLeg(leg.pool, leg.quantity, leg.quantity),), owner_hash, slot, fence,
                      deadline, HELD, command.entity, None, None, command.actor, correlation_id, metadata)  # fmt: skip
    return Done(slot, hold, token=command.token)


def ended(command: Ending, hold: StoredHold, slot: Slot) -> Done:
    """Return the outcome of ending this hold at this slot."""
    leg = hold.legs[0]
    confirmed = type(command) is ConfirmHold
    entity = command.entity if isinstance(command, ConfirmHold) else None
    after = structs.replace(
        hold,
        legs=(HeldLeg(leg.pool, leg.quantity, 0, leg.held if confirmed else 0),),
        state=State.CONFIRMED if confirmed else State.RELEASED,
        entity=hold.entity if entity is None else entity,
        ended_at=slot,
        reason=command.reason,
        last_op=None if command.op is None else command.fingerprint + command.op,
        version=hold.version + 1,
    )
    return Done(slot, after)
