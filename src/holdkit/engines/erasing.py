"""Erasure as engines provide it; what the shared job (`erase_job`) needs of a SQL engine, and what one of its transactions replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct, structs

from ..core.baseline import COUNTED, TOTAL_KEY, ArchivedLane, RowKey
from ..core.codec import decode_entry
from ..core.entries import Action, Entry
from ..core.erasure import Erased, Erasure, texts_of
from ..core.keyed import CLAIMS
from ..core.model import Pool, Record, RecordKey, StoredHold
from ..core.outcomes import Operation
from ..core.personal import replaced
from ..core.reading import JournalRow
from ..core.seals import Seal, erased
from .archive_erasing import ErasableArchive
from .archiving import StoredBaseline, with_total
from .progress import Progress

T = TypeVar("T")

SPAN: Final = 10_000
"""Entries that one statement searches."""
MANY: Final = 20
"""Above this number of claims, search for the beginning that all claims' ids share."""
PAGE: Final = 500
"""Holds that are read at a time."""


class Erasing(Protocol):
    """An engine that can erase a person's data: it rewrites rows and journal in place."""

    @property
    def secret(self) -> bytes:
        """The key for keyed names (`holdkit.core.keyed`): stored in this database, outside of its journal."""
        ...

    def erase(
        self,
        erasure: Erasure,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        archive: ErasableArchive | None = None,
    ) -> Erased:
        """Replace what the erasure says, in rows, journal, recorded answers and, if entries have left the journal, in the files of
        `archive`, so that `verify` finds nothing at any moment. Killed anywhere, the next call does the rest, with the stub that the
        first one began with (it sets `Erasure.stub`). With `dry_run` only count."""
        ...

    def unfinished(self) -> bool:
        """Return whether an erasure has begun and has not ended: it is under way, or was interrupted. Nothing is archived meanwhile."""
        ...

    def finish_erasure(self, erasure: Erasure) -> None:
        """Forget that the erasure was begun, and remove what was replaced from the files. Called when the erasure is journaled."""
        ...


class Rewrites(Struct):
    """What one transaction replaces."""

    entries: list[tuple[JournalRow, Entry]] = []
    """Each with the row as it was."""
    holds: list[StoredHold] = []
    pools: list[Pool] = []
    operations: list[Operation] = []
    renamed: list[tuple[str, Pool]] = []
    """Pools that get another id, with their outstanding legs: each with the id that it had."""
    records: list[Record] = []
    account: tuple[str, str, str] | None = None
    """In legs and tallies: tenant, account, and its stub."""
    account_pools: tuple[str, ...] = ()
    """Those whose tallies are merged: locked, all that the account uses."""
    archived: list[tuple[JournalRow, Entry]] = []
    """Entries that have left the journal, each with the row as it was: for the seals over them."""
    baseline: list[tuple[int, RowKey, str]] = []
    """Rows of the baseline, each with its lane."""
    baseline_gone: list[tuple[int, RowKey]] = []
    lanes: list[ArchivedLane] = []
    """Those whose baseline has other keys afterwards."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to replace."""
        return not (
            self.entries
            or self.holds
            or self.pools
            or self.operations
            or self.records
            or self.account
            or self.renamed
            or self.baseline
            or self.baseline_gone
        )


class Rows(Protocol):
    """An open transaction: reads in it, and what is written at its end. No other erasure has one open."""

    def lock(self, tenant: str, pools: Sequence[str], holds: Sequence[str]) -> None:
        """Lock these pools, these holds with all of their pools, and the pools of their claims; call it before any other method. Until
        the transaction ends, no other one can add entries that name these holds or change these pools."""
        ...

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Return every entry about these subjects, in order of lane and number."""
        ...

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Read these entries again, as they are now."""
        ...

    def holds(self, tenant: str, ids: Sequence[str]) -> list[StoredHold]:
        """Return those of these holds that are stored; they, or their pools, are locked."""
        ...

    def pools(self, tenant: str, ids: Sequence[str]) -> list[Pool]:
        """Return those of these pools that are stored, and lock those that were not locked."""
        ...

    def uses(self, tenant: str, account: str, pools: Sequence[str]) -> bool:
        """Return whether an account uses any units of these locked pools; it uses no others."""
        ...

    def operations(self, tenant: str, after: str, limit: int) -> list[Operation]:
        """Return recorded answers that are stored whole, by id."""
        ...

    def baseline(self, lane: int, keys: Sequence[RowKey]) -> Mapping[RowKey, str]:
        """Return the bodies of those of these rows that a lane's baseline has. The caller's lock keeps them unchanged."""
        ...

    def records(self, keys: Sequence[RecordKey]) -> list[Record]:
        """Return those of these records that are stored, locked until the transaction ends."""
        ...


class Store(Protocol):
    """What an engine provides."""

    def ends(self) -> Mapping[int, int]:
        """Return the last number of each lane."""
        ...

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:
        """Return the tenant's entries in a span of numbers whose text contains any of these, in order."""
        ...

    def marked_holds(self, tenant: str, by: str, value: str, after: str, limit: int) -> list[StoredHold]:
        """Return stored holds whose column `by` (entity, account, actor) has this value, by id."""
        ...

    def remember(self, id: str, stub: str) -> str:
        """Remember the stub of an erasure that begins under this id, unless one is remembered; return the remembered one."""
        ...

    def forget(self, id: str) -> None:
        """Forget an erasure that has ended, or that had nothing to erase."""
        ...

    def remembered(self, id: str) -> str | None:
        """Return the stub of an erasure that has begun under this id."""
        ...

    def settle(self) -> None:
        """Wait until every transaction has ended that may have compared the limits before they were changed, and may yet create a pool."""
        ...

    def change(self, work: Callable[[Rows], Rewrites]) -> Rewrites:
        """Run `work` in a transaction, write what it returns, commit. It may run more than once, if nothing was committed."""
        ...


class Search:
    """Find what names a person, outside of transactions, and report progress."""

    def __init__(self, store: Store, tenant: str, progress: Progress | None) -> None:
        self._store, self._tenant, self._progress = store, tenant, progress
        self._done, self._total = 0, sum(store.ends().values())
        self._holds = 0
        """Holds that were found by their rows: work of its own, before the journal is searched."""

    def entries(self, texts: Sequence[str], reached: dict[int, int] | None = None) -> Iterator[list[JournalRow]]:
        """Yield entries that contain any of these texts, span by span: all, or those behind `reached`, which it moves on."""
        ends = dict(self._store.ends())
        if not reached:
            self._total, self._done = sum(ends.values()) + self._holds, self._holds
        for lane, last in sorted(ends.items()) if texts else ():
            after = 0 if reached is None else reached.get(lane, 0)
            while after < last:
                upto = min(after + SPAN, last)
                yield self._store.naming(self._tenant, texts, lane, after, upto)
                self._done, after = self._done + upto - after, upto
                if reached is not None:
                    reached[lane] = upto
                self.report()

    def report(self) -> None:
        """Report progress to the caller, who may cancel by raising."""
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def holds(self, by: str, values: Iterable[str]) -> Iterator[list[StoredHold]]:
        """Yield stored holds with one of these values, page by page: their entries may be archived."""
        for value in values if by != "claim" else ():
            page = self._store.marked_holds(self._tenant, by, value, "", PAGE)
            while page:
                yield page
                self._holds += len(page)
                self._done, self._total = self._done + len(page), self._total + len(page)
                self.report()
                page = self._store.marked_holds(self._tenant, by, value, page[-1].id, PAGE) if len(page) == PAGE else []


def of_hold(entry: Entry) -> bool:
    """Return whether an entry is about a hold, which its subject names."""
    baseline = entry.action is Action.JOURNAL_BASELINE and entry.hold is not None
    return baseline or entry.action.of_hold


def texts_of_pools(pools: Sequence[str]) -> list[str]:
    """Return the texts that an entry contains if it names one of these pools of claims; for many pools, the beginning of all claims' ids."""
    return [CLAIMS] if len(pools) > MANY else [text for id in pools for text in texts_of(id)]


def tells_more(after: Entry, before: Entry) -> bool:
    """Return whether more is erased of an entry than what it says of pools."""
    return (after.hold, after.change, after.actor, after.reason) != (
        before.hold,
        before.change,
        before.actor,
        before.reason,
    )


def about_their_pools(rows: Rows, erasure: Erasure, holds: Iterable[StoredHold]) -> list[JournalRow]:
    """Return every entry about the pools of faces that erased holds were placed on: one of them may be of the same command."""
    pools = {leg.pool for hold in holds if hold.id in erasure.holds for leg in hold.legs if leg.pool.startswith("~")}
    return rows.entries_about(erasure.selector.tenant, sorted(pools)) if pools else []


def in_order(entries: Iterable[tuple[JournalRow, Entry]]) -> list[tuple[JournalRow, Entry]]:
    """Sort entries by lane and number, each once."""
    every = {(row.lane, row.seq): (row, entry) for row, entry in entries}
    return [one for _, one in sorted(every.items())]


def resealed(done: Rewrites, find: Callable[[JournalRow], Seal | None]) -> list[Seal]:
    """Return the seals over rewritten entries, without the salts by which a reader could guess erased values."""
    seals: dict[tuple[int, int], Seal] = {}
    for row, after in (*done.entries, *done.archived):
        seal = find(row)
        if seal is not None:
            before, key = decode_entry(row.text), (seal.lane, seal.first)
            seals[key] = erased(seals.get(key, seal), row.seq, before, replaced(before, after))
    return list(seals.values())


def with_totals(done: Rewrites, lanes: Iterable[ArchivedLane], stored: Callable[[int], StoredBaseline]) -> Rewrites:
    """Add the totals of the baselines whose rows are replaced. `lanes` are the archived lanes as they were before."""
    after = {one.lane: one for one in done.lanes}
    totals: list[tuple[int, RowKey, str]] = []
    for one in lanes:
        put = [(key, body) for lane, key, body in done.baseline if lane == one.lane and key[0] in COUNTED]
        gone = [key for lane, key in done.baseline_gone if lane == one.lane and key[0] in COUNTED]
        if one.through and (put or gone):
            baseline = stored(one.lane)
            loaded = baseline.load([*gone, *(key for key, _ in put), TOTAL_KEY])
            step = with_total(one, after.get(one.lane, one), put, gone, loaded, baseline)
            totals += [(one.lane, *step.put[-1])]
    return structs.replace(done, baseline=[*done.baseline, *totals]) if totals else done


def parts(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split a sequence into parts of at most `size`."""
    return (whole[at : at + size] for at in range(0, len(whole), size))
