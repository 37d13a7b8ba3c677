"""Reads: what a caller may look at, and how a stored row looks at a given slot.

Reads count a due leg as returned and show its hold as expired, without writing; a hold past its retention is gone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct, structs

from .ladders.finding import retired
from .model import HeldLeg, Key, Limits, Pool, Record, RecordKey, Slot, State, StoredHold

T_co = TypeVar("T_co", covariant=True)


class Query(Struct, Generic[T_co], frozen=True):
    """A question to an engine; the type parameter is the answer's."""


class FindPool(Query[Pool | None], frozen=True):
    """One pool, due legs counted as returned."""

    key: Key


class ListPools(Query[list[Pool]], frozen=True):
    """Pools by id, after a given one; `prefix` narrows. Reserved ones are shown only if the prefix begins with ~."""

    tenant: str
    prefix: str = ""
    after: str = ""
    limit: int = 100


class FindHold(Query[StoredHold | None], frozen=True):
    """One hold, as it looks now."""

    key: Key


class ListHolds(Query[list[StoredHold]], frozen=True):
    """Holds by id (minted ids: by age), after a given one. `state` is the state they show at this slot."""

    tenant: str
    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: int = 100


class FindRecord(Query[Record | None], frozen=True):
    """One record."""

    key: RecordKey


class ListRecords(Query[list[Record]], frozen=True):
    """Records of a kind by id, after a given one."""

    tenant: str
    kind: str
    after: str = ""
    limit: int = 100


class JournalRow(Struct, frozen=True, gc=False):
    """One entry as stored: its number and its JSON text."""

    seq: int
    text: str


class ReadJournal(Query[list[JournalRow]], frozen=True):
    """Entries after a number, in order; of one tenant, or of all if `tenant` is None."""

    tenant: str | None
    after: int = 0
    limit: int = 1_000


class ReadHistory(Query[list[JournalRow]], frozen=True):
    """All entries about one subject, in journal order."""

    tenant: str
    subject: str


class FindEnd(Query[JournalRow], frozen=True):
    """The last entry (number 0 and empty text if there is none)."""


def seen_hold(hold: StoredHold | None, limits: Limits, now: Slot) -> StoredHold | None:
    """How a hold looks at `now`: due means expired, past the retention means gone."""
    if hold is None or retired(hold, limits.retention, now):
        return None
    if hold.deadline is None or hold.deadline > now or not hold.open:
        return hold
    legs = tuple(HeldLeg(leg.pool, leg.quantity, 0, leg.confirmed, leg.returned) for leg in hold.legs)
    return structs.replace(hold, state=State.EXPIRED, ended_at=hold.deadline, legs=legs)


def seen_pool(pool: Pool, due_units: int) -> Pool:
    """How a pool looks once the units that are due are counted as returned."""
    return structs.replace(pool, held=pool.held - due_units) if due_units else pool
