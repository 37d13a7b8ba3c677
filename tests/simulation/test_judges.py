"""The judge of sagas: the stories that it must let pass, and those that it must not. (The canaries try the other judges.)"""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.entries import Action, Entry
from holdkit.core.model import Record
from holdkit.faces.saga_records import FORMAT, KIND, SagaBody, encode
from holdkit.faces.saga_steps import Phase
from tests.simulation.sagas import OPERATOR, Effects, SagaJudge
from tests.simulation.store import SimulationFailed


def put(phase: Phase | None, **fields: Any) -> Entry:
    """The saga's record in a phase; None: it is forgotten."""
    body = "" if phase is None else encode(SagaBody(format=FORMAT, name="sale", intent={}, phase=phase, begun_at=0,
                                                    since=0, hold="h", **fields))  # fmt: skip
    return Entry(0, Action.RECORD_PUT, f"{KIND}/s", record=Record("", KIND, "s", body, 1, 0), removed=phase is None)


def of_hold(action: Action, reason: str | None = None) -> Entry:
    return Entry(0, action, "h", reason=reason)


RESERVING, FINALIZING = put(Phase.RESERVING), put(Phase.FINALIZING)
CONFIRMED, RELEASED = of_hold(Action.HOLD_CONFIRMED), of_hold(Action.HOLD_RELEASED)
DONE, ABORTED = [FINALIZING, put(Phase.DONE), CONFIRMED], [put(Phase.ABORTED), RELEASED]

SOUND: dict[str, tuple[list[Entry], int]] = {
    "done": (DONE, 1),
    "done, the effect run twice": (DONE, 2),
    "aborted": (ABORTED, 0),
    "aborted, then done": ([*ABORTED, RESERVING, *DONE], 1),
    "forgotten": ([*DONE, put(None)], 1),
    "parked, then ended by hand": (
        [FINALIZING, put(Phase.PARKED, failures=3), put(Phase.ABORTED), of_hold(Action.HOLD_RELEASED, OPERATOR)], 0,
    ),
}  # fmt: skip

BROKEN: dict[str, tuple[list[Entry], int]] = {
    "never ended: it is reserving": ([], 0),
    "never ended: it is finalizing": ([FINALIZING], 1),
    "is done, and its effect has never happened": (DONE, 0),
    "is aborted, and its effect has happened 1 times": (ABORTED, 1),
    "is done, and its units were confirmed 2 times": ([*DONE, CONFIRMED], 1),
    "is done, and its units were confirmed 0 times": (DONE[:2], 1),
    "confirmed before its point of no return": ([CONFIRMED], 0),
    "hold.released behind the point of no return": ([FINALIZING, RELEASED], 0),
    "hold.expired behind the point of no return": ([FINALIZING, of_hold(Action.HOLD_EXPIRED)], 0),
    "went from finalizing to aborted": ([FINALIZING, *ABORTED], 0),
    "went from done to reserving": ([*DONE, RESERVING], 1),
    "went from done to done": ([*DONE, put(Phase.DONE, failures=1)], 1),
    "a driver of an older epoch": ([put(Phase.RESERVING, epoch=2), put(Phase.RESERVING, epoch=1)], 0),
    "parked for no reason": ([FINALIZING, put(Phase.PARKED, failures=2)], 0),
    "was forgotten while it was finalizing": ([FINALIZING, put(None)], 0),
}


def judge(entries: list[Entry], effects: int) -> None:
    outside = Effects()
    outside.completed["s"] = effects
    made = SagaJudge(outside)
    for seq, entry in enumerate([RESERVING, *entries], 1):
        made.read(seq, entry)
    made.close()


@pytest.mark.parametrize("name", SOUND)
def test_sagas_that_pass(name: str) -> None:
    judge(*SOUND[name])


@pytest.mark.parametrize("says", BROKEN)
def test_sagas_that_do_not_pass(says: str) -> None:
    with pytest.raises(SimulationFailed, match=says):
        judge(*BROKEN[says])
