"""Checks one simulated run: a reference engine that never fails, a follower of the journal, and a transcript.

The reference is the memory engine, given exactly what the log engine has acknowledged. After every step both must
agree, row for row and entry for entry; after every crash nothing acknowledged may be missing, and nothing refused
may be there. The checker reads both engines' tables directly: what a read would hide (an index, a pruned row) must
agree too. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

from ...core.archived import FindArchived, ReadRewritten
from ...core.bounds import Limits
from ...core.commands import Group
from ...core.limits import LIMITS_KEY
from ...core.model import Slot
from ...core.personal import text_digest
from ...core.reading import JournalRow, ReadJournal, entry_of
from ...engines.clocks import Clock
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.port import Applied
from ...engines.resident.engine import ResidentEngine
from ...engines.settings import StoredLimits
from .faults import Faults
from .lines import LineWatch
from .plan import Apply

if TYPE_CHECKING:
    from .erasure_world import ErasureInFlight


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
        self.erasing: ErasureInFlight | None = None
        """An erasure that has begun, and of which is not known whether it has happened."""
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
        self.erasing = None
        self.pending.clear()
        self._unknown_results.clear()

    def reconcile(self, why: str, engine: LogEngine) -> None:
        """After a crash or an error: the engine has what was acknowledged, and of a batch of unknown outcome a part
        or nothing."""
        self._faults.paused = True
        if self.erasing is not None and self._reconciled_erasure(why, engine):
            return
        candidates = [*(after(self._reference, step) for step in self.pending), *self._unknown_results]
        theirs = [*self._archive(engine), *journal_of(engine)]
        self._reference, fate = reconciled(why, self._reference, engine, theirs, candidates, self._clock)
        self._reached[f"in flight {fate}"] += bool(self.pending)
        self._faults.paused = False
        self.note(f"{why} {fate}")

    def erased(self, engine: LogEngine) -> None:
        """The erasure has happened: the engine says so."""
        if self.erasing is not None:
            self._faults.paused = True
            self._reference = self._states(engine)[-1]
            self._adopt_rewritten(engine)

    def _reconciled_erasure(self, why: str, engine: LogEngine) -> bool:
        """After a crash or an error: whether the engine is in one of the states that an erasure leaves; if so, the reference is."""
        theirs = [*self._archive(engine), *journal_of(engine)]
        unchanged = journal_of(self._reference) == theirs and difference(self._reference, engine) is None
        states = [] if unchanged else self._states(engine)
        for number, state in enumerate(states, 1):
            if journal_of(state) == theirs and difference(state, engine) is None:
                self._reference = copy_of(state, self._clock, theirs)
                self._adopt_rewritten(engine)
                whole = number == len(states)
                self._reached["erasure: cut behind its plan" if whole else "erasure: cut behind a command"] += 1
                self.note(f"{why} erasure {number}/{len(states)}")
                return True
        self._reached["erasure: cut before its plan"] += 1
        if not (
            engine._in_doubt or engine._log._doubtful
        ):  # else the next opening may find it, if nothing is written before
            self.erasing = None
        return False

    def _states(self, engine: LogEngine) -> list[MemoryEngine]:
        assert self.erasing is not None
        secret = engine._log.settings.get("secret")
        empty = Witness(clock=self._clock, limits=self._reference.stored.created, journal=1_000_000)
        witness = copied_into(empty, self._reference, journal_of(self._reference))
        if secret is None:  # then it has not begun
            return [witness]
        know_secret(witness, bytes.fromhex(secret))
        return self.erasing.states(witness)

    def _adopt_rewritten(self, engine: LogEngine) -> None:
        """The erasure has happened, or a part of it: what was followed is what it is now."""
        self.forget_pending()
        now = journal_of(engine)[: len(self.followed) - self.archived]
        self.followed[self.archived :] = now
        self._faults.paused = False

    def _archive(self, engine: LogEngine) -> list[JournalRow]:
        """What has left the journal: the files, and what an erasure has not written there yet."""
        texts = engine.read(ReadRewritten(0))
        return [JournalRow(row.seq, texts.get(row.seq, row.text), row.lane) for row in self.followed[: self.archived]]

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
        archive = self._archive(engine)
        if journal_of(self._reference) != [*archive, *self.followed[self.archived :]]:
            raise SimulationFailed(f"{where}: a follower saw what is not in the journal")
        for row in fresh:
            self.lines.see(entry_of(row))
        for found in engine.verify() if fresh or opened else ():  # it reads all: only where that may differ
            raise SimulationFailed(f"{where}: {found}")
        for found in engine.verify_with(lambda _, upto: iter(archive[:upto])) if opened and self.archived else ():
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


class Witness(MemoryEngine):
    """A reference that keeps a copy of itself behind each batch."""

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None, journal: int = 100_000) -> None:
        super().__init__(clock=clock, limits=limits, journal=journal)
        self.states: list[MemoryEngine] = []

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:
        """Apply, and remember what that gave."""
        applied = super().apply(groups, wait_for_locks=wait_for_locks)
        self.states.append(copy_of(self, self.clock, journal_of(self)))
        return applied


def know_secret(engine: MemoryEngine, secret: bytes | None) -> None:
    """Names that were erased are recognised under the secret of the log."""
    if secret is not None:
        engine.secret = secret
    engine.stored = StoredLimits(engine.stored.created, engine._tables.records.get(LIMITS_KEY), secret=secret)


def copy_of(engine: ResidentEngine, clock: Clock, journal: Iterable[JournalRow]) -> MemoryEngine:
    """A memory engine in the same state, with the same journal."""
    return copied_into(MemoryEngine(clock=clock, limits=engine.stored.created, journal=1_000_000), engine, journal)


M = TypeVar("M", bound=MemoryEngine)


def copied_into(candidate: M, engine: ResidentEngine, journal: Iterable[JournalRow]) -> M:
    """Bring an empty engine into the same state."""
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
    know_secret(candidate, engine.stored._secret)
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
