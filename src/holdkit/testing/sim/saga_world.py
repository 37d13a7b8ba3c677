"""The sagas of one simulated run: gives drivers their turns, checks the journal, and brings all sagas to an end.

The check reads every entry and sees no driver: a saga changes its phase only as it may; after the point of no return
its hold is confirmed, or an operator has ended it; before it, no driver confirms anything. An operator may change any hold by
force; what was consumed so is never consumed again, and never left behind by an abort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Literal

from msgspec import Struct

from ...core.commands import AnyCommand, ConfirmHold, ExtendHold, Group, ReleaseHold, ReturnUnits
from ...core.entries import Action, Entry
from ...core.model import StoredHold
from ...core.outcomes import Done, Outcome, Reason, Refusal
from ...core.reading import FindHold, FindRecord, JournalRow, ListRecords, entry_of
from ...engines.log.engine import LogEngine
from ...errors import HoldkitError
from ...faces.saga_records import KIND, OPEN, PARKED, SagaBody, decode
from ...faces.saga_steps import ENDED, Phase
from ...kernel.prepare import Randomness
from .checker import SimulationFailed
from .saga_drivers import MOST_FAILURES, Apply, Effects, SagaTask, SagaTasks
from .saga_plan import Advance, Force, ForceVerb, Recover, Run, SagaStep

OPERATOR: Final = "the operator has looked"
"""The reason of what an operator has done."""

_FREED: Final = (Action.HOLD_RELEASED, Action.HOLD_PARTLY_RELEASED, Action.HOLD_EXPIRED)
_MAY_FOLLOW: Final = {
    None: {Phase.RESERVING},
    Phase.RESERVING: {Phase.RESERVING, Phase.FINALIZING, Phase.ABORTED, Phase.PARKED},
    Phase.FINALIZING: {Phase.FINALIZING, Phase.DONE, Phase.PARKED},
    Phase.PARKED: {Phase.DONE, Phase.ABORTED},
    Phase.ABORTED: {Phase.RESERVING},
    Phase.DONE: set(),
}


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


class SagaJournalCheck:
    """Reads the journal, entry by entry."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self.histories: dict[str, SagaHistory] = {}
        self._committed_holds: dict[str, str] = {}  # holds behind a point of no return, and whose
        self._holds: dict[str, str] = {}  # all holds of sagas, and whose
        self._last: dict[str, int] = {}  # the last entry about each of them
        self.archived = 0
        """The entries up to this one have left the journal."""

    def read(self, seq: int, entry: Entry) -> None:
        """Check one more entry."""
        if entry.action is Action.RECORD_PUT:
            if entry.subject.startswith(f"{KIND}/"):
                self._record(entry)
        elif entry.subject in self._holds:
            self._last[entry.subject] = seq
            self._hold(entry)

    def _record(self, entry: Entry) -> None:
        assert entry.record is not None
        saga = entry.record.id
        history = self.histories.setdefault(saga, SagaHistory())
        if entry.removed:
            if history.last not in ENDED:
                raise SimulationFailed(f"saga {saga} was forgotten while it was {history.last}")
            history.body = None
            return
        body = decode(entry.record)
        history.again |= history.last is not None and history.body is None
        before = None if history.body is None else history.body.phase
        if body.phase not in _MAY_FOLLOW[before]:
            raise SimulationFailed(f"saga {saga} went from {before} to {body.phase}")
        if history.body is not None and body.epoch < history.body.epoch:
            raise SimulationFailed(f"saga {saga} was written by a driver of an older epoch")
        excused = history.forced or (before is Phase.RESERVING and self._untold(body.hold))
        if body.phase is Phase.PARKED and body.failures < MOST_FAILURES and not excused:
            raise SimulationFailed(f"saga {saga} was parked for no reason: {body.error}")
        history.by_hand |= before is Phase.PARKED
        history.body, history.last = body, body.phase
        if body.hold is not None:
            self._holds[body.hold] = saga
            if body.phase is Phase.FINALIZING:
                self._committed_holds[body.hold] = saga

    def _untold(self, hold: str | None) -> bool:
        """Whether everything about a hold has left the journal."""
        return hold is not None and self._last.get(hold, 0) <= self.archived

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
            effects, done = self._effects.done[saga], history.last is Phase.DONE
            if history.by_hand or history.again:
                continue
            if history.consumed and not done:
                raise SimulationFailed(
                    f"saga {saga} is {history.last}, and what was confirmed by force stayed consumed"
                )
            if done and not effects and not history.consumed:
                raise SimulationFailed(f"saga {saga} is done, and its effect has never happened")
            if not done and effects:
                raise SimulationFailed(f"saga {saga} is aborted, and its effect has happened {effects} times")
            if history.confirmed != done:
                raise SimulationFailed(
                    f"saga {saga} is {history.last}, and its units were confirmed {history.confirmed} times"
                )


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
            return ExtendHold(**call, by_slots=50)


MAX_TURNS: Final = 1_000
"""Turns within which every driver must have ended once there are no more faults."""
MAX_RECOVERIES: Final = 20
"""Recoveries that must be enough then; a saga may have far fewer failures."""


class SagaWorld:
    """Belongs to one world: `apply` goes to its engine, `crash` is called whenever that is opened again."""

    def __init__(
        self, engine: Callable[[], LogEngine], randomness: Randomness, apply: Apply, reached: Counter[str]
    ) -> None:
        self._engine, self._apply, self._reached = engine, apply, reached
        self._tasks = SagaTasks(engine, randomness, self._send)
        self._journal_check = SagaJournalCheck(self._tasks.effects)
        self._any = self._at_rest = False

    def crash(self) -> None:
        """All drivers end with the machine."""
        if self._tasks.drivers:
            self._reached["saga: driver killed"] += 1
            late = any(history.last is Phase.FINALIZING for history in self._journal_check.histories.values())
            self._reached["saga: killed behind the point of no return"] += late
            self._tasks.crash()

    def close(self) -> None:
        """The run is over."""
        self._tasks.crash()

    def step(self, step: SagaStep) -> None:
        """One step of the plan."""
        self._any = True
        match step:
            case Run():
                history = self._journal_check.histories.get(step.saga)
                if history is None or history.body is not None:  # a saga that was forgotten would be another one
                    self._check_answer(self._tasks.run(step.saga, step.intent))
            case Recover():
                self._recover()
            case Advance():
                for _ in range(step.times):
                    if not self._tasks.drivers:
                        break
                    self._advance(self._tasks.drivers[step.driver % len(self._tasks.drivers)])
            case Force():
                self._force(step.saga, step.verb)

    def _recover(self) -> SagaTask:
        driver = self._tasks.start(lambda sagas: sagas.recover())
        self._check_answer(driver)
        return driver

    def _advance(self, driver: SagaTask) -> None:
        self._tasks.advance(driver)
        self._check_answer(driver)

    def _send(self, group: Group) -> list[Outcome]:
        """Apply what a driver writes."""
        outcomes = self._apply(group)
        first = outcomes[0]
        self._reached["saga: too late"] += isinstance(first, Refusal) and first.reason is Reason.VERSION_CONFLICT
        return outcomes

    def _check_answer(self, driver: SagaTask) -> None:
        """A driver gets only errors that are documented; and no effect runs too early."""
        for saga in self._tasks.effects.early:
            raise SimulationFailed(f"the effect of saga {saga} ran before its point of no return")
        if driver.error is not None and not isinstance(driver.error, HoldkitError | ValueError):
            raise SimulationFailed(f"a driver of sagas broke: {driver.error!r}") from driver.error
        self._reached["saga: unsettled"] += isinstance(driver.error, HoldkitError)

    def _force(self, saga: str, verb: ForceVerb) -> None:
        hold = self._hold_of(saga)
        if hold is not None:
            with suppress(HoldkitError):  # the disk's errors are not about sagas
                outcomes = self._apply(Group((_forced(verb, hold),)))
                self._reached["saga: hold changed by force"] += isinstance(outcomes[0], Done)

    # Checking

    def follow(self, rows: Iterable[JournalRow]) -> None:
        """Check new entries of the journal."""
        if not self._any:
            return
        archived = self._engine()._journal.archived
        self._journal_check.archived = 0 if archived is None else archived.through
        for row in rows:
            self._journal_check.read(row.seq, entry_of(row))
        if self._at_rest:
            self._journal_check.close()

    # The end

    def converge(self) -> None:
        """There are no more faults: drivers end, recovery ends what is left, an operator ends what is parked."""
        if not self._any:
            return
        for _ in range(MAX_TURNS):
            if not self._tasks.drivers:
                break
            self._advance(self._tasks.drivers[0])
        for _ in range(MAX_RECOVERIES):
            if not self._listed(OPEN):
                break
            self._to_its_end(self._recover())
        for saga in self._listed(OPEN):
            raise SimulationFailed(f"saga {saga} never ended: it is {self._journal_check.histories[saga].last}")
        for saga in self._listed(PARKED):
            self._reached["saga: parked"] += 1
            how: Literal["done", "cancelled"] = "done" if self._tasks.effects.done[saga] else "cancelled"
            if how == "cancelled":
                self._return_units(saga)
            self._to_its_end(self._tasks.start(lambda sagas, id=saga, how=how: sagas.resolve(id, how, reason=OPERATOR)))  # type: ignore[misc]
        self._at_rest = True
        self._count()

    def _return_units(self, saga: str) -> None:
        """What was confirmed by force comes back before its saga is cancelled."""
        hold = self._hold_of(saga)
        if hold is not None and hold.consumes:
            self._apply(Group((ReturnUnits(id=hold.id, force=True, reason=OPERATOR),)))
            self._reached["saga: units returned"] += 1

    def _hold_of(self, saga: str) -> StoredHold | None:
        record = self._engine().read(FindRecord(("", KIND, saga)))
        hold = None if record is None else decode(record).hold
        return None if hold is None else self._engine().read(FindHold(("", hold)))

    def _to_its_end(self, driver: SagaTask) -> None:
        for _ in range(MAX_TURNS):
            if driver.over:
                return
            self._advance(driver)
        raise SimulationFailed(f"a driver of sagas goes on for ever: {MAX_TURNS} turns were not enough")

    def _listed(self, kind: str) -> list[str]:
        return [record.id for record in self._engine().read(ListRecords("", kind, limit=1_000))]

    def _count(self) -> None:
        """Count what sagas went through, for the points that must be reached."""
        for record in self._engine().read(ListRecords("", KIND, limit=1_000)):
            body = decode(record)
            self._reached[f"saga: {body.phase}"] += 1
            self._reached["saga: taken over"] += body.epoch > 1
            self._reached["saga: another attempt"] += body.attempt > 1
            self._reached["saga: effect run again"] += self._tasks.effects.done[record.id] > 1
