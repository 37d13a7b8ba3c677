"""Rows to records and back: the one place that knows the order of columns.

Pure functions. Writes are columns, not rows: a statement takes one array per column.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ...core.codec import decode_outcome, encode_outcome
from ...core.entries import Entry
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import MAX_SLOT, HeldLeg, Key, Pool, Record, RecordKey, State, StoredHold
from ...core.outcomes import Operation
from .driver import Row

Columns = list[Any]
"""One list per column."""

_legs: Final = msgspec.json.Decoder(tuple[HeldLeg, ...])
_encode: Final = msgspec.json.Encoder().encode
_STATES: Final = {state.value: state for state in State}
_WORDS: Final = {state: state.value for state in State}
_SEPARATOR: Final = "\x1f"  # no id has a control character


def columns(rows: Sequence[Row], width: int) -> Columns:
    """Rows turned into columns."""
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
    """tenant, id, total, held, consumed, fence, slot, version, on_demand."""
    return Pool(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])


def pool_row(pool: Pool, lanes: int) -> Row:
    """For `insert_pools` and `update_pools`."""
    used = pool.held + pool.consumed
    return (lane_of_pool((pool.tenant, pool.id), lanes), pool.tenant, pool.id, pool.total, pool.held, pool.consumed,
            pool.fence, pool.slot, pool.version, pool.on_demand, used > pool.total, pool.on_demand and not used)  # fmt: skip


def legs_of(text: str) -> tuple[HeldLeg, ...]:
    """The legs of a hold, as stored."""
    return _legs.decode(text)


def hold_of(row: Row) -> StoredHold:
    """The columns in the order of `StoredHold`'s fields."""
    return StoredHold(row[0], row[1], _legs.decode(row[2]), row[3], row[4], row[5], row[6], _STATES[row[7]], row[8],
                      row[9], row[10], row[11], row[12], row[13], row[14], row[15])  # fmt: skip


def new_hold_row(hold: StoredHold, lanes: int) -> Row:
    """For `insert_holds`."""
    tenant, legs = hold.tenant, hold.legs
    if len(legs) == 1:
        pools, pool_lanes = legs[0].pool, str(lane_of_pool((tenant, legs[0].pool), lanes))
    else:
        pools = _SEPARATOR.join([leg.pool for leg in legs])
        pool_lanes = ",".join([str(lane_of_pool((tenant, leg.pool), lanes)) for leg in legs])
    return (lane_of_hold(hold.id, lanes), tenant, hold.id, _encode(legs).decode(), pools, pool_lanes, hold.owner_hash,
            hold.held_at, hold.fence, hold.deadline, _WORDS[hold.state], hold.open, hold.entity, hold.ended_at,
            hold.reason, hold.actor, hold.correlation_id, hold.metadata, hold.last_op, hold.version)  # fmt: skip


def placed_hold_row(hold: StoredHold, leg: HeldLeg, lanes: int) -> Row:
    """For `place_holds`: a new hold of one leg."""
    return (lane_of_hold(hold.id, lanes), hold.tenant, hold.id, _encode(hold.legs).decode(), leg.pool,
            lane_of_pool((hold.tenant, leg.pool), lanes), hold.owner_hash, hold.held_at, hold.fence, hold.deadline,
            hold.entity, hold.actor, hold.correlation_id, hold.metadata, leg.held)  # fmt: skip


def changed_hold_row(hold: StoredHold, was: int, lanes: int) -> Row:
    """For `update_holds`."""
    return (lane_of_hold(hold.id, lanes), hold.tenant, hold.id, _encode(hold.legs).decode(), _WORDS[hold.state],
            hold.deadline, hold.open, hold.ended_at, hold.entity, hold.reason, hold.last_op, hold.version, was)  # fmt: skip


def leg_rows(hold: StoredHold, lanes: int) -> dict[Row, int]:
    """A hold's outstanding legs as (lane, tenant, pool, deadline, hold) → units; one without a deadline comes last."""
    deadline = MAX_SLOT if hold.deadline is None else hold.deadline
    return {
        (lane_of_pool((hold.tenant, leg.pool), lanes), hold.tenant, leg.pool, deadline, hold.id): leg.held
        for leg in hold.legs
        if leg.held
    }


def operation_of(row: Row) -> Operation:
    """tenant, id, fingerprint, slot, outcome."""
    return Operation(row[0], row[1], row[2], row[3], decode_outcome(row[4]))


def operation_row(operation: Operation, lanes: int) -> Row:
    """For `put_operations`."""
    lane = lane_of_operation((operation.tenant, operation.id), lanes)
    outcome = encode_outcome(operation.outcome)
    said = (operation.tenant, operation.id, operation.fingerprint, operation.slot, outcome)
    return (lane, *said, checksum("\0".join(map(str, said)).encode()))


def record_of(row: Row) -> Record:
    """tenant, kind, id, body, version, slot."""
    return Record(row[0], row[1], row[2], row[3], row[4], row[5])


def record_row(record: Record, lanes: int) -> Row:
    """For `insert_records` and `update_records`."""
    return (lane_of_record(record.key, lanes), record.tenant, record.kind, record.id, record.body, record.version,
            record.slot)  # fmt: skip


def entry_text(entry: Entry) -> tuple[str, int]:
    """The text of an entry, and its checksum. Its number is not known yet: the first field is cut out and written anew,
    for that is several times cheaper than another entry."""
    body = _encode(entry)
    body = b'{"seq":0' + body[body.index(b",") :]
    return body.decode(), checksum(body)


def checksum(raw: bytes) -> int:
    """A CRC-32 as a signed integer: names a row that was changed by hand."""
    value = zlib.crc32(raw)
    return value - (1 << 32) if value >> 31 else value
