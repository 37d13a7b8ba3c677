"""The table of recovery, cell by cell, in the words of the contract."""

from __future__ import annotations

import pytest

from holdkit.core.model import State
from holdkit.faces.saga_steps import Phase, Step, next_step

TABLE = [
    ("reserving", None, "reserve"),
    ("reserving", "held", "reserve"),
    ("reserving", "expired", "reserve"),
    ("reserving", "released", "reserve"),
    ("reserving", "confirmed", "park"),
    ("finalizing", "held", "roll_forward"),
    ("finalizing", "confirmed", "finish"),
    ("finalizing", "released", "park"),
    ("finalizing", "expired", "park"),
    ("finalizing", None, "park"),
    ("reserving", "waiting", "park"),
    ("finalizing", "waiting", "park"),
    *((phase, hold, "rest") for phase in ("done", "aborted", "parked") for hold in (None, *State)),
]


@pytest.mark.parametrize(("phase", "hold", "step"), TABLE)
def test_what_recovery_does(phase: str, hold: str | None, step: str) -> None:
    assert next_step(Phase(phase), None if hold is None else State(hold)) is Step(step)


@pytest.mark.parametrize("hold", [None, *State])
def test_units_consumed_before_the_point_of_no_return_park_the_saga(hold: State | None) -> None:
    assert next_step(Phase.RESERVING, hold, consumes=True) is Step.PARK
    assert next_step(Phase.FINALIZING, State.HELD, consumes=True) is Step.ROLL_FORWARD
    assert next_step(Phase.PARKED, hold, consumes=True) is Step.REST


def test_every_cell_is_told() -> None:
    assert {(phase, hold) for phase, hold, _ in TABLE} == {(phase, hold) for phase in Phase for hold in (None, *State)}
