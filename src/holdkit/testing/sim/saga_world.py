"""The sagas of one simulated life: gives drivers their turns, lets the judge read along, and brings all to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Literal

from ...core.commands import Group, ReleaseHold
from ...core.outcomes import Done, Outcome, Reason, Refusal
from ...core.reading import FindRecord, JournalRow, ListRecords, entry_of
from ...engines.log.engine import LogEngine
from ...errors import HoldkitError
from ...faces.saga_records import KIND, OPEN, PARKED, decode
from ...faces.saga_steps import Phase
from ...kernel.prepare import Randomness
from .judging import OPERATOR, Judge
from .saga_plan import Meddle, Recover, Run, SagaStep, Turn
from .sagas import Apply, Crew, Driver
from .shadow import Broken

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
