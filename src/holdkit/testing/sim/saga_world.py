"""What the journal must say of sagas: a judge who reads every entry, and sees no driver.

A saga goes from phase to phase as it may; behind the point of no return its hold is confirmed, or an operator has ended it;
before it, nothing is. Knows nothing of how sagas are driven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct

from ...core.commands import Group, ReleaseHold
from ...core.entries import Action, Entry
from ...core.outcomes import Done, Outcome, Reason, Refusal
from ...core.reading import FindRecord, JournalRow, ListRecords, entry_of
from ...engines.log.engine import LogEngine
from ...errors import HoldkitError
from ...faces.saga_records import KIND, OPEN, PARKED, SagaBody, decode
from ...faces.saga_steps import ENDED, Phase
from ...kernel.prepare import Randomness
from .checker import Broken
from .saga_drivers import MOST_FAILURES, Apply, Crew, Driver, Outside
from .saga_plan import Meddle, Recover, Run, SagaStep, Turn

OPERATOR: Final = "the operator has looked"
"""The reason of whatever was done by hand."""

_FREED: Final = (Action.HOLD_RELEASED, Action.HOLD_PARTLY_RELEASED, Action.HOLD_EXPIRED)
_MAY_FOLLOW: Final = {
    None: {Phase.RESERVING},
    Phase.RESERVING: {Phase.RESERVING, Phase.FINALIZING, Phase.ABORTED, Phase.PARKED},
    Phase.FINALIZING: {Phase.FINALIZING, Phase.DONE, Phase.PARKED},
    Phase.PARKED: {Phase.DONE, Phase.ABORTED},
    Phase.ABORTED: {Phase.RESERVING},
    Phase.DONE: set(),
}


class Life(Struct):
    """One saga, as far as the journal tells."""

    body: SagaBody | None = None
    """None: not begun yet, or forgotten since."""
    last: Phase | None = None
    by_hand: bool = False
    confirmed: int = 0
    meddled: bool = False
    again: bool = False
    """It was begun once more after it had been forgotten: its effects can no longer be told apart."""


class Judge:
    """Reads the journal, entry by entry."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self.lives: dict[str, Life] = {}
        self._bound: dict[str, str] = {}  # holds behind a point of no return, and whose
        self._known: dict[str, str] = {}  # all holds of sagas, and whose

    def read(self, entry: Entry) -> None:
        """One more entry."""
        if entry.action is Action.RECORD_PUT:
            if entry.subject.startswith(f"{KIND}/"):
                self._record(entry)
        elif entry.subject in self._known:
            self._hold(entry)

    def _record(self, entry: Entry) -> None:
        assert entry.record is not None
        saga = entry.record.id
        life = self.lives.setdefault(saga, Life())
        if entry.removed:
            if life.last not in ENDED:
                raise Broken(f"saga {saga} was forgotten while it was {life.last}")
            life.body = None
            return
        body = decode(entry.record)
        life.again |= life.last is not None and life.body is None
        before = None if life.body is None else life.body.phase
        if body.phase not in _MAY_FOLLOW[before]:
            raise Broken(f"saga {saga} went from {before} to {body.phase}")
        if life.body is not None and body.epoch < life.body.epoch:
            raise Broken(f"saga {saga} was written by a driver of an older epoch")
        if body.phase is Phase.PARKED and body.failures < MOST_FAILURES and not life.meddled:
            raise Broken(f"saga {saga} was parked for no reason: {body.error}")
        life.by_hand |= before is Phase.PARKED
        life.body, life.last = body, body.phase
        if body.hold is not None:
            self._known[body.hold] = saga
            if body.phase is Phase.FINALIZING:
                self._bound[body.hold] = saga

    def _hold(self, entry: Entry) -> None:
        saga = self._known[entry.subject]
        life = self.lives[saga]
        by_hand = entry.forced or entry.reason == OPERATOR
        life.meddled |= by_hand
        if entry.action is Action.HOLD_CONFIRMED:
            life.confirmed += 1
            if entry.subject not in self._bound and not by_hand:
                raise Broken(f"saga {saga} confirmed before its point of no return")
        elif entry.action in _FREED and entry.subject in self._bound and not by_hand:
            raise Broken(f"saga {saga}: {entry.action} behind the point of no return")

    def close(self) -> None:
        """Everything has come to rest: each saga has an end, and outside there is what its end says."""
        for saga, life in self.lives.items():
            if life.last not in ENDED:
                raise Broken(f"saga {saga} never ended: it is {life.last}")
            effects, done = self._outside.done[saga], life.last is Phase.DONE
            if life.by_hand or life.again:
                continue
            if done and not effects:
                raise Broken(f"saga {saga} is done, and its effect has never happened")
            if not done and effects:
                raise Broken(f"saga {saga} is aborted, and its effect has happened {effects} times")
            if life.confirmed != done:
                raise Broken(f"saga {saga} is {life.last}, and its units were confirmed {life.confirmed} times")


PATIENCE: Final = 1_000
"""Turns within which every driver must have come to its end once all faults are over."""
RECOVERIES: Final = 20
"""Recoveries that must be enough then; the most failures that a saga may have is far below."""


class SagaWorld:
    """Lives with the world that has it: `apply` goes to its engine, `crash` is called whenever that is opened anew."""

    def __init__(
        self, engine: Callable[[], LogEngine], randomness: Randomness, apply: Apply, reached: Counter[str]
    ) -> None:
        self._engine, self._apply, self._reached = engine, apply, reached
        self._crew = Crew(engine, randomness, self._send)
        self._judge = Judge(self._crew.outside)
        self._any = self._at_rest = False

    def crash(self) -> None:
        """Whoever drove is gone with the machine."""
        if self._crew.drivers:
            self._reached["saga: driver killed"] += 1
            late = any(life.last is Phase.FINALIZING for life in self._judge.lives.values())
            self._reached["saga: killed behind the point of no return"] += late
            self._crew.crash()

    def close(self) -> None:
        """The life is over, well or not."""
        self._crew.crash()

    def step(self, step: SagaStep) -> None:
        """One step of the plan."""
        self._any = True
        match step:
            case Run():
                life = self._judge.lives.get(step.saga)
                if life is None or life.body is not None:  # a saga that was forgotten would be another one
                    self._heard(self._crew.run(step.saga, step.intent))
            case Recover():
                self._recover()
            case Turn():
                for _ in range(step.times):
                    if not self._crew.drivers:
                        break
                    self._turn(self._crew.drivers[step.driver % len(self._crew.drivers)])
            case Meddle():
                self._meddle(step.saga)

    def _recover(self) -> Driver:
        driver = self._crew.start(lambda sagas: sagas.recover())
        self._heard(driver)
        return driver

    def _turn(self, driver: Driver) -> None:
        self._crew.turn(driver)
        self._heard(driver)

    def _send(self, group: Group) -> list[Outcome]:
        """What a driver writes."""
        outcomes = self._apply(group)
        first = outcomes[0]
        self._reached["saga: too late"] += isinstance(first, Refusal) and first.reason is Reason.VERSION_CONFLICT
        return outcomes

    def _heard(self, driver: Driver) -> None:
        """Whoever ran a saga hears one of the answers that are promised; and nothing happens outside too soon."""
        for saga in self._crew.outside.early:
            raise Broken(f"the effect of saga {saga} ran before its point of no return")
        if driver.error is not None and not isinstance(driver.error, HoldkitError | ValueError):
            raise Broken(f"a driver of sagas broke: {driver.error!r}") from driver.error
        self._reached["saga: unsettled"] += isinstance(driver.error, HoldkitError)

    def _meddle(self, saga: str) -> None:
        record = self._engine().read(FindRecord(("", KIND, saga)))
        hold = None if record is None else decode(record).hold
        if hold is not None:
            with suppress(HoldkitError):  # the disk's errors are not about sagas
                outcomes = self._apply(Group((ReleaseHold(id=hold, force=True, reason=OPERATOR),)))
                self._reached["saga: hold released by force"] += isinstance(outcomes[0], Done)

    # Judging

    def follow(self, rows: Iterable[JournalRow]) -> None:
        """What is new in the journal."""
        if not self._any:
            return
        for row in rows:
            self._judge.read(entry_of(row))
        if self._at_rest:
            self._judge.close()

    # The end

    def converge(self) -> None:
        """All faults are over: drivers come to their ends, recovery ends what is left, an operator what is parked."""
        if not self._any:
            return
        for _ in range(PATIENCE):
            if not self._crew.drivers:
                break
            self._turn(self._crew.drivers[0])
        for _ in range(RECOVERIES):
            if not self._listed(OPEN):
                break
            self._to_its_end(self._recover())
        for saga in self._listed(OPEN):
            raise Broken(f"saga {saga} never ended: it is {self._judge.lives[saga].last}")
        for saga in self._listed(PARKED):
            self._reached["saga: parked"] += 1
            how: Literal["done", "cancelled"] = "done" if self._crew.outside.done[saga] else "cancelled"
            self._to_its_end(self._crew.start(lambda sagas, id=saga, how=how: sagas.resolve(id, how, reason=OPERATOR)))  # type: ignore[misc]
        self._at_rest = True
        self._count()

    def _to_its_end(self, driver: Driver) -> None:
        while not driver.over:
            self._turn(driver)

    def _listed(self, kind: str) -> list[str]:
        return [record.id for record in self._engine().read(ListRecords("", kind, limit=1_000))]

    def _count(self) -> None:
        """What sagas went through, for the points that must be reached."""
        for record in self._engine().read(ListRecords("", KIND, limit=1_000)):
            body = decode(record)
            self._reached[f"saga: {body.phase}"] += 1
            self._reached["saga: taken over"] += body.epoch > 1
            self._reached["saga: another attempt"] += body.attempt > 1
            self._reached["saga: effect run again"] += self._crew.outside.done[record.id] > 1
