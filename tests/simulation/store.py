"""The store of a simulated run: a memory engine that comes back from its journal, the faults of its connections, and the reference.

Theory of operation. The engine writes each transaction into `frames` before anybody can see it: its slot, its entries, its operation
records. `acknowledged` counts the frames that somebody knows of: a caller who was answered, or a reader of the journal. A crash keeps these and
any number of those behind them, and the next engine is folded from what was kept; it decides nothing anew.

The reference is a memory engine that never fails. It receives every batch once it is acknowledged, or a crash has kept it. What it
writes must be the frames that are there, to the byte, and its answers must be those that the callers got. After a crash its tables must
be those of the engine that was folded. The watch reads the entries of the reference: nobody has seen what is not acknowledged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.entries import Entry
from holdkit.core.fold import fold
from holdkit.core.model import Slot
from holdkit.core.outcomes import Operation
from holdkit.core.reading import (
    FindEnds,
    FindEntries,
    Query,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
)
from holdkit.core.view import View
from holdkit.engines.durability import ON_DISK
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, BatchRejected, Capabilities
from holdkit.errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded

T = TypeVar("T")

FaultKind: TypeAlias = Literal["refuse", "overload", "reject", "break", "break after", "lose", "fail", "crash"]
"""`refuse`, `overload`, `reject`, `break`: before the batch; the last one is an exception that nobody expects. `break after`, `lose`:
behind it. `fail`, `crash`: while one of its frames is written."""
FAULTS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
GONE: Final = 1 << 30
"""Calls that fail because the process of the engine is gone, and its kernel with it."""
TABLES: Final = (
    "pools", "holds", "operations", "records", "legs", "deadlines", "held", "live", "leftover", "kept", "idle", "resting",
    "closing", "linked", "fence_floors", "last_slot", "lines", "tallies", "accounts",
)  # fmt: skip
SHOWN: Final = (ReadJournal, FindEnds, FindEntries, ReadHistory, ReadPoolHistory)
"""Reads whose answers must outlive a crash."""


class SimulationFailed(AssertionError):
    """A promise was broken in a simulated run. The first one is kept: code under test may swallow it."""

    first: ClassVar[SimulationFailed | None] = None

    def __init__(self, what: str) -> None:
        super().__init__(what)
        SimulationFailed.first = SimulationFailed.first or self


class Fault(Struct, frozen=True, tag=True):
    """A fault that strikes one of the next batches."""

    kind: FaultKind
    after: int
    """How many batches go well before."""
    dice: int


class Frame(Struct, frozen=True, array_like=True):
    """One transaction, as the journal has it."""

    slot: Slot
    entries: list[Entry]
    operations: list[Operation]


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Frame)


def encoded(view: View) -> bytes:
    """The frame of the changes in a view."""
    operations: Any = [*view.operations.changed.values()]
    return _encoder.encode(Frame(view.loaded.slot, view.entries, operations))


class JournaledEngine(MemoryEngine):
    """A memory engine that writes each transaction into a journal first, and begins with what that has."""

    def __init__(self, store: Store) -> None:
        super().__init__(clock=store.clock, limits=store.created, journal=1 << 40)
        self._generation = "0123456789abcdef"
        """A crash begins no new generation."""
        self._store = store
        for raw in store.frames:
            self.replay(_decoder.decode(raw))

    def _persist(self, view: View) -> None:
        self._store.write(view)
        super()._persist(view)

    def replay(self, frame: Frame) -> None:
        """Fold a transaction, and prune as it did."""
        view = self._view(frame.slot)
        for entry in frame.entries:
            fold(view, entry)
        for operation in frame.operations:
            view.operations.put(operation.key, operation)
        self._journal.append(frame.entries)
        self._put(view)
        self._prune(frame.slot)


class DiskFull(EngineError):
    """A frame could not be written."""


class Stopped(Exception):
    """The machine of the store stops."""


class Cut(Exception):
    """The reference has come to the end of what was kept of a batch."""


class Reference(MemoryEngine):
    """Receives each batch that is acknowledged, once."""

    def __init__(self, store: Store, watch: Callable[[int, Slot, Sequence[Entry]], None]) -> None:
        super().__init__(clock=lambda: self.slot, limits=store.created, journal=1 << 40)
        self.slot: Slot = 0
        self.followed = self.end = 0
        """Frames that it has written; where the present batch ends."""
        self._store, self._watch = store, watch

    def _persist(self, view: View) -> None:
        if self.followed == self.end:
            raise Cut
        if encoded(view) != self._store.frames[self.followed]:
            raise SimulationFailed(f"frame {self.followed} is not what its batch should have written")
        super()._persist(view)
        self._watch(self.followed, view.loaded.slot, view.entries)
        self.followed += 1

    def follow(self, batch: Written, end: int) -> None:
        """Apply a batch of which the frames up to `end` were kept."""
        self.slot, self.end = batch.slot, end
        try:
            applied = self.apply(batch.groups)
        except Cut:
            if batch.applied is not None and end == batch.end:
                raise SimulationFailed("a batch was answered, and the journal does not have all of it") from None
            return
        if self.followed != end:
            raise SimulationFailed("a batch has written more than it should have")
        if batch.applied is not None and applied.outcomes != batch.applied.outcomes:
            raise SimulationFailed(f"answers differ: {batch.applied.outcomes} instead of {applied.outcomes}")


class Written(Struct, frozen=True):
    """A batch that nobody was answered yet: what it was, what came out, and its frames."""

    slot: Slot
    groups: Sequence[Group]
    applied: Applied | None
    """None: it failed behind frame `end`."""
    start: int
    end: int


class Store:
    """What all processes share, as their kernels see it: an `Engine`."""

    url = "simulated://"
    lanes = 1
    sql = False
    serial = True
    durability = ON_DISK

    def __init__(
        self,
        clock: Callable[[], Slot],
        limits: Limits,
        *,
        is_embedded: bool,
        watch: Callable[[int, Slot, Sequence[Entry]], None],
        reached: Counter[str],
    ) -> None:
        self.clock, self.created, self.is_embedded, self.reached = clock, limits, is_embedded, reached
        self.frames: list[bytes] = []
        self.acknowledged = 0
        self.commands = 0
        """Those that were applied."""
        self.down = 0
        """How many calls fail before it is there again."""
        self.has_crashed = False
        """Since the simulation last looked."""
        self.fault: Fault | None = None
        self._countdown = 0
        self._strike: tuple[Literal["fail", "crash"], int] | None = None
        """While a batch is applied: what happens, and at which of its frames."""
        self._window: deque[Written] = deque()
        self.engine = JournaledEngine(self)
        self.reference = Reference(self, watch)

    # The engine's port

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.engine.limits

    @property
    def stored(self) -> Any:
        """The limits that are stored."""
        return self.engine.stored

    @property
    def capabilities(self) -> Capabilities:
        """None: what they do is no part of this."""
        return Capabilities()

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Apply a batch, unless a fault strikes."""
        self._check_up()
        fault = self._due_fault()
        if fault is not None:
            self._fail_before(fault, len(groups))
        start, slot = len(self.frames), self.clock()
        try:
            applied = self.engine.apply(groups)
        except (Stopped, DiskFull) as stopped:
            self._window.append(Written(slot, groups, None, start, len(self.frames)))
            assert fault is not None
            if isinstance(stopped, DiskFull):
                raise
            self.crash(Random(fault.dice))
            raise OutcomeUnknown("the store crashed within the batch") from None
        except Exception as error:
            raise SimulationFailed(f"the engine broke: {error!r}") from error
        finally:
            self._strike = None
        self._window.append(Written(slot, groups, applied, start, len(self.frames)))
        self.commands += sum([len(group.commands) for group in groups])
        self.reached["fed later"] += bool(applied.unfed)
        self.reached["put off"] += bool(applied.put_off)
        if fault is not None:
            self._fail_after(fault)
        return applied if self.is_embedded else replace(applied, last_seq=None)  # others write too

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer a query. What it shows must outlive a crash if anything rests on it."""
        self._check_up()
        if durable or isinstance(query, SHOWN):
            self.acknowledge(len(self.frames))
        try:
            return self.engine.read(query, durable=durable)
        except HoldkitError:
            raise
        except Exception as error:
            raise SimulationFailed(f"the engine broke: {error!r}") from error

    def listen(self, wake: Callable[[], None]) -> None:
        """Processes find the entries of others when they look."""

    def close(self) -> None:
        """Nothing is open."""

    def _check_up(self) -> None:
        if self.down:
            self.down -= 1
            self.reached["store: away"] += 1
            raise EngineError("the store is away")

    # Faults

    def arm(self, fault: Fault | None) -> None:
        """From now on this fault is due; none: nothing fails any more."""
        self.fault, self._countdown = fault, 0 if fault is None else fault.after
        if fault is None:
            self.down = 0

    def _due_fault(self) -> Fault | None:
        fault = self.fault
        if fault is None or self._countdown:
            self._countdown = max(0, self._countdown - 1)
            return None
        self.fault = None
        self.reached[f"fault: {fault.kind}"] += 1
        return fault

    def _fail_before(self, fault: Fault, groups: int) -> None:
        match fault.kind:
            case "refuse":
                raise EngineError("the store has no room")
            case "overload":
                raise Overloaded("the store is busy")
            case "reject" if groups > 1:
                raise BatchRejected("one of these may be at fault")
            case "break":
                raise RuntimeError("nobody expects this")
            case "fail" | "crash":
                self._strike = (fault.kind, (0, 0, 1, 2)[fault.dice % 4])

    def _fail_after(self, fault: Fault) -> None:
        match fault.kind:
            case "lose":
                raise OutcomeUnknown("the answer was lost")
            case "break after":
                raise RuntimeError("nobody expects this")
            case "crash":
                self.crash(Random(fault.dice))
                raise OutcomeUnknown("the store crashed behind the batch")

    def write(self, view: View) -> None:
        """Write a frame, unless the machine stops at it."""
        if self._strike is not None:
            kind, frames = self._strike
            if not frames:
                self._strike = None
                raise DiskFull("the disk is full") if kind == "fail" else Stopped
            self._strike = (kind, frames - 1)
        self.frames.append(encoded(view))

    def crash(self, dice: Random) -> None:
        """The store stops: what is acknowledged stays, and of what comes behind it any part. It comes back from its journal."""
        kept = dice.choice((self.acknowledged, len(self.frames), dice.randint(self.acknowledged, len(self.frames))))
        self.reached["crash: frames lost"] += kept < len(self.frames)
        self.reached["crash: more kept than was acknowledged"] += kept > self.acknowledged
        self.reached["crash"] += 1
        del self.frames[kept:]
        self._catch_up(kept)
        self._window.clear()
        self.acknowledged = kept
        self.engine = JournaledEngine(self)
        self.has_crashed = True
        self.down = GONE if self.is_embedded else dice.choice((0, 0, 1, 3, 8))
        if (different := difference(self.reference, self.engine)) is not None:
            raise SimulationFailed(f"the engine that came back is not what was acknowledged: {different}")

    # The reference

    def acknowledge(self, frames: int) -> None:
        """Somebody learns what rests on these frames."""
        if frames > self.acknowledged or (self._window and self._window[0].end <= frames):
            self.acknowledged = max(self.acknowledged, frames)
            self._catch_up(self.acknowledged)

    def _catch_up(self, frames: int) -> None:
        """Let the reference have every batch up to here."""
        window = self._window
        while window and (window[0].end <= frames or window[0].start < frames):
            batch = window.popleft()
            self.reference.follow(batch, min(batch.end, frames))

    def check_end(self) -> None:
        """At the end: the state is the folded journal, and the reference's."""
        self.acknowledge(len(self.frames))
        for name, engine in (("running", self.engine), ("folded", JournaledEngine(self))):
            if (different := difference(self.reference, engine)) is not None:
                raise SimulationFailed(f"the {name} engine differs at the end: {different}")
        for difference_found in self.engine.verify():
            raise SimulationFailed(f"verify: {difference_found}")


def difference(reference: MemoryEngine, engine: MemoryEngine) -> str | None:
    """The first table that differs, described; None if all agree."""
    for name in TABLES:
        ours, theirs = getattr(reference._tables, name), getattr(engine._tables, name)
        if ours != theirs:
            return f"{name} differ: {theirs} instead of {ours}"
    if reference.limits != engine.limits:
        return f"limits differ: {engine.limits} instead of {reference.limits}"
    return None
