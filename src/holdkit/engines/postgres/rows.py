"""Rows to records and back: the only module that knows the order of columns, but for those of holds (`hold_rows`).

Pure functions. Statements take one array per column, so what is written is turned from rows into columns here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ...core.entries import Entry
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import Key, Line, Pool, Record, RecordKey, Slot, State, StoredHold
from ...core.outcomes import Done, Operation, Refusal
from ...core.outstanding import OpenLeg, Tally, TallyKey
from .driver import Row

Columns = list[Any]
"""One list per column."""

_encode: Final = msgspec.json.Encoder().encode
DIGITS: Final = "0123456789abcdef"


def is_id(text: str) -> bool:
    """Whether a text can be a hold's id."""
    return len(text) == 32 and not set(text) - set(DIGITS)


def columns(rows: Sequence[Row], width: int) -> Columns:
    """Rows turned into columns; `width` counts where there is no row."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def pool_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """lane, tenant, id."""
    return columns([(lane_of_pool(key, lanes), *key) for key in keys], 3)


def hold_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """lane, tenant, id."""
    return columns([(lane_of_hold(key[1], lanes), *key) for key in keys], 3)


def operation_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """lane, tenant, id."""
    return columns([(lane_of_operation(key, lanes), *key) for key in keys], 3)


def record_keys(keys: Iterable[RecordKey], lanes: int) -> Columns:
    """lane, tenant, kind, id."""
    return columns([(lane_of_record(key, lanes), *key) for key in keys], 4)


def pool_of(row: Row) -> Pool:
    """tenant, id, total, held, consumed, fence, slot, version, on_demand, label, closes, holder, entity, archived,
    loose, floor, waiting, last_number, children, per_account, line."""
    return Pool(*row[:_LINE], line=_LINES[row[_LINE]])  # type: ignore[misc]


POOL_COLUMNS: Final = 21
"""How many `pool_of` takes."""
_LINE: Final = 20
_LINES: Final[dict[str, Line]] = {"strict": "strict", "skip": "skip"}
"""The constants themselves: an encoder leaves out a default only if it is the same object."""


PLAIN_POOL_COLUMNS: Final = 13
"""The first of `pool_row`: all that changes of a pool without a label."""


def pool_row(pool: Pool, lanes: int) -> Row:
    """For `update_pools`, and for `place_holds` the first `PLAIN_POOL_COLUMNS`."""
    used = pool.held + pool.consumed
    idle = pool.on_demand and not used and pool.closes is None and not pool.archived and not pool.children
    plain = pool.label is None
    return (lane_of_pool((pool.tenant, pool.id), lanes), pool.tenant, pool.id, pool.total, pool.held, pool.consumed,
            pool.fence, pool.slot, pool.version, pool.on_demand, used > pool.total, idle and plain, pool.loose,
            pool.holder, pool.entity, pool.slot if idle and not plain else None, pool.waiting, pool.last_number,
            pool.children)  # fmt: skip


def new_pool_row(pool: Pool, lanes: int) -> Row:
    """For `insert_pools`."""
    return (*pool_row(pool, lanes), pool.label, pool.closes, pool.archived, pool.floor, pool.per_account, pool.line)


NEW_POOL_COLUMNS: Final = 25
"""How many `new_pool_row` gives."""


def pool_settings_row(pool: Pool, lanes: int) -> Row:
    """For `update_pool_settings`."""
    lane = lane_of_pool((pool.tenant, pool.id), lanes)
    return (lane, pool.tenant, pool.id, pool.closes, pool.archived, pool.per_account)


def placed_columns(holds: Sequence[StoredHold], lanes: int) -> Columns:
    """For `place_holds`: new holds of one leg, column by column, because a batch may have hundreds of them."""
    legs = [hold.legs[0] for hold in holds]
    return [
        [lane_of_hold(hold.id, lanes) for hold in holds],
        [hold.tenant for hold in holds],
        [hold.id for hold in holds],
        [_encode(hold.legs) for hold in holds],
        [leg.pool for leg in legs],
        [lane_of_pool((hold.tenant, leg.pool), lanes) for hold, leg in zip(holds, legs, strict=True)],
        [hold.owner_hash for hold in holds],
        [hold.held_at for hold in holds],
        [hold.fence for hold in holds],
        [hold.deadline for hold in holds],
        [hold.entity for hold in holds],
        [hold.actor for hold in holds],
        [hold.correlation_id for hold in holds],
        [hold.metadata for hold in holds],
        [leg.held for leg in legs],
        [hold.closes for hold in holds],
    ]


def leg_rows(hold: StoredHold, lanes: int) -> dict[Row, Row]:
    """What a hold has outstanding: (units, waiting, number, account) by (lane, tenant, pool, deadline, hold)."""
    tenant, deadline = hold.tenant, hold.leg_deadline
    if (
        hold.account is None and not hold.above and hold.state is not State.WAITING
    ):  # the usual case, several times faster
        return {
            (lane_of_pool((tenant, leg.pool), lanes), tenant, leg.pool, deadline, hold.id): (leg.held, 0, 0, None)
            for leg in hold.legs
            if leg.held
        }
    return {
        (lane_of_pool((tenant, name), lanes), tenant, name, deadline, hold.id): leg_values(leg)
        for name, leg in hold.open_legs()
    }


def leg_values(leg: OpenLeg) -> Row:
    """For `insert_legs`, behind the key."""
    return leg.units, leg.waiting, leg.number, leg.account


LEG_COLUMNS: Final = 9
"""Of `insert_legs`: the key, and what `leg_values` gives."""


def tally_key(key: TallyKey, lanes: int) -> Row:
    """lane, tenant, pool, account."""
    return (lane_of_pool(key[:2], lanes), *key)


def tally_keys(keys: Iterable[TallyKey], lanes: int) -> Columns:
    """lane, tenant, pool, account."""
    return columns([tally_key(key, lanes) for key in keys], 4)


def tally_row(key: TallyKey, tally: Tally, lanes: int) -> Row:
    """For `insert_tallies`."""
    return (*tally_key(key, lanes), tally.used, tally.loose)


def tally_of(row: Row) -> tuple[TallyKey, Tally]:
    """tenant, pool, account, used, loose."""
    return (row[0], row[1], row[2]), Tally(row[2], row[3], row[4])


OPERATION_COLUMNS: Final = 10
"""How many `operation_row` gives."""


def operation_of(row: Row, outcome: Done | Refusal) -> Operation:
    """tenant, id, fingerprint, until."""
    return Operation(row[0], row[1], row[2], row[3], outcome)


def operation_row(operation: Operation, entries: Sequence[Entry], lanes: int) -> Row:
    """For `put_operations`: a reference to one of these entries, or the whole outcome."""
    tenant, op, fingerprint, until = operation.tenant, operation.id, operation.fingerprint, operation.until
    lane, done = lane_of_operation((tenant, op), lanes), operation.outcome
    if isinstance(done, Done) and done.hold is not None and entries and _is_behind(operation, done, done.hold, entries):
        crc = reference_checksum(tenant, op, fingerprint, done.hold.id, done.token)
        return (lane, tenant, op, fingerprint, until, None, crc, done.slot, done.hold.id, done.token)
    outcome = _encode(done)
    crc = operation_checksum(tenant, op, fingerprint, until, outcome)
    return (lane, tenant, op, fingerprint, until, outcome, crc, None, None, None)


def _is_behind(operation: Operation, done: Done, hold: StoredHold, entries: Sequence[Entry]) -> bool:
    """Whether the entry that the answer was given with, of those of its batch, has all that the answer says: then a retry is answered
    from the journal."""
    if not operation.seq or done.pool is not None or done.record is not None or done.refusal is not None:
        return False
    entry = entries[operation.seq - 1]
    after = entry.hold or entry.change
    return (
        after is not None
        and after.version == hold.version
        and entry.subject == hold.id
        and entry.slot == done.slot
        and entry.op == operation.id
        and not done.uncovered
    )


def operation_checksum(tenant: str, op: str, fingerprint: str, until: Slot, outcome: bytes) -> int:
    """Of a row with its outcome: of all columns."""
    return checksum(outcome, zlib.crc32(f"{tenant}\0{op}\0{fingerprint}\0{until}".encode()))


def reference_checksum(tenant: str, op: str, fingerprint: str, hold: str, token: str | None) -> int:
    """Of a row that refers to its entry: without what a server may fill in, until and slot. By a wrong slot the entry is not found."""
    return checksum(f"{tenant}\0{op}\0{fingerprint}\0{hold}\0{token or ''}".encode())


def record_of(row: Row) -> Record:
    """tenant, kind, id, body, version, slot."""
    return Record(row[0], row[1], row[2], row[3], row[4], row[5])


def record_row(record: Record, lanes: int) -> Row:
    """For `insert_records` and `update_records`."""
    return (lane_of_record(record.key, lanes), record.tenant, record.kind, record.id, record.body, record.version,
            record.slot)  # fmt: skip


def checksum(raw: bytes, start: int = 0) -> int:
    """A CRC-32 as a signed integer: it reveals a row that was changed by hand."""
    return (zlib.crc32(raw, start) ^ _SIGN) - _SIGN


_SIGN: Final = 1 << 31
