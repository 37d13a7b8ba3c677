"""The sagas of a simulated run: the real face in several processes, effects that no crash takes back, and a judge that reads the journal.

The judge sees no driver. A saga changes its phase only as it may; after the point of no return its hold is confirmed, or an operator has
ended it; before it, no driver confirms anything. An operator may change any hold by force: what was consumed so is never consumed again,
and never left behind by an abort.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdkit.core.commands import AnyCommand, ConfirmHold, ExtendHold, ReleaseHold, ReturnUnits
from holdkit.core.entries import Action, Entry
from holdkit.core.model import SECOND, Record, StoredHold
from holdkit.core.reading import FindHold, FindRecord, ListRecords
from holdkit.errors import HoldkitError
from holdkit.faces._async.sagas import AsyncSagas
from holdkit.faces.saga import Saga
from holdkit.faces.saga import SagaStep as Step
from holdkit.faces.saga_records import KIND, OPEN, PARKED, SagaBody, decode
from holdkit.faces.saga_steps import ENDED, Phase
from tests.simulation.plan import Force, ForceVerb, Intent, Recover, RunSaga
from tests.simulation.store import SimulationFailed, Store
from tests.simulation.virtual_loop import Process

OPERATOR: Final = "the operator has looked"
"""The reason of what an operator has done."""
NAME: Final = "sale"
MOST_FAILURES: Final = 3
_FREED: Final = (Action.HOLD_RELEASED, Action.HOLD_PARTLY_RELEASED, Action.HOLD_EXPIRED)
_MAY_FOLLOW: Final = {
    None: {Phase.RESERVING},
    Phase.RESERVING: {Phase.RESERVING, Phase.FINALIZING, Phase.ABORTED, Phase.PARKED},
    Phase.FINALIZING: {Phase.FINALIZING, Phase.DONE, Phase.PARKED},
    Phase.PARKED: {Phase.DONE, Phase.ABORTED},
    Phase.ABORTED: {Phase.RESERVING},
    Phase.DONE: set(),
}


class Effects:
    """What effects have done in other systems."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()


class Sale(Saga):
    """The application's part. Its effect can be interrupted before and after what it does."""

    name, ttl, lease, max_attempts = NAME, 40, 8, MOST_FAILURES

    def __init__(self, effects: Effects, store: Store, process: Process) -> None:
        self._effects, self._store, self._process = effects, store, process

    def reserve(self, intent: Any, step: Step) -> dict[str, int]:
        return msgspec.convert(intent, Intent).take

    def validate(self, intent: Any, step: Step) -> None:
        if msgspec.convert(intent, Intent).rejects:
            raise ValueError("on second thoughts, no")

    async def effect(self, intent: Any, step: Step) -> int:
        await self._process.turn()
        record = self._store.engine.read(FindRecord(("", KIND, step.id)))
        if record is not None and decode(record).phase in (Phase.RESERVING, Phase.ABORTED):
            raise SimulationFailed(f"the effect of saga {step.id} ran before its point of no return")
        self._effects.tried[step.id] += 1
        if self._effects.tried[step.id] <= msgspec.convert(intent, Intent).fails:
            raise ConnectionError("the other side does not answer")
        self._effects.completed[step.id] += 1
        for _ in range(3):
            await self._process.turn()
        return self._effects.completed[step.id]


class SagaHistory(Struct):
    """One saga, as far as the journal tells."""

    body: SagaBody | None = None
    """None: not begun yet, or deleted since."""
    last: Phase | None = None
    by_hand: bool = False
    confirmed: int = 0
    forced: bool = False
    consumed: bool = False
    """An operator has confirmed units of it by force."""
    again: bool = False
    """It was begun again after it had been deleted: its effects can no longer be told apart."""


class SagaJudge:
    """Reads the journal, entry by entry."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self.histories: dict[str, SagaHistory] = {}
        self._committed_holds: set[str] = set()  # holds behind a point of no return
        self._holds: dict[str, str] = {}  # all holds of sagas, and whose

    def read(self, _seq: int, entry: Entry) -> None:
        """Check one more entry."""
        if entry.action is Action.RECORD_PUT:
            if entry.record is not None and entry.record.kind == KIND:
                self._record(entry, entry.record)
        elif entry.subject in self._holds:
            self._hold(entry)

    def _record(self, entry: Entry, record: Record) -> None:
        saga = record.id
        history = self.histories.setdefault(saga, SagaHistory())
        if entry.removed:
            if history.last not in ENDED:
                raise SimulationFailed(f"saga {saga} was forgotten while it was {history.last}")
            history.body = None
            return
        body = decode(record)
        history.again |= history.last is not None and history.body is None
        before = None if history.body is None else history.body.phase
        if body.phase not in _MAY_FOLLOW[before]:
            raise SimulationFailed(f"saga {saga} went from {before} to {body.phase}")
        if history.body is not None and body.epoch < history.body.epoch:
            raise SimulationFailed(f"saga {saga} was written by a driver of an older epoch")
        if body.phase is Phase.PARKED and body.failures < MOST_FAILURES and not history.forced:
            raise SimulationFailed(f"saga {saga} was parked for no reason: {body.error}")
        history.by_hand |= before is Phase.PARKED
        history.body, history.last = body, body.phase
        if body.hold is not None:
            self._holds[body.hold] = saga
            if body.phase is Phase.FINALIZING:
                self._committed_holds.add(body.hold)

    def _hold(self, entry: Entry) -> None:
        saga = self._holds[entry.subject]
        history = self.histories[saga]
        by_hand = entry.forced or entry.reason == OPERATOR
        history.forced |= by_hand
        history.consumed |= entry.forced and entry.action in (Action.HOLD_CONFIRMED, Action.HOLD_PARTLY_CONFIRMED)
        if entry.action is Action.HOLD_CONFIRMED:
            history.confirmed += 1
            if entry.subject not in self._committed_holds and not by_hand:
                raise SimulationFailed(f"saga {saga} confirmed before its point of no return")
        elif entry.action in _FREED and entry.subject in self._committed_holds and not by_hand:
            raise SimulationFailed(f"saga {saga}: {entry.action} behind the point of no return")

    def close(self) -> None:
        """Everything has come to rest: each saga has ended, and its effects are what its end says."""
        for saga, history in self.histories.items():
            if history.last not in ENDED:
                raise SimulationFailed(f"saga {saga} never ended: it is {history.last}")
            effects, is_done = self._effects.completed[saga], history.last is Phase.DONE
            if history.by_hand or history.again:
                continue
            if history.consumed and not is_done:
                raise SimulationFailed(
                    f"saga {saga} is {history.last}, and what was confirmed by force stayed consumed"
                )
            if is_done and not effects and not history.consumed:
                raise SimulationFailed(f"saga {saga} is done, and its effect has never happened")
            if not is_done and effects:
                raise SimulationFailed(f"saga {saga} is aborted, and its effect has happened {effects} times")
            if history.confirmed != is_done:
                raise SimulationFailed(
                    f"saga {saga} is {history.last}, and its units were confirmed {history.confirmed} times"
                )


class SagaParty:
    """A process that drives sagas."""

    def __init__(self, store: Store, judge: SagaJudge, effects: Effects, reached: Counter[str]) -> None:
        self._store, self._judge, self._effects, self._reached = store, judge, effects, reached
        self._drivers: list[asyncio.Task[Any]] = []
        self.is_closing = False

    def begin(self, process: Process) -> None:
        """In a new process, nobody drives anything yet."""
        is_behind = any(history.last is Phase.FINALIZING for history in self._judge.histories.values())
        self._reached["saga: killed behind the point of no return"] += bool(is_behind and self._drivers)
        self._process, self._drivers = process, []
        self._sagas = AsyncSagas(process.executor, "")
        self._sagas.register(Sale(self._effects, self._store, process))

    def step(self, step: RunSaga | Recover | Force) -> None:
        """One step of the plan."""
        match step:
            case RunSaga():
                history = self._judge.histories.get(step.saga)
                if history is None or history.body is not None:  # a saga that was forgotten would be another one
                    self._run(step.saga, step.intent)
            case Recover():
                self._drive(self._sagas.recover())
            case Force():
                self._drive(self._force(step.saga, step.verb))

    def _run(self, saga: str, intent: Intent) -> None:
        options = self._sagas._registered[NAME]
        self._drive(self._sagas._store.run(options, saga, msgspec.to_builtins(intent)))

    def _drive(self, work: Coroutine[Any, Any, Any]) -> None:
        async def quietly() -> None:
            try:
                await work
            except (HoldkitError, ValueError):
                self._reached["saga: its caller got an error"] += 1

        self._drivers = [driver for driver in self._drivers if not driver.done()]
        self._drivers.append(self._process.start(quietly()))

    @property
    def is_busy(self) -> bool:
        """Whether anybody still drives a saga."""
        return not all(driver.done() for driver in self._drivers)

    async def _force(self, saga: str, verb: ForceVerb) -> None:
        hold = self._hold_of(saga)
        if hold is not None:
            await self._process.executor.execute(_forced(verb, hold))
            self._reached["saga: hold changed by force"] += 1

    def _hold_of(self, saga: str) -> StoredHold | None:
        record = self._store.engine.read(FindRecord(("", KIND, saga)))
        hold = None if record is None else decode(record).hold
        return None if hold is None else self._store.engine.read(FindHold(("", hold)))

    def recover_more(self) -> bool:
        """There are no more faults: recover what is open, then let an operator end what is parked. False: all have ended."""
        if self._listed(OPEN):
            self._drive(self._sagas.recover())
        elif parked := self._listed(PARKED):
            self._reached["saga: parked"] += len(parked)
            for saga in parked:
                self._drive(self._resolve(saga))
        else:
            return False
        return True

    async def _resolve(self, saga: str) -> None:
        how: Literal["done", "cancelled"] = "done" if self._effects.completed[saga] else "cancelled"
        hold = self._hold_of(saga)
        if how == "cancelled" and hold is not None and hold.consumes:  # what was confirmed by force comes back first
            await self._process.executor.execute(ReturnUnits(id=hold.id, force=True, reason=OPERATOR))
            self._reached["saga: units returned"] += 1
        await self._sagas.resolve(saga, how, reason=OPERATOR)

    def _listed(self, kind: str) -> list[str]:
        return [record.id for record in self._store.engine.read(ListRecords("", kind, limit=1_000))]

    def count(self) -> None:
        """Count what sagas went through."""
        for record in self._store.engine.read(ListRecords("", KIND, limit=1_000)):
            body = decode(record)
            self._reached[f"saga: {body.phase}"] += 1
            self._reached["saga: taken over"] += body.epoch > 1
            self._reached["saga: another attempt"] += body.attempt > 1
            self._reached["saga: effect run again"] += self._effects.completed[record.id] > 1


def _forced(verb: ForceVerb, hold: StoredHold) -> AnyCommand:
    call: dict[str, Any] = {"id": hold.id, "force": True, "reason": OPERATOR}
    match verb:
        case "release":
            return ReleaseHold(**call)
        case "confirm":
            return ConfirmHold(**call)
        case "partly_confirm":
            return ConfirmHold(**call, quantity={hold.legs[0].pool: 1}, keep_rest=True)
        case "extend":
            return ExtendHold(**call, by_slots=50 * SECOND)
