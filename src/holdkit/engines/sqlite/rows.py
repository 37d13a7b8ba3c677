"""Rows to records and back: the one place that knows the order of columns. Those of holds follow from their fields.

Pure functions. Nothing here reads a clock, a file or a connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec import structs

from ...core.audit_rows import LegKey
from ...core.codec import decode_entry, decode_outcome, encode_outcome
from ...core.entries import Entry
from ...core.fields import says_more
from ...core.hold_columns import CHANGING, DERIVED, ERASED, HOLD, Row, row_of
from ...core.keyed import SECRET as SECRET_BYTES
from ...core.model import HeldLeg, Line, Pool, Record, StoredHold
from ...core.outcomes import Done, Operation
from ...core.outstanding import OpenLeg, Tally, TallyKey
from ...errors import EngineError

_special: Final = msgspec.json.Decoder(tuple[int, int, int, int | None, Line])
_token: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


def keys_json(ids: Sequence[Any]) -> str:
    """Ids for `json_each`, or lists of their parts."""
    return _encode(ids).decode()


def pool_of(row: Row) -> Pool:
    """tenant, id, total, held, consumed, fence, slot, version, on_demand, label, closes, holder, entity, archived,
    loose, floor; then, as JSON, what few pools have: waiting, last_number, children, per_account, line. In one column, which is null as
    a rule: five more would make every batch pay for them."""
    pool = Pool(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], bool(row[8]), row[9], row[10], row[11],
                row[12], bool(row[13]), row[14], row[15])  # fmt: skip
    if row[16] is None:
        return pool
    waiting, last_number, children, per_account, line = _special.decode(row[16])
    return structs.replace(
        pool, waiting=waiting, last_number=last_number, children=children, per_account=per_account, line=line
    )


def pool_row(pool: Pool) -> Row:
    """For `update_pools`."""
    return (pool.total, pool.held, pool.consumed, pool.fence, pool.slot, pool.version,
            1 if pool.held + pool.consumed > pool.total else 0, 1 if pool.on_demand else 0, pool.loose, pool.tenant,
            pool.id)  # fmt: skip


def labelled_pool_row(pool: Pool) -> Row:
    """For `update_labelled_pools`."""
    row = pool_row(pool)
    return (*row[:9], pool.holder, pool.entity, *row[9:])


def new_pool_row(pool: Pool) -> Row:
    """For `insert_pools`."""
    return (*pool_row(pool), pool.label, pool.closes, pool.holder, pool.entity, 1 if pool.archived else 0,
            pool.floor, pool.waiting, pool.last_number, pool.children, pool.per_account,
            None if pool.line == "strict" else pool.line)  # fmt: skip


def pool_terms_row(pool: Pool) -> Row:
    """For `update_pool_terms`."""
    return (pool.closes, 1 if pool.archived else 0, pool.waiting, pool.last_number, pool.children, pool.per_account,
            pool.tenant, pool.id)  # fmt: skip


_WHOLE: Final = frozenset({"account", "number", "above", "held_at", "fence"})
"""What most holds do not have, or do not change. (Binding a None costs sqlite3 six times a text.)"""
_PLAINLY: Final = tuple(name for name in CHANGING if name not in _WHOLE)
_KEY: Final = ("tenant", "id")


def _columns(names: Iterable[str], form: str) -> str:
    return ", ".join(form.format(name) for name in names)


PARTS: Final = {
    "hold": _columns(HOLD, "h.{}"),
    "new_hold": _columns((*HOLD, *DERIVED), "{}"),
    "new_hold_values": _columns((*HOLD, *DERIVED), "?"),
    "changed_hold": _columns((*_PLAINLY, *DERIVED), "{} = ?"),
    "whole_changed_hold": _columns((*CHANGING, *DERIVED), "{} = ?"),
    "erased_hold": _columns(ERASED, "{} = ?"),
}
"""The columns of holds in our statements."""

_DERIVED: Final = ("open_", "*kept_row(hold)")
HoldRow: TypeAlias = Callable[[StoredHold, int], Row]
"""The second argument is whether anything is outstanding, 0 or 1."""
new_hold_row: Final[HoldRow] = row_of("hold, open_", (*HOLD, *_DERIVED))
"""For `insert_whole_holds` and `replace_holds`."""
changed_hold_row: Final[HoldRow] = row_of("hold, open_", (*_PLAINLY, *_DERIVED, *_KEY))
"""For `update_holds`."""
whole_changed_hold_row: Final[HoldRow] = row_of("hold, open_", (*CHANGING, *_DERIVED, *_KEY))
"""For `update_whole_holds`."""
erased_hold_row: Final[Callable[[StoredHold], Row]] = row_of("hold", (*ERASED, *_KEY))
"""For `rewrite_holds`."""


def legs_text(legs: tuple[HeldLeg, ...]) -> str:
    """Legs as JSON."""
    return _encode(legs).decode()


def plain_row(hold: StoredHold, legs: str) -> Row:
    """For `insert_plain_holds`."""
    return (hold.tenant, hold.id, legs, hold.owner_hash, hold.held_at, hold.fence, hold.deadline)


def held_row(hold: StoredHold, legs: str, open_: int) -> Row:
    """For `insert_holds`. `legs` is their text: holds that were placed together mostly share them."""
    return (hold.tenant, hold.id, legs, hold.owner_hash, hold.held_at, hold.fence, hold.deadline,
            open_, hold.version, hold.closes or 0, hold.actor or "", hold.correlation_id or "", hold.metadata or "",
            hold.entity or "")  # fmt: skip


_PLAIN: Final = ("deadline", "state", "version")
is_more_than_plain: Final[Callable[[StoredHold], bool]] = says_more(StoredHold, _PLAIN)
"""Whether a hold that is held has anything that `insert_plain_holds` leaves out."""
is_more_than_held: Final[Callable[[StoredHold], bool]] = says_more(
    StoredHold, (*_PLAIN, "closes", "actor", "correlation_id", "metadata", "entity")
)
"""The same of `insert_holds`."""


def leg_of(row: Row) -> OpenLeg:
    """tenant, pool, deadline, hold, units, waiting, number, account."""
    return OpenLeg(row[4], row[5], row[6], row[7])


def leg_row(key: LegKey, leg: OpenLeg) -> Row:
    """For `put_whole_legs`."""
    return (*key, leg.units, leg.waiting, leg.number, leg.account)


def tally_of(row: Row) -> Tally:
    """tenant, pool, account, used, loose."""
    return Tally(row[2], row[3], row[4])


def tally_row(key: TallyKey, tally: Tally) -> Row:
    """For `put_tallies`."""
    return (*key, tally.used, tally.loose)


def entry_rows(entries: Iterable[Entry], first_seq: int) -> list[Row]:
    """For `insert_journal`: entries get their numbers here. The same text as `core.codec.encode_entry`, whose bytes the checksum
    needs."""
    rows: list[Row] = []
    for seq, entry in enumerate(entries, first_seq):
        body = _encode(entry)
        rows.append((seq, entry.tenant, entry.subject, body.decode(), crc32(body, seq & 0xFFFF_FFFF)))
    return rows


def entry_checksum(seq: int, body: bytes) -> int:
    """Of an entry and its number: names a row that was changed or moved by hand."""
    return crc32(body, seq & 0xFFFF_FFFF)


def operation_of(row: Row) -> Operation:
    """tenant, id, fingerprint, until, outcome, seq; then the entry that the outcome refers to, if it does."""
    return Operation(
        row[0], row[1], row[2], row[3], decode_outcome(row[4]) if row[4][0] == "{" else _placed(row), row[5]
    )


def _placed(row: Row) -> Done:
    """The answer of an operation that placed a hold: the token is in its record, the hold in its entry."""
    entry = None if row[6] is None else decode_entry(row[6])
    if entry is None or entry.op != row[1] or entry.hold is None:
        raise EngineError(f"the record of operation {row[1]!r} refers to entry {row[5]}, which is another: run verify")
    return Done(entry.slot, entry.hold, token=_token.decode(row[4]))


def operation_rows(operations: Iterable[Operation | None], entries: Sequence[Entry], first_seq: int) -> list[Row]:
    """For `put_operations`. The answer of a hold just placed is its token: the rest is in the entry."""
    rows: list[Row] = []
    for operation in operations:
        assert operation is not None, "the core never removes an operation"
        outcome, at = operation.outcome, operation.seq - first_seq
        if isinstance(outcome, Done) and at >= 0 and outcome.hold is not None and entries[at].hold is outcome.hold:
            answer = _encode(outcome.token).decode()
        else:
            answer = encode_outcome(outcome)
        tenant, id, given, until, seq = (
            operation.tenant,
            operation.id,
            operation.fingerprint,
            operation.until,
            operation.seq,
        )
        crc = crc32(f"{tenant}\0{id}\0{given}\0{until}\0{answer}\0{seq}".encode())  # `checksum`, in half the time
        rows.append((tenant, id, given, until, answer, seq, crc))
    return rows


def record_of(row: Row) -> Record:
    """tenant, kind, id, body, version, slot."""
    return Record(row[0], row[1], row[2], row[3], row[4], row[5])


def record_row(record: Record) -> Row:
    """For `put_records`."""
    return (record.tenant, record.kind, record.id, record.body, record.version, record.slot)


def setting_row(name: str, value: Any) -> Row:
    """For `put_setting`."""
    text = _encode(value).decode()
    return (name, text, checksum(name, text))


GENERATION: Final = "generation"
"""The setting that tells which life of the journal this is."""


def new_generation() -> Row:
    """Another life begins."""
    return setting_row(GENERATION, os.urandom(8).hex())


SECRET: Final = "secret"
"""The setting with the key of keyed names."""
REWRITES: Final = "rewrites"
"""The setting that counts the transactions in which an erasure has rewritten entries."""
ERASING: Final = "erasing"
"""The setting with the erasures that have begun and not ended: the stub of each, by its id."""


def new_secret() -> Row:
    """A random one."""
    return setting_row(SECRET, os.urandom(SECRET_BYTES).hex())


def checksum(*columns: str | int) -> int:
    """Of several columns: names a row that was changed by hand."""
    return crc32("\0".join(map(str, columns)).encode())
