"""The guarded batch: begin, lock, write and commit in one round trip, for commands that a guard decides (`core.guards`).

Theory of operation. The ordinary batch (`script`) loads rows, lets the core decide, and writes them back: two round trips, and between them
everybody who wants the same pools waits for this client. Here the guard travels instead of the rows:

    begin · lock · write · commit          one pipeline, one synchronisation point

- *lock* is a statement of its own, because a statement's snapshot is older than the locks that it waits for. It notes what it has locked in
  a setting of the transaction, and *write* touches nothing else: a pool or a hold that was committed between the two is not locked.
- *write* is one statement. It evaluates the guard, reads the clock, and writes what passed. Its parts count their rows, and a wrong number
  raises, because COMMIT is on its way already.
- *A miss is an answer.* What does not pass is untouched, and takes the ordinary way in the same call of `apply`. So do all commands if the
  server refuses a statement: an id that exists already (which the ordinary way then looks for), a lock that did not become free in time.
- COMMIT is in the same round trip, so a lost connection always leaves the outcome unknown, as it does during the COMMIT of an ordinary batch.

`guards` says which batches go by the guard, `guarded_sending` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...core.codec import canonical_json, hash_owner
from ...core.commands import ConfirmHold, Group, PlaceHold
from ...core.entries import Action
from ...core.guards import Ending, ended, granted
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool
from ...core.model import HeldLeg, Key, Slot, StoredHold
from ...core.outcomes import Done, Position
from .compact_entries import EXPIRY_BODY, CompactBody, encode_body
from .database import BatchOptions
from .driver import BEGIN, COMMIT, Row, Script, Statement
from .rows import checksum, reference_checksum, whole_leg

MOST_DUE: Final = 100
"""Due legs of a pool that a guarded batch returns; a pool with more goes the ordinary way."""
WAIT_MS: Final = 50
"""Milliseconds that a batch waits for the lock of its one pool: others that want it are about to commit, unless they are callers."""
WAIT_SEVERAL_MS: Final = 20
"""The same where it may hold the locks of other pools meanwhile."""
_HELD: Final = Action.HOLD_HELD
_EXPIRY_CRC: Final = checksum(EXPIRY_BODY)


class Passed(NamedTuple):
    """The answer of a group that passed the guard."""

    outcome: Done
    position: Position


class GuardedResult(NamedTuple):
    """What became of a guarded batch."""

    passed: dict[int, Passed]
    """By the index of the group."""
    slot: Slot | None
    """What the server's clock said."""
    causes: Mapping[Key, str]
    """Why pools missed."""
    returned: int = 0
    """Due legs that it returned."""
    pools: int = 1
    """Pools that it changed."""

    def left(self, groups: Sequence[Group]) -> list[int]:
        """The indexes of the groups that it did not answer."""
        return (
            []
            if len(self.passed) == len(groups)
            else [index for index in range(len(groups)) if index not in self.passed]
        )


NOTHING_PASSED: Final = GuardedResult({}, None, {})


class GuardedBatch:
    """The groups of a batch that a guard may decide, ready to be sent."""

    def __init__(self, groups: Sequence[Group], options: BatchOptions) -> None:
        self.groups, self.options = groups, options
        self.indexes: list[int] = []
        """Of the groups that go by the guard."""
        self.commands: list[PlaceHold | Ending] = []
        self.pools: dict[Key, int] = {}
        """The pools that places name, with their lanes."""
        self.ends = 0
        """Commands that end a hold."""
        self.may_be_due = False
        """Legs may be due on its one pool: the statement for several pools returns them."""
        self._drafts: list[tuple[str, str | None]] = []
        """Of each command: the owner's hash, and the metadata of a new hold."""

    # Sending

    @property
    def places_on_one_pool(self) -> bool:
        """Whether it goes by the statement for that, which costs the server least."""
        return not self.ends and len(self.pools) == 1 and not self.may_be_due

    def script(self) -> Script[list[Row]]:
        """One exchange; gives the rows of the statement that writes."""
        lock, write = self._one_pool() if self.places_on_one_pool else self._several_pools()
        *_, rows, _ = yield (BEGIN, lock, write, COMMIT)
        return rows

    def _one_pool(self) -> tuple[Statement, Statement]:
        (((tenant, pool), lane),) = self.pools.items()
        options = self.options
        columns, sums = self._columns(), self._sums()
        limits = options.limits
        return ("guard_lock", (lane, tenant, pool, str(WAIT_MS))), (
            "guard_places",
            (lane, tenant, pool, str(limits.version), options.slot, limits.retry_window, columns[4], sums, columns[5], columns[6],
             *columns[7:13], *columns[15:]),
        )  # fmt: skip

    def _several_pools(self) -> tuple[Statement, Statement]:
        options, columns = self.options, self._columns()
        kinds, lanes, tenants, _, subjects, *_ = columns
        ends = [
            (lane, tenant, subject)
            for kind, lane, tenant, subject in zip(kinds, lanes, tenants, subjects, strict=True)
            if kind
        ]
        named = [(lane, *key) for key, lane in self.pools.items()]
        limits = options.limits
        parameters = (str(limits.version), options.slot, limits.retry_window, min(MOST_DUE, limits.max_due), *columns,
                      EXPIRY_BODY.decode(), _EXPIRY_CRC, self._sums())  # fmt: skip
        wait = WAIT_MS if len(named) + len(ends) == 1 else WAIT_SEVERAL_MS
        return ("guard_lock_pools", (*_turned(named, 3), *_turned(ends, 3), str(wait))), ("guard_moves", parameters)

    def _sums(self) -> list[int]:
        """Of each place, the units of it and of those before it on its pool; of an end, 0."""
        upto, sums = dict.fromkeys(self.pools, 0), list[int]()
        for command in self.commands:
            if type(command) is PlaceHold:
                leg = command.legs[0]
                upto[command.tenant, leg.pool] += leg.quantity
                sums.append(upto[command.tenant, leg.pool])
            else:
                sums.append(0)
        return sums

    def _columns(self) -> list[list[Any]]:
        """kind, lane, tenant, pool, subject, units, ttl, legs, owner_hash, entity, actor, correlation_id, metadata, reason, last_op,
        body, crc, op_lane, op, fingerprint, token, op_crc."""
        lanes = self.options.lanes
        rows = []
        for command in self.commands:
            row = place_row(command, lanes) if type(command) is PlaceHold else end_row(command, lanes)  # type: ignore[arg-type]
            self._drafts.append((row[8], row[12]))
            rows.append((*row, *operation_columns(command, lanes)))
        return _turned(rows, 22)

    # Reading

    def read(self, rows: Sequence[Row]) -> GuardedResult:
        """What the server made of it."""
        if self.places_on_one_pool:
            return self._read_one_pool(rows[0])
        (_, _, clock, _, _, _, _, _, _, expired, misses, *_), *answers = rows
        passed: dict[int, Passed] = {}
        for (
            _,
            n,
            slot,
            seq,
            _,
            fence,
            units,
            held_at,
            deadline,
            version,
            pool,
            entity,
            actor,
            correlation_id,
            metadata,
        ) in answers:
            command = self.commands[n - 1]
            owner_hash, text = self._drafts[n - 1]
            assert command.id is not None
            if type(command) is PlaceHold:
                done = granted(command, owner_hash, text, slot, fence)
                lane = self.pools[command.tenant, pool]
            else:
                hold = StoredHold(command.tenant, command.id, (HeldLeg(pool, units, units),), owner_hash, held_at, fence, deadline,
                                  entity=entity, actor=actor, correlation_id=correlation_id, metadata=metadata, version=version)  # fmt: skip
                done = ended(command, hold, slot)
                lane = lane_of_hold(command.id, self.options.lanes)
            passed[self.indexes[n - 1]] = Passed(done, Position(lane, seq))
        causes = {(tenant, pool): cause for tenant, pool, cause in _parsed(misses)}
        return GuardedResult(passed, clock, causes, expired, len({row[10] for row in answers}))

    def _read_one_pool(self, row: Row) -> GuardedResult:
        _, miss, count, clock, slot, fence, before, _ = row
        ((key, lane),) = self.pools.items()
        passed: dict[int, Passed] = {}
        for n, command, index, (owner_hash, metadata) in zip(
            range(1, count + 1), self.commands, self.indexes, self._drafts, strict=False
        ):
            done = granted(command, owner_hash, metadata, slot, fence + n)  # type: ignore[arg-type]
            passed[index] = Passed(done, Position(lane, before + n))
        return GuardedResult(passed, clock, {} if miss is None else {key: miss})


def _turned(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _parsed(misses: str | None) -> list[list[str]]:
    return [] if misses is None else [each.split("\x1f") for each in misses.split("\x1e")]


def place_row(command: PlaceHold, lanes: int) -> Row:
    """The columns of a place, up to `crc`."""
    assert command.id is not None
    assert command.token is not None
    leg, tenant, owner_hash = command.legs[0], command.tenant, hash_owner(command.token)
    metadata = None if command.metadata is None else canonical_json(command.metadata)
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    body = encode_body(CompactBody(_HELD, owner_hash, command.entity, metadata, command.actor, correlation_id, command.reason,
                                   command.op, False, command.client_id, None, command.trace))  # fmt: skip
    return (0, lane_of_pool((tenant, leg.pool), lanes), tenant, leg.pool, command.id, leg.quantity, command.ttl_slots,
            whole_leg(leg.pool, leg.quantity), owner_hash, command.entity, command.actor, correlation_id, metadata, None, None, body,
            checksum(body))  # fmt: skip


def operation_columns(command: PlaceHold | Ending, lanes: int) -> Row:
    """Lane, id, fingerprint, token and checksum of an operation row that refers to its entry."""
    op, tenant, hold = command.op, command.tenant, command.id
    if op is None:
        return None, None, None, None, None
    assert hold is not None
    token = command.token if type(command) is PlaceHold else None
    crc = reference_checksum(tenant, op, command.fingerprint, hold, token)
    return lane_of_operation((tenant, op), lanes), op, command.fingerprint, token, crc


def end_row(command: Ending, lanes: int) -> Row:
    """The same of a confirm or a release."""
    assert command.token is not None
    confirmed = type(command) is ConfirmHold
    action = Action.HOLD_CONFIRMED if confirmed else Action.HOLD_RELEASED
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    fingerprint = None if command.op is None else command.fingerprint
    body = encode_body(CompactBody(action, None, None, None, command.actor, correlation_id, command.reason, command.op, False,
                                   command.client_id, fingerprint, command.trace))  # fmt: skip
    last_op = None if command.op is None else command.fingerprint + command.op
    entity = command.entity if isinstance(command, ConfirmHold) else None
    return (1 if confirmed else 2, lane_of_hold(command.id, lanes), command.tenant, None, command.id, None, None, None,
            hash_owner(command.token), entity, None, None, None, command.reason, last_op, body, checksum(body))  # fmt: skip
