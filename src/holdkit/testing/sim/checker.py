"""Checks one simulated run: a reference engine that never fails, a follower of the journal, and a transcript.

The reference is the memory engine, given exactly what the log engine has acknowledged. After every step both must
agree, row for row and entry for entry; after every crash nothing acknowledged may be missing, and nothing refused
may be there. The checker reads both engines' tables directly: what a read would hide (an index, a pruned row) must
agree too. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from ...core.archived import FindArchived
from ...core.bounds import Limits
from ...core.limits import LIMITS_KEY
from ...core.model import Slot
from ...core.personal import text_digest
from ...core.reading import JournalRow, ReadJournal, entry_of
from ...engines.clocks import Clock
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.port import Applied
from ...engines.resident.engine import ResidentEngine
from .disk import Faults
from .lines import LineWatch
from .plan import Apply


class Checker:
    """Knows what was acknowledged, and which outcomes are unknown."""

    def __init__(self, clock: Clock, limits: Limits, faults: Faults, reached: Counter[str]) -> None:
        self._clock, self._faults, self._reached = clock, faults, reached
        self._transcript = blake2b(digest_size=16)
        self._reference = MemoryEngine(clock=clock, limits=limits, journal=1_000_000)
        self._unknown_results: list[MemoryEngine] = []
        """The reference after each batch whose outcome is unknown, decided on the state of that moment."""
        self.pending: list[Apply] = []
        """Batches whose outcome is unknown."""
        self.followed: list[JournalRow] = []
        """What a follower has seen."""
        """The whole journal: an archive file has what is archived."""
        self.archived = 0
        """The last entry that has left the journal for certain."""
        self.lines = LineWatch(reached)

    @property
    def transcript(self) -> str:
        """The hash of everything noted."""
        return self._transcript.hexdigest()

    @property
    def at_rest(self) -> bool:
        """Whether nothing that was acknowledged is held any more."""
        return not (self._reference._tables.live or self._reference._tables.leftover)

    def note(self, text: str) -> None:
        """Note something that must be the same when the plan runs again."""
        self._transcript.update(text.encode())

    def acknowledge(self, step: Apply, answer: Applied) -> None:
        """The engine has answered: the reference must answer the same."""
        if answer.wrote:
            self.forget_pending()  # what was unknown before is left out for certain
        expected = self._reference.apply(step.groups)
        said, known = answer.replies(None), expected.replies(None)
        self.note(repr(said))
        if said != known:
            raise SimulationFailed(f"answers differ: {said} instead of {known}")
        for outcome in (outcome for outcomes in answer.outcomes for outcome in outcomes):
            self._reached[str(getattr(outcome, "reason", "done"))] += 1
            self._reached["replayed"] += getattr(outcome, "replayed", False)

    def note_unknown(self, step: Apply) -> None:
        """The outcome is unknown. Decided later, on what its first part left, the batch might do more: so it is
        decided now."""
        self._unknown_results.append(after(self._reference, step))

    def forget_pending(self) -> None:
        """No outcome is unknown any more."""
        self.pending.clear()
        self._unknown_results.clear()

    def reconcile(self, why: str, engine: LogEngine) -> None:
        """After a crash or an error: the engine has what was acknowledged, and of a batch of unknown outcome a part
        or nothing."""
        self._faults.paused = True
        candidates = [*(after(self._reference, step) for step in self.pending), *self._unknown_results]
        theirs = [*self.followed[: self.archived], *journal_of(engine)]
        self._reference, fate = reconciled(why, self._reference, engine, theirs, candidates, self._clock)
        self._reached[f"in flight {fate}"] += bool(self.pending)
        self._faults.paused = False
        self.note(f"{why} {fate}")

    def acknowledge_archived(self, through: int) -> None:
        """The entries up to this one have left the journal."""
        self.archived = through

    def check_archived(self, engine: LogEngine) -> None:
        """After an opening: a baseline stands for what has left, or for more, if a run did not come to its end."""
        self._faults.paused = True
        for one in engine.read(FindArchived()):
            if one.through > len(self.followed) or text_digest(self.followed[one.through - 1].text) != one.digest:
                raise SimulationFailed(f"{one} is not the end of what was archived")
            self.archived, before = one.through, self.archived
            if before > one.through:
                raise SimulationFailed(
                    f"entries up to {before} had left the journal, and those behind {one.through} are back"
                )
        if self.archived and not engine.read(FindArchived()):
            raise SimulationFailed("a baseline that was acknowledged is not there")
        self._faults.paused = False

    def check(self, where: str, engine: LogEngine, *, opened: bool) -> list[JournalRow]:
        """Compare everything; returns the entries that the follower had not seen yet."""
        self._faults.paused = True
        different = difference(self._reference, engine)
        if different is not None:
            raise SimulationFailed(f"{where}: {different}")
        fresh = engine.read(ReadJournal(None, {0: len(self.followed)}, 1_000_000))
        self.followed += fresh
        if [row.seq for row in self.followed] != list(range(1, len(self.followed) + 1)):
            raise SimulationFailed(f"{where}: a follower saw a gap")
        if journal_of(self._reference) != self.followed:
            raise SimulationFailed(f"{where}: a follower saw what is not in the journal")
        for row in fresh:
            self.lines.see(entry_of(row))
        for found in engine.verify() if fresh or opened else ():  # it reads all: only where that may differ
            raise SimulationFailed(f"{where}: {found}")
        for found in engine.verify_with(lambda _, upto: iter(self.followed[:upto])) if opened and self.archived else ():
            raise SimulationFailed(f"{where}: with the archive: {found}")
        self._faults.paused = False
        return fresh


TABLES = (
    "pools", "holds", "operations", "records", "legs", "deadlines", "held", "live", "leftover", "kept", "idle",
    "resting", "closing", "linked", "fence_floors", "last_slot", "lines", "tallies", "accounts",
)  # fmt: skip


class SimulationFailed(AssertionError):
    """The engine broke a guarantee in a simulated run."""


def journal_of(engine: ResidentEngine) -> list[JournalRow]:
    """Every entry."""
    return engine.read(ReadJournal(None, {}, 1_000_000))


def difference(mine: ResidentEngine, theirs: ResidentEngine) -> str | None:
    """The first table that differs, described; None if all agree."""
    for name in TABLES:
        ours, found = getattr(mine._tables, name), getattr(theirs._tables, name)
        if ours != found:
            return f"{name} differ: {found} instead of {ours}"
    if mine.limits != theirs.limits:
        return f"limits differ: {theirs.limits} instead of {mine.limits}"
    return None


def copy_of(engine: ResidentEngine, clock: Clock, journal: Iterable[JournalRow]) -> MemoryEngine:
    """A memory engine in the same state, with the same journal."""
    candidate = MemoryEngine(clock=clock, limits=engine.stored.created, journal=1_000_000)
    mine, theirs = candidate._tables, engine._tables
    for pool in theirs.pools.values():
        mine.put_pool(pool.key, pool)
    for hold in theirs.holds.values():
        mine.put_hold(hold.key, hold)
    for tally_key, tally in theirs.tallies.items():
        mine.put_tally(tally_key, tally)
    for operation in theirs.operations.values():
        mine.operations.put(operation)
    for record in theirs.records.values():
        mine.put_record(record.key, record)
    candidate.stored.adopt(mine.records.get(LIMITS_KEY))
    mine.fence_floors, mine.last_slot = dict(theirs.fence_floors), theirs.last_slot
    candidate._journal.append([entry_of(row) for row in journal])
    return candidate


def after(reference: MemoryEngine, step: Apply) -> MemoryEngine:
    """The reference as it would be if this batch had been applied too."""
    candidate = copy_of(reference, lambda: step.slot, journal_of(reference))
    candidate.apply(step.groups)
    return candidate


def reconciled(
    why: str,
    reference: MemoryEngine,
    found: LogEngine,
    theirs: list[JournalRow],
    candidates: list[MemoryEngine],
    clock: Clock,
) -> tuple[MemoryEngine, str]:
    """The reference after a crash or an error: what was acknowledged, and of one batch in flight a whole part or
    nothing.

    `theirs` is the whole journal of what was found, `candidates` are the results that the batches in flight would have had. Also returns which it was: lost, survived
    or survived in part.
    """
    mine = journal_of(reference)
    if theirs[: len(mine)] != mine:
        raise SimulationFailed(f"{why}: an acknowledged entry is gone: {len(theirs)} entries, {len(mine)} acknowledged")
    for candidate in (reference, *candidates):
        if journal_of(candidate) == theirs and difference(candidate, found) is None:
            return copy_of(candidate, clock, theirs), "lost" if candidate is reference else "survived"
    if not any(len(theirs) > len(mine) and journal_of(candidate)[: len(theirs)] == theirs for candidate in candidates):
        reason = difference(reference, found) or f"{len(theirs)} entries, {len(mine)} acknowledged"
        raise SimulationFailed(f"{why}: neither what was acknowledged nor a part of what was in flight: {reason}")
    latest = max(clock(), found._tables.last_slot)  # a part that survived has pruned by its own slot
    check_operations(why, reference, candidates, found, latest)
    return copy_of(found, clock, theirs), "survived in part"  # its expiries; `verify` vouches for the rows


def check_operations(
    why: str, reference: MemoryEngine, candidates: list[MemoryEngine], found: LogEngine, now: Slot
) -> None:
    """Each operation record is as acknowledged, or as a batch in flight would have written it, or past its window."""
    before, there = reference._tables.operations, found._tables.operations
    for key in sorted({*before, *there}):
        old = before.get(key)
        allowed = [old, *(candidate._tables.operations.get(key) for candidate in candidates)]
        if old is not None and old.until <= now:
            allowed.append(None)
        if there.get(key) not in allowed:
            raise SimulationFailed(f"{why}: the record of operation {key} is not what was acknowledged")
