"""Rows to records, and what the columns of holds and settings are: what is read of a row is known here, what is written in `writing`.

The columns of pools and holds follow from their fields.

Pure functions. Nothing here reads a clock, a file or a connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec import structs

from ...core.codec import decode_entry, decode_outcome
from ...core.fields import compiled
from ...core.hold_columns import CHANGING, DERIVED, ERASED, HOLD, Row, row_of
from ...core.keyed import SECRET as SECRET_BYTES
from ...core.model import Line, Pool, StoredHold
from ...core.outcomes import Done, Operation
from ...errors import EngineError

_seldom: Final = msgspec.json.Decoder(tuple[int, int, int, int | None, Line])
_token: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


def keys_json(ids: Sequence[Any]) -> str:
    """Return ids, or lists of their parts, for `json_each`."""
    return _encode(ids).decode()


_SELDOM: Final = ("waiting", "last_number", "children", "per_account", "line")
"""What few pools have. It is read as JSON, in one column, which mostly is null: five columns would make every batch pay for them."""
_POOL: Final = tuple(name for name in Pool.__struct_fields__ if name not in (*_SELDOM, "least", "replayed"))
_FLAGS: Final = ("on_demand", "archived")
"""SQLite has no booleans."""


def _with_seldom(pool: Pool, text: str | None) -> Pool:
    if text is None:
        return pool
    return structs.replace(pool, **dict(zip(_SELDOM, _seldom.decode(text), strict=True)))


_pool: Final = (
    f"Pool({', '.join(f'bool(row[{at}])' if name in _FLAGS else f'row[{at}]' for at, name in enumerate(_POOL))})"
)
_text: Final = f"row[{len(_POOL)}]"
pool_of: Final[Callable[[Row], Pool]] = compiled(
    "row", f"{_pool} if {_text} is None else with_seldom({_pool}, {_text})", {"Pool": Pool, "with_seldom": _with_seldom}
)
"""Return the pool of a row that begins with the columns `{pool}`."""
BESIDE_POOL: Final = slice(len(_POOL) + 1, None)
"""What a statement asks for beside `{pool}`."""
BESIDE_HOLD: Final = slice(len(HOLD), None)
"""What a statement asks for beside `{hold}`."""

_WHOLE: Final = frozenset({"account", "number", "above", "held_at", "fence"})
"""What most holds do not have, or do not change. (Binding a None costs sqlite3 six times a text.)"""
_PLAINLY: Final = tuple(name for name in CHANGING if name not in _WHOLE)


def _columns(names: Iterable[str], form: str) -> str:
    return ", ".join(form.format(name) for name in names)


PARTS: Final = {
    "pool": f"{_columns(_POOL, 'p.{}')}, case when p.waiting or p.last_number or p.children or p.per_account is not null "
    "or p.line is not null then json_array(p.waiting, p.last_number, p.children, p.per_account, coalesce(p.line, 'strict')) end",
    "hold": _columns(HOLD, "h.{}"),
    "new_hold": _columns((*HOLD, *DERIVED), "{}"),
    "new_hold_values": _columns((*HOLD, *DERIVED), "?"),
    "changed_hold": _columns((*_PLAINLY, *DERIVED), "{} = ?"),
    "whole_changed_hold": _columns((*CHANGING, *DERIVED), "{} = ?"),
    "erased_hold": _columns(ERASED, "{} = ?"),
}
"""The columns of pools and holds in our statements."""

_KEY: Final = ("tenant", "id")
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


def operation_of(row: Row) -> Operation:
    """Return a recorded answer: its columns, then the entry that the outcome refers to, if it does."""
    tenant, id, fingerprint, until, outcome, seq, body = row
    if outcome[0] == "{":
        return Operation(tenant, id, fingerprint, until, outcome=decode_outcome(outcome), seq=seq)
    entry = None if body is None else decode_entry(body)  # the token is in the record, the hold in its entry
    if entry is None or entry.op != id or entry.hold is None:
        raise EngineError(f"the record of operation {id!r} refers to entry {seq}, which is another: run verify")
    done = Done(entry.slot, entry.hold, token=_token.decode(outcome))
    return Operation(tenant, id, fingerprint, until, outcome=done, seq=seq)


def entry_checksum(seq: int, body: bytes) -> int:
    """Return the checksum of an entry and its number: it names a row that was changed or moved by hand."""
    return crc32(body, seq & 0xFFFF_FFFF)


def setting_row(name: str, value: Any) -> Row:
    """Return the row of a setting for `put_setting`."""
    text = _encode(value).decode()
    return (name, text, checksum(name, text))


GENERATION: Final = "generation"
"""The setting that tells which life of the journal this is."""


def new_generation() -> Row:
    """Return a new generation: another life of the journal begins."""
    return setting_row(GENERATION, os.urandom(8).hex())


SECRET: Final = "secret"
"""The setting with the key of keyed names."""
REWRITES: Final = "rewrites"
"""The setting that counts the transactions in which an erasure has rewritten entries."""
ERASING: Final = "erasing"
"""The setting with the erasures that have begun and not ended: the stub of each, by its id."""


def new_secret() -> Row:
    """Return a new random secret."""
    return setting_row(SECRET, os.urandom(SECRET_BYTES).hex())


def checksum(*columns: str | int) -> int:
    """Return a checksum over several columns, which shows a change by hand."""
    return crc32("\0".join(map(str, columns)).encode())
