"""Commands: what a caller may ask of the core, as plain data.

A command says what the caller wrote; the kernel normalises intervals and deadlines, and `core.validation` checks every field
before the command is decided. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from msgspec import Struct, field

from .command_kinds import Command, HoldCommand, Placing, PoolCommand, kinds_of
from .model import Line, Slot
from .outcomes import ENDING, FINDING, OVERAGE, TAKING, Reason

if TYPE_CHECKING:  # the core never imports a module that can read a clock
    from datetime import datetime, timedelta

Ttl: TypeAlias = "int | float | str | timedelta"
"""An interval: seconds, a timedelta, or text such as "90s", "5m", "2h"."""

Amounts: TypeAlias = int | Mapping[str, int] | None
"""How much of a hold: a number for its one leg, a mapping by pool, or None for all of it."""

Overage: TypeAlias = Literal["reject", "if_available", "up_to_available"]


class CreatePool(PoolCommand, frozen=True):
    """Create a pool with nothing held."""

    verb = "create_pool"
    reasons = (Reason.POOL_NOT_FOUND, Reason.POOL_EXISTS, Reason.POOL_TABLE_FULL)
    stores = True
    total: int
    exist_ok: bool = False
    """If the pool exists, the answer is that pool, unchanged, instead of a refusal."""
    label: str | None = None
    """The face's own name for the pool."""
    on_demand: bool = False
    """Swept away when empty, like a pool that a leg created. Faces only."""
    per_account: int | None = None
    """The most units that one account may use of it; None: no limit."""
    line: Line = "strict"
    """`strict`: its units are offered in the order of the line. `skip`: holds that fit among the first 100 are served, so
    large requests may wait for ever."""


class ResizePool(PoolCommand, frozen=True):
    """Change a pool's total, but not below what is in use."""

    verb = "resize_pool"
    reasons = (Reason.POOL_NOT_FOUND, Reason.VERSION_CONFLICT, Reason.BELOW_IN_USE)
    total: int
    if_version: int | None = None
    """Change the pool only if it has this version. None: in any version."""


class LimitPool(PoolCommand, frozen=True):
    """Change the most units that one account may use of a pool. What is in use already is not affected."""

    verb = "limit_pool"
    reasons = (Reason.POOL_NOT_FOUND, Reason.VERSION_CONFLICT)
    per_account: int | None
    if_version: int | None = None


class FeedLine(PoolCommand, frozen=True):
    """Offer a pool's free units to the holds in its line, as every command does that touches the pool."""

    verb = "feed_line"
    reasons = (Reason.POOL_NOT_FOUND,)
    audited = False


class RemovePool(PoolCommand, frozen=True):
    """Remove a pool for good, if nothing of it is in use."""

    verb = "remove_pool"
    reasons = (Reason.POOL_NOT_FOUND, Reason.POOL_IN_USE)


class ArchivePool(PoolCommand, frozen=True):
    """Grant nothing more on a pool; what is held or consumed is not affected."""

    verb = "archive_pool"
    reasons = (Reason.POOL_NOT_FOUND,)


class UnarchivePool(PoolCommand, frozen=True):
    """Let a pool grant again."""

    verb = "unarchive_pool"
    reasons = (Reason.POOL_NOT_FOUND,)


class PlaceHold(Placing, frozen=True):
    """Take every leg until a deadline, or nothing at all."""

    verb = "hold"
    reasons = (Reason.SLOT_OVERFLOW, Reason.DEADLINE_PASSED, Reason.LIFETIME_EXCEEDED, *TAKING, Reason.LINE_FULL)
    beside_key = (*Command.beside_key, "wait_slots", "offer_slots")
    ttl: Ttl | None = None
    deadline: Slot | datetime | None = None
    ttl_slots: Slot | None = None
    """`ttl` after normalisation."""
    wait_slots: Slot | None = None
    """If it does not fit, or others wait, join the line for this long instead of being refused. Set by the kernel's `wait=`."""
    offer_slots: Slot | None = None
    """How long the offer stands that it then waits for."""


class Consume(Placing, frozen=True):
    """Hold and confirm in one step."""

    verb = "consume"
    reasons = TAKING


class JoinLine(Placing, frozen=True):
    """Wait in the line of one pool, for `ttl` at most, until units are offered; they are held for `offer_ttl` then."""

    verb = "join"
    reasons = (Reason.SLOT_OVERFLOW, Reason.LIFETIME_EXCEEDED, Reason.POOL_NOT_FOUND, Reason.POOL_ARCHIVED, Reason.ACCOUNT_REQUIRED,
               Reason.HOLD_EXISTS, Reason.LINE_FULL, Reason.HOLD_TABLE_FULL, Reason.ACCOUNT_LIMIT,
               Reason.INSUFFICIENT_CAPACITY)  # fmt: skip
    ttl: Ttl | None = None
    offer_ttl: Ttl | None = None
    ttl_slots: Slot | None = None
    offer_slots: Slot | None = None


class ConfirmHold(HoldCommand, frozen=True):
    """Held units become consumed."""

    verb = "confirm"
    reasons = (*ENDING, Reason.HOLD_WAITING, Reason.QUANTITY_EXCEEDS_HOLD, *OVERAGE)
    frees = True
    kept_by_hold = True
    token: str | None = field(default=None, name="owner")
    entity: str | None = None
    quantity: Amounts = None
    keep_rest: bool = False
    """After a partial confirm the rest stays held instead of being released."""
    overage: Overage = "reject"
    others_as_held: bool = False
    """A leg that is not named is confirmed with what it holds at the decision, instead of not at all. Faces only."""
    late_overage: bool = False
    """Overage is also taken from a closed window, because the work began in it. Faces only."""
    force: bool = False
    """No limit per account refuses its overage either."""
    trusted: bool = False


class ReleaseHold(HoldCommand, frozen=True):
    """Held units become available."""

    verb = "release"
    reasons = (*ENDING, Reason.QUANTITY_EXCEEDS_HOLD)
    frees = True
    kept_by_hold = True
    token: str | None = field(default=None, name="owner")
    quantity: Amounts = None
    force: bool = False
    trusted: bool = False


class LeaveLine(HoldCommand, frozen=True):
    """Stop waiting: the end of a blocking call whose time is over. A hold that has been offered units by then keeps them."""

    verb = "leave"
    reasons = (*FINDING, Reason.POOL_NOT_FOUND)
    frees = True
    token: str | None = field(default=None, name="owner")
    placed_op: str | None = None
    """The operation id under which the hold was placed: from now on its answer is the refusal that the call ends with."""


class ExtendHold(HoldCommand, frozen=True):
    """Set a later deadline: `by` counts from the current deadline, `ttl` from now, `until` is absolute. Never shortens."""

    verb = "extend"
    reasons = (*ENDING, Reason.SLOT_OVERFLOW, Reason.DEADLINE_PASSED, Reason.LIFETIME_EXCEEDED)
    token: str | None = field(default=None, name="owner")
    by: Ttl | None = None
    ttl: Ttl | None = None
    until: Slot | datetime | None = None
    by_slots: Slot | None = None
    ttl_slots: Slot | None = None
    forever: bool = False
    """Remove the deadline. Only for a face that ends the hold in any case."""
    force: bool = False
    trusted: bool = False


class ExpireHold(HoldCommand, frozen=True):
    """Mark a hold as expired once its deadline has come; expiring an expired hold changes nothing. Anybody may ask for it."""

    verb = "expire"
    reasons = (*FINDING[:2], Reason.ALREADY_CONFIRMED, Reason.ALREADY_RELEASED, Reason.NOT_DUE)


class ReturnUnits(HoldCommand, frozen=True):
    """Consumed units become available again: an order cancelled after it was paid."""

    verb = "return"
    reasons = (*FINDING, Reason.NOT_CONFIRMED, Reason.QUANTITY_EXCEEDS_HOLD)
    frees = True
    token: str | None = field(default=None, name="owner")
    quantity: Amounts = None
    force: bool = False
    trusted: bool = False


class ReassignHold(HoldCommand, frozen=True):
    """A hold, with all that it counts for, moves to another account, or to none."""

    verb = "reassign"
    reasons = (*ENDING, Reason.HOLD_WAITING, Reason.ACCOUNT_REQUIRED, Reason.ACCOUNT_LIMIT)
    account: str | None
    token: str | None = field(default=None, name="owner")
    force: bool = False
    """No limit per account refuses it either."""


class ReturnToPool(PoolCommand, frozen=True):
    """Make consumed units whose holds have been dropped available again. A control-plane call: forced, with a reason."""

    verb = "return_to_pool"
    reasons = (Reason.POOL_NOT_FOUND, Reason.QUANTITY_EXCEEDS_CONSUMED)
    quantity: int
    force: bool = False
    """Must be True: the command needs no token."""
    account: str | None = None
    """Whose units; None: those of holds without an account."""


class PutRecord(Command, frozen=True):
    """Write, replace or (with body None) remove a record, if it has the version that the caller saw."""

    names: ClassVar[Literal[""]] = ""
    verb = "put_record"
    reasons = (Reason.VERSION_CONFLICT,)
    audited = False
    kind: str
    id: str
    body: str | None
    if_version: int | None = None
    """0: it must not exist. None: any version."""


class ChangeLimits(Command, frozen=True):
    """Change limits that are stored with the data, for all tenants and all processes."""

    names: ClassVar[Literal[""]] = ""
    verb = "change_limits"
    reasons = (Reason.VERSION_CONFLICT,)
    changes: dict[str, int | None]
    """New values by name, of those in `MEANING`; spans are slots."""
    if_version: int | None = None
    """Change the limits only if they have this version. None: any version."""


class Sweep(Command, frozen=True):
    """Return the due legs of up to `limit` holds of all tenants, earliest deadline first, and prune a little. The answer
    lists the holds of the command's own tenant; for the default tenant, those of all tenants."""

    names: ClassVar[Literal[""]] = ""
    verb = "sweep"
    audited = False
    limit: int = 500


AnyCommand: TypeAlias = PoolCommand | Placing | HoldCommand | PutRecord | ChangeLimits | Sweep

COMMANDS: Final = {kind.verb: kind for kind in kinds_of(Command)}
"""Every kind of command by its verb."""


class Guard(Struct, frozen=True, gc=False):
    """One retry key for all commands of a group. If it was used for another payload, nothing of the group is done."""

    tenant: str
    op: str
    fingerprint: str
    """Of the group as the caller wrote it."""


class Group(Struct, frozen=True, gc=False):
    """Commands of one caller, ready to be decided; with `atomic` all of them are applied or none."""

    commands: tuple[AnyCommand, ...]
    atomic: bool = False
    guard: Guard | None = None
    """With a guard, every command also has its own operation id, under which its answer is recorded."""
    checked: int | None = None
    """The version of the limits under which the commands were checked; None: do not check them again."""
