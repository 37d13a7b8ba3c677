"""The journal in memory: the last entries as they are, and everything before them folded into a baseline.

So memory stays flat under endless holds and releases, and `verify` still has the whole history: baseline and entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from ...core.audit import Numbered
from ...core.codec import encode_entry
from ...core.entries import Action, Effect, Entry
from ...core.erasure import Erasure
from ...core.fold import fold
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outstanding import Tally, TallyKey
from ...core.reading import JournalRow, touches
from ...errors import CursorLost
from .erasing import renamed_tallies

K = TypeVar("K")
V = TypeVar("V")


class Rows(Generic[K, V]):
    """Rows that leave no trace when they are removed."""

    def __init__(self) -> None:
        self.rows: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the row, if there is one."""
        return self.rows.get(key)

    def put(self, key: K, row: V | None) -> None:
        """Write or remove a row."""
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


class Baseline:
    """The state as it was after entry `seq`, without the holds that have left the tables by then."""

    def __init__(self) -> None:
        self.pools: Rows[Key, Pool] = Rows()
        self.holds: Rows[Key, StoredHold] = Rows()
        self.records: Rows[RecordKey, Record] = Rows()
        self.tallies: Rows[TallyKey, Tally] = Rows()
        self.put_pool, self.get_hold, self.put_record = self.pools.put, self.holds.get, self.records.put
        self.put_tally = self.tallies.put
        self.fence_floors: dict[str, int] = {}
        self.seq = 0
        self.slot: Slot = 0

    def put_hold(self, hold: StoredHold) -> None:
        """Put a hold."""
        self.holds.put(hold.key, hold)

    def drop_hold(self, key: Key) -> None:
        """Remove a hold."""
        self.holds.put(key, None)

    def raise_floor(self, tenant: str, fence: int) -> None:
        """Keep the highest fence of the tenant's removed pools."""
        if fence > self.fence_floors.get(tenant, 0):
            self.fence_floors[tenant] = fence

    def add(self, entry: Entry) -> None:
        """Move on by one entry."""
        fold(self, entry)
        self.seq, self.slot = self.seq + 1, max(self.slot, entry.slot)

    def entry_about(self, tenant: str, subject: str) -> Entry | None:
        """Return the row of a subject (hold, pool or record) as an entry, if the baseline has it."""
        hold = self.holds.get((tenant, subject))
        if hold is not None:
            return self._entry(subject, tenant, hold=hold)
        pool = self.entry_about_pool((tenant, subject))
        if pool is not None:
            return pool
        kind, _, name = subject.partition("/")
        record = self.records.get((tenant, kind, name))
        return None if record is None else self._entry(subject, tenant, record=record)

    def entry_about_pool(self, key: Key) -> Entry | None:
        """Return a pool's row as an entry, if the baseline has it."""
        pool = self.pools.get(key)
        return None if pool is None else self._entry(pool.id, pool.tenant, pool=pool)

    def entries(self) -> Iterator[Numbered]:
        """Yield everything as entries, for `verify`; numbered so that the first entry after them follows."""
        rows = [
            *(self._floor_entry(tenant, fence) for tenant, fence in self.fence_floors.items()),
            *(self._entry(pool.id, pool.tenant, pool=pool) for pool in self.pools.rows.values()),
            *(
                self._entry(key[1], key[0], pool=self.pools.rows[key[:2]], tally=row)
                for key, row in self.tallies.rows.items()
            ),
            *(self._entry(hold.id, hold.tenant, hold=hold) for hold in self.holds.rows.values()),
            *(self._entry(f"{row.kind}/{row.id}", row.tenant, record=row) for row in self.records.rows.values()),
        ]
        yield from enumerate(rows, start=self.seq + 1 - len(rows))

    def _floor_entry(self, tenant: str, fence: int) -> Entry:
        """Return a floor, as the removal of a pool that had this fence."""
        return self._entry("fence_floor", tenant, pool=Pool(tenant, "fence_floor", 0, fence=fence), removed=True)

    def _entry(
        self,
        subject: str,
        tenant: str,
        *,
        pool: Pool | None = None,
        hold: StoredHold | None = None,
        record: Record | None = None,
        tally: Tally | None = None,
        removed: bool = False,
    ) -> Entry:
        effects = () if pool is None else (Effect(pool, pool.total, pool.held, pool.consumed, pool.loose, tally=tally),)
        return Entry(self.slot, Action.JOURNAL_BASELINE, subject, tenant, effects, hold, record=record, removed=removed)


class Journal:
    """The last `keep` entries by number, each findable by its subject."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.last_seq = 0
        self.baseline = Baseline()
        self._entries: dict[int, Entry] = {}
        self._about: dict[Key, list[int]] = {}
        self._gone: deque[tuple[int, Key]] = deque()

    @property
    def first_seq(self) -> int:
        """The first number behind the baseline."""
        return self.baseline.seq + 1

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries; the oldest beyond the bound go into the baseline."""
        for entry in entries:
            self.last_seq += 1
            self._entries[self.last_seq] = entry
            self._about.setdefault((entry.tenant, entry.subject), []).append(self.last_seq)
        while len(self._entries) > self.keep:
            self._fold_oldest()

    def _fold_oldest(self) -> None:
        entry = self._entries.pop(self.baseline.seq + 1)
        self.baseline.add(entry)
        about = self._about[entry.tenant, entry.subject]
        del about[0]
        if not about:
            del self._about[entry.tenant, entry.subject]
        self._drop_gone()

    def forget(self, holds: Iterable[Key]) -> None:
        """Let the baseline drop these holds by and by: they have left the tables, so no later entry changes them."""
        self._gone.extend((self.last_seq, key) for key in holds)
        self._drop_gone()

    def _drop_gone(self) -> None:
        while self._gone and self._gone[0][0] <= self.baseline.seq:
            self.baseline.holds.put(self._gone.popleft()[1], None)

    def rewrite(self, erasure: Erasure) -> None:
        """Rewrite every entry and the baseline, without what is erased."""
        base = self.baseline
        base.tallies = erased_rows(base.tallies.rows, erasure)
        base.put_tally = base.tallies.put
        self._entries = {seq: erasure.entry(entry) for seq, entry in self._entries.items()}
        self._about = {}
        for seq, entry in self._entries.items():
            self._about.setdefault((entry.tenant, entry.subject), []).append(seq)
        base.pools.rows = {pool.key: pool for pool in map(erasure.pool, base.pools.rows.values())}
        for hold_key, hold in base.holds.rows.items():
            base.holds.rows[hold_key] = erasure.hold(hold)

    def after(self, seq: int, tenant: str | None) -> Iterator[JournalRow]:
        """Return entries after a number, of one tenant or of all."""
        return _rows(row for row in self._behind(seq) if tenant is None or row[1].tenant == tenant)

    def _behind(self, seq: int) -> Iterator[Numbered]:
        if seq < self.baseline.seq:
            gone = f"entries up to {self.baseline.seq} are no longer kept, and {seq + 1} was asked for"
            raise CursorLost(gone, position=(0, seq + 1))
        return ((number, self._entries[number]) for number in range(seq + 1, self.last_seq + 1))

    def about(self, tenant: str, subject: str, seq: int) -> Iterator[JournalRow]:
        """Return the entries about a subject. If its first entries are no longer kept, its row in the baseline stands for them."""
        known = self.baseline.entry_about(tenant, subject) if seq < self.baseline.seq else None
        kept = ((number, self._entries[number]) for number in self._about.get((tenant, subject), ()) if number > seq)
        return _rows(kept if known is None else chain(((self.baseline.seq, known),), kept))

    def touching(self, tenant: str, pool: str, seq: int) -> Iterator[JournalRow]:
        """Return entries after a sequence number that changed a pool. From the beginning, its row in the baseline comes first."""
        known = None if seq else self.baseline.entry_about_pool((tenant, pool))
        behind = self._behind(seq or self.baseline.seq)
        found = (row for row in behind if row[1].tenant == tenant and touches(row[1], pool))
        return _rows(found if known is None else chain(((self.baseline.seq, known),), found))

    def at(self, seq: int) -> JournalRow | None:
        """Return the entry with this sequence number, if it is still kept."""
        entry = self._entries.get(seq)
        return None if entry is None else JournalRow(seq, encode_entry(entry))

    def end(self) -> JournalRow | None:
        """Return the last entry, if there is any."""
        return self.at(self.last_seq)

    def whole(self) -> Iterator[Numbered]:
        """Yield the baseline, then the entries."""
        if self.baseline.seq:
            yield from self.baseline.entries()
        yield from self._entries.items()


def erased_rows(tallies: dict[TallyKey, Tally], erasure: Erasure) -> Rows[TallyKey, Tally]:
    """Copy the tallies without what is erased."""
    after: Rows[TallyKey, Tally] = Rows()
    after.rows = renamed_tallies(tallies, erasure)
    return after


def _rows(entries: Iterable[Numbered]) -> Iterator[JournalRow]:
    return (JournalRow(seq, encode_entry(entry)) for seq, entry in entries)
