"""What calls return: frozen holds, and reports.

The token and the ticket never appear in a repr, in JSON or in a dict made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from ..core.audit_rows import Difference
from ..core.codec import ticket
from ..core.fold import reconstruct as fold_history
from ..core.model import HeldLeg, Slot, State, StoredHold
from ..core.outcomes import Position, Receipt, Survives
from ..core.seen import expired_at
from .journal import JournalEntry
from .normalise import datetime_of, moment, text_of
from .pages import JournalPage, Page

__all__ = [
    "Hold",
    "JournalEntry",
    "JournalPage",
    "Page",
    "Position",
    "RepairReport",
    "StorageUsage",
    "SweepReport",
    "VerifyReport",
]


class Hold:
    """A hold as it was when this answer was given. Immutable; ask again with `get` for the present."""

    __slots__ = ("_done", "row", "token")

    row: StoredHold
    token: str | None
    """The token, where this call gave or knew it: keep it secret, pass it on as `ticket`."""
    _done: Receipt | None

    def __init__(self, row: StoredHold, token: str | None = None, done: Receipt | None = None) -> None:
        _put_row(self, row)
        _put_owner(self, token)
        _put_done(self, done)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Hold is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Hold is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Hold, (self.row, self.token, self._done))

    @property
    def id(self) -> str:
        """32 hex digits."""
        return self.row.id

    @property
    def tenant(self) -> str:
        """The tenant it belongs to; empty for the default tenant."""
        return self.row.tenant

    @property
    def legs(self) -> tuple[HeldLeg, ...]:
        """The units that it has of each pool."""
        return self.row.legs

    @property
    def state(self) -> State:
        """waiting, held, confirmed, released or expired."""
        return self.row.state

    @property
    def deadline(self) -> Slot | None:
        """The slot at which it is no longer alive; while it waits in line, the end of waiting."""
        return self.row.deadline

    @property
    def deadline_at(self) -> datetime | None:
        """The deadline as an aware datetime."""
        return datetime_of(self.row.deadline)

    @property
    def ticket(self) -> str | None:
        """One text with id and token, to pass to another process. Secret, like the token."""
        return None if self.token is None else ticket(self.row.id, self.token)

    @property
    def fence(self) -> int:
        """Grows with every grant on a pool, so that a downstream system can refuse a stale holder. 0 while it waits in line."""
        return self.row.fence

    @property
    def entity(self) -> str | None:
        """What it was confirmed for."""
        return self.row.entity

    @property
    def account(self) -> str | None:
        """For whom it is: the account in whose tallies its units count."""
        return self.row.account

    @property
    def waiting(self) -> bool:
        """Whether it waits in line, and has no units yet."""
        return self.row.state is State.WAITING

    @property
    def number(self) -> int | None:
        """Its number in the pool's line: the order in which units are offered. None if it never waited."""
        return self.row.number

    @property
    def joined_slot(self) -> Slot | None:
        """The slot at which it joined the line; None if it never waited."""
        return self.row.joined_at

    @property
    def joined_at(self) -> datetime | None:
        """When it joined the line, as an aware datetime; None if it never waited."""
        return datetime_of(self.row.joined_at)

    @property
    def held_slot(self) -> Slot | None:
        """The slot at which it was granted; None while it waits in line."""
        return self.row.held_at

    @property
    def held_at(self) -> datetime | None:
        """When it was granted, as an aware datetime; None while it waits in line, and where no calendar reaches that far."""
        return datetime_of(self.row.held_at)

    @property
    def ended_slot(self) -> Slot | None:
        """The slot at which it ended; the deadline, if it expired."""
        return self.row.ended_at

    @property
    def ended_at(self) -> datetime | None:
        """When it ended, as an aware datetime."""
        return datetime_of(self.row.ended_at)

    @property
    def reason(self) -> str | None:
        """Why it was last changed, if a reason was given."""
        return self.row.reason

    @property
    def actor(self) -> str | None:
        """Who placed it."""
        return self.row.actor

    @property
    def correlation_id(self) -> str | None:
        """The caller's own id for correlating logs."""
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
    def seq(self) -> int:
        """The journal number of this change; 0 if there is no `position`."""
        return 0 if self.position is None else self.position.seq

    @property
    def uncovered(self) -> dict[str, int]:
        """Overage that no pool could cover, by pool."""
        return {} if self._done is None else dict(self._done.uncovered or {})  # a copy: retries are answered from ours

    @property
    def replayed(self) -> bool:
        """Whether this answer was recorded earlier under the same operation id."""
        return self._done is not None and self._done.replayed

    @property
    def durability(self) -> Survives | None:
        """What this answer survives, as far as was known when it was given: `local`, `synchronous`,
        `asynchronous_standby`, `unsafe`, or `process` for nothing at all. `stats.durability` has the details. None where it
        was only read, and in a transaction of your own: that is durable as you commit it."""
        return None if self._done is None else self._done.durability

    @property
    def position(self) -> Position | None:
        """The position of this change in the journal. None if nothing was written, and from a server, unless its API key is an
        operator's: numbers count the entries of all tenants."""
        return None if self._done is None else self._done.position

    @property
    def position_text(self) -> str | None:
        """The position as text, to compare with that of an entry or a webhook's event: equal for the same entry. Texts from a
        server have no order. None if nothing was written."""
        if self._done is None or self._done.position_text is not None:
            return None if self._done is None else self._done.position_text
        position = self._done.position
        return None if position is None else f"{position.lane}.{position.seq}"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the secrets, ready for JSON."""
        row = self.row
        return {
            "id": row.id,
            "tenant": row.tenant,
            "state": str(row.state),
            "legs": [msgspec.structs.asdict(leg) for leg in row.legs],
            "deadline": row.deadline,
            "deadline_at": text_of(row.deadline),
            "fence": row.fence,
            "entity": row.entity,
            "account": row.account,
            "number": row.number,
            "joined_slot": row.joined_at,
            "joined_at": text_of(row.joined_at),
            "held_slot": row.held_at,
            "held_at": text_of(row.held_at),
            "ended_slot": row.ended_at,
            "ended_at": text_of(row.ended_at),
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


_put_done, _put_owner, _put_row = (
    vars(Hold)[name].__set__ for name in ("_done", "token", "row")
)  # past the frozen `__setattr__`, in one step each


class SweepReport(Struct, frozen=True):
    """What one sweep did: `holds` names the holds that it expired, in order of (deadline, id), at most the sweep's limit, and
    `tenants` the tenant of each.

    A kernel that is bound to a tenant counts and names the holds of that tenant only, even if others were expired too; a
    kernel without a tenant, those of all tenants. `more` is about all tenants in either case.
    """

    expired: int
    holds: tuple[str, ...]
    tenants: tuple[str, ...]
    scanned_slot: Slot
    more: bool

    @property
    def scanned_at(self) -> datetime | None:
        """When the sweep was decided, as an aware datetime."""
        return datetime_of(self.scanned_slot)


class VerifyReport(Struct, frozen=True):
    """The differences that `verify` found."""

    differences: tuple[Difference, ...]
    sealed: dict[int, int] = {}
    """By lane: the last entry that a seal covers. What is sealed was checked too; entries behind that can be changed unnoticed."""

    @property
    def ok(self) -> bool:
        """Whether the stored rows are exactly what the journal says, and the sealed entries what was sealed."""
        return not self.differences


class RepairReport(Struct, frozen=True):
    """What `repair` corrected, or would correct with `dry_run`, and what it cannot correct from the journal."""

    repaired: tuple[Difference, ...]
    left: tuple[Difference, ...]
    """What the journal cannot repair: restore a backup, or find out what changed it."""
    dry_run: bool

    @property
    def ok(self) -> bool:
        """Whether the stored rows are, by now, exactly what the journal says."""
        return not self.left and not (self.dry_run and self.repaired)


class StorageUsage(Struct, frozen=True, kw_only=True):
    """What one tenant has stored: rows by table, and their bytes.

    `bytes` counts the text of all columns, and 100 for each row. With indexes and pages, SQLite needs about a tenth more on the
    disk, PostgreSQL about a third.
    """

    pools: int = 0
    holds: int = 0
    """Also ended ones, until their retention is over."""
    live_holds: int = 0
    """Of these, those that have not ended."""
    operations: int = 0
    """Answers that are kept for retries."""
    records: int = 0
    entries: int = 0
    """In the journal, which keeps them for good. (The memory engine's journal does not, and is not counted.)"""
    bytes: int = 0
    complete: bool = True
    """Whether the whole journal has been counted yet."""

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        return self.pools + self.holds + self.operations + self.records + self.entries


def reconstruct(history: Iterable[JournalEntry], *, at: Slot | datetime | None = None) -> Hold | None:
    """Fold one hold's history into the hold; None if its first entry is missing.

    A hold whose deadline has passed is expired, whether or not anybody has noticed: by the engine's clock when the history was
    read, or at the time that you give.
    """
    entries = list(history)
    row = fold_history([item.entry for item in entries])
    if row is None:
        return None
    now = max(max(item.as_of, item.slot) for item in entries) if at is None else moment(at, "at")
    return Hold(expired_at(row, now))
