"""Checks of declared capabilities: whatever an engine declares beyond the port must work; what it does not declare is not asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Semaphore

from msgspec.structs import replace

from ...core.command_kinds import Command
from ...core.commands import CreatePool, Group
from ...core.import_ import Carried
from ...core.lanes import lane_of_pool
from ...core.outcomes import Done
from ...core.reading import FindPool
from ...engines.port import Lent, NeedsThread
from ...engines.rollups import RECORDED, RollupPosition, RollupRow
from ...errors import InvalidRequest
from ...kernel.seal_check import verify_seals
from ...kernel.seals import Sealer
from .batches import word_of
from .harness import Harness, placing, prepared, require, require_equal
from .journal import exercise_everything


class _Stop(Exception):
    """Raised by application code."""


def repair_changes_no_sound_row(harness: Harness) -> None:
    """A declared repair finds nothing to repair in sound rows, and changes nothing."""
    repairable = harness.engine.capabilities.repair
    if repairable is None:
        return
    exercise_everything(harness)
    before = harness.rows()
    for dry_run in (True, False):
        found = repairable.repair(Command(actor="check"), dry_run=dry_run)
        require_equal((found.repaired, found.left), ((), ()), "what a repair of sound rows finds")
    require_equal(harness.rows(), before, "the journal after a repair of sound rows")
    harness.verify()


def imports_a_journal(harness: Harness) -> None:
    """A declared import takes a journal as it is, comes to the same state, and refuses if there is a journal already."""
    if harness.engine.capabilities.import_ is None:
        return
    exercise_everything(harness)
    carried = [Carried(line, entry) for line, entry in enumerate(harness.journal(), start=1)]
    pool = harness.pool("a")
    harness.open()
    target = harness.engine.capabilities.import_
    assert target is not None
    target.receive(carried, verify=True)
    require_equal(harness.pool("a"), pool, "a pool after the import")
    require_equal(len(harness.rows()), len(carried), "entries after the import")
    harness.verify()
    try:
        target.receive(carried, verify=True)
    except InvalidRequest:
        return
    require(False, "an import into an engine that is not empty must be refused")


def lends_a_transaction(harness: Harness) -> None:
    """What application code applies in a lent transaction is committed with it; what it raises is raised, and undoes it all."""
    lender = harness.engine.capabilities.lend
    if lender is None:
        return
    harness.pools(a=5)

    def place(number: int, then: Callable[[], None]) -> Callable[[Lent], list[str]]:
        def work(lent: Lent) -> list[str]:
            require((lent.tx is not None) is lender.sql, "`sql` says whether the application gets a connection")
            if not lender.sql:
                then()  # without SQL, what is applied is done at once
            (outcomes,) = lent.apply([prepared(Group((placing(number),)))]).outcomes
            then()
            return [word_of(outcome) for outcome in outcomes]

        return work

    require_equal(lender.lend(place(1, lambda: None)), ["done"], "what was applied in a lent transaction")
    require_equal(harness.pool("a").held, 1, "units held after it")
    before = harness.rows()
    try:
        lender.lend(place(2, _raise))
    except _Stop:
        pass
    else:
        require(False, "an exception of application code in a lent transaction did not reach the caller")
    require_equal(harness.rows(), before, "the journal after an exception of application code")
    harness.verify()


def _raise() -> None:
    raise _Stop


def marks_a_transaction(harness: Harness) -> None:
    """A mark in a lent transaction that is still open is found again."""
    lender, marking = harness.engine.capabilities.lend, harness.engine.capabilities.marks
    if lender is None or marking is None or not lender.sql:
        return
    lender.lend(lambda lent: marking.mark_in(lent.tx).check())
    harness.verify()


def grows_a_batch(harness: Harness) -> None:
    """A growing batch applies what it was given, and what it takes in late after that; it asks for more at most once."""
    growing = harness.engine.capabilities.growing_batches
    if growing is None:
        return
    harness.pools(a=5)
    groups = [prepared(Group((placing(number),))) for number in (1, 2)]
    asked: list[list[Group]] = []

    def add_late(fits: Callable[[Group], bool]) -> Sequence[Group]:
        asked.append([group for group in groups[1:] if fits(group)])
        return asked[-1]

    applied = growing.apply_growing(groups[:1], add_late)
    require(len(asked) <= 1, f"a growing batch asked {len(asked)} times for more")
    late = asked[0] if asked else []
    words = [[word_of(outcome) for outcome in group] for group in applied.outcomes]
    require_equal(words, [["done"]] * (1 + len(late)), "answers of a growing batch")
    require_equal(harness.pool("a").held, 1 + len(late), "units held after it")
    harness.verify()


def applies_on_a_loop(harness: Harness) -> None:
    """A batch that is applied on an event loop is answered as `apply` would; one that cannot be leaves nothing."""
    applying = harness.engine.capabilities.async_apply
    if applying is None:
        return
    groups = [prepared(Group((CreatePool(id="a", total=5), placing(1))))]
    try:
        applied = asyncio.run(applying.apply_async(groups, lambda: None))
    except NeedsThread:
        require_equal(harness.engine.read(FindPool(("", "a"))), None, "what a batch leaves that needs a thread")
        return
    require(all(isinstance(outcome, Done) for outcome in applied.outcomes[0]), f"answers on a loop: {applied.outcomes}")
    require_equal(harness.pool("a").held, 1, "units held after it")
    harness.verify()


def wakes_by_channel(harness: Harness) -> None:
    """A listener on a channel is woken once when it begins, and by notifications on it, those of another process too."""
    channels = harness.engine.capabilities.channels
    if channels is None:
        return
    woken = Semaphore(0)
    channels.listen_on("0a", woken.release)
    channels.listen_on("0a", lambda: None)
    for what in ("the beginning", "a notification", "another one"):
        require(woken.acquire(timeout=30), f"nobody was woken by {what} within 30 seconds")
        channels.notify(["0b", "0a"])


def keeps_seals(harness: Harness) -> None:
    """A declared store of seals keeps each seal once, in order, and beside entries as they were sealed; a wrong one is found."""
    store = harness.engine.capabilities.seals
    if store is None:
        return
    exercise_everything(harness)
    engine = harness.engine
    sealed = Sealer(engine).step(all_now=True)
    last = store.last_seals()
    require_equal(len(last), sealed, "runs sealed, one in each lane that has entries")
    for lane, seal in last.items():
        require_equal(store.read_seals(lane, 0, 9), [seal], "the seals of a lane")
        require_equal(store.read_seals(lane, seal.first, 9), [], "the seals behind the last one")
        require(
            not store.add_seal(replace(seal, digest="0" * 64), store.rewrites()),
            "a second seal that begins with the same entry was stored",
        )
        numbers = [row.seq for row in store.read_run(lane, seal.first, 2)]
        require_equal(
            numbers, [*range(seal.first + 1, min(seal.last, seal.first + 2) + 1)], "entries behind the first of a run"
        )
    require_equal(list(verify_seals(engine)), [], "differences between seals and the journal")
    harness.done(placing(90, "a"))
    lane = lane_of_pool(("", "a"), engine.lanes)
    seal = last[lane]
    forged = replace(seal, first=seal.last + 1, last=seal.last + 1, previous=seal.digest)
    require(store.add_seal(forged, store.rewrites()), "the seal of the next run was not stored")
    require_equal([one.key for one in verify_seals(engine)], [forged.name], "broken runs after one with a wrong digest")
    harness.verify()


def keeps_statistics(harness: Harness) -> None:
    """A declared store of statistics replaces rows as a whole, moves its position once per version, and prunes the oldest."""
    store = harness.engine.capabilities.rollups
    if store is None:
        return
    start = harness.now
    row = RollupRow("", "a", start, "[]")
    require_equal(store.load_position(), RollupPosition(), "the position of a store that was never written")
    require(store.store([row], RollupPosition(0, "first")), "the first position was not stored")
    replaced = replace(row, body="[9]")
    require(not store.store([replaced], RollupPosition(0, "late")), "a position was moved twice from the same version")
    require_equal(store.load_position(), RollupPosition(1, "first"), "the position after one writer was overtaken")
    require_equal(store.load("", "a", start, start + 1, 9), [row], "rows after one writer was overtaken")
    next_, other = replace(row, at=start + 10), replace(row, tenant="t")
    recorded = [RollupRow("", RECORDED, start + at, "[]") for at in (0, 10, 20)]
    require(store.store([replaced, next_, other, *recorded], RollupPosition(1, "second")), "rows were not stored")
    require_equal(store.load("", "a", start, start + 11, 9), [next_, replaced], "rows of a series, the newest first")
    require_equal(store.load("", "a", 0, start + 11, 1), [next_], "the newest rows, as many as were asked for")
    interval = sorted(store.load_interval("", start), key=lambda row: row.series)
    require_equal(interval, [replaced, recorded[0]], "rows of one tenant in one interval")
    require_equal(store.prune(3, 9), 0, "rows pruned before the first of three recorded intervals")
    require_equal(
        [store.prune(2, 9) for _ in range(2)], [3, 0], "rows pruned before the second of three recorded intervals"
    )
    require_equal(store.load("", "a", 0, start + 99, 9), [next_], "rows that are left")
    require(store.store([other], RollupPosition(2, "third")), "a row was not stored")
    store.drop("")
    left = [store.load(tenant, "a", 0, start + 99, 9) for tenant in ("", "t")]
    require_equal(left, [[], [other]], "rows after one tenant was dropped")
    harness.verify()


def finds_its_disk(harness: Harness) -> None:
    """An engine whose data is in a file system of this machine names a path there, and how much the data takes."""
    on_disk = harness.engine.capabilities.on_disk
    if on_disk is None:
        return
    path = on_disk.data_path()
    require(path is None or path.exists(), f"the data is said to be in {path}, which does not exist")
    require(on_disk.data_size() > 0, "the data is said to take no room")


CHECKS = (
    repair_changes_no_sound_row,
    imports_a_journal,
    lends_a_transaction,
    marks_a_transaction,
    grows_a_batch,
    applies_on_a_loop,
    wakes_by_channel,
    keeps_seals,
    keeps_statistics,
    finds_its_disk,
)
