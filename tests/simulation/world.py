"""One simulated run: processes that do what the plan says on a store that fails as the plan says, and judges beside them.

After the last step nothing fails any more, and everything must come to rest: callers know what became of their calls, sagas have ended,
lines are served, followers and webhooks have seen every entry, and no unit is held for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, Final, Protocol

from holdkit.core.commands import Group, Sweep
from holdkit.core.entries import Entry
from holdkit.core.model import SECOND, Slot
from holdkit.core.outcomes import Done
from holdkit.errors import HoldkitError
from tests.simulation.callers import Caller
from tests.simulation.clients import LINE, START
from tests.simulation.followers import FollowerParty
from tests.simulation.plan import Call, Crash, Force, Jump, Kill, Plan, Recover, RunSaga, Step, Tick, Turns, Wait, part
from tests.simulation.sagas import Effects, SagaJudge, SagaParty
from tests.simulation.store import Fault, SimulationFailed, Store
from tests.simulation.virtual_loop import Mail, Process, Turn, VirtualLoop, virtual_machine
from tests.simulation.watch import Watch
from tests.simulation.webhooks import Receiver, WebhookParty

MAX_ROUNDS: Final = 400
"""Rounds in which everything must have come to rest once nothing fails any more."""
EXPIRY: Final[Slot] = 10_000 * SECOND
"""Every deadline has passed by then."""
log = logging.getLogger("holdkit")


class Party(Protocol):
    """Whatever runs in processes of its own."""

    def begin(self, process: Process) -> None:
        """Do what it does by itself, in a new process."""


class Clients:
    """Callers that talk to one process."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []

    def begin(self, process: Process) -> None:
        self._process = process
        for caller in [caller for caller in self.callers if not caller.is_over]:
            self.ask(caller)

    def call(self, caller: Caller, *, is_doubled: bool) -> None:
        """One more caller, who sends once, or twice at the same time."""
        self.callers.append(caller)
        for _ in range(1 + is_doubled):
            self.ask(caller)

    def ask(self, caller: Caller, attempts: int | None = None) -> None:
        """Let a caller ask."""
        self._process.start(caller.run(self._process.executor, attempts))


class Sweeper:
    """Sweeps every few seconds."""

    def begin(self, process: Process) -> None:
        process.start(self._sweep(process))

    async def _sweep(self, process: Process) -> None:
        process.hk.sweeper(every=6.0, limit=20)


class Waiters:
    """Callers that block in line for units, keep them for a while, and give them back."""

    def __init__(self, reached: Counter[str]) -> None:
        self._reached = reached

    def begin(self, process: Process) -> None:
        self._process = process

    def step(self, step: Wait) -> None:
        """One more caller."""
        self._process.start(self._wait(step))

    async def _wait(self, step: Wait) -> None:
        hk = self._process.hk
        try:
            hold = await hk.hold(LINE, step.quantity, ttl=step.ttl, wait=step.seconds)
            self._reached["waiter: has its units"] += 1
            await asyncio.sleep(step.keeps)
            await hk.release(hold)
        except HoldkitError as refused:
            self._reached[f"waiter: {type(refused).__name__}"] += 1


class Errors(logging.Handler):
    """What the kernel logs as an error is a bug."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._errors.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


class World:
    """Runs a plan. `reached` counts what happened, so that a run in which nothing happens cannot pass."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.reached, self.loop = plan, Counter[str](), VirtualLoop()
        self._transcript = blake2b(digest_size=16)
        self._offset: Slot = START
        self._turns: list[Turn] = []
        self._mail: list[Mail] = []
        self._dice, self._randomness = part(plan.seed, "turns"), part(plan.seed, "randomness").randbytes
        reached = self.reached
        self.watch = Watch(reached, plan.least_window)
        self.store = Store(self.clock, plan.limits, is_embedded=plan.is_embedded, watch=self._see, reached=reached)
        dice = part(plan.seed, "receiver")
        self.receiver = Receiver(plan.hook_tenant, plan.failing_deliveries, dice, self.watch, reached)
        self.effects = Effects()
        self.judge = SagaJudge(self.effects)
        self.watch.readers.append(self.judge.read)
        self.clients = [Clients(), Clients()]
        self.sagas = [SagaParty(self.store, self.judge, self.effects, reached) for _ in range(2)]
        self.follower, self.waiters = FollowerParty(self.watch, reached), Waiters(reached)
        parties: dict[str, list[Any]] = {
            "clients": [*self.clients], "sweeper": [Sweeper()], "sagas": [*self.sagas], "follower": [self.follower],
            "webhooks": [WebhookParty(reached), WebhookParty(reached)], "waiters": [self.waiters],
        }  # fmt: skip
        self._parties: list[tuple[str, Party]] = [(name, party) for name in plan.parties for party in parties[name]]
        self._processes: list[Process] = []
        """Beside each party; if the engine is embedded, all in one."""

    @property
    def transcript(self) -> str:
        """The hash of all that happened."""
        return self._transcript.hexdigest()

    def clock(self) -> Slot:
        """The store's clock."""
        return self._offset + int(self.loop.time() * SECOND)

    def _see(self, frame: int, slot: Slot, entries: Sequence[Entry]) -> None:
        self._transcript.update(self.store.frames[frame])
        self.watch.see(frame, slot, entries)

    # A run

    def run(self) -> str:
        """Run the plan; returns the hash of the transcript. Raises `SimulationFailed`."""
        SimulationFailed.first = None
        errors = Errors(self.loop.errors)
        log.addHandler(errors)
        log.propagate, propagates = False, log.propagate
        try:
            with virtual_machine(self.loop, part(self.plan.seed, "machine").randbytes, self.receiver.post):
                try:
                    self._checked("birth", self._birth)
                    for index, step in enumerate(self.plan.steps):
                        self._checked(f"step {index}", partial(self._step, step))
                    self._checked("the end", self._converge)
                finally:
                    self._stop_all()
        finally:
            log.removeHandler(errors)
            log.propagate = propagates
        self._transcript.update(str(sorted(self.reached.items())).encode())
        return self.transcript

    def _checked(self, where: str, work: Callable[[], None]) -> None:
        try:
            work()
            self.loop.settle()
        except Exception as error:
            raise SimulationFailed(f"{where}: {SimulationFailed.first or repr(error)}") from error
        if SimulationFailed.first is not None or self.loop.errors:
            raise SimulationFailed(f"{where}: {SimulationFailed.first or self.loop.errors[0]}")

    def _birth(self) -> None:
        if "webhooks" in self.plan.parties:
            process = self._process(slow_reads=0.0)
            process.start(self.receiver.make(process))
            self._take_all_turns()
            process.kill()
        self._start_all()

    def _process(self, slow_reads: float | None = None) -> Process:
        share = self.plan.slow_reads if slow_reads is None else slow_reads
        return Process(self.loop, self.store, self._turns, self._randomness, lambda: self._dice.random() < share)

    def _start_all(self) -> None:
        self.store.down = 0
        shared = self._process() if self.plan.is_embedded else None
        self._processes = [shared or self._process() for _ in self._parties]
        for (_, party), process in zip(self._parties, self._processes, strict=True):
            party.begin(process)

    def _stop_all(self) -> None:
        for process in dict.fromkeys(self._processes):
            process.kill()
        self._turns.clear()
        self._mail.clear()

    # Steps

    def _step(self, step: Step) -> None:
        match step:
            case Call():
                name = f"call{sum(len(clients.callers) for clients in self.clients)}"
                self.reached["doubled"] += step.is_doubled
                caller = Caller(name, step, self.watch, self.clock, self.reached)
                self.clients[step.client].call(caller, is_doubled=step.is_doubled)
            case Turns():
                dice = Random(step.dice)
                for _ in range(step.count):
                    self._take_turn(dice, is_late=dice.random() < self.plan.late_answers)
            case Tick():
                self.loop.advance(step.seconds)
            case Jump():
                self._offset = max(START - EXPIRY, self._offset + step.slots)
                self.reached["clock ahead" if step.slots > 0 else "clock back"] += 1
            case Fault():
                self.store.arm(step)
            case Crash():
                self.store.crash(Random(step.dice))
                self._after_crash()
            case Kill():
                self._kill(step)
            case RunSaga() | Recover() | Force():
                self.sagas[self._dice.randrange(2)].step(step)
            case Wait():
                self.waiters.step(step)

    def _take_turn(self, dice: Random, *, is_late: bool = False) -> None:
        """One of those that wait gets its turn; or an answer that is on its way arrives."""
        chosen = dice.randrange(len(self._turns) + len(self._mail)) if self._turns or self._mail else -1
        if chosen >= len(self._turns):
            self._deliver(self._mail.pop(chosen - len(self._turns)))
        elif chosen >= 0:
            self._run_turn(self._turns.pop(chosen), is_late=is_late)
        self.loop.settle()

    def _run_turn(self, turn: Turn, *, is_late: bool) -> None:
        with self.loop.capturing() as answers:
            turn.run()
        if not turn.is_batch:
            return
        if turn.process.is_dead:
            self.reached["sent by a process that was killed"] += 1
        else:
            self._mail.append(Mail(turn.process, answers, len(self.store.frames)))
        if self.store.has_crashed:
            self.reached["crash: within a batch"] += 1
            self._after_crash()
        elif self._mail and not is_late:
            self._deliver(self._mail.pop())

    def _deliver(self, mail: Mail) -> None:
        if mail.has_answers:
            self.store.acknowledge(mail.frames)
        self.loop.release(mail.arrive())

    def _after_crash(self) -> None:
        """What was on its way never arrives; if the engine is embedded, the process is gone too."""
        self.store.has_crashed = False
        if self.plan.is_embedded:
            self._stop_all()
            self._start_all()
            return
        undelivered, self._mail = self._mail, []
        for mail in undelivered:
            self.reached["crash: answers lost on their way"] += mail.has_answers
            self.loop.release(mail.lose())

    def _kill(self, step: Kill) -> None:
        """A process is killed. What it has sent to a store that others share may still arrive."""
        dice = Random(step.dice)
        self.reached[f"killed: {step.party}"] += 1
        if self.plan.is_embedded:
            self.store.crash(dice)
            self._after_crash()
            return
        index = dice.choice([index for index, (name, _) in enumerate(self._parties) if name == step.party])
        process = self._processes[index]
        process.kill()
        arrives = dice.random() < 0.5
        self._turns[:] = [turn for turn in self._turns if turn.process is not process or (turn.is_batch and arrives)]
        self._mail = [mail for mail in self._mail if mail.process is not process]
        self._processes[index] = self._process()
        self._parties[index][1].begin(self._processes[index])

    # The end

    def _converge(self) -> None:
        """Nothing fails any more: everything comes to rest, then everything expires."""
        self.store.arm(None)
        self.receiver.failing = 0.0
        for _ in range(MAX_ROUNDS):
            self._take_all_turns()
            if self._unfinished() is None:
                break
            for clients in self.clients:
                for caller in [caller for caller in clients.callers if caller.is_in_doubt]:
                    clients.ask(caller, attempts=1)
            self._take_all_turns()
            self.loop.advance(1.0)
        else:
            raise SimulationFailed(f"it does not come to rest: {self._unfinished()}")
        self._sweep_up()
        if unserved := self.watch.unserved(self.clock()):
            raise SimulationFailed(f"they wait, and their units are free: {unserved}")
        self._offset += EXPIRY
        self._sweep_up()
        self._check_end()

    def _take_all_turns(self) -> None:
        for _ in range(10_000):
            if not self._turns and not self._mail:
                return
            self._take_turn(self._dice)
        raise SimulationFailed("turns come without end, and no time passes")

    def _unfinished(self) -> str | None:
        """What has not come to rest yet. Whoever recovers sagas goes on with the next ones."""
        parties = self.plan.parties
        if any(caller.is_in_doubt for clients in self.clients for caller in clients.callers):
            return "a caller does not know what became of its call"
        if "sagas" in parties and (any(party.is_busy for party in self.sagas) or self.sagas[0].recover_more()):
            return "a saga has not ended"
        if "follower" in parties and not self.follower.is_at_end:
            return "a follower has not seen everything"
        if "webhooks" in parties and (missing := self.receiver.missing(self.store)):
            return f"the webhook was not sent {missing}"
        return None

    def _sweep_up(self) -> None:
        """Sweep until nothing is left to sweep, as the kernel would."""
        for _ in range(1_000):
            applied = self.store.apply([Group((Sweep(limit=50),))])
            self.store.acknowledge(len(self.store.frames))
            swept = applied.outcomes[0][0]
            if isinstance(swept, Done) and not swept.more and not applied.unfed:
                return
        raise SimulationFailed("sweeping comes to no end")

    def _check_end(self) -> None:
        for pool in self.store.engine._tables.pools.values():
            if pool.held or pool.waiting:
                raise SimulationFailed(f"units that nobody holds any more never came back: {pool}")
        self.store.check_end()
        for caller in [caller for clients in self.clients for caller in clients.callers]:
            caller.check()
        if "sagas" in self.plan.parties:
            self.judge.close()
            self.sagas[0].count()
        if "webhooks" in self.plan.parties:
            self.reached["webhook: parked"] += len(self.receiver.parked(self.store))
        self.reached["limits changed"] += sum(seen.action == "limits.changed" for seen in self.watch.entries)
        self.reached["past retention"] += bool(self.store.limits.past)
        self.reached["came to rest"] += 1
