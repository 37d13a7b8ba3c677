"""The erasures of one simulated run: carries them out as the kernel does, has clients write meanwhile, and repeats what was interrupted.

Theory of operation. The reference does the same erasure in memory, at once: what it looks like before, behind each command that the erasure
sends itself, and behind the whole are the only states that the log may have after a crash or an error (`ErasureInFlight.states`). While it
runs, the plan on disk says on which side the log is, and what clients write meanwhile is compared with that side. What has left the
journal is in one archive file or the other; both are rewritten, one after the other, and a fault may strike between them.

Once an erasure is reported done, and for the rest of the run, no file of the directory, no archived entry and no durable byte may
have the name; what accounts use, and which claims are taken, is what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ...core.archived import ReadRewritten
from ...core.commands import Group, PlaceHold, PutRecord
from ...core.erased_names import is_claim, is_erased_claim
from ...core.erasure import ERASURES, Erasure, Selector
from ...core.outcomes import Done, Outcome
from ...core.reading import JournalRow
from ...engines.archive_erasing import ErasableArchive
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.port import Engine
from ...engines.resident.tables import Tables
from ...errors import EngineError, OutcomeUnknown
from ...kernel.erasing import begun, selector_of
from ...kernel.prepare import Randomness
from .checker import Checker, SimulationFailed, Witness
from .disk import SimDisk
from .erasure_plan import Erase, claim_leg
from .faults import Faults

REASON = "request 1"


class Restarted(Exception):
    """The machine was restarted while clients wrote beside an erasure: that one is interrupted."""


class ErasureInFlight:
    """One erasure, for the engine and for the reference: both get the same random bytes."""

    def __init__(self, selector: Selector, randomness: Randomness) -> None:
        self.selector = selector
        self._bytes = randomness(64)
        self.stub: str | None = None
        """What an interrupted run has begun with."""

    def erasure(self, engine: Engine) -> Erasure:
        """The same erasure for this engine."""
        erasing = engine.capabilities.erasure
        assert erasing is not None
        fields = {"actor": None, "reason": REASON}
        made = begun(engine, erasing, self.selector, fields, lambda size: self._bytes[:size])
        if self.stub is not None and self.selector.by != "account":
            made.stub = self.stub
        return made

    def states(self, reference: Witness) -> list[MemoryEngine]:
        """A copy of the reference behind each command that the erasure sends, and behind the whole."""
        before = standing(reference._tables)
        reference.erase(self.erasure(reference), dry_run=False)
        after = standing(reference._tables)
        if reference.states:  # a command may return what is due: only the rest is the erasure's
            before = standing(reference.states[-1]._tables)
        if before != after:
            raise SimulationFailed(f"an erasure has changed what is used or taken: {before} became {after}")
        return [*reference.states, reference]


def standing(tables: Tables) -> tuple[object, ...]:
    """What an erasure must not change: the units of pools, what accounts use of each, and how many claims are taken."""
    plain = {key: (pool.total, pool.held, pool.consumed) for key, pool in tables.pools.items() if key[1][0] != "~"}
    taken = [pool.consumed for pool in tables.pools.values() if is_claim(pool.id) or is_erased_claim(pool.id)]
    used: Counter[tuple[str, str]] = Counter()
    for (tenant, pool_id, _), tally in tables.tallies.items():
        used[tenant, pool_id] += tally.used
    return plain, sum(taken), dict(used)


class SimArchive(ErasableArchive):
    """What has left the journal, in two files."""

    def __init__(self, rows: list[JournalRow], through: int, texts: dict[int, str], faults: Faults) -> None:
        self._rows, self._through, self._faults = rows, through, faults
        self.rewritten = {0: dict(texts)}
        self.lanes = {}  # no restore here: nobody has erased the files of a database that does not know of it

    def rows(self) -> Iterator[JournalRow]:
        """Every entry that has left the journal, as it is now."""
        return (self.now(row) for row in self._rows[: self._through])

    def has(self, lane: int, seq: int) -> bool:
        """Whether a file has this entry."""
        return lane == 0 and seq <= self._through

    def write(self, forget: Callable[[int, Sequence[int]], None]) -> None:
        """One file after the other, each in one moment."""
        texts, half = self.rewritten[0], self._through // 2
        for numbers in ([seq for seq in texts if seq <= half], [seq for seq in texts if seq > half]):
            if numbers:
                self._faults.before("archive file")
                for seq in numbers:
                    self._rows[seq - 1] = JournalRow(seq, texts[seq], 0)
                forget(0, sorted(numbers))


class ErasureWorld:
    """Knows what is erased, and what is begun and not ended."""

    def __init__(
        self,
        engine: Callable[[], LogEngine],
        submit: Callable[[Group], list[Outcome]],
        checker: Checker,
        disk: SimDisk,
        faults: Faults,
        randomness: Randomness,
        reached: Counter[str],
    ) -> None:
        self._engine, self._submit, self._checker = engine, submit, checker
        self._disk, self._faults, self._randomness, self._reached = disk, faults, randomness, reached
        self._unfinished: dict[tuple[str, str], Erase] = {}
        self._gone: list[str] = []

    def step(self, step: Erase, *, faults_over: bool = False) -> None:
        """Erase; an error of the disk leaves it for later."""
        self._unfinished[step.by, step.value] = Erase(step.slot, step.by, step.value)
        try:
            self._erase(step)
        except (EngineError, OutcomeUnknown, Restarted) as error:
            if faults_over:
                raise SimulationFailed(f"the disk is well again, and yet: {error}") from error
            self._reached["erasure: failed"] += not isinstance(error, Restarted)
            self._reached["erasure: interrupted"] += isinstance(error, Restarted)
            self._reached["erasure: plan in doubt"] += self._engine()._in_doubt
            if self._checker.erasing is not None:
                self._checker.reconcile("an erasure failed", self._engine())
        else:
            del self._unfinished[step.by, step.value]

    @property
    def unfinished(self) -> bool:
        """Whether anything was begun and not ended."""
        return bool(self._unfinished)

    def again(self, *, faults_over: bool = False) -> None:
        """Repeat what was begun and not ended."""
        for step in [*self._unfinished.values()]:
            self._reached["erasure: repeated"] += 1
            self.step(step, faults_over=faults_over)

    def _erase(self, step: Erase) -> None:
        engine, checker = self._engine(), self._checker
        flight = ErasureInFlight(selector_of(step.by, step.value, ""), self._randomness)
        checker.erasing = flight
        erasure = flight.erasure(engine)
        flight.stub = engine.erasures.begun.get(erasure.id)
        taken = self._is_taken(engine, step)
        self._faults.paused = True
        texts = engine.read(ReadRewritten(0))
        self._faults.paused = False
        archive = SimArchive(checker.followed, checker.archived, texts, self._faults) if checker.archived else None
        erased = engine.erase(erasure, dry_run=False, progress=self._beside(step, engine), archive=archive)
        checker.erased(engine)
        if erased.found or erased.resumed:
            self._submit(Group((PutRecord(kind=ERASURES, id=erased.stub, body="{}", reason=REASON),)))
            if self._engine() is not engine:
                raise Restarted
            engine.finish_erasure(erasure)
            self._reached[f"erasure: {step.by}"] += 1
            self._reached["erasure: resumed"] += erased.resumed
            self._reached["erasure: in archive files"] += archive is not None and bool(archive.rewritten[0])
        if erased.in_use:  # their owner removes them, and repeats the erasure
            self._reached["erasure: record in use"] += 1
            records = [one.partition("/") for one in erased.in_use]
            self._submit(Group(tuple(PutRecord(kind=kind, id=id, body=None) for kind, _, id in records)))
            if self._engine() is not engine:
                raise Restarted
            self._erase(Erase(step.slot, step.by, step.value))
            return
        self._gone += [step.value, *([erasure.selector.value] if step.by == "claim" else [])]
        self.check()
        if taken:
            self._check_taken(step)

    def _beside(self, step: Erase, engine: LogEngine) -> Callable[[int, int], None]:
        """What clients write whenever the erasure reports how far it is."""
        before, beside, left = [*step.before], [*step.beside], engine.erasures.plan

        def progress(_done: int, _total: int) -> None:
            planned = engine.erasures.plan is not None
            if planned and engine.erasures.plan is not left:  # not what another erasure has left
                self._checker.erased(engine)
            waiting = beside if planned else before
            if not waiting:
                return
            self._reached["erasure: written beside" if planned else "erasure: written meanwhile"] += 1
            flight, self._checker.erasing = (
                self._checker.erasing,
                None,
            )  # what becomes of this batch has to do with it alone
            with suppress(EngineError, OutcomeUnknown):
                self._submit(waiting.pop(0))
            if self._engine() is not engine:
                raise Restarted
            self._checker.erasing = flight

        return progress

    def _is_taken(self, engine: LogEngine, step: Erase) -> bool:
        """Whether somebody has confirmed the claim that is erased."""
        pool = engine._tables.pools.get(("", claim_leg(step.value).pool)) if step.by == "claim" else None
        return pool is not None and pool.consumed > 0

    def _check_taken(self, step: Erase) -> None:
        """A claim that was confirmed is not given to anybody else."""
        command = PlaceHold(legs=(claim_leg(step.value),), ttl_slots=5, id="0" * 32, owner="other")
        with suppress(EngineError, OutcomeUnknown):
            (outcome,) = self._submit(Group((command,)))
            self._reached["erasure: claim stays taken"] += 1
            if isinstance(outcome, Done):
                raise SimulationFailed(f"the erased claim {step.value} was taken, and is given again")

    def check(self) -> None:
        """No byte of what is erased is left."""
        pages = {**self._disk.durable_names, **self._disk.files}
        for value in self._gone:
            word = value.encode()
            found = [name for name, one in sorted(pages.items()) if word in one.cached or word in one.durable]
            found += [f"entry {row.seq}" for row in self._checker.followed if value in row.text]
            if found:
                raise SimulationFailed(f"{value} was erased, and is left in {', '.join(found)}")
