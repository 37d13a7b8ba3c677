"""The rows of holds, and the lists of their columns in our statements: both follow from the fields of `StoredHold`.

Statements take one array per column: `PARTS` has their parameters too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import HeldLeg, State, StoredHold
from ..hold_columns import CHANGING, DERIVED, ERASED, HOLD, Row, decode_legs, decode_levels, row_of

POOL_SEPARATOR: Final = "\x1f"  # no id has a control character
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
    "changed_hold": _set((*CHANGING, *DERIVED)),
    "changed_hold_rows": _rows(_CHANGED),
    "changed_holds_written": _written(_CHANGED),
    "erased_hold": _set((*ERASED, "pools")),
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


def pools_row(hold: StoredHold, lanes: int) -> tuple[str, str]:
    """The columns pools and pool_lanes, as one text each."""
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
"""For `insert_holds`."""
changed_hold_row: Final[Callable[[StoredHold, int, int], Row]] = row_of(
    "hold, was, lanes", (_LANE, "tenant", "id", "was", *CHANGING, *_DERIVED), lane_of_hold=lane_of_hold
)
"""For `update_holds`; `was` is the version before."""
erased_hold_row: Final[Callable[[StoredHold, int], Row]] = row_of(
    "hold, lanes", (_LANE, "tenant", "id", *ERASED, "pools(hold)"),
    lane_of_hold=lane_of_hold, pools=lambda hold: POOL_SEPARATOR.join(hold.pools),
)  # fmt: skip
"""For `rewrite_holds`."""


def open_pools(legs: str, above: str | None, state: str) -> tuple[str, ...]:
    """The pools on which a stored hold has anything outstanding."""
    named = decode_legs(legs)
    if state == State.WAITING:
        return (named[0].pool,)
    pools = [leg.pool for leg in named if leg.held]
    levels = () if above is None else decode_levels(above)
    return (*pools, *(level.pool for level in levels if level.held and level.pool not in pools))


def split_pools(text: str) -> tuple[str, ...]:
    """The column `pools` of a hold, as one text."""
    return tuple(text.split(POOL_SEPARATOR))


@lru_cache(maxsize=4_096)
def whole_leg(pool: str, units: int) -> bytes:
    """The column `legs` of a new hold of one leg."""
    return msgspec.json.encode((HeldLeg(pool, units, units),))
