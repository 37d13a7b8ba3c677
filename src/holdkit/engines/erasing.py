"""Erasure on SQL engines: finds what names the person, and rewrites it in transactions of bounded size. Decides nothing: `core.erasure`
says what becomes of each row.

Theory of operation. `verify` must find nothing to report at any moment, so what one transaction rewrites must be whole:

1. *Holds.* The journal is searched for the text of the selected value, outside of transactions, and so are the rows. Each hold that
   is found is rewritten as a whole: all of its entries, its row, and the rows of its claims' pools as far as one of these entries
   is the last that changed the pool. About `PORTION` entries go into one transaction; a hold is never divided.
2. *Pools.* Entries about an erased claim's pool that belong to other holds, in ascending order; the pool's row goes with the
   last of them. The same pass finds entries that name a selected actor or entity without being a hold's.
3. *Recorded answers*, page by page.

An account is the key of tallies, whose sums run through its entries: all of an account is one transaction, however long.

*Killed anywhere*, each transaction is done or not. The same command finds what is left: what is done no longer names the value.
*Writers* go on between two transactions. What they write about the person behind the search is not found by this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct, structs

from ..core.codec import decode_entry
from ..core.entries import Action, Entry
from ..core.erasure import Erased, Erasure, texts_of
from ..core.model import Pool, StoredHold
from ..core.outcomes import Operation
from ..core.reading import JournalRow
from .whole_journal import Progress

T = TypeVar("T")

PORTION: Final = 1_000
"""About how many entries one transaction rewrites."""
SPAN: Final = 10_000
"""Entries that one statement searches."""
PAGE: Final = 500
"""Holds, or recorded answers, that are read at a time."""


class Rewrites(Struct):
    """What one transaction replaces."""

    entries: list[tuple[JournalRow, Entry]] = []
    """Each with the row as it was."""
    holds: list[StoredHold] = []
    pools: list[Pool] = []
    operations: list[Operation] = []
    account: tuple[str, str, str] | None = None
    """In legs and tallies: tenant, account, and its stub."""


class Rows(Protocol):
    """An open transaction: what can be read in it, and what is written at its end."""

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Every entry about these subjects, in order of lane and number."""
        ...

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """The same entries as they are now."""
        ...

    def holds(self, tenant: str, ids: Sequence[str]) -> list[StoredHold]:
        """Those of these holds that are stored, locked against everybody who would change them."""
        ...

    def pools(self, tenant: str, ids: Sequence[str]) -> list[Pool]:
        """Those of these pools that are stored, locked in the same way."""
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


class EraseJob:
    """One erasure."""

    def __init__(self, store: Store, erasure: Erasure, progress: Progress | None, *, dry_run: bool) -> None:
        self._store, self.erasure, self._progress, self._dry_run = store, erasure, progress, dry_run
        self._done = self._total = 0
        self._values: tuple[str, ...] = (erasure.selector.value,)
        self._tenant = erasure.selector.tenant
        self._entries: set[tuple[int, int]] = set()
        self._operations = 0
        self._pools: set[str] = set()
        self._holds: set[str] = set()

    def run(self) -> Erased:
        """Everything, or what is left of a run that was interrupted."""
        erasure, selector = self.erasure, self.erasure.selector
        begun = self._store.remembered(erasure.id)
        erasure.stub = begun or (erasure.stub if self._dry_run else self._store.remember(erasure.id, erasure.stub))
        if begun is not None and selector.by == "entity":  # the pools of holds that are done are found by the stub
            self._values = (selector.value, begun)
        self._total = sum(self._store.ends().values())
        if selector.by == "account":
            self._erase_account()
        else:
            self._erase_holds()
            gone = [id for id, erased in self.erasure.pools.items() if erased]
            self._erase_named([text for value in {*gone, selector.value} for text in texts_of(value)])
            self._write(lambda rows: Rewrites(pools=self._changed(rows.pools(self._tenant, gone))))
        self._erase_operations()
        erased = Erased(
            stub=erasure.stub, resumed=begun is not None, holds=len(self._holds), entries=len(self._entries), pools=len(self._pools),
            operations=self._operations, accounts=tuple(sorted(self.erasure.accounts)[:100]),
            dry_run=self._dry_run,
        )  # fmt: skip
        if begun is None and not self._dry_run and not erased.found:
            self._store.forget(erasure.id)
        return erased

    # Finding

    def _search(self, texts: Sequence[str]) -> Iterator[list[JournalRow]]:
        """Entries that contain any of these texts, span by span."""
        ends = dict(self._store.ends())
        self._total, self._done = sum(ends.values()), 0
        for lane, last in sorted(ends.items()):
            after = 0
            while after < last:
                upto = min(after + SPAN, last)
                yield self._store.naming(self._tenant, texts, lane, after, upto)
                self._done, after = self._done + upto - after, upto
                self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def _marked(self) -> Iterator[StoredHold]:
        """Stored holds with the value: their entries may be archived."""
        by = self.erasure.selector.by
        for value in self._values if by != "claim" else ():
            page = self._store.marked_holds(self._tenant, by, value, "", PAGE)
            while page:
                yield from page
                page = self._store.marked_holds(self._tenant, by, value, page[-1].id, PAGE) if len(page) == PAGE else []

    # Holds, and what belongs to them

    def _erase_holds(self) -> None:
        by_actor = self.erasure.selector.by == "actor"
        for page in _pages(self._marked()):
            self._change([hold.id for hold in page if by_actor or self.erasure.learn_hold(hold)])
        for rows in self._search([text for value in self._values for text in texts_of(value)]):
            named = [
                entry for entry in map(_entry, rows) if self.erasure.learn(entry) or (by_actor and _of_hold(entry))
            ]
            self._change([*dict.fromkeys(entry.subject for entry in named)])

    def _change(self, holds: Sequence[str]) -> None:
        """Rewrite these holds as a whole, so many at a time that a transaction stays short."""
        for at in range(0, len(holds), PAGE // 10):
            part = holds[at : at + PAGE // 10]
            self._write(lambda rows, part=part: self._rewritten(rows, part))  # type: ignore[misc]

    def _rewritten(self, rows: Rows, holds: Sequence[str]) -> Rewrites:
        return self._whole(rows, rows.holds(self._tenant, holds), rows.entries_about(self._tenant, holds))

    def _whole(self, rows: Rows, stored: Sequence[StoredHold], journal: Sequence[JournalRow]) -> Rewrites:
        """These holds, with all of their entries."""
        erasure = self.erasure
        entries = [(row, decode_entry(row.text)) for row in journal]
        births = [*stored, *(entry.hold for _, entry in entries if entry.hold is not None)]
        for hold in births:
            erasure.learn_birth(hold)
        for id in sorted({id for hold in births for id in erasure.undecided_pools(hold)}):
            found = rows.pools(self._tenant, [id])
            erasure.decide_pool(id, found[0] if found else None)
        rewritten = [(row, after) for row, entry in entries if (after := erasure.entry(entry)) is not entry]
        changed = [row for hold in stored if (row := erasure.hold(hold)) != hold]
        return Rewrites(rewritten, changed, self._last_changed(rows, [entry for _, entry in entries]))

    def _last_changed(self, rows: Rows, entries: Iterable[Entry]) -> list[Pool]:
        """The rows of those pools that one of these entries was the last to change, where erasure changes them."""
        erasure = self.erasure
        states = {effect.pool.id: effect.pool for entry in entries for effect in entry.effects}
        wanted = [id for id, pool in states.items() if erasure.pool(pool) != pool]
        found = rows.pools(self._tenant, sorted(wanted)) if wanted else []
        return self._changed(pool for pool in found if pool.version == states[pool.id].version)

    def _changed(self, pools: Iterable[Pool]) -> list[Pool]:
        return [after for pool in pools if (after := self.erasure.pool(pool)) != pool]

    # What is not a hold's

    def _erase_named(self, texts: Sequence[str]) -> None:
        """Rewrite all other entries that contain any of these texts."""
        for found in self._search(texts):
            for at in range(0, len(found), PORTION):
                part = found[at : at + PORTION]
                self._write(lambda rows, part=part: self._rewritten_at(rows, part))  # type: ignore[misc]

    def _rewritten_at(self, rows: Rows, found: Sequence[JournalRow]) -> Rewrites:
        journal = [(row, decode_entry(row.text)) for row in rows.entries_at(found)]
        entries = [(row, after) for row, entry in journal if (after := self.erasure.entry(entry)) is not entry]
        return Rewrites(entries, pools=self._last_changed(rows, [entry for _, entry in journal]))

    # Accounts, and recorded answers

    def _erase_account(self) -> None:
        erasure, selector = self.erasure, self.erasure.selector
        texts = [*texts_of(selector.value), *texts_of(erasure.stub)]
        found = [row for rows in self._search(texts) for row in rows]
        for hold in self._marked():
            erasure.learn_hold(hold)
        for row in found:
            erasure.learn(decode_entry(row.text))
        if erasure.holds or found:
            self._write(lambda rows: self._rewritten_account(rows, texts))

    def _rewritten_account(self, rows: Rows, texts: Sequence[str]) -> Rewrites:
        """All of an account. Its holds are locked first; the journal is searched again behind the lock."""
        erasure = self.erasure
        holds = sorted(erasure.holds)
        stored = [hold for at in range(0, len(holds), PAGE) for hold in rows.holds(self._tenant, holds[at : at + PAGE])]
        erasure.begin_again()
        about = [
            row for at in range(0, len(holds), PAGE) for row in rows.entries_about(self._tenant, holds[at : at + PAGE])
        ]
        named = [row for found in self._search(texts) for row in found]
        unique = {(row.lane, row.seq): row for row in (*about, *named)}
        done = self._whole(rows, stored, [row for _, row in sorted(unique.items())])
        done.account = (self._tenant, erasure.selector.value, erasure.stub)
        return done

    def _erase_operations(self) -> None:
        after = ""
        while True:
            last = [""]

            def work(rows: Rows, after: str = after, last: list[str] = last) -> Rewrites:
                page = rows.operations(self._tenant, after, PAGE)
                last[0] = page[-1].id if len(page) == PAGE else ""
                changed = []
                for operation in page:
                    outcome = self.erasure.outcome(operation.tenant, operation.outcome)
                    if outcome is not operation.outcome:
                        changed.append(structs.replace(operation, outcome=outcome))
                return Rewrites(operations=changed)

            self._write(work)
            if not last[0]:
                return
            after = last[0]

    # Writing

    def _write(self, work: Callable[[Rows], Rewrites]) -> None:
        nothing = Rewrites()
        done = [nothing]

        def counted(rows: Rows) -> Rewrites:
            done[0] = work(rows)
            return nothing if self._dry_run else done[0]

        self._store.change(counted)
        self._report()
        self._entries.update((row.lane, row.seq) for row, _ in done[0].entries)
        self._operations += len(done[0].operations)
        self._pools.update(pool.id for pool in done[0].pools)
        self._holds.update(hold.id for hold in done[0].holds)
        self._holds.update(entry.subject for _, entry in done[0].entries if entry.subject in self.erasure.holds)


def _entry(row: JournalRow) -> Entry:
    return decode_entry(row.text)


def _of_hold(entry: Entry) -> bool:
    return entry.action.startswith(("hold.", "leg.")) or (
        entry.action is Action.JOURNAL_BASELINE and entry.hold is not None
    )


def _pages(holds: Iterable[StoredHold]) -> Iterator[list[StoredHold]]:
    page: list[StoredHold] = []
    for hold in holds:
        page.append(hold)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page
