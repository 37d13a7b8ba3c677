"""Give the pools of erased claims other ids: the id of a claim's pool is a hash of its key, against which a reader could try keys.

Theory of operation. A pool's id is in every entry about it, in its row, its outstanding legs and the holds that have or had it. `verify`
folds the entries by that id, so all of it is replaced in one transaction, pool by pool. The journal is searched before it; behind the locks
only what was written since is searched. The transaction ends without a change, and is tried anew, if

- another hold has come to the pool meanwhile, or the pool itself has come into being: it is not locked yet;
- the claim is taken, and others do not know yet that taken claims are erased: that is stored first (`core.erased_names`); - the claim is
  free, and its pool is stored: it is removed first, with an entry, so that the key's next fence is above its last one;
- the claim is taken, and an earlier life of the key has the id that it is to get: that one, which is over, gets a random id first.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeAlias

from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.erasure import Erasure, texts_of
from ..core.new_names import is_taken
from ..core.reading import JournalRow
from ..errors import Overloaded
from .erasing import Rewrites, Rows, Search, Store, of_hold

ROUNDS: Final = 20
"""How often a pool is tried."""

Write: TypeAlias = Callable[[Callable[[Rows], Rewrites]], None]
"""Runs a transaction, and counts what it replaces."""


class _Next(Enum):
    """What an attempt has come to."""

    DONE = auto()
    AGAIN = auto()
    STORE_NAMES = auto()
    MOVE_EARLIER = auto()
    REMOVE = auto()


class RenameClaim:
    """Renames the pool of one claim."""

    def __init__(self, store: Store, erasure: Erasure, find: Search, write: Write, pool: str, *, dry_run: bool) -> None:
        self._store, self._erasure, self._find, self._write, self._dry_run = store, erasure, find, write, dry_run
        self._pool, self._tenant = pool, erasure.selector.tenant
        self._reached: dict[int, int] = {}
        self._rows: dict[tuple[int, int], JournalRow] = {}
        """The entries that name the pool."""
        self._holds: set[str] = set()
        """The holds that these are about."""
        self._earlier = False
        """Whether an entry names the id that the pool gets if it is taken."""

    def run(self) -> None:
        """Rename the pool. Retry while other writers change it; after `ROUNDS` attempts raise `Overloaded`."""
        for _ in range(ROUNDS):
            self._search(self._reached)
            ended: list[_Next] = []
            self._write(lambda rows: self._renamed(rows, ended))  # noqa: B023
            if ended[-1] is _Next.DONE:
                return
            if ended[-1] is _Next.STORE_NAMES:
                self._erasure.new.store("erased_claims", 1)
                self._store.settle()
            elif ended[-1] is _Next.REMOVE:
                self._erasure.new.remove(self._pool)
            elif ended[-1] is _Next.MOVE_EARLIER:
                earlier = self._erasure.new.taken_id(self._pool)
                RenameClaim(self._store, self._erasure, self._find, self._write, earlier, dry_run=self._dry_run).run()
                self._earlier = False
        raise Overloaded("an erased claim is changed all the time: stop that, and erase it again", retry_after=1.0)

    def _search(self, reached: dict[int, int]) -> None:
        """Search the journal behind `reached`, and remember what names the pool."""
        taken = self._erasure.new.taken_id(self._pool)
        own, its = texts_of(self._pool), texts_of(taken) if self._erasure.new.stored.claims else ()
        for found in self._find.entries([*own, *its], reached):
            for row in found:
                self._earlier = self._earlier or any(text in row.text for text in its)
                if any(text in row.text for text in own):
                    self._rows[row.lane, row.seq] = row
                    entry = decode_entry(row.text)
                    if of_hold(entry):
                        self._holds.add(entry.subject)

    def _renamed(self, rows: Rows, ended: list[_Next]) -> Rewrites:
        erasure, tenant, ids = self._erasure, self._tenant, (self._pool, self._erasure.new.taken_id(self._pool))
        known = set(self._holds)
        rows.lock(tenant, ids, sorted(known))
        before = {pool.id: pool for pool in rows.pools(tenant, ids)}
        self._search(dict(self._reached))
        pools = {pool.id: pool for pool in rows.pools(tenant, ids)}
        ended.append(_Next.AGAIN)
        if self._holds != known or before.keys() != pools.keys():
            return Rewrites()
        pool, earlier = pools.get(self._pool), pools.get(ids[1])
        taken = is_taken(pool)
        if taken and not erasure.new.stored.claims and not self._dry_run:
            ended[-1] = _Next.STORE_NAMES
            return Rewrites()
        if pool is not None and not taken and not self._dry_run:
            ended[-1] = _Next.REMOVE
            return Rewrites()
        if taken and (self._earlier or earlier is not None):
            ended[-1] = _Next.MOVE_EARLIER
            return Rewrites()
        ended[-1] = _Next.DONE
        erasure.new.rename(self._pool, taken=taken)
        journal = [
            (row, decode_entry(row.text)) for row in rows.entries_at([row for _, row in sorted(self._rows.items())])
        ]
        entries = [(row, after) for row, entry in journal if (after := self._after(entry)) is not entry]
        stored = rows.holds(tenant, sorted(known))
        holds = [row for hold in stored if (row := erasure.new.hold(hold, erasure.stub)) != hold]
        renamed = [] if pool is None else [(self._pool, erasure.new.pool(pool, erasure.stub))]
        return Rewrites(entries, holds, renamed=renamed)

    def _after(self, entry: Entry) -> Entry:
        """Return an entry that names the pool with the new id. (A refused command may be erased because it asked for the key.)"""
        erasure = self._erasure
        return erasure.new.entry(entry if entry.refused is None else erasure.entry(entry), erasure.stub)
