"""What users hold in their hands: frozen holds, reports, journal entries; and refusals as exceptions.

The owner token and the ticket never appear in a repr, in JSON or in a dict made here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from .. import errors
from ..core.audit import Difference
from ..core.codec import digest, ticket
from ..core.commands import AnyCommand, Sweep
from ..core.entries import Action, Effect, Entry
from ..core.model import HeldLeg, Pool, Record, Slot, State, StoredHold
from ..core.outcomes import Done, Invalid, Outcome, Refusal
from ..core.reading import JournalRow
from .cursor import encode_cursor
from .spelling import datetime_of


class Position(Struct, frozen=True, order=True, gc=False):
    """Where in the journal: a lane, and a number in it. Embedded engines have the one lane 0."""

    lane: int
    seq: int


class Hold:
    """A hold as it was when this answer was given. Immutable; ask again with `get` for the present."""

    __slots__ = ("owner", "replayed", "row", "seq", "uncovered")

    owner: str | None
    """The owner token, where this call gave or knew it: keep it secret, pass it on as `ticket`."""

    def __init__(
        self,
        row: StoredHold,
        owner: str | None = None,
        *,
        seq: int = 0,
        uncovered: dict[str, int] | None = None,
        replayed: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "row", row)
        put(self, "owner", owner)
        put(self, "seq", seq)
        put(self, "uncovered", uncovered or {})
        put(self, "replayed", replayed)

    row: StoredHold
    seq: int
    uncovered: dict[str, int]
    """Overage that no pool could cover, by pool."""
    replayed: bool
    """This answer was recorded earlier under the same operation id."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Hold is frozen: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_thaw, (self.row, self.owner, self.seq, self.uncovered, self.replayed))

    @property
    def id(self) -> str:
        """32 hex digits."""
        return self.row.id

    @property
    def tenant(self) -> str:
        """Whose it is; empty for the default tenant."""
        return self.row.tenant

    @property
    def legs(self) -> tuple[HeldLeg, ...]:
        """What it has of each pool."""
        return self.row.legs

    @property
    def state(self) -> State:
        """held, confirmed, released or expired."""
        return self.row.state

    @property
    def deadline(self) -> Slot | None:
        """The slot at which it is no longer alive."""
        return self.row.deadline

    @property
    def deadline_at(self) -> datetime | None:
        """The deadline as an aware datetime."""
        return datetime_of(self.row.deadline)

    @property
    def ticket(self) -> str | None:
        """One text that carries id and token, for another process. Secret, like the token."""
        return None if self.owner is None else ticket(self.row.id, self.owner)

    @property
    def fence(self) -> int:
        """Grows with every grant on a pool: a downstream system can refuse a stale holder by it."""
        return self.row.fence

    @property
    def entity(self) -> str | None:
        """What it was confirmed for."""
        return self.row.entity

    @property
    def held_at(self) -> Slot:
        """When it was granted."""
        return self.row.held_at

    @property
    def ended_at(self) -> Slot | None:
        """When it ended; the deadline, if it expired."""
        return self.row.ended_at

    @property
    def reason(self) -> str | None:
        """Why it was last changed, if that was said."""
        return self.row.reason

    @property
    def actor(self) -> str | None:
        """Who placed it."""
        return self.row.actor

    @property
    def correlation_id(self) -> str | None:
        """The caller's own thread through logs."""
        return self.row.correlation_id

    @property
    def metadata(self) -> dict[str, Any]:
        """The caller's JSON object."""
        return {} if self.row.metadata is None else msgspec.json.decode(self.row.metadata, type=dict[str, Any])

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.row.version

    @property
    def position(self) -> Position | None:
        """Where the journal has this change; None if nothing was written."""
        return Position(0, self.seq) if self.seq else None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the secrets, ready for JSON."""
        row = self.row
        return {
            "id": row.id,
            "tenant": row.tenant,
            "state": str(row.state),
            "legs": [msgspec.structs.asdict(leg) for leg in row.legs],
            "deadline": row.deadline,
            "fence": row.fence,
            "entity": row.entity,
            "held_at": row.held_at,
            "ended_at": row.ended_at,
            "reason": row.reason,
            "actor": row.actor,
            "correlation_id": row.correlation_id,
            "metadata": self.metadata,
            "version": row.version,
        }

    def __repr__(self) -> str:
        legs = ", ".join(f"{leg.pool}: {leg.quantity}" for leg in self.row.legs[:3])
        more = ", …" if len(self.row.legs) > 3 else ""
        return f"<Hold {self.row.id} {self.row.state} {{{legs}{more}}} deadline={self.row.deadline} fence={self.row.fence}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hold) and self.row == other.row

    def __hash__(self) -> int:
        return hash((self.row.tenant, self.row.id, self.row.version))


def _thaw(row: StoredHold, owner: str | None, seq: int, uncovered: dict[str, int], replayed: bool) -> Hold:
    return Hold(row, owner, seq=seq, uncovered=uncovered, replayed=replayed)


class SweepReport(Struct, frozen=True):
    """What one sweep did."""

    expired: int
    scanned_at: Slot
    more: bool


class VerifyReport(Struct, frozen=True):
    """What `verify` found: nothing, if all is well."""

    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether the stored rows are exactly what the journal says."""
        return not self.differences


class JournalEntry:
    """One entry of the journal, with its position and the cursor that resumes after it."""

    __slots__ = ("_text", "entry")

    def __init__(self, row: JournalRow, entry: Entry) -> None:
        self.entry = entry
        self._text = row.text

    @property
    def position(self) -> Position:
        """Lane and number."""
        return Position(0, self.entry.seq)

    @property
    def cursor(self) -> str:
        """Opaque text: `journal(after=…)` and `follow(after=…)` go on behind this entry."""
        return encode_cursor(self.entry.seq, digest(self._text))

    @property
    def action(self) -> Action:
        """What happened, such as `hold.confirmed`."""
        return self.entry.action

    @property
    def slot(self) -> Slot:
        """When it was decided."""
        return self.entry.slot

    @property
    def at(self) -> datetime | None:
        """The slot as an aware datetime."""
        return datetime_of(self.entry.slot)

    @property
    def subject(self) -> str:
        """The id of the hold, pool or record."""
        return self.entry.subject

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.entry.tenant

    @property
    def actor(self) -> str | None:
        """Who did it."""
        return self.entry.actor

    @property
    def correlation_id(self) -> str | None:
        """The caller's own thread through logs."""
        return self.entry.correlation_id

    @property
    def reason(self) -> str | None:
        """Why, if that was said."""
        return self.entry.reason

    @property
    def op(self) -> str | None:
        """The operation id."""
        return self.entry.op

    @property
    def forced(self) -> bool:
        """Done by a control plane, without the owner token."""
        return self.entry.forced

    @property
    def pools(self) -> tuple[Effect, ...]:
        """Each pool after the change, and by how much its counters moved."""
        return self.entry.effects

    @property
    def before(self) -> dict[str, Any]:
        """What changed of the hold, before; empty where it was born."""
        change = self.entry.change
        return {} if change is None else {"state": str(change.was), "deadline": change.was_deadline}

    @property
    def after(self) -> dict[str, Any]:
        """The hold or record after the change, without secrets."""
        said = self.entry.hold or self.entry.change or self.entry.record
        if said is None:
            return {}
        secret = ("owner_hash", "last_op")
        return {name: value for name, value in msgspec.to_builtins(said).items() if name not in secret}

    def __repr__(self) -> str:
        return f"<JournalEntry {self.entry.seq} {self.entry.action} {self.entry.subject}>"


Answer = Hold | Pool | Record | SweepReport | errors.Refused | errors.InvalidRequest | None
"""What `apply` gives per command: the thing itself, a refusal as a value, or None where there is nothing to show."""


def answer_of(command: AnyCommand, outcome: Outcome) -> Answer:
    """An outcome as users see it."""
    if isinstance(outcome, Refusal):
        return refusal_of(outcome)
    if isinstance(outcome, Invalid):
        return errors.InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
    if outcome.hold is not None:
        return hold_of(outcome, getattr(command, "owner", None))
    if isinstance(command, Sweep):
        return SweepReport(outcome.expired, outcome.slot, outcome.more)
    return outcome.pool or outcome.record


def hold_of(done: Done, owner: str | None) -> Hold:
    """The hold of a done outcome; a recorded token wins over the one just minted for the retry."""
    assert done.hold is not None
    token = owner if done.token is None else done.token
    return Hold(done.hold, token, seq=done.seq, uncovered=done.uncovered, replayed=done.replayed)


_CLASSES: Final[dict[str, type[errors.Refused]]] = {cls.reason: cls for cls in errors.Refused.__subclasses__()}


def refusal_of(refusal: Refusal) -> errors.Refused:
    """A refusal as its exception, with its numbers and a message that says what to do."""
    cls = _CLASSES[refusal.reason]
    details: dict[str, Any] = {"subject": refusal.subject}
    if refusal.shortfalls:
        first = refusal.shortfalls[0]
        details |= {"shortfalls": refusal.shortfalls, "requested": first.requested, "available": first.available,
                    "total": first.total}  # fmt: skip
    if refusal.found is not None:
        details["found"] = refusal.found
    return cls(_message(refusal), replayed=refusal.replayed, **details)


def _message(refusal: Refusal) -> str:
    if refusal.shortfalls:
        return "; ".join(
            f"pool {short.pool!r} has {short.available} of {short.total} available, {short.requested} requested"
            for short in refusal.shortfalls[:5]
        ) + (f"; and {len(refusal.shortfalls) - 5} more" if len(refusal.shortfalls) > 5 else "")
    said = _SAID.get(refusal.reason, "")
    return said.format(subject=repr(refusal.subject), found=refusal.found)


_SAID: Final = {
    "operation_conflict": "operation id {subject} was used before with another payload: take a new id",
    "operation_table_full": "no room to remember operation id {subject}: try again later, or raise max_operations",
    "pool_exists": "pool {subject} is there already: use resize_pool to change its total",
    "pool_table_full": "the bound max_pools is reached",
    "pool_not_found": "there is no pool {subject}: create it with create_pool",
    "below_in_use": "pool {subject} has {found} units in use: the total cannot go below that",
    "slot_overflow": "the deadline lies beyond the last slot",
    "deadline_passed": "the deadline must lie after the present slot {found}",
    "lifetime_exceeded": "no hold lives longer than max_lifetime ({found} slots) from the moment it was placed",
    "hold_exists": "hold {subject} is there already: choose another id, or none",
    "hold_table_full": "the bound max_holds is reached by live holds",
    "hold_not_found": "there is no hold {subject}",
    "hold_retired": "hold {subject} ended longer ago than the retention; see history()",
    "not_owner": "the owner token is missing or not that of hold {subject}: pass the Hold, its ticket, or owner=",
    "already_confirmed": "hold {subject} was confirmed before",
    "already_released": "hold {subject} was released before",
    "hold_expired": "hold {subject} passed its deadline {found}; its units are free for others",
    "not_due": "hold {subject} is alive until {found}",
    "not_confirmed": "nothing of hold {subject} was confirmed",
    "quantity_exceeds_hold": "hold {subject} has {found} units left",
    "version_conflict": "record {subject} is at version {found}",
    "aborted": "another command of the same atomic batch was refused ({subject})",
}
