"""What an erasure (`erase_job`) needs of a SQL engine, and what one of its transactions replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.model import Pool, StoredHold
from ..core.outcomes import Operation
from ..core.personal import fields
from ..core.reading import JournalRow
from ..core.seals import Seal, erased
from .whole_journal import Progress

SPAN: Final = 10_000
"""Entries that one statement searches."""
PAGE: Final = 500
"""Holds that are read at a time."""


class Rewrites(Struct):
    """What one transaction replaces."""

    entries: list[tuple[JournalRow, Entry]] = []
    """Each with the row as it was."""
    holds: list[StoredHold] = []
    pools: list[Pool] = []
    operations: list[Operation] = []
    account: tuple[str, str, str] | None = None
    """In legs and tallies: tenant, account, and its stub."""
    account_pools: tuple[str, ...] = ()
    """Those whose tallies are merged: locked, all that the account uses."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to replace."""
        return not (self.entries or self.holds or self.pools or self.operations or self.account)


class Rows(Protocol):
    """An open transaction: what can be read in it, and what is written at its end. No other erasure has one open."""

    def lock(self, tenant: str, pools: Sequence[str], holds: Sequence[str]) -> None:
        """First of all: lock these pools, these holds with all of their pools, and the pools of their claims, against everybody who would
        change them. Entries that name these holds, or change these pools, cannot be added until the transaction ends."""
        ...

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Every entry about these subjects, in order of lane and number."""
        ...

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """The same entries as they are now."""
        ...

    def holds(self, tenant: str, ids: Sequence[str]) -> list[StoredHold]:
        """Those of these holds that are stored. They, or their pools, are locked."""
        ...

    def pools(self, tenant: str, ids: Sequence[str]) -> list[Pool]:
        """Those of these pools that are stored; locked, if they were not."""
        ...

    def operations(self, tenant: str, after: str, limit: int) -> list[Operation]:
        """Recorded answers that are stored whole, by id."""
        ...


class Store(Protocol):
    """What an engine provides."""

    def ends(self) -> Mapping[int, int]:
        """The last number of each lane."""
        ...

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:
        """The tenant's entries in a span of numbers whose text contains any of these, in order."""
        ...

    def marked_holds(self, tenant: str, by: str, value: str, after: str, limit: int) -> list[StoredHold]:
        """Stored holds whose column `by` (entity, account, actor) has this value, by id."""
        ...

    def remember(self, id: str, stub: str) -> str:
        """The stub of an erasure that has begun under this id, if there is one; else remember this one."""
        ...

    def forget(self, id: str) -> None:
        """The erasure has ended, or there was nothing to erase."""
        ...

    def remembered(self, id: str) -> str | None:
        """The stub of an erasure that has begun under this id."""
        ...

    def change(self, work: Callable[[Rows], Rewrites]) -> Rewrites:
        """Run `work` in a transaction, write what it returns, commit. It may run more than once, if nothing was committed."""
        ...


class Search:
    """Finds what names somebody, outside of transactions, and reports how far it is."""

    def __init__(self, store: Store, tenant: str, progress: Progress | None) -> None:
        self._store, self._tenant, self._progress = store, tenant, progress
        self._done, self._total = 0, sum(store.ends().values())

    def entries(self, texts: Sequence[str], reached: dict[int, int] | None = None) -> Iterator[list[JournalRow]]:
        """Entries that contain any of these texts, span by span: all, or those behind what was `reached`, which is moved on."""
        ends = dict(self._store.ends())
        if not reached:
            self._total, self._done = sum(ends.values()), 0
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
        """Tell the caller; who may cancel by raising."""
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def holds(self, by: str, values: Iterable[str]) -> Iterator[list[StoredHold]]:
        """Stored holds with one of these values, page by page: their entries may be archived."""
        for value in values if by != "claim" else ():
            page = self._store.marked_holds(self._tenant, by, value, "", PAGE)
            while page:
                yield page
                page = self._store.marked_holds(self._tenant, by, value, page[-1].id, PAGE) if len(page) == PAGE else []


def resealed(done: Rewrites, find: Callable[[JournalRow], Seal | None]) -> list[Seal]:
    """The seals over rewritten entries: what could be guessed from their salts is destroyed with the values."""
    seals: dict[tuple[int, int], Seal] = {}
    for row, after in done.entries:
        seal = find(row)
        if seal is not None:
            before, left = decode_entry(row.text), fields(after)
            which = [path for path, value in fields(before).items() if left[path] != value]
            key = (seal.lane, seal.first)
            seals[key] = erased(seals.get(key, seal), row.seq, before, which)
    return list(seals.values())
