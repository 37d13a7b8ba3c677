"""The guarded batch: begin, lock, write and commit in one round trip, for commands that a guard decides (`core.guards`).

Theory of operation. The ordinary batch (`script`) loads rows, lets the core decide, and writes them back: two round trips, and between them
every other user of these pools waits for this client. Here the guard travels instead of the rows:

    begin · lock · write · commit          one pipeline, one synchronisation point

- *lock* is a statement of its own, because a statement's snapshot is older than the locks that it waits for. It stores the keys of the
  locked rows in a setting of the transaction, and *write* touches nothing else: a pool or a hold that was committed between the two is not
  locked.
- *write* is one statement. It evaluates the guard, reads the clock, and writes the commands that passed. Its parts count their rows, and a
  wrong number raises, because COMMIT is on its way already.
- *A miss is an answer.* A command that does not pass changes nothing, and takes the ordinary path in the same call of `apply`. So do all
  commands if the server refuses a statement: an id that exists already (which the ordinary path then looks for), a lock that did not become
  free in time.
- COMMIT is in the same round trip, so a lost connection always leaves the outcome unknown, as it does during the COMMIT of an ordinary
  batch.

*In a caller's transaction* a guard decides one command (`GuardedCall`). Nothing of ours is prepared on a caller's connection, so the server
parses and plans every statement that we send, and the ordinary script sends ten. A function of the schema is parsed once per session, and
the server keeps its plans: on anybody's connection, behind any pooler, and without a name in the session that DISCARD ALL or DEALLOCATE
could take away. So the command is sent as one call of a function:

    [begin] · savepoint · select guard_place(…) or guard_end(…) · release

- The function checks the transaction first, like `check_transaction`; then it locks the pool, evaluates the guard, and writes.
- After a miss, the function has written nothing, and the ordinary script follows, in a savepoint of its own. It finds out why a transaction
  is unsuitable, and decides commands that the guard does not admit. Locks that the function took stay, as the script would take them.
- If the function raises, the savepoint is rolled back. If an id exists already, or the database does not have the function, the ordinary
  script follows too. A lock that was not free in time, or a deadlock, is the caller's answer, as in the script.
- Its entry waits for a number like every other of a caller's transaction, but it is a compact one (`compact_entries`).

Here are the statements and their answers; `guard_routing` chooses the commands and sends them. `tests/engines/postgres` compares the rows
that both statements and both functions write with the core's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from ...core.codec import canonical_json, hash_owner
from ...core.commands import ConfirmHold, Group, PlaceHold
from ...core.entries import Action
from ...core.guards import Ending, ended, granted
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool
from ...core.model import HeldLeg, Key, Slot, StoredHold
from ...core.outcomes import Done, Outcome, Position
from ..port import Applied
from .compact_entries import EXPIRY_BODY, CompactBody, encode_body
from .database import BatchOptions
from .driver import BEGIN, COMMIT, Row, Statement
from .encoding import checksum
from .rows import Columns, columns, reference_checksum, whole_leg

MAX_RETURNED_LEGS: Final = 100
"""Due legs of a pool that a guarded batch returns; a pool with more takes the ordinary path."""
LOCK_WAIT_MS: Final = 50
"""How long a batch waits for the lock of its one pool: other batches that have it locked commit soon, callers' transactions may not."""
SEVERAL_LOCKS_WAIT_MS: Final = 20
"""How long a batch waits for each lock while it may hold the locks of other pools."""
_EXPIRY_CRC: Final = checksum(EXPIRY_BODY)


class CommandColumns(NamedTuple):
    """The values of a command that the server needs, in the order of `guard_moves`; for several commands, each field is a list."""

    kind: Any
    """0: place, 1: confirm, 2: release."""
    lane: Any
    tenant: Any
    pool: Any
    """Only of a place, like `units`, `ttl`, `legs`, `actor`, `correlation_id` and `metadata`."""
    subject: Any
    units: Any
    ttl: Any
    legs: Any
    owner_hash: Any
    entity: Any
    actor: Any
    correlation_id: Any
    metadata: Any
    reason: Any
    """Only of an end, like `last_op`."""
    last_op: Any
    body: Any
    crc: Any


class Passed(NamedTuple):
    """The answer of a group that passed the guard."""

    outcome: Done
    position: Position


class GuardedResult(NamedTuple):
    """The answers and the misses of a guarded batch."""

    passed: dict[int, Passed]
    """By the index of the group."""
    slot: Slot | None
    """The server's time."""
    causes: Mapping[Key, str]
    """Why each of these pools missed."""
    returned: int = 0
    """Due legs that it returned."""
    pools: int = 1
    """Pools that it changed."""

    def missed(self, groups: Sequence[Group]) -> list[int]:
        """Return the indexes of the groups that this result does not answer."""
        passed = self.passed
        return [] if len(passed) == len(groups) else [index for index in range(len(groups)) if index not in passed]

    def applied(self, groups: Sequence[Group], missed: Sequence[int] = (), ordinary: Applied | None = None) -> Applied:
        """Return the answers to all groups: those that passed, and the ordinary path's answers to the missed ones."""
        outcomes: list[list[Outcome]] = [[] for _ in groups]
        positions: list[Sequence[Position | None]] = [[] for _ in groups]
        for index, (outcome, position) in self.passed.items():
            outcomes[index], positions[index] = [outcome], [position]
        if ordinary is None:
            return Applied(outcomes, None, True, positions=positions)
        for number, index in enumerate(missed):
            outcomes[index], positions[index] = ordinary.outcomes[number], ordinary.positions[number]
        return Applied(
            outcomes,
            None,
            ordinary.wrote or bool(self.passed or self.returned),
            {missed[number]: lock for number, lock in ordinary.skipped_locked.items()},
            failed={missed[number]: error for number, error in ordinary.failed.items()},
            put_off=frozenset([missed[number] for number in ordinary.put_off]),
            unfed=ordinary.unfed,
            served=ordinary.served,
            positions=positions,
        )


NOTHING_PASSED: Final = GuardedResult({}, None, {})


class GuardedBatch(Struct):
    """The groups of a batch that a guard may decide."""

    groups: Sequence[Group]
    options: BatchOptions
    indexes: list[int] = []
    """Of the groups that the guard decides."""
    commands: list[PlaceHold | Ending] = []
    ids: set[tuple[str, ...]] = set()
    """Of holds and operations: each may be in a batch once."""
    pools: dict[Key, int] = {}
    """The pools that places name, with their lanes."""
    ends: int = 0
    """Commands that end a hold."""
    may_be_due: bool = False
    """Legs may be due on its one pool: then it uses the statement for several pools, which returns them."""
    columns: CommandColumns | None = None
    """Of the commands, once its statements were made."""

    @property
    def places_on_one_pool(self) -> bool:
        """Whether it can use the statement for places on one pool, which costs the server least."""
        return not self.ends and len(self.pools) == 1 and not self.may_be_due

    def statements(self) -> tuple[Statement, Statement, Statement, Statement]:
        """Return the statements of its one exchange."""
        lanes = self.options.lanes
        all_rows = zip(*[columns_of(command, lanes) for command in self.commands], strict=True)
        self.columns = rows = CommandColumns(*map(list, all_rows))
        operations = [*map(list, zip(*[operation_columns(command, lanes) for command in self.commands], strict=True))]
        lock, write = self._one_pool(rows, operations) if self.places_on_one_pool else self._several(rows, operations)
        return BEGIN, lock, write, COMMIT

    def _one_pool(self, rows: CommandColumns, operations: Columns) -> tuple[Statement, Statement]:
        (((tenant, pool), lane),) = self.pools.items()
        limits = self.options.limits
        return ("guard_lock", (lane, tenant, pool, str(LOCK_WAIT_MS))), (
            "guard_places",
            (lane, tenant, pool, str(limits.version), self.options.slot, limits.retry_window, rows.subject, self._sums(), rows.units,
             rows.ttl, rows.legs, rows.owner_hash, rows.entity, rows.actor, rows.correlation_id, rows.metadata, rows.body, rows.crc,
             *operations),
        )  # fmt: skip

    def _several(self, rows: CommandColumns, operations: Columns) -> tuple[Statement, Statement]:
        named = [(lane, *key) for key, lane in self.pools.items()]
        all_rows = zip(rows.kind, rows.lane, rows.tenant, rows.subject, strict=True)
        ends = [(lane, tenant, subject) for kind, lane, tenant, subject in all_rows if kind]
        wait = LOCK_WAIT_MS if len(named) + len(ends) == 1 else SEVERAL_LOCKS_WAIT_MS
        limits = self.options.limits
        return ("guard_lock_pools", (*columns(named, 3), *columns(ends, 3), str(wait))), (
            "guard_moves",
            (str(limits.version), self.options.slot, limits.retry_window, min(MAX_RETURNED_LEGS, limits.max_due), *rows, *operations,
             EXPIRY_BODY.decode(), _EXPIRY_CRC, self._sums()),
        )  # fmt: skip

    def _sums(self) -> list[int]:
        """Return for each place its units plus those of the places before it on its pool; for an end, 0."""
        upto, sums = dict.fromkeys(self.pools, 0), list[int]()
        for command in self.commands:
            if type(command) is PlaceHold:
                leg = command.legs[0]
                upto[command.tenant, leg.pool] += leg.quantity
                sums.append(upto[command.tenant, leg.pool])
            else:
                sums.append(0)
        return sums

    def read(self, answers: Sequence[list[Row]]) -> GuardedResult:
        """Return the result of the batch, from the answers to its statements."""
        *_, rows, _ = answers
        return self._read_one_pool(rows) if self.places_on_one_pool else self._read_several(rows)

    def _read_one_pool(self, rows: Sequence[Row]) -> GuardedResult:
        ((_, miss, count, clock, slot, fence, before, _),) = rows
        ((key, lane),) = self.pools.items()
        assert self.columns is not None
        places = zip(self.commands, self.indexes, self.columns.owner_hash, self.columns.metadata, strict=True)
        passed: dict[int, Passed] = {}
        for n, (command, index, owner_hash, metadata) in zip(range(1, count + 1), places, strict=False):
            done = granted(command, owner_hash, metadata, slot, fence + n)  # type: ignore[arg-type]
            passed[index] = Passed(done, Position(lane, before + n))
        return GuardedResult(passed, clock, {} if miss is None else {key: miss})

    def _read_several(self, rows: Sequence[Row]) -> GuardedResult:
        assert self.columns is not None
        (_, _, clock, _, _, _, _, _, _, returned, misses, *_), *moved = rows
        passed: dict[int, Passed] = {}
        pools: set[str] = set()
        for _, n, slot, seq, _, fence, *columns_before in moved:
            before = EndedColumns._make(columns_before)
            command, owner_hash = self.commands[n - 1], self.columns.owner_hash[n - 1]
            pools.add(before.pool)
            if isinstance(command, PlaceHold):
                outcome = granted(command, owner_hash, self.columns.metadata[n - 1], slot, fence)
            else:
                outcome = ended(command, _hold_before(command, owner_hash, fence, before), slot)
            passed[self.indexes[n - 1]] = Passed(outcome, Position(self.columns.lane[n - 1], seq))
        causes = {(tenant, pool): cause for tenant, pool, cause in _parsed(misses)}
        return GuardedResult(passed, clock, causes, returned, len(pools))


class EndedColumns(NamedTuple):
    """The columns of a hold before the server ended it. For a hold that the server placed, only the pool is set."""

    units: int
    held_at: Slot
    deadline: Slot | None
    version: int
    pool: str
    entity: str | None
    actor: str | None
    correlation_id: str | None
    metadata: str | None


class GuardedCall:
    """A batch of one command, as it is sent on a caller's connection."""

    def __init__(self, batch: GuardedBatch, identity: str) -> None:
        self.batch = batch
        (self._command,) = batch.commands
        options = batch.options
        limits = options.limits
        self._columns = row = CommandColumns._make(columns_of(self._command, options.lanes))
        operation = op_lane, op, fingerprint, _, op_crc = operation_columns(self._command, options.lanes)
        first = (
            identity,
            str(limits.version),
            options.slot,
            limits.retry_window,
            random.getrandbits(62),
            row.lane,
            row.tenant,
        )
        self.statement: Statement
        if isinstance(self._command, PlaceHold):
            self.statement = "guard_call_place", (
                *first, row.pool, row.subject, row.units, row.ttl, row.legs, row.owner_hash, row.entity, row.actor, row.correlation_id,
                row.metadata, row.body, row.crc, *operation,
            )  # fmt: skip
        else:
            confirmed = isinstance(self._command, ConfirmHold)
            self.statement = "guard_call_end", (
                *first, row.subject, confirmed, row.owner_hash, row.entity, row.reason, row.last_op, row.body, row.crc, op_lane, op,
                fingerprint, op_crc,
            )  # fmt: skip

    def outcome(self, slot: Slot, fence: int, columns_before: Sequence[Any]) -> Done:
        """Return the answer to a command that passed."""
        command, sent = self._command, self._columns
        if isinstance(command, PlaceHold):
            return granted(command, sent.owner_hash, sent.metadata, slot, fence)
        before = EndedColumns._make(columns_before)
        return ended(command, _hold_before(command, sent.owner_hash, fence, before), slot)


def _hold_before(command: Ending, owner_hash: str, fence: int, row: EndedColumns) -> StoredHold:
    """Return the hold in its state before the command ended it."""
    return StoredHold(command.tenant, command.id, (HeldLeg(row.pool, row.units, row.units),), owner_hash, held_at=row.held_at,
                      fence=fence, deadline=row.deadline, entity=row.entity, actor=row.actor, metadata=row.metadata,
                      correlation_id=row.correlation_id, version=row.version)  # fmt: skip


def _parsed(misses: str | None) -> list[list[str]]:
    return [] if misses is None else [each.split("\x1f") for each in misses.split("\x1e")]


# The columns of a command


def columns_of(command: PlaceHold | Ending, lanes: int) -> Row:
    """Return the columns of a command, in the order of `CommandColumns`. (A plain tuple: a batch has hundreds of them.)"""
    return _place_columns(command, lanes) if type(command) is PlaceHold else _end_columns(command, lanes)  # type: ignore[arg-type]


def _place_columns(command: PlaceHold, lanes: int) -> Row:
    assert command.id is not None
    assert command.token is not None
    leg, owner_hash, entity, actor = command.legs[0], hash_owner(command.token), command.entity, command.actor
    metadata = None if command.metadata is None else canonical_json(command.metadata)
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    body = encode_body(CompactBody(Action.HOLD_HELD, owner_hash, entity, metadata, actor, correlation_id=correlation_id, op=command.op,
                                   reason=command.reason, client_id=command.client_id, trace=command.trace))  # fmt: skip
    return (0, lane_of_pool((command.tenant, leg.pool), lanes), command.tenant, leg.pool, command.id, leg.quantity, command.ttl_slots,
            whole_leg(leg.pool, leg.quantity), owner_hash, entity, actor, correlation_id, metadata, None, None, body,
            checksum(body))  # fmt: skip


def _end_columns(command: Ending, lanes: int) -> Row:
    assert command.token is not None
    is_confirmed, op = type(command) is ConfirmHold, command.op
    fingerprint = None if op is None else command.fingerprint
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    body = encode_body(CompactBody(Action.HOLD_CONFIRMED if is_confirmed else Action.HOLD_RELEASED, actor=command.actor, op=op,
                                   correlation_id=correlation_id, reason=command.reason, client_id=command.client_id,
                                   fingerprint=fingerprint, trace=command.trace))  # fmt: skip
    entity = command.entity if isinstance(command, ConfirmHold) else None
    last_op = None if op is None else command.fingerprint + op
    return (1 if is_confirmed else 2, lane_of_hold(command.id, lanes), command.tenant, None, command.id, None, None, None,
            hash_owner(command.token), entity, None, None, None, command.reason, last_op, body, checksum(body))  # fmt: skip


def operation_columns(command: PlaceHold | Ending, lanes: int) -> Row:
    """Return lane, id, fingerprint, token and checksum of an operation row that refers to its entry."""
    op, tenant, hold = command.op, command.tenant, command.id
    if op is None:
        return None, None, None, None, None
    assert hold is not None
    token = command.token if type(command) is PlaceHold else None
    crc = reference_checksum(tenant, op, command.fingerprint, hold, token)
    return lane_of_operation((tenant, op), lanes), op, command.fingerprint, token, crc
