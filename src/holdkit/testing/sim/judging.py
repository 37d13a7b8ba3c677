"""What the journal must say of sagas: a judge who reads every entry, and sees no driver.

A saga goes from phase to phase as it may; behind the point of no return its hold is confirmed, or an operator has ended it;
before it, nothing is. Knows nothing of how sagas are driven.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...core.entries import Action, Entry
from ...faces.saga_records import KIND, SagaBody, decode
from ...faces.saga_steps import ENDED, Phase
from .sagas import MOST_FAILURES, Outside
from .shadow import Broken

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
