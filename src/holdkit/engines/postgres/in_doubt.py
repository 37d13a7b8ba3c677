"""In doubt: what a worker has prepared and nobody has committed yet. Only where the tables are distributed by lane.

Theory of operation. A transaction over several workers commits in two phases: each worker prepares, then the node that we came in
through says COMMIT, to us as well. A worker that is lost in between has its part prepared, locked and invisible, although
*done* was answered, until Citus finishes it (`citus.recover_2pc_interval`). Meanwhile:

- What changes a row that is there waits for the row's lock, and is turned away if that takes too long. Nothing to do here.
- What looks for a row that is not there finds nothing and waits for nobody: a confirm would be refused with `hold_not_found`,
  which is final, and false. So "not there" is believed only if the load that said so began after everything that was prepared
  in those lanes had ended. What was prepared later than that is younger than the caller's own call, and is not waited for: others
  commit in two phases all the time.

A batch looks twice (`Doubt`): what was prepared at the first look, and still is at the second, leaves its groups out, or, where the
caller waits for locks, ends the attempt with `InDoubt`. It is tried again a few times, and then the caller is told `Overloaded`:
nothing was done, ask again. Never a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ...core.commands import Group
from ...core.decide import needs
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.outcomes import Outcome, Reason, Refusal
from ...errors import Overloaded
from .batch_options import BatchOptions
from .driver import ROLLBACK, Row, Script

_NOT_THERE: Final = frozenset({Reason.HOLD_NOT_FOUND, Reason.POOL_NOT_FOUND})


class InDoubt(Exception):
    """Something is not there, and may only be unfinished: nothing was done."""

    def told(self) -> Overloaded:
        """What the caller hears."""
        return Overloaded(
            "a worker has yet to finish a two-phase commit: what is not there may be on its way", retry_after=1.0
        )


class Doubt(Struct):
    """What a batch knows of it, over its runs."""

    prepared: frozenset[str] | None = None
    """What was prepared when something was first not found, and still is. None: nobody has looked."""
    groups: frozenset[int] = frozenset()
    """Groups, by index, that are left out because of it."""

    @property
    def settled(self) -> bool:
        """Whatever was prepared at the first look has ended: what was loaded since is believed."""
        return self.prepared == frozenset()

    def look(self, groups: Sequence[Group], missed: frozenset[int], options: BatchOptions) -> Script[None]:
        """Look at what is prepared where these groups missed something. Ends the transaction: the batch is run again."""
        need = needs([groups[index] for index in sorted(missed)])
        lanes = {lane_of_pool(key, options.lanes) for key in need.pools}
        lanes |= {lane_of_hold(key[1], options.lanes) for key in need.standing}
        rows, _ = yield (("find_prepared", (sorted(lanes),)), ROLLBACK)
        left = frozenset(row[0] for row in rows)
        if self.prepared is not None:
            left &= self.prepared
            if left and options.wait_for_locks:
                raise InDoubt
            if left:
                self.groups |= missed
        self.prepared = left


def not_found(outcomes: Sequence[Sequence[Outcome]]) -> frozenset[int]:
    """Groups, by index, that were refused because something is not there."""
    return frozenset(
        index
        for index, answers in enumerate(outcomes)
        if any(isinstance(outcome, Refusal) and outcome.reason in _NOT_THERE for outcome in answers)
    )


def find_surely(options: BatchOptions, lane: int, name: str, parameters: Sequence[object]) -> Script[list[Row]]:
    """The rows of a statement that looks for one thing in a lane; none only if it is certain that there are none."""
    (rows,) = yield ((name, parameters),)
    if rows or not options.distributed:
        return rows
    (before,) = yield (("find_prepared", ([lane],)),)
    (rows,) = yield ((name, parameters),)
    if rows or not before:
        return rows
    (after,) = yield (("find_prepared", ([lane],)),)
    if {*before} & {*after}:
        raise InDoubt
    (rows,) = yield ((name, parameters),)
    return rows
