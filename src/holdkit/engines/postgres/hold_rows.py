"""Holds and their rows: the columns follow from the fields of `StoredHold`, and so do the statements that name them.

Pure functions, computed from the fields once. Statements take one array per column: `PARTS` has their parameters too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from ...core.fields import Fact, compiled, fields_that
from ...core.ladders.retiring import keeping
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import HeldLeg, State, StoredHold
from ...core.outstanding import Level

_Row: TypeAlias = tuple[Any, ...]

_legs: Final = msgspec.json.Decoder(tuple[HeldLeg, ...]).decode
_levels: Final = msgspec.json.Decoder(tuple[Level, ...]).decode
_encode: Final = msgspec.json.Encoder().encode
_STATES: Final = {state.value: state for state in State}
_WORDS: Final = {state: state.value for state in State}
POOL_SEPARATOR: Final = "\x1f"  # no id has a control character

HOLD: Final = StoredHold.__struct_fields__
_CHANGING: Final = (*fields_that(Fact.CHANGING, StoredHold), *fields_that(Fact.GRANTED, StoredHold))
_ERASED: Final = ("legs", *fields_that(Fact.PERSONAL, StoredHold))
"""The legs name pools of faces."""
_DERIVED: Final = ("open", "kept", "kept_from")
_NEW: Final = ("lane", *HOLD, *_DERIVED, "pools", "pool_lanes")
_CHANGED: Final = ("lane", "tenant", "id", "was", *_CHANGING, *_DERIVED)
_REWRITTEN: Final = ("lane", "tenant", "id", *_ERASED, "pools")
_STORED: Final = {
    "legs": "_encode(hold.legs).decode()",
    "state": "_WORDS[hold.state]",
    "above": "_encode(hold.above).decode() if hold.above else None",
}
"""The columns that have another form than the field."""
_READ: Final = {
    "legs": "_legs({})",
    "state": "_STATES[{}]",
    "above": "() if {0} is None else _levels({0})",
}
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


def _fields(names: Iterable[str]) -> str:
    return ", ".join(_STORED.get(name, f"hold.{name}") for name in names)


def _rows(names: Sequence[str]) -> str:
    """The parameters of a statement that takes rows of these columns."""
    arrays = ", ".join(f"${at}::{_TYPES.get(name, 'text')}[]" for at, name in enumerate(names, 1))
    return f"unnest({arrays}) k({', '.join(names)})"


def _written(names: Sequence[str]) -> str:
    """The check that as many rows were written as should be; its two parameters come behind the columns."""
    return f"1 / (count(*) = ${len(names) + 1}::int or not ${len(names) + 2}::bool)::int, count(*)"


def _set(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {_LISTS.get(name, f'k.{name}')}" for name in names)


PARTS: Final = {
    "hold": ", ".join("replace(h.id::text, '-', '')" if name == "id" else f"h.{name}" for name in HOLD),
    "new_hold": ", ".join(_NEW),
    "new_hold_values": ", ".join(_LISTS.get(name, f"k.{name}") for name in _NEW),
    "new_hold_rows": _rows(_NEW),
    "new_holds_written": _written(_NEW),
    "changed_hold": _set((*_CHANGING, *_DERIVED)),
    "changed_hold_rows": _rows(_CHANGED),
    "changed_holds_written": _written(_CHANGED),
    "erased_hold": _set((*_ERASED, "pools")),
    "erased_hold_rows": _rows(_REWRITTEN),
}
"""The columns of holds in our statements."""
HOLD_COLUMNS: Final = len(HOLD)
"""How many `hold_of` takes."""
NEW_HOLD_COLUMNS: Final = len(_NEW)
"""How many `new_hold_row` gives."""
CHANGED_HOLD_COLUMNS: Final = len(_CHANGED)
"""How many `changed_hold_row` gives."""
ERASED_HOLD_COLUMNS: Final = len(_REWRITTEN)
"""How many `erased_hold_row` gives."""


def kept_row(hold: StoredHold) -> tuple[int | None, int | None]:
    """The columns kept and kept_from."""
    kept = keeping(hold)
    return (None, None) if kept is None else (int(kept[0]), kept[1])


def pools_row(hold: StoredHold, lanes: int) -> tuple[str, str]:
    """The columns pools and pool_lanes, as one text each."""
    tenant, legs = hold.tenant, hold.legs
    if len(legs) == 1 and not hold.above:
        return legs[0].pool, str(lane_of_pool((tenant, legs[0].pool), lanes))
    names = hold.pools
    return POOL_SEPARATOR.join(names), ",".join([str(lane_of_pool((tenant, name), lanes)) for name in names])


_NAMES: Final = {
    "StoredHold": StoredHold,
    "POOL_SEPARATOR": POOL_SEPARATOR,
    "lane_of_hold": lane_of_hold,
    "_legs": _legs,
    "_levels": _levels,
    "_encode": _encode,
    "_STATES": _STATES,
    "_WORDS": _WORDS,
    "kept_row": kept_row,
    "pools_row": pools_row,
}
_read: Final = ", ".join(_READ.get(name, "{}").format(f"row[{at}]") for at, name in enumerate(HOLD))
hold_of: Final[Callable[[_Row], StoredHold]] = compiled("row", f"StoredHold({_read})", _NAMES)
"""The columns of the part `hold`."""
new_hold_row: Final[Callable[[StoredHold, int], _Row]] = compiled(
    "hold, lanes",
    f"(lane_of_hold(hold.id, lanes), {_fields(HOLD)}, hold.open, *kept_row(hold), *pools_row(hold, lanes))",
    _NAMES,
)
"""For `insert_holds`."""
changed_hold_row: Final[Callable[[StoredHold, int, int], _Row]] = compiled(
    "hold, was, lanes",
    f"(lane_of_hold(hold.id, lanes), hold.tenant, hold.id, was, {_fields(_CHANGING)}, hold.open, *kept_row(hold))",
    _NAMES,
)
"""For `update_holds`; `was` is the version before."""
erased_hold_row: Final[Callable[[StoredHold, int], _Row]] = compiled(
    "hold, lanes",
    f"(lane_of_hold(hold.id, lanes), hold.tenant, hold.id, {_fields(_ERASED)}, POOL_SEPARATOR.join(hold.pools))",
    _NAMES,
)
"""For `rewrite_holds`."""


def open_pools(legs: str, above: str | None, state: str) -> tuple[str, ...]:
    """The pools on which a stored hold has anything outstanding."""
    named = _legs(legs)
    if state == State.WAITING:
        return (named[0].pool,)
    pools = [leg.pool for leg in named if leg.held]
    levels = () if above is None else _levels(above)
    return (*pools, *(level.pool for level in levels if level.held and level.pool not in pools))


def split_pools(text: str) -> tuple[str, ...]:
    """The column `pools` of a hold, as one text."""
    return tuple(text.split(POOL_SEPARATOR))


@lru_cache(maxsize=4_096)
def whole_leg(pool: str, units: int) -> bytes:
    """The column `legs` of a new hold of one leg."""
    return _encode((HeldLeg(pool, units, units),))
