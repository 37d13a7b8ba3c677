"""One simulated run: the real log engine on a simulated disk, step by step, with a checker beside it.

The world does what the plan says to the engine and to the machine under it, and restarts them; the checker says
whether the result is right. At the end there are no more faults, and everything must come to rest.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from ...core.commands import FeedLine, Group, Sweep
from ...core.model import Slot
from ...core.outcomes import Done, Outcome
from ...core.reading import ReadJournal
from ...engines.log.engine import LogEngine
from ...engines.log.erasure_plan import FILE as ERASURE
from ...engines.port import Applied
from ...errors import EngineError, OutcomeUnknown
from .checker import Checker, SimulationFailed
from .disk import SimDisk
from .erasure_plan import Erase
from .erasure_world import ErasureWorld
from .faults import Fault, Faults, PowerCut
from .plan import START, Apply, ArchiveEntries, Converge, Plan, Reopen, Space, Step, TakeSnapshot, part
from .saga_plan import Advance, Force, Recover, Run
from .saga_world import SagaWorld

UNLIMITED = 1 << 40


class World:
    """Runs a plan. `reached` counts what happened, so that a run in which nothing happens cannot pass."""

    def __init__(self, plan: Plan, engine: type[LogEngine] = LogEngine) -> None:
        self.plan, self._engine_type = plan, engine
        self.reached: Counter[str] = Counter()
        self.operations = 0
        self._randomness = part(plan.seed, "randomness")
        self._slot: Slot = START
        self._faults = Faults(self.reached)
        self._faults.arm(plan.first_fault)
        self._faults_over = False
        self._touched = self._opened = True
        """Since the last check: the engine was used; it was opened."""
        self.disk = SimDisk(self._faults.before)
        self._engine: LogEngine | None = None
        self._checker = Checker(self._clock, plan.limits, self._faults, self.reached)
        self._sagas = SagaWorld(lambda: self.engine, part(plan.seed, "tokens").randbytes, self._submit, self.reached)
        self._erasures = ErasureWorld(
            lambda: self.engine, self._submit, self._checker, self.disk, self._faults,
            part(plan.seed, "erasures").randbytes, self.reached,
        )  # fmt: skip
        self._snapshot = 0  # the frame behind which the last acknowledged snapshot stands

    @property
    def engine(self) -> LogEngine:
        """The engine, while the machine runs."""
        assert self._engine is not None
        return self._engine

    @property
    def transcript(self) -> str:
        """The hash of all that happened."""
        return self._checker.transcript

    def _clock(self) -> Slot:
        return self._slot

    def run(self) -> str:
        """Run the plan; returns the hash of the transcript."""
        try:
            self._checked_step("birth", None)
            for index, step in enumerate(self.plan.steps):
                self._checked_step(f"step {index}", step)
        finally:
            self._sagas.close()
        self._checker.note(str(sorted(self.reached.items())))
        return self.transcript

    def _checked_step(self, where: str, step: Step | None) -> None:
        """Run a step and check; any error that nobody planned is a failure."""
        try:
            self._run_step(step)
            if self._touched:
                self._check(where)
        except SimulationFailed:
            raise
        except Exception as error:
            raise SimulationFailed(f"{where}: {type(error).__name__}: {error}") from error

    def _run_step(self, step: Step | None) -> None:
        try:
            self._open_retrying() if step is None else self._step(step)
        except PowerCut:
            self.reached["cut during snapshot"] += isinstance(step, TakeSnapshot)
            self.reached["cut during archive"] += isinstance(step, ArchiveEntries)
            self.reached["cut during erasure"] += isinstance(step, Erase)
            self.reached["cut during birth"] += step is None
            self._recover_machine()

    # Restarting

    def _recover_machine(self) -> None:
        """The machine stops and restarts, perhaps more than once: recovery can be killed, and can fail, too."""
        dice = Random(self._faults.armed.dice if self._faults.armed else self.plan.seed)
        self.disk.capacity = UNLIMITED  # an operator makes room before the restart
        for attempt in range(4):
            if dice.random() < 0.4:  # only the process died: the page cache survives, also what was never synced
                self.disk.locked = False
                self.reached["process killed"] += 1
            else:
                self.disk.crash(dice)
            fails_again = attempt < 3 and dice.random() < 0.4
            self._faults.arm(Fault(dice.choice(("cut", "error")), dice.randrange(8), 0) if fails_again else None)
            try:
                self._open()
            except PowerCut:
                self.reached["cut during recovery"] += 1
            except EngineError as error:
                if not isinstance(error.__cause__, OSError):
                    raise SimulationFailed(f"a crash made the log unreadable: {error}") from error
                self.reached["error during recovery"] += 1
            else:
                break
        self._faults.arm(None)
        self._checker.reconcile("power cut", self.engine)
        if self._checker.pending and dice.random() < 0.5:  # a caller that got no answer retries
            self.reached["asked again"] += 1
            self._apply(self._checker.pending.pop())
        self._checker.forget_pending()
        if self._erasures.unfinished and dice.random() < 0.3:
            self._snapshot = 0  # snapshots go with them
            self._erasures.again()

    # Steps

    def _open(self) -> None:
        self._sagas.crash()
        self._touched = self._opened = True
        planned = any(name == ERASURE and b'"plan":{' in pages.cached for name, pages in self.disk.files.items())
        self._snapshot = 0 if planned else self._snapshot
        self._engine = self._engine_type(
            self.disk,
            clock=self._clock,
            limits=self.plan.limits,
            randomness=self._randomness.randbytes,
            segment_bytes=self.plan.segment_bytes,
        )
        if self._engine.restored_from < self._snapshot:
            raise SimulationFailed("a snapshot that was acknowledged is not there")
        self.reached["erasure: carried out by an opening"] += planned
        self.reached["restored from a snapshot"] += self._engine.restored_from > 0
        self._checker.check_archived(self._engine)

    def _step(self, step: Step) -> None:
        match step:
            case Apply():
                self._slot = step.slot
                self._apply(step)
            case Fault(kind="rot"):
                self._rot(step)
            case Fault():
                self._faults.arm(step)
            case Space():
                self.disk.capacity = UNLIMITED if step.left is None else self.disk.used() + step.left
            case Reopen():
                self._reopen()
            case TakeSnapshot():
                self._take_snapshot()
            case ArchiveEntries():
                self._archive(step)
            case Erase():
                self._slot, self._snapshot = step.slot, 0  # snapshots go with it
                self._touched = self._opened = True
                self._erasures.step(step)
            case Converge():
                self._converge(step)
            case Run() | Recover() | Advance() | Force():
                self._slot = step.slot
                self._sagas.step(step)

    def _submit(self, group: Group) -> list[Outcome]:
        """Apply a group for a caller that waits for its outcomes."""
        applied = self._apply(Apply(self._slot, (group,)))
        if isinstance(applied, EngineError | OutcomeUnknown):
            raise applied
        return applied[0]

    def _apply(self, step: Apply) -> list[list[Outcome]] | EngineError | OutcomeUnknown:
        """The outcomes of a batch, or the error."""
        self._touched = True
        checker = self._checker
        checker.pending.append(step)
        try:
            answer = self.engine.apply(step.groups)
        except OutcomeUnknown as unknown:
            self.reached["unknown"] += 1
            checker.note_unknown(step)
            self._unsettled()
            return unknown
        except EngineError as error:
            if self._faults_over:
                raise SimulationFailed(f"the disk is well again, and yet: {error}") from error
            self.reached["left out"] += 1
            checker.reconcile("engine error", self.engine)
            checker.pending.remove(step)
            return error
        checker.pending.remove(step)
        self.operations += sum(len(group.commands) for group in step.groups)
        checker.acknowledge(step, answer)
        return self._feed(step, answer)

    def _feed(self, step: Apply, answer: Applied) -> list[list[Outcome]] | EngineError | OutcomeUnknown:
        """Do what the kernel does after a batch: have the lines fed that it left, and send again what was put off."""
        outcomes = [*answer.outcomes]
        if later := sorted(answer.put_off):
            self.reached["put off"] += 1
            rest = self._apply(Apply(step.slot, tuple(step.groups[index] for index in later)))
            if isinstance(rest, EngineError | OutcomeUnknown):
                return rest
            for index, group in zip(later, rest, strict=True):
                outcomes[index] = group
        if answer.wrote:
            for tenant, pool in answer.unfed:
                self.reached["fed later"] += 1
                self._apply(Apply(step.slot, (Group((FeedLine(tenant=tenant, id=pool),)),)))
        return outcomes

    def _unsettled(self) -> None:
        """The outcome is unknown: a restart settles it, or the next write that succeeds."""
        if Random(f"{self.plan.seed}/{len(self._checker.followed)}").random() < 0.5:
            self._recover_machine()
        else:
            self.reached["stayed up in doubt"] += 1
            self._checker.reconcile("unknown outcome", self.engine)

    def _open_retrying(self) -> None:
        """A full or failing disk may refuse; the log opens once there is space and the error has passed."""
        try:
            self._open()
        except EngineError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            self.reached["open refused"] += 1
            self._faults.arm(None)
            self.disk.capacity = UNLIMITED
            self._open()

    def _reopen(self) -> None:
        self.engine.close()
        segments = sum(name.endswith(".log") for name in self.disk.names())
        self._open_retrying()
        self.reached["reopened"] += 1
        self.reached["several segments"] += segments > 1
        if self._checker.pending or self._checker.erasing is not None:
            self._checker.reconcile("reopened in doubt", self.engine)
            self._checker.forget_pending()
        self._checker.note("reopened")

    def _take_snapshot(self) -> None:
        self._touched = True
        try:
            self.engine.snapshot()
        except EngineError:
            self.reached["snapshot failed"] += 1
        else:
            self.reached["snapshot"] += 1
            self._snapshot = self.engine._log.next_frame - 1

    def _archive(self, step: ArchiveEntries) -> None:
        """What has left the journal is in a file: the checker knows it."""
        self._touched = self._opened = True
        if self.engine.unfinished():  # the kernel refuses
            self.reached["archive waits for an erasure"] += 1
            return
        try:
            with self.engine.archiver() as archiver:
                (lane,) = archiver.lanes()
                rows = archiver.read(0, lane.archived.through, step.entries)
                rows = [row for row in rows if row.seq <= lane.upto]
                segments = len(self.engine._log.segments)
                if rows:
                    archiver.drop(lane.archived, rows, "a directory")
        except EngineError:
            self.reached["archive failed"] += 1
            return
        self._checker.acknowledge_archived(lane.archived.through + len(rows))
        self.reached["archived"] += bool(rows)
        self.reached["segments archived"] += len(self.engine._log.segments) < segments
        self._faults.paused = True
        base = self.engine._journal.baseline
        begun = (
            base is not None and self.engine._log.frame(base.head.after_frame + 1).first_seq <= base.archived.through
        )
        self.reached["part of a frame archived"] += bool(rows) and begun
        self._faults.paused = False

    def _rot(self, fault: Fault) -> None:
        """One bit of one file flips while the machine is off: the state must be the same, or opening must be
        refused."""
        self._faults.arm(None)
        self.disk.capacity = UNLIMITED
        if (
            self._checker.pending or self._checker.erasing is not None
        ):  # the log must be sealed: without the seal its last frame may pass for a torn tail
            return
        self.engine.close()
        random = Random(fault.dice)
        names = [name for name in self.disk.names() if self.disk.files[name].cached]
        pages = self.disk.files[random.choice(names)]
        kept = bytes(pages.cached)
        pages.cached[random.randrange(len(kept))] ^= 1 << random.randrange(8)
        pages.durable = bytearray(pages.cached)
        snapshot, self._snapshot = self._snapshot, 0
        try:
            self._open()
        except EngineError:
            self.reached["rot refused"] += 1
            pages.cached, pages.durable = bytearray(kept), bytearray(kept)
            self._snapshot = snapshot
            self._open()
        else:
            self.reached["rot survived"] += 1
            self._snapshot = min(snapshot, self.engine.restored_from)
            self._check("bit rot")
            followed = self._checker.followed
            for after in range(
                self._checker.archived, len(followed)
            ):  # every position in the journal is read by itself
                if self.engine.read(ReadJournal(None, {0: after}, 2)) != followed[after : after + 2]:
                    raise SimulationFailed(f"bit rot: the journal differs after entry {after}")

    def _converge(self, step: Converge) -> None:
        """There are no more faults: nothing fails any more, and what is due is returned."""
        self._faults.arm(None)
        self.disk.capacity, self._faults_over = UNLIMITED, True
        self._snapshot = 0 if self._erasures.unfinished else self._snapshot
        self._erasures.again(faults_over=True)
        self._serve_lines()
        self._slot = step.slot
        self._sagas.converge()
        for _ in range(1_000):
            if self._checker.at_rest:
                break
            self._apply(Apply(step.slot, (Group((Sweep(limit=50),)),)))
        left = [pool for pool in self.engine._tables.pools.values() if pool.held]
        if left:
            raise SimulationFailed(f"units that nobody holds any more never came back: {left}")
        self.reached["came to rest"] += 1
        for word in ("hold.retired", "limits.changed"):
            self.reached[word.replace(".", " ")] += sum(f'"{word}"' in row.text for row in self._checker.followed)
        self.reached["past retention"] += bool(self.engine.limits.past)

    def _serve_lines(self) -> None:
        """After a sweep nobody waits whose units are free, whatever crashed between the release and the offer."""
        for _ in range(1_000):
            answer = self._apply(Apply(self._slot, (Group((Sweep(limit=50),)),)))
            assert isinstance(answer, list)
            done = answer[0][0]
            if isinstance(done, Done) and not done.more:
                break
        self._check("lines")
        left = self._checker.lines.unserved(self.engine._tables.pools, self._slot)
        if left:
            raise SimulationFailed(f"they wait, and their units are free: {left}")

    def _check(self, where: str) -> None:
        fresh = self._checker.check(where, self.engine, opened=self._opened)
        if self._opened:
            self._erasures.check()
        self._sagas.follow(fresh)
        self._touched = self._opened = False
