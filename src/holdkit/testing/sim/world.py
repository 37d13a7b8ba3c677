"""One simulated life: the real log engine on a simulated disk, beside a shadow that never fails.

The shadow is the memory engine, given exactly what the log engine acknowledged. After every step both must agree, row for row
and entry for entry; after every crash nothing acknowledged may be gone, and nothing refused may be there.
"""

from __future__ import annotations

import errno
from collections import Counter
from hashlib import blake2b
from random import Random

from ...core.codec import decode_entry
from ...core.model import Slot
from ...core.reading import JournalRow, ReadJournal
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.port import Clock
from ...engines.resident.engine import ResidentEngine
from ...errors import EngineError, OutcomeUnknown
from .disk import PowerCut, SimDisk
from .plan import Apply, Fault, Plan, Reopen, Space, Step, TakeSnapshot, part


class Broken(AssertionError):
    """A promise was broken in a simulated life."""


class World:
    """Runs a plan. `reached` counts what happened, so that an empty run cannot pass."""

    def __init__(self, plan: Plan, engine: type[LogEngine] = LogEngine) -> None:
        self.plan, self._engine_type = plan, engine
        self.reached: Counter[str] = Counter()
        self.operations = 0
        self._transcript = blake2b(digest_size=16)
        self._randomness = part(plan.seed, "randomness")
        self._slot: Slot = 1_000
        self._fault: Fault | None = None
        self._countdown = 0
        self.disk = SimDisk(self._before)
        self.shadow = MemoryEngine(clock=self._clock, limits=plan.limits, journal=1_000_000)
        self.followed: list[JournalRow] = []
        self.engine: LogEngine | None = None
        self._inflight: Apply | None = None

    def _clock(self) -> Slot:
        return self._slot

    def run(self) -> str:
        """Live through the plan; returns the transcript's hash."""
        self._open()
        for index, step in enumerate(self.plan.steps):
            try:
                self._step(step)
            except PowerCut:
                self._power_cut()
            except Broken:
                raise
            except Exception as error:
                raise Broken(f"step {index}: {type(error).__name__}: {error}") from error
            self._check(f"step {index}")
        return self._transcript.hexdigest()

    # Faults

    def _before(self, call: str) -> None:
        """Asked before every disk call: here a fault strikes."""
        if self._fault is None:
            return
        if self._countdown > 0:
            self._countdown -= 1
            return
        fault, self._fault = self._fault, None
        if fault.kind == "cut":
            self.reached[f"cut at {call}"] += 1
            self._fault = fault  # remembered for what survives
            raise PowerCut
        self.reached[f"error at {call}"] += 1
        raise OSError(errno.EIO, "input/output error")

    def _power_cut(self) -> None:
        """The machine stops and comes back, perhaps more than once: recovery is killable too."""
        dice = Random(self._fault.dice if self._fault else 0)
        self.disk.capacity = 1 << 40  # whoever comes back makes room first
        for attempt in range(3):
            if dice.random() < 0.4:  # only the process died: the cache lives on, with what is on no platter
                self.disk.locked = False
                self.reached["process killed"] += 1
            else:
                self.disk.crash(dice)
            self._fault = None
            if attempt < 2 and dice.random() < 0.3:
                self._fault, self._countdown = Fault("cut", 0, 0), dice.randrange(6)
            try:
                self._open()
            except PowerCut:
                self.reached["cut during recovery"] += 1
                continue
            except EngineError as error:
                raise Broken(f"a crash made the log unreadable: {error}") from error
            break
        self._fault = None
        self._resettle("power cut")

    # Steps

    def _open(self) -> None:
        self.engine = self._engine_type(
            self.disk,
            clock=self._clock,
            limits=self.plan.limits,
            randomness=self._randomness.randbytes,
            segment_bytes=self.plan.segment_bytes,
        )

    def _step(self, step: Step) -> None:
        match step:
            case Apply():
                self._slot = step.slot
                self._apply(step)
            case Fault(kind="rot"):
                self._rot(step)
            case Fault():
                self._fault, self._countdown = step, step.after
            case Space():
                self.disk.capacity = 1 << 40 if step.left is None else self.disk.used() + step.left
            case Reopen():
                self._reopen()
            case TakeSnapshot():
                self._snapshot()

    def _apply(self, step: Apply) -> None:
        assert self.engine is not None
        self._inflight = step
        try:
            answer = self.engine.apply(step.groups)
        except OutcomeUnknown:
            self.reached["unknown"] += 1
            self._power_off()
            return
        except EngineError:
            self.reached["left out"] += 1
            self._resettle("engine error")
            return
        self._inflight = None
        expected = self.shadow.apply(step.groups)
        self.operations += sum(len(group.commands) for group in step.groups)
        self._note(repr(answer.outcomes))
        if answer.outcomes != expected.outcomes:
            raise Broken(f"answers differ: {answer.outcomes} instead of {expected.outcomes}")
        for outcomes in answer.outcomes:
            for outcome in outcomes:
                self.reached[str(getattr(outcome, "reason", "done"))] += 1
                self.reached["replayed"] += getattr(outcome, "replayed", False)

    def _power_off(self) -> None:
        """An unknown outcome stops the log: only a restart settles it."""
        self.disk.crash(Random(self.plan.seed))
        self._fault = None
        self.disk.capacity = 1 << 40
        self._open()
        self._resettle("unknown outcome")

    def _reopen(self) -> None:
        assert self.engine is not None
        self.engine.close()
        segments = len(self.disk.names())
        try:
            self._open()
        except EngineError:  # a full or failing disk; it opens once there is room and the error has passed
            self.reached["open refused"] += 1
            self._fault, self.disk.capacity = None, 1 << 40
            self._open()
        self.reached["reopened"] += 1
        self.reached["several segments"] += segments > 2
        self._note("reopened")

    def _snapshot(self) -> None:
        assert self.engine is not None
        try:
            self.engine.snapshot()
            self.reached["snapshot"] += 1
        except EngineError:
            self.reached["snapshot failed"] += 1

    def _rot(self, fault: Fault) -> None:
        """One bit of one file turns while the machine is off: the state is the same, or opening is refused."""
        assert self.engine is not None
        self._fault = None
        self.disk.capacity = 1 << 40  # the log must be sealed: without the seal its last frame may pass for a torn tail
        self.engine.close()
        random = Random(fault.dice)
        names = [name for name in self.disk.names() if self.disk.files[name].cached]
        pages = self.disk.files[random.choice(names)]
        place, bit = random.randrange(len(pages.cached)), 1 << random.randrange(8)
        kept = bytes(pages.cached)
        pages.cached[place] ^= bit
        pages.durable = bytearray(pages.cached)
        try:
            self._open()
            self.reached["rot survived"] += 1
            self._check("bit rot")
        except EngineError:
            self.reached["rot refused"] += 1
            self.disk.locked = False
            pages.cached, pages.durable = bytearray(kept), bytearray(kept)
            self._open()

    # Checks

    def _journal(self, engine: LogEngine | MemoryEngine) -> list[JournalRow]:
        return engine.read(ReadJournal(None, 0, 1_000_000))

    def _resettle(self, why: str) -> None:
        """After a crash or an error: what was acknowledged is there; of what was in flight, a whole part or nothing."""
        assert self.engine is not None
        theirs, mine = self._journal(self.engine), self._journal(self.shadow)
        if theirs[: len(mine)] != mine:
            raise Broken(f"{why}: an acknowledged entry is gone: {len(theirs)} entries, {len(mine)} acknowledged")
        step = self._inflight
        twin = copy_of(self.shadow, self._clock, mine)
        if step is not None:
            twin.apply(step.groups)
        if len(theirs) > len(mine):
            if self._journal(twin)[: len(theirs)] != theirs:
                raise Broken(f"{why}: entries that nobody asked for")
            self.reached["in flight survived"] += 1
        elif step is not None:
            self.reached["in flight lost"] += 1
        self._check_operations(why, twin)
        self.shadow = copy_of(self.engine, self._clock, theirs)
        self._inflight = None
        self._note(f"{why} {len(theirs)}")

    def _check_operations(self, why: str, twin: MemoryEngine) -> None:
        """Each is as acknowledged, or as the batch in flight would have it, or past its window."""
        assert self.engine is not None
        before, after, found = (engine._tables.operations for engine in (self.shadow, twin, self.engine))
        for key in sorted({*before, *found}):
            allowed = [before.get(key), after.get(key)]
            old = before.get(key)
            if old is not None and self._slot - old.slot >= self.plan.limits.retry_window:
                allowed.append(None)
            if found.get(key) not in allowed:
                raise Broken(f"{why}: the record of operation {key} is not what was acknowledged")

    def _check(self, where: str) -> None:
        assert self.engine is not None
        mine, theirs = self.shadow._tables, self.engine._tables
        for name in ("pools", "holds", "operations", "records", "legs", "deadlines", "live", "leftover", "fence_floor"):
            if getattr(mine, name) != getattr(theirs, name):
                raise Broken(f"{where}: {name} differ: {getattr(theirs, name)} instead of {getattr(mine, name)}")
        rows = self.engine.read(ReadJournal(None, len(self.followed), 1_000_000))
        self.followed += rows
        if [row.seq for row in self.followed] != list(range(1, len(self.followed) + 1)):
            raise Broken(f"{where}: a follower saw a gap")
        if self._journal(self.shadow) != self.followed:
            raise Broken(f"{where}: a follower saw what is not in the journal")
        differences = list(self.engine.verify())
        if differences:
            raise Broken(f"{where}: {differences[0]}")

    def _note(self, text: str) -> None:
        self._transcript.update(text.encode())


def copy_of(engine: ResidentEngine, clock: Clock, journal: list[JournalRow]) -> MemoryEngine:
    """A memory engine in the same state, with the same journal."""
    twin = MemoryEngine(clock=clock, limits=engine.limits, journal=1_000_000)
    mine, theirs = twin._tables, engine._tables
    for pool in theirs.pools.values():
        mine.put_pool(pool.key, pool)
    for hold in theirs.holds.values():
        mine.put_hold(hold)
    for operation in theirs.operations.values():
        mine.put_operation(operation)
    for record in theirs.records.values():
        mine.put_record(record.key, record)
    mine.fence_floor, mine.last_slot = theirs.fence_floor, theirs.last_slot
    twin._journal.append([decode_entry(row.text) for row in journal])
    return twin
