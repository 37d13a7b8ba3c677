"""Erasure on SQL engines where a part of the journal is archived: the shared job (`erase_job`) sees one journal, the archived entries first.

What it rewrites is divided here: entries that are kept go to the journal, the texts of archived ones are stored until their files have
them (`archive_erasing`), and in the same transaction the rows of the baseline become what the rewritten entries fold to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import structs

from ..core.baseline import ENTRY, HOLD, ArchivedLane, KnownFile, RowKey, decode_row, encode_row, entry_key, file_key
from ..core.codec import decode_entry, encode_entry
from ..core.entries import Entry
from ..core.erasure import Erased, Erasure, texts_of
from ..core.model import Pool, Record, RecordKey, StoredHold
from ..core.outcomes import Operation
from ..core.reading import JournalRow
from .archive_erasing import ErasableArchive, put_by
from .erase_job import EraseJob
from .erasing import Rewrites, Rows, Search, Store
from .progress import Progress


def erase(
    store: Store, erasure: Erasure, archive: ErasableArchive | None, progress: Progress | None, *, dry_run: bool
) -> Erased:
    """Run one erasure, in the journal and, if there is one, in the archive."""
    if archive is None:
        return EraseJob(store, erasure, progress, dry_run=dry_run).run()
    whole = ArchivedStore(store, archive, erasure)
    whole.prepare(progress)
    erased = EraseJob(whole, erasure, progress, dry_run=dry_run).run()
    if not dry_run:
        archive.write(partial(_forget, store))
    return erased


def _forget(store: Store, lane: int, numbers: Sequence[int], known: tuple[int, KnownFile] | None) -> None:
    """Remove the texts of these entries, which a file has now, and store what is to be known of the file."""
    put = [] if known is None else [(lane, file_key(known[0]), encode_row(known[1]))]
    for start in range(0, len(numbers), 1_000):
        gone = [(lane, entry_key(seq)) for seq in numbers[start : start + 1_000]]
        store.change(lambda _, gone=gone: Rewrites(baseline=put, baseline_gone=gone))  # type: ignore[misc]


class ArchivedRows:
    """An open transaction, with the archived entries."""

    def __init__(self, rows: Rows, archive: ErasableArchive) -> None:
        self._rows, self._archive = rows, archive
        self.operations: Callable[[str, str, int], list[Operation]] = rows.operations
        self.holds: Callable[[str, Sequence[str]], list[StoredHold]] = rows.holds
        self.pools: Callable[[str, Sequence[str]], list[Pool]] = rows.pools
        self.uses: Callable[[str, str, Sequence[str]], bool] = rows.uses
        self.records: Callable[[Sequence[RecordKey]], list[Record]] = rows.records
        self.baseline: Callable[[int, Sequence[RowKey]], Mapping[RowKey, str]] = rows.baseline

    def lock(self, tenant: str, pools: Sequence[str], holds: Sequence[str]) -> None:
        """Lock also the pools of claims that archived entries name."""
        entries = [decode_entry(row.text) for row in self._archive.about(tenant, holds)]
        named = {one.pool.id for entry in entries for one in entry.effects if one.pool.label is not None}
        self._rows.lock(tenant, [*pools, *sorted(named.difference(pools))], holds)

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Return every entry about these subjects, archived or kept."""
        found = [*self._archive.about(tenant, subjects), *self._rows.entries_about(tenant, subjects)]
        return sorted(found, key=lambda row: (row.lane, row.seq))

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Read these entries again: archived ones with their rewritten texts, the others from the journal."""
        left = [self._archive.now(row) for row in rows if row.seq <= self._archive.through(row.lane)]
        kept = [row for row in rows if row.seq > self._archive.through(row.lane)]
        return sorted([*left, *(self._rows.entries_at(kept) if kept else ())], key=lambda row: (row.lane, row.seq))


class ArchivedStore:
    """A store, with the archived entries."""

    def __init__(self, store: Store, archive: ErasableArchive, erasure: Erasure) -> None:
        self._store, self._archive, self._erasure = store, archive, erasure
        self.ends, self.marked_holds, self.settle = store.ends, store.marked_holds, store.settle
        self.remember, self.forget, self.remembered = store.remember, store.forget, store.remembered

    def prepare(self, progress: Progress | None) -> None:
        """Find the holds that are concerned, so that the files are read once for all of their entries, and once for their pools'."""
        erasure, selector = self._erasure, self._erasure.selector
        stub = self.remembered(erasure.id)
        values = [selector.value, *([] if stub is None or selector.by != "entity" else [stub])]
        find = Search(self, selector.tenant, progress)
        holds = [hold for page in find.holds(selector.by, values) for hold in page]
        subjects = {hold.id for hold in holds}
        texts = [text for value in values for text in texts_of(value)]
        for rows in find.entries(texts):
            subjects.update(decode_entry(row.text).subject for row in rows)
        self._archive.collect(selector.tenant, subjects)
        self._archive.check_baseline(selector.tenant, subjects, texts)
        told = (decode_entry(row.text).hold for row in self._archive.about(selector.tenant, sorted(subjects)))
        pools = {leg.pool for hold in (*holds, *told) if hold is not None for leg in hold.legs}
        self._archive.collect(selector.tenant, {id for id in pools if id.startswith("~")})

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:
        """Return the tenant's entries in a span of numbers whose text contains any of these, archived or kept."""
        through = self._archive.through(lane)
        found = self._archive.naming(tenant, texts, lane, after, min(upto, through)) if after < through else []
        if upto > through:
            found += self._store.naming(tenant, texts, lane, max(after, through), upto)
        return found

    def change(self, work: Callable[[Rows], Rewrites]) -> Rewrites:
        """Run `work` in one transaction, and keep what it changed of the archive."""
        archive = self._archive
        done = self._store.change(lambda rows: self._divided(rows, work(ArchivedRows(rows, archive))))
        for one in done.lanes:
            archive.lanes[one.lane] = one
        for lane, key, body in done.baseline:
            if key[0] == ENTRY:
                archive.rewritten[lane][int(key[2])] = body
        return done

    def _divided(self, rows: Rows, done: Rewrites) -> Rewrites:
        """Split the rewrites of archived entries from those of the journal: the former become texts for the files and rows of the
        baseline."""
        archive = self._archive
        left = [one for one in done.entries if one[0].seq <= archive.through(one[0].lane)]
        kept = [one for one in done.entries if one[0].seq > archive.through(one[0].lane)]
        in_files = [*left, *(one for one in kept if archive.has(one[0].lane, one[0].seq))]
        put = [(row.lane, entry_key(row.seq), encode_entry(after)) for row, after in in_files]
        gone: list[tuple[int, RowKey]] = []
        lanes: list[ArchivedLane] = []
        for lane in sorted({row.lane for row, _ in left}):
            renamed = False
            for key, (new, body) in self._baseline(rows, lane, [one for one in left if one[0].lane == lane]).items():
                put.append((lane, new, body))
                if new != key:
                    gone.append((lane, key))
                    renamed = True
            if renamed:  # the rows are in another order: a cursor between them is lost
                lanes.append(structs.replace(archive.lanes[lane], edition=archive.lanes[lane].edition + 1))
        return structs.replace(done, entries=kept, archived=left, baseline=put, baseline_gone=gone, lanes=lanes)

    def _baseline(
        self, rows: Rows, lane: int, entries: Iterable[tuple[JournalRow, Entry]]
    ) -> dict[RowKey, tuple[RowKey, str]]:
        """Return the rows of a lane's baseline that these entries have put, by their old keys, with new keys and bodies."""
        puts: dict[RowKey, list[tuple[object, RowKey, object]]] = {}
        holds: set[RowKey] = set()
        for row, after in entries:
            before = decode_entry(row.text)
            holds.add((HOLD, before.tenant, before.subject, ""))
            for (key, was), (new, is_) in zip(put_by(before), put_by(after), strict=True):
                puts.setdefault(key, []).append((was, new, is_))
        stored = rows.baseline(lane, [*puts, *sorted(holds)])
        changed: dict[RowKey, tuple[RowKey, str]] = {}
        for key, body in stored.items():
            found = decode_row(key[0], body)
            if key in holds:
                hold = self._erasure.hold(found)
                if hold != found:
                    changed[key] = ((HOLD, hold.tenant, hold.id, ""), encode_row(hold))
            else:
                last = next(((new, is_) for was, new, is_ in reversed(puts[key]) if was == found), None)
                if last is not None and last != (key, found):
                    changed[key] = (last[0], encode_row(last[1]))
        return changed
