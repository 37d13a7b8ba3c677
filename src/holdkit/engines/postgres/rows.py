"""Rows to records and back: the only module that knows the order of columns. The columns of holds follow from the fields of holds.

Pure functions. Statements take one array per column, so rows to write are turned into columns here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from ...core.entries import Entry
from ...core.hold_columns import CHANGING, DERIVED, ERASED, HOLD, Row, decode_legs, decode_levels, row_of
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import HeldLeg, Key, Line, Pool, Record, RecordKey, Slot, State, StoredHold
from ...core.outcomes import Done, Operation, Refusal
from ...core.outstanding import OpenLeg, Tally, TallyKey
from .encoding import checksum

Columns = list[Any]
"""One list per column."""

_encode: Final = msgspec.json.Encoder().encode
POOL_SEPARATOR: Final = "\x1f"  # no id has a control character
DIGITS: Final = "0123456789abcdef"


def is_id(text: str) -> bool:
    """Return whether a text can be a hold's id."""
    return len(text) == 32 and not set(text) - set(DIGITS)


def columns(rows: Sequence[Row], width: int) -> Columns:
    """Turn rows into columns. `width` is the number of columns if there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def pool_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """Return the columns lane, tenant, id."""
    return columns([(lane_of_pool(key, lanes), *key) for key in keys], 3)


def hold_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """Return the columns lane, tenant, id."""
    return columns([(lane_of_hold(key[1], lanes), *key) for key in keys], 3)


def operation_keys(keys: Iterable[Key], lanes: int) -> Columns:
    """Return the columns lane, tenant, id."""
    return columns([(lane_of_operation(key, lanes), *key) for key in keys], 3)


def record_keys(keys: Iterable[RecordKey], lanes: int) -> Columns:
    """Return the columns lane, tenant, kind, id."""
    return columns([(lane_of_record(key, lanes), *key) for key in keys], 4)


def pool_of(row: Row) -> Pool:
    """Return the pool of a row: tenant, id, total, held, consumed, fence, slot, version, on_demand, label, closes, holder, entity,
    archived, loose, floor, waiting, last_number, children, per_account, line."""
    return Pool(*row[:_LINE], line=_LINES[row[_LINE]])  # type: ignore[misc]


POOL_COLUMNS: Final = 21
"""The columns that `pool_of` takes."""
_LINE: Final = POOL_COLUMNS - 1
_LINES: Final[dict[str, Line]] = {"strict": "strict", "skip": "skip"}
"""The constants themselves: an encoder leaves out a default only if it is the same object."""


PLAIN_POOL_COLUMNS: Final = 13
"""The first columns of `pool_row`: all that change of a pool without a label."""


def pool_row(pool: Pool, lanes: int) -> Row:
    """Return the row for `update_pools`; its first `PLAIN_POOL_COLUMNS` are those for `place_holds`."""
    used = pool.held + pool.consumed
    idle = pool.on_demand and not used and pool.closes is None and not pool.archived and not pool.children
    plain = pool.label is None
    return (lane_of_pool((pool.tenant, pool.id), lanes), pool.tenant, pool.id, pool.total, pool.held, pool.consumed,
            pool.fence, pool.slot, pool.version, pool.on_demand, used > pool.total, idle and plain, pool.loose,
            pool.holder, pool.entity, pool.slot if idle and not plain else None, pool.waiting, pool.last_number,
            pool.children)  # fmt: skip


def new_pool_row(pool: Pool, lanes: int) -> Row:
    """Return the row for `insert_pools`."""
    return (*pool_row(pool, lanes), pool.label, pool.closes, pool.archived, pool.floor, pool.per_account, pool.line)


NEW_POOL_COLUMNS: Final = 25
"""The columns that `new_pool_row` returns."""


def pool_settings_row(pool: Pool, lanes: int) -> Row:
    """Return the row for `update_pool_settings`."""
    lane = lane_of_pool((pool.tenant, pool.id), lanes)
    return (lane, pool.tenant, pool.id, pool.closes, pool.archived, pool.per_account)


_KEY: Final = ("lane", "tenant", "id")
_NEW: Final = ("lane", *HOLD, *DERIVED, "pools", "pool_lanes")
_CHANGED: Final = (*_KEY, "was", *CHANGING, *DERIVED)
_REWRITTEN: Final = (*_KEY, *ERASED, "pools")
_TYPES: Final = {
    **dict.fromkeys(("held_at", "fence", "deadline", "ended_at", "version", "returned_at", "closes"), "bigint"),
    **dict.fromkeys(("joined_at", "number", "offer_ttl", "was", "kept_from"), "bigint"),
    "lane": "int",
    "id": "uuid",
    "open": "bool",
    "kept": "int",
}
"""The types of the columns that are no text."""
_LISTS: Final = {
    "pools": "string_to_array(k.pools, e'\\x1f')",
    "pool_lanes": "string_to_array(k.pool_lanes, ',')::int[]",
}
"""The columns that are lists come as one text each, because arrays of arrays cannot be unnested."""


def _rows(names: Sequence[str]) -> str:
    """Return the parameters of a statement that takes rows of these columns."""
    arrays = ", ".join(f"${at}::{_TYPES.get(name, 'text')}[]" for at, name in enumerate(names, 1))
    return f"unnest({arrays}) k({', '.join(names)})"


def _written(names: Sequence[str]) -> str:
    """Return the check that the expected number of rows was written; its two parameters come behind the columns."""
    return f"1 / (count(*) = ${len(names) + 1}::int or not ${len(names) + 2}::bool)::int, count(*)"


def _set(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {_LISTS.get(name, f'k.{name}')}" for name in names)


PARTS: Final = {
    "hold": ", ".join("replace(h.id::text, '-', '')" if name == "id" else f"h.{name}" for name in HOLD),
    "new_hold": ", ".join(_NEW),
    "new_hold_values": ", ".join(_LISTS.get(name, f"k.{name}") for name in _NEW),
    "new_hold_rows": _rows(_NEW),
    "new_holds_written": _written(_NEW),
    "changed_hold": _set((*CHANGING, *DERIVED)),
    "changed_hold_rows": _rows(_CHANGED),
    "changed_holds_written": _written(_CHANGED),
    "erased_hold": _set((*ERASED, "pools")),
    "erased_hold_rows": _rows(_REWRITTEN),
}
"""The columns of holds in our statements."""
HOLD_COLUMNS: Final = len(HOLD)
"""The columns that `hold_of` takes."""
NEW_HOLD_COLUMNS: Final = len(_NEW)
"""The columns that `new_hold_row` returns."""
CHANGED_HOLD_COLUMNS: Final = len(_CHANGED)
"""The columns that `changed_hold_row` returns."""
ERASED_HOLD_COLUMNS: Final = len(_REWRITTEN)
"""The columns that `erased_hold_row` returns."""


def pools_row(hold: StoredHold, lanes: int) -> tuple[str, str]:
    """Return the columns pools and pool_lanes, as one text each."""
    tenant, legs = hold.tenant, hold.legs
    if len(legs) == 1 and not hold.above:
        return legs[0].pool, str(lane_of_pool((tenant, legs[0].pool), lanes))
    names = hold.pools
    return POOL_SEPARATOR.join(names), ",".join([str(lane_of_pool((tenant, name), lanes)) for name in names])


_LANE: Final = "lane_of_hold(hold.id, lanes)"
_DERIVED: Final = ("hold.open", "*kept_row(hold)")
new_hold_row: Final[Callable[[StoredHold, int], Row]] = row_of(
    "hold, lanes",
    (_LANE, *HOLD, *_DERIVED, "*pools_row(hold, lanes)"),
    lane_of_hold=lane_of_hold,
    pools_row=pools_row,
)
"""Returns the row for `insert_holds`."""
changed_hold_row: Final[Callable[[StoredHold, int, int], Row]] = row_of(
    "hold, was, lanes", (_LANE, "tenant", "id", "was", *CHANGING, *_DERIVED), lane_of_hold=lane_of_hold
)
"""Returns the row for `update_holds`; `was` is the version before."""
erased_hold_row: Final[Callable[[StoredHold, int], Row]] = row_of(
    "hold, lanes", (_LANE, "tenant", "id", *ERASED, "pools(hold)"),
    lane_of_hold=lane_of_hold, pools=lambda hold: POOL_SEPARATOR.join(hold.pools),
)  # fmt: skip
"""Returns the row for `rewrite_holds`."""


def open_pools(legs: str, above: str | None, state: str) -> tuple[str, ...]:
    """Return the pools on which a stored hold has outstanding units."""
    named = decode_legs(legs)
    if state == State.WAITING:
        return (named[0].pool,)
    pools = [leg.pool for leg in named if leg.held]
    levels = () if above is None else decode_levels(above)
    return (*pools, *(level.pool for level in levels if level.held and level.pool not in pools))


def split_pools(text: str) -> tuple[str, ...]:
    """Split the column `pools` of a hold, which comes as one text."""
    return tuple(text.split(POOL_SEPARATOR))


@lru_cache(maxsize=4_096)
def whole_leg(pool: str, units: int) -> bytes:
    """Return the column `legs` of a new hold of one leg."""
    return msgspec.json.encode((HeldLeg(pool, units, units),))


def placed_columns(holds: Sequence[StoredHold], lanes: int) -> Columns:
    """Return the columns for `place_holds`: new holds of one leg, column by column, because a batch may have hundreds of them."""
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
    """Return the outstanding legs of a hold: (units, waiting, number, account) by (lane, tenant, pool, deadline, hold)."""
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
    """Return the columns for `insert_legs` behind the key."""
    return leg.units, leg.waiting, leg.number, leg.account


LEG_COLUMNS: Final = 9
"""The columns of `insert_legs`: the key, and those that `leg_values` returns."""


def tally_key(key: TallyKey, lanes: int) -> Row:
    """Return the key lane, tenant, pool, account."""
    return (lane_of_pool(key[:2], lanes), *key)


def tally_keys(keys: Iterable[TallyKey], lanes: int) -> Columns:
    """Return the columns lane, tenant, pool, account."""
    return columns([tally_key(key, lanes) for key in keys], 4)


def tally_row(key: TallyKey, tally: Tally, lanes: int) -> Row:
    """Return the row for `insert_tallies`."""
    return (*tally_key(key, lanes), tally.used, tally.loose)


def tally_of(row: Row) -> tuple[TallyKey, Tally]:
    """Return the key and the tally of a row: tenant, pool, account, used, loose."""
    tenant, pool, account, used, loose, *_ = row
    return (tenant, pool, account), Tally(account, used, loose)


OPERATION_COLUMNS: Final = 10
"""The columns that `operation_row` returns."""


class OperationRow(NamedTuple):
    """A stored operation: its outcome, or a reference to the entry of its hold."""

    tenant: str
    id: str
    fingerprint: str
    until: Slot
    outcome: str | None
    slot: Slot = 0
    """Of the entry, as are the next two: its hold, and the token that the answer gave."""
    hold: str | None = None
    token: str | None = None


def operation_of(row: OperationRow, outcome: Done | Refusal) -> Operation:
    """Return the operation of a row, with its outcome."""
    return Operation(row.tenant, row.id, row.fingerprint, row.until, outcome)


def operation_row(operation: Operation, entries: Sequence[Entry], lanes: int) -> Row:
    """Return the row for `put_operations`: a reference to one of these entries, or the whole outcome."""
    tenant, op, fingerprint, until = operation.tenant, operation.id, operation.fingerprint, operation.until
    lane, done = lane_of_operation((tenant, op), lanes), operation.outcome
    if isinstance(done, Done) and done.hold is not None and entries and _is_behind(operation, done, done.hold, entries):
        crc = reference_checksum(tenant, op, fingerprint, done.hold.id, done.token)
        return (lane, tenant, op, fingerprint, until, None, crc, done.slot, done.hold.id, done.token)
    outcome = _encode(done)
    crc = operation_checksum(tenant, op, fingerprint, until, outcome)
    return (lane, tenant, op, fingerprint, until, outcome, crc, None, None, None)


def _is_behind(operation: Operation, done: Done, hold: StoredHold, entries: Sequence[Entry]) -> bool:
    """Return whether the answer can be restored from its entry in this batch: then a retry is answered from the journal."""
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
    """Return the checksum of a row with its outcome: over all columns."""
    return checksum(outcome, zlib.crc32(f"{tenant}\0{op}\0{fingerprint}\0{until}".encode()))


def reference_checksum(tenant: str, op: str, fingerprint: str, hold: str, token: str | None) -> int:
    """Return the checksum of a row that refers to its entry: without until and slot, which a server may fill in. A wrong slot finds no
    entry."""
    return checksum(f"{tenant}\0{op}\0{fingerprint}\0{hold}\0{token or ''}".encode())


def record_of(row: Row) -> Record:
    """Return the record of a row: tenant, kind, id, body, version, slot."""
    tenant, kind, id, body, version, slot, *_ = row
    return Record(tenant, kind, id, body, version=version, slot=slot)


def record_row(record: Record, lanes: int) -> Row:
    """Return the row for `insert_records` and `update_records`."""
    return (lane_of_record(record.key, lanes), record.tenant, record.kind, record.id, record.body, record.version,
            record.slot)  # fmt: skip
