"""What a saga's driver does next: a pure function of its phase and of its hold. No clock, no engine, no exception.

The whole of recovery is this table. In `finalizing` nothing is ever released: the effect may have happened.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ..core.model import State


class Phase(StrEnum):
    """Where a saga is in its life; `done` and `aborted` are its ends, `parked` waits for an operator."""

    RESERVING = "reserving"
    FINALIZING = "finalizing"
    DONE = "done"
    ABORTED = "aborted"
    PARKED = "parked"


UNFINISHED: Final = frozenset({Phase.RESERVING, Phase.FINALIZING})
ENDED: Final = frozenset({Phase.DONE, Phase.ABORTED})


class Step(StrEnum):
    """What to do with a saga whose lease one has."""

    RESERVE = "reserve"
    """As the next attempt: hold, validate, then pass the point of no return, or abort."""
    ROLL_FORWARD = "roll_forward"
    """Run the effect, confirm."""
    FINISH = "finish"
    """All is done but the record."""
    PARK = "park"
    """The hold is not what it must be: visible, never run."""
    REST = "rest"
    """Nothing is left to do."""


_NEXT: Final[dict[tuple[Phase, State | None], Step]] = {
    (Phase.RESERVING, None): Step.RESERVE,
    (Phase.RESERVING, State.HELD): Step.RESERVE,
    (Phase.RESERVING, State.EXPIRED): Step.RESERVE,
    (Phase.RESERVING, State.RELEASED): Step.RESERVE,
    (Phase.RESERVING, State.CONFIRMED): Step.PARK,  # nobody may confirm it before the point of no return
    (Phase.FINALIZING, State.HELD): Step.ROLL_FORWARD,
    (Phase.FINALIZING, State.CONFIRMED): Step.FINISH,
    (Phase.FINALIZING, State.RELEASED): Step.PARK,  # by force
    (Phase.FINALIZING, State.EXPIRED): Step.PARK,  # it has no deadline: somebody tampered with it
    (Phase.FINALIZING, None): Step.PARK,
}


def next_step(phase: Phase, hold: State | None) -> Step:
    """What recovery does; `hold` is the state of the last attempt's hold, None if there is none."""
    return Step.REST if phase not in UNFINISHED else _NEXT[phase, hold]
