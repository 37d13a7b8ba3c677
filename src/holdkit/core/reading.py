"""Reads: what a caller may look at, and how a stored row looks at a given slot.

Reads count a due leg as returned and show its hold as expired, without writing; a hold past its retention is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec import Struct, structs

from .codec import decode_entry
from .entries import Entry
from .ladders.finding import retired
from .model import HeldLeg, Key, Limits, Pool, Record, RecordKey, Slot, State, StoredHold

T_co = TypeVar("T_co", covariant=True)


class Query(Struct, Generic[T_co], frozen=True):
    """A question to an engine; the type parameter is the answer's."""


class FindPool(Query[Pool | None], frozen=True):
    """One pool, due legs counted as returned."""

    key: Key


class FindPools(Query[list[Pool | None]], frozen=True):
    """Several pools, in the order asked; None for each that is missing. (They need not all be seen at the same moment.)"""

    keys: tuple[Key, ...]


class ListPools(Query[list[Pool]], frozen=True):
    """Pools by id, after a given one; `prefix` and `entity` (of the last confirm on a labelled pool) narrow. Reserved ones
    are shown only if the prefix begins with ~, archived ones only with `archived`."""

    tenant: str
    prefix: str = ""
    after: str = ""
    limit: int = 100
    entity: str | None = None
    archived: bool = False


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


class ListTenants(Query[list[str]], frozen=True):
    """Names of the tenants that have pools, reserved and archived ones included, in order, after a given one. The default
    tenant has no name, and is not among them."""

    after: str = ""
    limit: int = 100


class ReadClock(Query[Slot], frozen=True):
    """What the engine's one authority on time says."""


class ReadGeneration(Query[str], frozen=True):
    """Which life of the journal this is: an opaque word that a promotion, a restore or an import changes, as far as the engine
    can tell. While it stays the same, so does every entry; where it changed, entries may be gone that were shown before."""


class JournalRow(Struct, frozen=True, gc=False):
    """One entry as stored: its number, its JSON text, its lane."""

    seq: int
    text: str
    lane: int = 0


def entry_of(row: JournalRow) -> Entry:
    """The entry of a row."""
    return decode_entry(row.text)


class ReadJournal(Query[list[JournalRow]], frozen=True):
    """Entries after a place, of one tenant, or of all if `tenant` is None; at most `limit`, and fewer only at the end.

    `after` says the last number seen in each lane (none: from its beginning). The answer continues each lane in order and
    without leaving anything out; how lanes are mixed is the engine's choice, as long as none is put off for ever.
    """

    tenant: str | None
    after: Mapping[int, int] = {}
    limit: int = 1_000


class ReadPoolHistory(Query[list[JournalRow]], frozen=True):
    """The same of the entries that touched one pool, which are all in its lane. An engine that no longer keeps the first of
    them begins with the pool as it was before those that it keeps."""

    tenant: str
    pool: str
    after: Mapping[int, int] = {}
    limit: int = 1_000


def touches(entry: Entry, pool: str) -> bool:
    """Whether an entry is of a pool's history: it made, changed or removed the pool, or moved units of it."""
    return any(effect.pool.id == pool for effect in entry.effects)


class ReadHistory(Query[list[JournalRow]], frozen=True):
    """The entries about one subject, in journal order: all of them, or the first `limit`."""

    tenant: str
    subject: str
    limit: int | None = None


class FindEntries(Query[list[JournalRow]], frozen=True):
    """The entries at these positions (lane and number), in order of position; those that are not there are left out."""

    positions: tuple[tuple[int, int], ...]


class FindEnds(Query[list[JournalRow]], frozen=True):
    """The last entry of each lane that has any, in order of lane."""


class Survey(Struct, frozen=True):
    """How much there is, of all tenants."""

    pools: int
    live_holds: int
    entries: int
    """In the journal, all lanes together."""
    oldest_due: Slot | None
    """The earliest deadline that has passed with units not yet returned: how far the sweep lags behind."""
    now: Slot
    """The engine's own clock."""
    latest: Slot | None
    """The last slot that was decided at on any pool: where the clock says less, somebody has set it back."""


class TakeSurvey(Query[Survey], frozen=True):
    """Count what is stored. For health checks and people: it may read whole indexes."""


def beyond(prefix: str) -> str | None:
    """The first text, in code point order, after all that begin with `prefix`; None if there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def seen_hold(hold: StoredHold | None, limits: Limits, now: Slot) -> StoredHold | None:
    """How a hold looks at `now`: due means expired, past the retention means gone."""
    if hold is None or retired(hold, limits, now):
        return None
    return expired_at(hold, now)


def expired_at(hold: StoredHold, now: Slot) -> StoredHold:
    """How a hold looks at `now`, however long it has ended: due means expired."""
    if hold.deadline is None or hold.deadline > now or not hold.open:
        return hold
    legs = tuple(HeldLeg(leg.pool, leg.quantity, 0, leg.confirmed, leg.returned) for leg in hold.legs)
    return structs.replace(hold, state=State.EXPIRED, ended_at=hold.deadline, legs=legs)


def seen_pool(pool: Pool, due_units: int) -> Pool:
    """How a pool looks once the units that are due are counted as returned."""
    return structs.replace(pool, held=pool.held - due_units) if due_units else pool
