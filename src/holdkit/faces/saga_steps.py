"""What a saga's driver does next: a pure function of the saga's phase and of its hold. No clock, no engine, no
exception.

Theory of operation (of sagas; the lease is in `kernel.record_lease`, the stored record in `saga_records`)

*Phases.* `reserving` → `finalizing` → `done`, or `reserving` → `aborted`; from both unfinished phases also → `parked`.
A saga is one record. Each step of its driver is one transaction: the record at the version that the driver has seen,
together with what the step does to the hold. So record and hold never disagree, whatever crashes between two steps.

*Point of no return.* It is the write that changes the phase to `finalizing` and, in the same transaction, removes the hold's deadline.
Before it, the effect has certainly not run: the hold may expire, be released, or be replaced by that of another attempt, and the saga may
be aborted. After it, the effect may have run, even if no driver has recorded it: nothing is released any more, and the only way is
forward. The effect runs at least once; `effect_in` runs it in the transaction that confirms, so exactly once.

*Lease.* Only the driver that holds the lease writes; it renews the lease while code of the application runs. A driver that takes over
increments the epoch and thereby the version of the record: a former driver that wakes up can write nothing, and stops with `LeaseLost`.

*Recovery.* A driver may stop at any point: killed, cut off, out of memory. `recover`, in any process, takes the lease once it has run
out, reads record and hold, and does what the table below says. Nothing else is needed, because each state that a crash can leave behind
is a row of the table. A state that no driver leaves behind (an operator released the hold by force, a backup was restored) is never
guessed at: the saga is parked, stays visible, and waits for an operator.

*Force.* No caller has the token of a saga's hold, but an operator may change it by force. An extension changes nothing for the saga.
Units confirmed before the point of no return, some or all, park the saga: another attempt would consume them a second time, and an abort
would leave them consumed. A hold that is no longer kept, and whose journal entries are archived, may have such units: that parks the saga
too. A hold that is confirmed after it is taken as the operator's word that the effect has happened: the saga is done, and a driver that
is running the effect keeps its result.

*Failures.* An exception of `reserve` or `validate`, or a refusal of the units, aborts. An exception of the effect
counts as a failure and is retried by the next recovery; after `max_attempts` failures the saga is parked. Errors of
the engine say nothing about the saga and change nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ..core.model import State


class Phase(StrEnum):
    """Where a saga is; `done` and `aborted` are its ends, `parked` waits for an operator."""

    __repr__ = str.__repr__

    RESERVING = "reserving"
    FINALIZING = "finalizing"
    DONE = "done"
    ABORTED = "aborted"
    PARKED = "parked"


UNFINISHED: Final = frozenset({Phase.RESERVING, Phase.FINALIZING})
ENDED: Final = frozenset({Phase.DONE, Phase.ABORTED})


class Step(StrEnum):
    """What the driver that holds the lease does."""

    __repr__ = str.__repr__

    RESERVE = "reserve"
    """Start the next attempt: hold, validate, then pass the point of no return, or abort."""
    ROLL_FORWARD = "roll_forward"
    """Run the effect, then confirm."""
    FINISH = "finish"
    """The hold is confirmed already: only the record is missing."""
    PARK = "park"
    """The hold is in a state that no driver leaves behind: park the saga, run nothing."""
    REST = "rest"
    """Nothing is left to do."""


_NEXT: Final[dict[tuple[Phase, State | None], Step]] = {
    (Phase.RESERVING, None): Step.RESERVE,
    (Phase.RESERVING, State.HELD): Step.RESERVE,
    (Phase.RESERVING, State.EXPIRED): Step.RESERVE,
    (Phase.RESERVING, State.RELEASED): Step.RESERVE,
    (Phase.RESERVING, State.CONFIRMED): Step.PARK,  # by force: no driver confirms before the point of no return
    (Phase.FINALIZING, State.HELD): Step.ROLL_FORWARD,
    (
        Phase.FINALIZING,
        State.CONFIRMED,
    ): Step.FINISH,  # by force: a driver confirms and ends the saga in one transaction
    (Phase.FINALIZING, State.RELEASED): Step.PARK,  # by force
    (Phase.FINALIZING, State.EXPIRED): Step.PARK,  # it has no deadline: something else changed it
    (Phase.FINALIZING, None): Step.PARK,
    (Phase.RESERVING, State.WAITING): Step.PARK,  # no saga joins a line: another caller has used its id
    (Phase.FINALIZING, State.WAITING): Step.PARK,
}


def next_step(phase: Phase, hold: State | None, *, consumes: bool = False) -> Step:
    """Return the next step; `hold` is the state of the last attempt's hold, None if there is none. `consumes`: some of its units are
    consumed, whatever its state."""
    if phase is Phase.RESERVING and consumes:
        return Step.PARK
    return Step.REST if phase not in UNFINISHED else _NEXT[phase, hold]
