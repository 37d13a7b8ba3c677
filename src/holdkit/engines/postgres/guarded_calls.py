"""One command in a caller's transaction, decided by a guard: savepoint, function and release in one round trip.

Theory of operation. On a caller's connection nothing of ours is prepared, so the server parses and plans every statement that we send, and
the ordinary script sends ten. A function of the schema is parsed once per session, and the server keeps its plans: on anybody's
connection, behind any pooler, and without a name in the session that DISCARD ALL or DEALLOCATE could take away. So the commands that a
guard may decide (`core.guards`) are sent as one call of a function:

    [begin] · savepoint · select guard_place(…) or guard_end(…) · release

- The function checks the transaction first, like `check_transaction`; then it locks the pool, evaluates the guard, and writes.
- *A miss is an answer*: the function has written nothing, and the ordinary script follows, in a savepoint of its own. It finds out why a
  transaction does not suit, and decides what the guard does not admit. Locks that the function took stay, as the script would take them.
- If the function raises, the savepoint is rolled back. An id that exists already, or a database that does not have the function, goes the
  ordinary way too. A lock that was not free in time, or a deadlock, is the caller's answer, as it is there.
- Its entry waits for a number like every other of a caller's transaction, but it is a compact one (`compact_entries`).

`tests/engines/postgres/test_guarded_calls.py` compares both functions with the core.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from ...core.commands import ConfirmHold, PlaceHold
from ...core.guards import ended, granted
from ...core.model import HeldLeg, Slot, StoredHold
from ...core.outcomes import Done
from .driver import Statement, Steps
from .failures import StatementFailed
from .guarded import GuardedBatch, end_row, operation_columns, place_row
from .guards import Guards
from .savepoints import SavepointCall, statement_error
from .script import ScriptResult

ANSWERS: Final = frozenset({"57014", "55P03", "40001", "40P01"})
"""Errors that the caller hears of: cancelled, no lock in time, serialization failure, deadlock. The ordinary way would meet them again."""


class GuardedCall:
    """A batch of one command, ready to be sent on a caller's connection."""

    def __init__(self, batch: GuardedBatch, guards: Guards, identity: str) -> None:
        self._batch, self._guards = batch, guards
        (command,) = batch.commands
        self._command = command
        options = batch.options
        limits, lanes = options.limits, options.lanes
        of_all = (identity, str(limits.version), options.slot, limits.retry_window, random.getrandbits(62))
        row = place_row(command, lanes) if isinstance(command, PlaceHold) else end_row(command, lanes)
        self._row = row
        (_, lane, tenant, pool, subject, units, ttl, legs, owner_hash, entity, actor, correlation_id, metadata, reason, last_op, body,
         crc) = row  # fmt: skip
        op_lane, op, fingerprint, token, op_crc = operation_columns(command, lanes)
        self.statement: Statement
        if isinstance(command, PlaceHold):
            self.statement = "guard_call_place", (
                *of_all, lane, tenant, pool, subject, units, ttl, legs, owner_hash, entity, actor, correlation_id, metadata, body, crc,
                op_lane, op, fingerprint, token, op_crc,
            )  # fmt: skip
        else:
            confirmed = isinstance(command, ConfirmHold)
            self.statement = "guard_call_end", (
                *of_all, lane, tenant, subject, confirmed, owner_hash, entity, reason, last_op, body, crc, op_lane, op, fingerprint, op_crc,
            )  # fmt: skip

    def run(self, call: SavepointCall) -> Steps[ScriptResult | None]:
        """What was done; None: nothing, and the ordinary way follows."""
        try:
            ((row,),) = yield from call.run_alone(self.statement)
        except StatementFailed as failed:
            if failed.sqlstate in ANSWERS:
                raise statement_error(failed) from failed
            self._guards.refused(self._batch, failed)
            return None
        miss, clock, slot, fence, *rest = row
        self._guards.learn_call(self._batch, miss)
        if miss is not None:
            return None
        return ScriptResult([[self._outcome(slot, fence, rest)]], {}, True, clock, [[None]])

    def _outcome(self, slot: Slot, fence: int, found: Sequence[Any]) -> Done:
        command, owner_hash = self._command, self._row[8]
        if isinstance(command, PlaceHold):
            return granted(command, owner_hash, self._row[12], slot, fence)
        return ended(command, _hold(command.tenant, command.id, owner_hash, fence, found), slot)


def _hold(tenant: str, hold_id: str, owner_hash: str, fence: int, found: Sequence[Any]) -> StoredHold:
    """As it was before it ended."""
    pool, units, held_at, deadline, entity, actor, correlation_id, metadata, version = found
    return StoredHold(tenant, hold_id, (HeldLeg(pool, units, units),), owner_hash, held_at, fence, deadline, entity=entity, actor=actor,
                      correlation_id=correlation_id, metadata=metadata, version=version)  # fmt: skip
