"""The baseline: the state of a lane after the entries that have left the journal, and before the entries that are kept.

Theory of operation. An entry leaves the journal for an archive only together with its effect on the baseline: both are one transaction.
So at any moment `baseline + kept entries` folds to the same state as all entries ever written. The rows of the baseline are what
`fold` puts: pools, tallies, holds, records, and the fence floors of tenants. Each is the last state that an archived entry told of.

*Holds* leave by themselves. Retention drops an ended hold without consumed units and writes no entry, so no entry ever removes it
here. Such a row may go once the hold is not stored any more and no kept entry tells of it: nothing can change it then. All other
holds are removed by an entry (`hold.retired`) or are stored.

A reader that starts at the beginning gets each row as an entry `journal.baseline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from .entries import Action, Effect, Entry
from .fold import fold
from .limits import subject_of
from .model import Key, Pool, Record, RecordKey, Slot, StoredHold
from .outstanding import Tally, TallyKey

FLOOR: Final = "floor"
POOL: Final = "pool"
TALLY: Final = "tally"
HOLD: Final = "hold"
RECORD: Final = "record"
KINDS: Final = (FLOOR, POOL, TALLY, HOLD, RECORD)
"""In the order in which they are read: a tally comes behind its pool."""

ENTRY: Final = "entry"
"""An archived entry that an erasure has rewritten, until its file has it too: no part of the state, and read by itself."""

FILE: Final = "file"
"""What is known of a file of the archive (`KnownFile`): no part of the state."""

TOTAL: Final = "total"
"""How many rows there must be (`BaselineTotal`): no part of the state."""

TOTAL_KEY: Final = (TOTAL, "", "~total", "")

COUNTED: Final = frozenset({*KINDS, FILE})
"""The kinds of rows that a total counts."""

FLOOR_ID: Final = "~fence_floor"
"""The id of every floor; no pool has it."""

RowKey: TypeAlias = tuple[str, str, str, str]
"""Kind, tenant, id, and a second part of the id: of a tally the account, of a record its kind; else empty."""

_encode: Final = msgspec.json.Encoder().encode
_pool: Final = msgspec.json.Decoder(Pool)
_hold: Final = msgspec.json.Decoder(StoredHold)
_record: Final = msgspec.json.Decoder(Record)
_tally: Final = msgspec.json.Decoder(Tally)
_floor: Final = msgspec.json.Decoder(int)


class BaselineRow(Struct, frozen=True, gc=False):
    """One row; the body is JSON."""

    kind: str
    tenant: str
    id: str
    part: str
    body: str
    pool: str | None = None
    """Of a tally: the body of its pool's row."""

    @property
    def key(self) -> RowKey:
        """What it is stored under."""
        return (self.kind, self.tenant, self.id, self.part)


class ArchivedLane(Struct, frozen=True, gc=False):
    """The archived part of a lane."""

    lane: int
    through: int
    """The number of the last entry that has left the journal."""
    slot: Slot
    """The latest slot of those entries."""
    digest: str
    """Of the entry `through`: cursors that stand exactly there stay valid."""
    place: str
    """Where it was archived to."""
    edition: int = 0
    """Grows whenever rows of the baseline change although no further entry is archived."""


class KnownFile(Struct, frozen=True, gc=False):
    """A file of the archive as the database knows it, by the number of the first entry."""

    last: int
    """The number of the last entry."""
    size: int
    """Of the file, in bytes."""
    sha256: str
    """Of its lines."""
    place: str
    """The directory to which it was written."""


_known_file: Final = msgspec.json.Decoder(KnownFile)


class BaselineTotal(Struct, frozen=True, gc=False):
    """The number of rows that a lane's baseline must have. It counts only while the lane is archived through this entry, in this
    edition: a release from before there were totals may have archived more."""

    through: int
    edition: int
    rows: int
    checksums: int
    """The sum of the rows' checksums."""


class Baseline:
    """Rows into which entries are folded. Those that the entries touch have to be loaded before."""

    def __init__(self, rows: Mapping[RowKey, str]) -> None:
        self._rows = rows
        self.changed: dict[RowKey, str | None] = {}
        """What is to be written; None: removed."""
        self._holds: dict[Key, StoredHold | None] = {}
        self.slot: Slot = 0

    def add(self, entry: Entry) -> None:
        """Move on by one entry."""
        fold(self, entry)
        self.slot = max(self.slot, entry.slot)

    def leaving(self) -> list[Key]:
        """Return the changed holds that may leave the baseline, if they are not stored and no later entry names them."""
        return [key for key, hold in self._holds.items() if hold is not None and may_leave(hold)]

    def forget(self, holds: Iterable[Key]) -> None:
        """Forget holds that have left."""
        for tenant, id in holds:
            self.changed[HOLD, tenant, id, ""] = None

    # What `fold` calls

    def put_pool(self, key: Key, pool: Pool | None) -> None:
        """Write or remove a pool."""
        self._put((POOL, *key, ""), pool)

    def get_hold(self, key: Key) -> StoredHold | None:
        """Return the hold as it is."""
        if key in self._holds:
            return self._holds[key]
        body = self._rows.get((HOLD, *key, ""))
        return None if body is None else _hold.decode(body)

    def put_hold(self, hold: StoredHold) -> None:
        """Write a hold."""
        self._holds[hold.key] = hold
        self._put((HOLD, *hold.key, ""), hold)

    def drop_hold(self, key: Key) -> None:
        """Remove a hold."""
        self._holds[key] = None
        self._put((HOLD, *key, ""), None)

    def put_tally(self, key: TallyKey, tally: Tally | None) -> None:
        """Write or remove a tally."""
        self._put((TALLY, *key), tally)

    def put_record(self, key: RecordKey, record: Record | None) -> None:
        """Write or remove a record."""
        self._put((RECORD, key[0], key[2], key[1]), record)

    def raise_floor(self, tenant: str, fence: int) -> None:
        """Keep the highest fence of the tenant's removed pools."""
        key = (FLOOR, tenant, FLOOR_ID, "")
        body = self.changed.get(key) or self._rows.get(key)
        if body is None or fence > _floor.decode(body):
            self._put(key, fence)

    def _put(self, key: RowKey, row: object) -> None:
        self.changed[key] = None if row is None else encode_row(row)


def encode_row(row: object) -> str:
    """Encode a pool, tally, hold, record or floor as a body."""
    return _encode(row).decode()


_BODIES: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    FLOOR: _floor, POOL: _pool, TALLY: _tally, HOLD: _hold, RECORD: _record
}  # fmt: skip


def decode_row(kind: str, body: str) -> Any:
    """Decode the body of a pool, tally, hold, record or floor."""
    return _BODIES[kind].decode(body)


def known_files(rows: Iterable[tuple[str, str]]) -> dict[int, KnownFile]:
    """Decode the ids and bodies of rows to known files, by the number of their first entry. Leave out rows that were changed by hand
    and cannot be read: the checksums of their files show the damage."""
    found: dict[int, KnownFile] = {}
    for id, body in rows:
        with suppress(ValueError):  # the base of `msgspec.DecodeError` too
            found[int(id)] = _known_file.decode(body)
    return found


def file_key(first: int) -> RowKey:
    """Return the key of the row about a file, made from the number of the file's first entry. Keys sort as numbers do."""
    return (FILE, "", f"{first:020d}", "")


def entry_key(seq: int) -> RowKey:
    """Return the key of an archived entry that was rewritten. Keys sort as numbers do."""
    return (ENTRY, "", f"{seq:020d}", "")


def may_leave(hold: StoredHold) -> bool:
    """Return whether retention drops such a hold without an entry: it has ended, and nothing of it is held or consumed."""
    return not (hold.live or hold.open or hold.consumes)


def hold_may_leave(body: str) -> bool:
    """Return whether retention drops the hold in a row's body without an entry."""
    return may_leave(_hold.decode(body))


def rows_touched(entries: Iterable[Entry]) -> list[RowKey]:
    """Return the keys of the rows that these entries may put or remove: `fold` needs some of them as they are before."""
    keys: set[RowKey] = set()
    for entry in entries:
        for effect in entry.effects:
            pool, tally = effect.pool, effect.tally
            keys.add((POOL, pool.tenant, pool.id, ""))
            if entry.removed:
                keys.add((FLOOR, pool.tenant, FLOOR_ID, ""))
            if tally is not None:
                keys.add((TALLY, pool.tenant, pool.id, tally.account))
        if entry.record is not None:
            keys.add((RECORD, entry.record.tenant, entry.record.id, entry.record.kind))
        if entry.hold is not None:
            keys.add((HOLD, *entry.hold.key, ""))
        elif entry.change is not None or entry.action is Action.HOLD_RETIRED:
            keys.add((HOLD, entry.tenant, entry.subject, ""))
    return sorted(keys)


def subject_keys(tenant: str, subject: str) -> Iterator[RowKey]:
    """Yield the rows that a subject may name: a hold, a pool, a record as kind/id."""
    yield HOLD, tenant, subject, ""
    yield POOL, tenant, subject, ""
    for cut in [index for index, letter in enumerate(subject) if letter == "/"][:8]:
        yield RECORD, tenant, subject[cut + 1 :], subject[:cut]


def entry_of_row(row: BaselineRow, slot: Slot) -> Entry:
    """Return an entry that puts the state of a row. Raise `msgspec.DecodeError` if its body cannot be decoded."""
    tenant, action = row.tenant, Action.JOURNAL_BASELINE
    if row.kind == HOLD:
        return Entry(slot, action, row.id, tenant, hold=_hold.decode(row.body))
    if row.kind == RECORD:
        record = _record.decode(row.body)
        return Entry(slot, action, subject_of(record), tenant, record=record)
    if row.kind == FLOOR:  # as the removal of a pool that had this fence
        floor = Pool(tenant, FLOOR_ID, 0, fence=_floor.decode(row.body))
        return Entry(slot, action, floor.id, tenant, (Effect(floor),), removed=True)
    pool = _pool.decode(row.body if row.pool is None else row.pool)
    tally = _tally.decode(row.body) if row.kind == TALLY else None
    effect = Effect(pool, pool.total, pool.held, pool.consumed, pool.loose, pool.waiting, pool.children, tally=tally)
    return Entry(slot, action, pool.id, tenant, (effect,))
