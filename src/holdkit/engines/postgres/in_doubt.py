"""In-doubt transactions: a worker has prepared them, and they are not committed yet. Only where the tables are distributed by lane.

Theory of operation. A transaction over several workers commits in two phases: each worker prepares, then the node that we are connected to
says COMMIT, to us as well. A worker that is lost in between keeps its part prepared, locked and invisible, although we have answered
*done*, until Citus finishes it (`citus.recover_2pc_interval`). Meanwhile:

- A statement that changes an existing row waits for the row's lock, and gives up if that takes too long. Nothing needs to be done here.
- A statement that looks for an invisible row finds nothing, and does not wait: a confirm would be refused with `hold_not_found`, which is
  final, and false. So "not found" is believed only if the load that found nothing began after all transactions that were prepared in those
  lanes had ended. A transaction that was prepared later is younger than the caller's own call, and is not waited for: other transactions
  commit in two phases all the time.

A batch checks twice (`InDoubtCheck`). If a transaction that was prepared at the first check still is at the second, the batch leaves out
the groups that missed a row; or, if it waits for locks, it ends the attempt with `InDoubt`. The attempt is repeated a few times, and then
the caller gets `Overloaded`: nothing was done, try again. Never a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ...core.commands import Group
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.needs import needs
from ...core.outcomes import Outcome, Reason, Refusal
from ...errors import Overloaded
from .database import BatchOptions
from .driver import ROLLBACK, Row, Script

_NOT_FOUND: Final = frozenset({Reason.HOLD_NOT_FOUND, Reason.POOL_NOT_FOUND})


class InDoubt(Exception):
    """A row was not found that may only be uncommitted: nothing was done."""

    def error(self) -> Overloaded:
        """Return the error that the caller gets."""
        return Overloaded(
            "a worker has yet to finish a two-phase commit: what is not there may be on its way", retry_after=1.0
        )


class InDoubtCheck(Struct):
    """The prepared transactions that a batch knows of, over its runs."""

    prepared: frozenset[str] | None = None
    """Transactions that were prepared when a row was first not found, and still are. None: not checked yet."""
    groups: frozenset[int] = frozenset()
    """Groups, by index, that are left out because of them."""

    @property
    def settled(self) -> bool:
        """Whether every transaction that was prepared at the first check has ended: rows loaded since then are believed."""
        return self.prepared == frozenset()

    def check(self, groups: Sequence[Group], missed: frozenset[int], options: BatchOptions) -> Script[None]:
        """Read the prepared transactions of the lanes where these groups missed a row. End the transaction: the batch runs again."""
        need = needs([groups[index] for index in sorted(missed)], options.names)
        lanes = {lane_of_pool(key, options.lanes) for key in need.pools}
        lanes |= {lane_of_hold(key[1], options.lanes) for key in need.standing}
        rows, _ = yield (("find_prepared", (sorted(lanes),)), ROLLBACK)
        prepared = frozenset(name for (name,) in rows)
        if self.prepared is not None:
            prepared &= self.prepared
            if prepared and options.wait_for_locks:
                raise InDoubt
            if prepared:
                self.groups |= missed
        self.prepared = prepared


def not_found(outcomes: Sequence[Sequence[Outcome]]) -> frozenset[int]:
    """Return the groups, by index, that were refused because a row was not found."""
    return frozenset(
        index
        for index, answers in enumerate(outcomes)
        if any(isinstance(outcome, Refusal) and outcome.reason in _NOT_FOUND for outcome in answers)
    )


def find_settled(options: BatchOptions, lane: int, name: str, parameters: Sequence[object]) -> Script[list[Row]]:
    """Return the rows of a statement that looks for one thing in a lane. Return none only if it is certain that there are none; else raise
    `InDoubt`."""
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
