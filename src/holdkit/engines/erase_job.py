"""Erasure on SQL engines: finds what names the person, and rewrites it in transactions of bounded size. Decides nothing: `core.erasure`
says what becomes of each row.

Theory of operation. `verify` must find nothing to report at any moment, so what one transaction rewrites must be whole:

1. *Holds.* The journal is searched for the text of the selected value, outside of transactions, and so are the rows. Each hold that is
   found is rewritten as a whole: all of its entries, those about pools that its command has created, its row, and the row of each of its
   claims' pools that one of these entries was the last to change. Up to `HOLDS` holds go into one transaction; a hold is never divided.
2. *Pools.* Entries about an erased claim's pool that belong to other holds, in ascending order; the pool's row goes with the
   last of them. The same pass finds entries that name a selected actor or entity without being a hold's, and holds that others have
   written meanwhile: these are rewritten as a whole. At the end the pools are locked, and with their rows go the entries that
   were written behind the search.
3. *Records* that tell of the person or of an erased hold: each is replaced together with the entry that wrote it, unless it is in use;
   what it said earlier is replaced in any order.
4. *Recorded answers*, page by page.
5. *Ids.* The pools of erased claims get other ids (`erase_claims`), also in recorded answers.

An account is the key of tallies, whose sums run through its entries: all of an account is one transaction, however long. The journal
is searched before it; behind the locks only what was written since is searched. If that names a pool that is not locked,
the transaction ends without a change, and the next one locks that pool too.

*Killed anywhere*, each transaction is done or not. Run again, the command finds the rest: what is done no longer names the value.
*Writers* continue between two transactions. This run does not find what they write about the person after it has searched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.erased_names import stubs_in
from ..core.erasure import Erased, Erasure, texts_of
from ..core.model import Pool, RecordKey, StoredHold
from ..core.reading import JournalRow
from ..errors import Overloaded
from .erase_claims import RenameClaim
from .erase_records import erase_records
from .erasing import (
    Rewrites,
    Rows,
    Search,
    Store,
    about_their_pools,
    in_order,
    of_hold,
    parts,
    tells_more,
    texts_of_pools,
)
from .progress import Progress

PORTION: Final = 1_000
"""About how many entries one transaction rewrites."""
PAGE: Final = 500
"""Recorded answers that are read at a time."""
HOLDS: Final = 50
"""Holds that one transaction rewrites."""
POOLS: Final = 200
"""Pools of claims that one transaction rewrites at the end."""
ROUNDS: Final = 10
"""How often an account's transaction begins anew because the account came to use another pool meanwhile."""


class EraseJob:
    """One erasure."""

    def __init__(self, store: Store, erasure: Erasure, progress: Progress | None, *, dry_run: bool) -> None:
        self._store, self.erasure, self._dry_run = store, erasure, dry_run
        self._values: tuple[str, ...] = (erasure.selector.value,)
        self._tenant = erasure.selector.tenant
        self._find, self._began = Search(store, self._tenant, progress), store.ends()
        self._entries: set[tuple[int, int]] = set()
        self._operations: set[str] = set()
        self._pools: set[str] = set()
        self._holds: set[str] = set()
        self._records: set[RecordKey] = set()
        self._others: list[JournalRow] = []
        """Entries that name an account, and are not about one of its holds."""
        self._beside: set[str] = set()
        """The holds that such entries are about."""
        self._unrecognised = False
        """Whether what recognises the account must be stored before it is erased."""
        self._stubs: set[str] = set()
        """What an account is called in entries since it was erased before."""

    def run(self) -> Erased:
        """Erase everything, or the rest of an interrupted run."""
        erasure, selector = self.erasure, self.erasure.selector
        begun = self._store.remembered(erasure.id)
        stub = begun or (erasure.stub if self._dry_run else self._store.remember(erasure.id, erasure.stub))
        if selector.by != "account":  # one transaction: what came after it belongs to another account
            erasure.stub = stub
        if begun is not None and selector.by in ("entity", "account"):  # what is done is found by the stub
            erasure.aliases = frozenset((begun, *(erasure.new.stubs() if selector.by == "account" else ())))
        self._values = (selector.value, *sorted(erasure.aliases))
        (self._erase_account if selector.by == "account" else self._erase_holds)()
        self._erase_attempts()
        if selector.by != "account":
            self._erase_named()
        erase_records(self._find, erasure, self._write)
        if erasure.gone():  # a run that was killed behind the next step could not find their holds by the keys
            self._erase_operations()
        for pool in sorted(erasure.gone()):
            RenameClaim(self._store, erasure, self._find, self._write, pool, dry_run=self._dry_run).run()
        self._erase_operations()
        erased = Erased(
            stub=erasure.stub, resumed=begun is not None, holds=len(self._holds), entries=len(self._entries), pools=len(self._pools),
            operations=len(self._operations), accounts=tuple(sorted(self.erasure.accounts)[:100]), records=len(self._records),
            in_use=self.erasure.records.listed(), dry_run=self._dry_run,
        )  # fmt: skip
        if begun is None and not self._dry_run and not erased.found:
            self._store.forget(erasure.id)
        return erased

    # Holds, and what belongs to them

    def _erase_holds(self) -> None:
        by_actor = self.erasure.selector.by == "actor"
        for page in self._find.holds(self.erasure.selector.by, self._values):
            self._change([hold.id for hold in page if by_actor or self.erasure.learn_hold(hold)])
        for rows in self._find.entries([text for value in self._values for text in texts_of(value)]):
            named = [entry for entry in map(_entry, rows) if self.erasure.learn(entry) or (by_actor and of_hold(entry))]
            self._change([*dict.fromkeys(entry.subject for entry in named)])

    def _erase_attempts(self) -> None:
        """Rewrite the holds that had an erased key and no account, with the claims that these had, in rounds. Does not wait for new ones."""
        for _ in range(ROUNDS if self.erasure.gone() else 0):
            texts = texts_of_pools(self.erasure.gone())
            found = (_entry(row) for rows in self._find.entries(texts) for row in rows)
            new = self.erasure.learn_attempts(found)
            self._change(new)
            if not new:
                return

    def _change(self, holds: Sequence[str]) -> None:
        """Rewrite holds as a whole, at most `HOLDS` per transaction, so that each transaction stays short."""
        for part in parts(holds, HOLDS):
            self._write(lambda rows, part=part: self._rewritten(rows, part))  # type: ignore[misc]

    def _rewritten(self, rows: Rows, holds: Sequence[str]) -> Rewrites:
        rows.lock(self._tenant, (), holds)
        return self._whole(rows, rows.holds(self._tenant, holds), rows.entries_about(self._tenant, holds))

    def _whole(self, rows: Rows, stored: Sequence[StoredHold], journal: Sequence[JournalRow]) -> Rewrites:
        """Return the rewrites of these holds, with all of their entries."""
        erasure = self.erasure
        entries = [(row, decode_entry(row.text)) for row in journal]
        births = [*stored, *(entry.hold for _, entry in entries if entry.hold is not None)]
        for hold in births:
            erasure.learn_birth(hold)
        beside = [(row, decode_entry(row.text)) for row in about_their_pools(rows, erasure, births)]
        entries = in_order([*entries, *(one for one in beside if erasure.is_beside(one[1]))])
        for id in sorted({id for hold in births for id in erasure.undecided_pools(hold)}):
            found = rows.pools(self._tenant, [id])
            erasure.decide_pool(id, found[0] if found else None)
        rewritten = [(row, after) for row, entry in entries if (after := erasure.entry(entry)) is not entry]
        changed = [row for hold in stored if (row := erasure.hold(hold)) != hold]
        return Rewrites(rewritten, changed, self._last_changed(rows, [entry for _, entry in entries]))

    def _last_changed(self, rows: Rows, entries: Iterable[Entry]) -> list[Pool]:
        """Return the erased rows of those pools that one of these entries was the last to change."""
        erasure = self.erasure
        states = {effect.pool.id: effect.pool for entry in entries for effect in entry.effects}
        wanted = [id for id, pool in states.items() if erasure.pool(pool) != pool]
        found = rows.pools(self._tenant, sorted(wanted)) if wanted else []
        return self._changed(pool for pool in found if pool.version == states[pool.id].version)

    def _changed(self, pools: Iterable[Pool]) -> list[Pool]:
        return [after for pool in pools if (after := self.erasure.pool(pool)) != pool]

    # What is not a hold's

    def _erase_named(self) -> None:
        """Rewrite all other entries that name the value, or a claim's pool whose key is erased; then the rows of these pools."""
        searched: list[str] | None = None
        reached: dict[int, int] = {}
        for _ in range(ROUNDS):
            gone = self.erasure.gone()
            if gone != searched:
                reached.clear()  # other pools: from the first entry on
            searched = gone
            texts = [*texts_of(self.erasure.selector.value), *texts_of_pools(self.erasure.keys())]
            for found in self._find.entries(texts, reached):
                whole, rest = self._sorted(found, gone)
                self._change(whole)
                for part in parts(rest, PORTION):
                    self._write(lambda rows, part=part: self._rewritten_at(rows, part))  # type: ignore[misc]
            finished = [self._finish_pools(pools, reached) for pools in parts(gone, POOLS)]
            if all(finished) and sum(self.erasure.pools.values()) == len(gone):
                return
        raise Overloaded("what is erased is written anew all the time: stop that, and erase it again", retry_after=1.0)

    def _sorted(self, found: Iterable[JournalRow], gone: Collection[str]) -> tuple[list[str], list[JournalRow]]:
        """Sort entries into the holds to be rewritten as a whole, because the entries say more that is erased than what they say of a
        pool, and the other entries. Leaves out what others write about the person meanwhile, unless it is on one of these pools."""
        erasure = self.erasure
        whole: dict[str, None] = {}
        rest: list[JournalRow] = []
        for row in found:
            entry = _entry(row)
            new = entry.subject not in erasure.holds and erasure.concerns(entry)
            if new and not any(one.pool.id in gone for one in entry.effects):
                continue
            if of_hold(entry) and (erasure.learn(entry) or tells_more(erasure.entry(entry), entry)):
                whole[entry.subject] = None
            else:
                rest.append(row)
        return list(whole), rest

    def _finish_pools(self, pools: Sequence[str], reached: Mapping[int, int]) -> bool:
        """Rewrite the rows of these pools, and the entries about them written since the search; or nothing, and return False, if a hold
        among these must be rewritten as a whole."""
        done: list[bool] = []

        def work(rows: Rows) -> Rewrites:
            rows.lock(self._tenant, pools, ())
            late = [row for found in self._find.entries(texts_of_pools(pools), dict(reached)) for row in found]
            late = [row for row in late if any(one.pool.id in pools for one in _entry(row).effects)]
            whole, rest = self._sorted(late, pools)
            done.append(not whole)
            if whole:
                return Rewrites()
            after = self._rewritten_at(rows, rest)
            known = {pool.id for pool in after.pools}
            unchanged = [pool for pool in self._changed(rows.pools(self._tenant, pools)) if pool.id not in known]
            return structs.replace(after, pools=[*after.pools, *unchanged])

        self._write(work)
        return done[-1]

    def _rewritten_at(self, rows: Rows, found: Sequence[JournalRow]) -> Rewrites:
        """Return the rewrites of these entries, and of the pools that one of them was the last to change. The entries of a hold that is
        rewritten as a whole are not among them."""
        journal = [(row, decode_entry(row.text)) for row in rows.entries_at(found)]
        entries = [(row, after) for row, entry in journal if (after := self.erasure.entry(entry)) is not entry]
        return Rewrites(entries, pools=self._last_changed(rows, [entry for _, entry in journal]))

    # Accounts, and recorded answers

    def _erase_account(self) -> None:
        erasure = self.erasure
        reached: dict[int, int] = {}
        pools: set[str] = set()
        for page in self._find.holds("account", self._values):
            pools.update(name for hold in page if erasure.learn_hold(hold) for name in hold.pools)
        for _ in range(ROUNDS):
            pools |= self._learn_account(reached)
            if not (erasure.holds or pools):
                return
            done: list[bool] = []
            self._write(lambda rows: self._rewritten_account(rows, pools, dict(reached), done))  # noqa: B023
            if done[-1]:
                return
            if self._unrecognised:
                erasure.new.store("erased_accounts", erasure.new.stored.accounts + 1)
                self._unrecognised = False
                reached.clear()  # the names that it had before were not searched for
        raise Overloaded(
            "the account came to use more pools all the time: nothing was erased; stop that first", retry_after=1.0
        )

    def _learn_account(self, reached: dict[int, int]) -> set[str]:
        """Read what was written since the search, learn the account's holds in it, and return the pools that the account uses there."""
        erasure, pools = self.erasure, set[str]()
        texts = [text for name in self._values for text in texts_of(name)]
        before = [erasure.new.first_stub] if erasure.new.stored.accounts else []
        for named in self._find.entries([*texts, *before], reached):
            for row in named if before else ():
                self._stubs |= stubs_in(row.text, erasure.new.first_stub)
            found = [row for row in named if any(text in row.text for text in texts)] if before else named
            for entry in map(_entry, found):
                erasure.learn(entry)
                tallies = ((one.pool.id, one.tally) for one in entry.effects)
                pools.update(id for id, tally in tallies if tally is not None and tally.account in self._values)
                pools.update(() if entry.hold is None or entry.subject not in erasure.holds else entry.hold.pools)
            others = [row for row in found if _entry(row).subject not in erasure.holds]
            self._beside.update(self._sorted(others, ())[0])
            self._others += others
        return pools

    def _rewritten_account(
        self, rows: Rows, pools: Iterable[str], reached: dict[int, int], done: list[bool]
    ) -> Rewrites:
        """Return the rewrites of everything of one account; none if it has come to use a pool or hold that is not locked. Appends to
        `done` whether they are complete."""
        erasure, tenant = self.erasure, self._tenant
        known = {*erasure.holds, *self._beside}
        rows.lock(tenant, sorted(pools), sorted(known))
        late = self._learn_account(reached)
        done.append(late <= set(pools) and self._beside <= known)
        if not done[-1]:
            return Rewrites()
        if not self._dry_run and rows.uses(tenant, erasure.selector.value, sorted(pools)):
            stub = erasure.new.next_stub(self._stubs)
            self._unrecognised, done[-1] = stub is None, stub is not None
            if stub is None:
                return Rewrites()
            erasure.stub = stub
        holds = sorted({*erasure.holds, *self._beside})
        about = (*rows.entries_at(self._others), *rows.entries_about(tenant, holds))
        unique = {(row.lane, row.seq): row for row in about}
        after = self._whole(rows, rows.holds(tenant, holds), [row for _, row in sorted(unique.items())])
        after.account, after.account_pools = (tenant, erasure.selector.value, erasure.stub), tuple(sorted(pools))
        return after

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

    def _write(self, work: Callable[[Rows], Rewrites]) -> None:
        nothing = Rewrites()
        tried: list[Rewrites] = []

        def counted(rows: Rows) -> Rewrites:
            tried.append(work(rows))
            return nothing if self._dry_run else tried[-1]

        self._store.change(counted)
        self._find.report()
        for done in tried:  # more than one: the connection was lost, perhaps after the commit
            there = ((row.lane, row.seq) for row, _ in done.entries)  # what it has written itself does not count
            self._entries.update((lane, seq) for lane, seq in there if seq <= self._began.get(lane, 0))
            self._pools.update(pool.id for pool in done.pools)
            self._pools.update(before for before, _ in done.renamed)
            self._records.update(record.key for record in done.records)
            self._operations.update(operation.id for operation in done.operations)
            self._holds.update(hold.id for hold in done.holds)
            self._holds.update(entry.subject for _, entry in done.entries if entry.subject in self.erasure.holds)


def _entry(row: JournalRow) -> Entry:
    return decode_entry(row.text)
