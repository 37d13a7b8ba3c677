"""Reads: what a caller may query. What a row looks like in an answer is decided by `seen.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from .codec import decode_entry
from .entries import Entry
from .model import Key, Pool, Record, RecordKey, Slot, State, StoredHold
from .pages import Page, text_bytes

T_co = TypeVar("T_co", covariant=True)


class Query(Struct, Generic[T_co], frozen=True):
    """A query to an engine; the type parameter is the type of its answer."""

    shown: ClassVar[bool] = False
    """Whether followers show the answer. A durable read of it may wait for standbys at any time, so it waits apart from all others."""


class FindPool(Query[Pool | None], frozen=True):
    """One pool, due legs counted as returned."""

    key: Key


class FindPools(Query[list[Pool | None]], frozen=True):
    """Several pools, in the order asked; None for each that is missing. (They need not be read in one snapshot.)"""

    keys: tuple[Key, ...]


class FindAvailable(Query[bytes], frozen=True):
    """Find whether each of these pools of one tenant has a unit available now, in the order asked: 1, or 0 if it has none, is missing
    or archived. Much less work than `FindPools`: for thousands of pools of a face, which have no line and no pool above
    them. (They need not be read in one snapshot.)"""

    tenant: str
    pools: tuple[str, ...]


class ListPools(Query[list[Pool]], frozen=True):
    """Pools by id, after a given one, filtered by `prefix` and `entity` (of the last confirm on a labelled pool). Reserved
    pools are listed only if the prefix begins with ~, archived ones only with `archived`."""

    tenant: str
    prefix: str = ""
    after: str = ""
    limit: int = 100
    entity: str | None = None
    archived: bool = False


class FindHold(Query[StoredHold | None], frozen=True):
    """One hold, as it looks now."""

    key: Key


class FindHolds(Query[list[StoredHold | None]], frozen=True):
    """Several holds as they look now, in the order asked; None for each that is missing."""

    keys: tuple[Key, ...]


class ListHolds(Query[Page[StoredHold]], frozen=True):
    """Holds by id, beyond a given one in this order, as they show at this slot: see `searching.py`."""

    tenant: str
    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: int = 100
    max_bytes: int | None = None
    """Of the rows together, about; the first one is in the answer in any case. The same in the queries below."""
    actor: str | None = None
    account: str | None = None
    placed_from: Slot | None = None
    placed_to: Slot | None = None  # the first slot that is too late
    newest_first: bool = False
    max_scanned: int = 20_000
    within: tuple[str, ...] = ()  # only holds whose pools all begin with one of these; empty: any


class CountAhead(Query[int | None], frozen=True):
    """Count the holds that wait in front of a hold in its line, up to `limit`; None if it does not wait. The cost grows with the count."""

    key: Key
    limit: int = 1_000


class NextDeadline(Query[Slot | None], frozen=True):
    """The earliest deadline of anything outstanding on a pool: when units, or a place in its line, may become free by themselves."""

    key: Key


class AccountUsage(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The usage of one pool by an account."""

    pool: str
    used: int
    """Units waited for, held, or confirmed and not returned."""
    limit: int | None = None  # the pool's `per_account`


class ListUsage(Query[list[AccountUsage]], frozen=True):
    """List the usage of an account by pool, after a given one; due legs are counted as returned."""

    tenant: str
    account: str
    after: str = ""
    limit: int = 100
    within: tuple[str, ...] = ()  # only pools that begin with one of these; the others are not looked at; empty: any


class FindRecord(Query[Record | None], frozen=True):
    """One record."""

    key: RecordKey


class ListRecords(Query[Page[Record]], frozen=True):
    """Records of a kind by id, after a given one."""

    tenant: str
    kind: str
    after: str = ""
    limit: int = 100
    max_bytes: int | None = None


class ListTenants(Query[list[str]], frozen=True):
    """Names of the tenants that have pools, including reserved and archived ones, in order, after a given one. The default
    tenant has no name, and is not listed."""

    after: str = ""
    limit: int = 100


class ReadClock(Query[Slot], frozen=True):
    """The slot of the clock that decides for this engine."""


class ReadGeneration(Query[str], frozen=True):
    """Read the generation of the journal: an opaque word that changes with each promotion, restore or import that the engine can
    detect. While it stays the same, so does every entry; once it changes, entries that were shown before may be missing."""


class JournalRow(Struct, frozen=True, gc=False):
    """One entry as stored: its number, its JSON text, its lane."""

    seq: int
    text: str
    lane: int = 0
    place: str | None = None
    """Of a row of the baseline: where the entries before it were archived to."""


def row_bytes(row: JournalRow) -> int:
    """Estimate the bytes of an entry as a document, which spells out what the stored text leaves out."""
    return text_bytes(row.text) * 3 // 2


def entry_of(row: JournalRow) -> Entry:
    """Decode the entry of a row."""
    return decode_entry(row.text)


class ReadJournal(Query[Page[JournalRow]], frozen=True):
    """Read entries after a position, of one tenant, or of all if `tenant` is None; at most `limit`, and fewer only at the end or
    where the page has its `max_bytes`. Skip archived entries: the reader compares with `FindArchived`.

    `after` has the last number seen in each lane (none: from its beginning). The answer continues each lane in order and
    without gaps; the engine may interleave lanes in any way that starves none.
    """

    shown: ClassVar[bool] = True
    tenant: str | None
    after: Mapping[int, int] = {}
    limit: int = 1_000
    max_bytes: int | None = None


class ReadPoolHistory(Query[Page[JournalRow]], frozen=True):
    """Read the entries after a position that touched one pool; all are in its lane. An engine that has dropped the first of
    them begins with the pool as it was before those that it keeps."""

    tenant: str
    pool: str
    after: Mapping[int, int] = {}
    limit: int = 1_000
    max_bytes: int | None = None


def touches(entry: Entry, pool: str) -> bool:
    """Return whether an entry belongs to a pool's history: it created, changed or removed the pool, moved its units, or refused a command
    that named it first."""
    if entry.refused is not None:
        return entry.subject == pool and not entry.refused.of_hold
    return any(effect.pool.id == pool for effect in entry.effects)


class ReadHistory(Query[Page[JournalRow]], frozen=True):
    """The entries about one subject after a position, in journal order: all of them, or the first `limit`. If the first of them are
    archived, the subject's row in the baseline stands for them, with the number of the last archived entry."""

    tenant: str
    subject: str
    limit: int | None = None
    after: Mapping[int, int] = {}
    max_bytes: int | None = None


class FindEntries(Query[list[JournalRow]], frozen=True):
    """The entries at these positions (lane and number), in order of position; missing ones are omitted."""

    positions: tuple[tuple[int, int], ...]


class FindEnds(Query[list[JournalRow]], frozen=True):
    """The last entry of each lane that has any, in order of lane."""


class Survey(Struct, frozen=True):
    """Counts of the stored rows, over all tenants."""

    pools: int
    live_holds: int
    entries: int
    """In the journal, all lanes together, without what is archived."""
    oldest_due: Slot | None
    """The earliest deadline that has passed with units not yet returned: it shows the lag of the sweep."""
    now: Slot
    """The engine's own clock."""
    latest: Slot | None
    """The last slot of a decision on any pool: if the clock is behind it, the clock was set back."""


class TakeSurvey(Query[Survey], frozen=True):
    """Count the stored rows. For health checks and operators: it may read whole indexes."""


class ListKinds(Query[list[str]], frozen=True):
    """The kinds of a tenant's records, in order, after a given one."""

    tenant: str
    after: str = ""
    limit: int = 100


Counted: TypeAlias = Literal["pools", "holds", "operations", "records"]
"""Tables whose rows are counted by tenant."""
COUNTED: Final[tuple[Counted, ...]] = ("pools", "holds", "operations", "records")
ROW_BYTES: Final = 100
"""What a row counts besides its text: for its numbers and its places in indexes."""


class RowCount(Struct, frozen=True):
    """Rows of one table, and their bytes: the text of their columns in UTF-8, and `ROW_BYTES` for each."""

    rows: int
    bytes: int
    next: str | None = None
    """Where the next step begins; None at the end."""
    live: int = 0
    """Of holds: those that have not ended."""


class CountRows(Query[RowCount], frozen=True):
    """Count up to `limit` rows of a tenant in one table, as one step. For operators: it reads every row once."""

    tenant: str
    table: Counted
    after: str = ""
    """`next` of the step before."""
    limit: int = 10_000


class EntryCount(Struct, frozen=True):
    """Entries and their bytes by tenant, and the position up to which they were counted."""

    tenants: dict[str, tuple[int, int]]
    reached: dict[int, int]
    """The last number counted in each lane."""
    more: bool
    """Whether entries are left."""


class CountEntries(Query[EntryCount], frozen=True):
    """One step of counting the journal by tenant, after a position: about `limit` entries. An engine whose journal drops old
    entries by itself counts none: they take no room that grows."""

    after: Mapping[int, int] = {}
    limit: int = 20_000
