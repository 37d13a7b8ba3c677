"""Holds as rows: what engines that store columns derive from the fields of `StoredHold`, once, as pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from .fields import Fact, compiled, fields_that
from .ladders.retiring import keeping
from .model import HeldLeg, State, StoredHold
from .outstanding import Level

Row: TypeAlias = tuple[Any, ...]

HOLD: Final = StoredHold.__struct_fields__
CHANGING: Final = (*fields_that(Fact.CHANGING, StoredHold), *fields_that(Fact.GRANTED, StoredHold))
ERASED: Final = ("legs", *fields_that(Fact.PERSONAL, StoredHold))
"""What an erasure rewrites: the legs too, which name pools of faces."""
DERIVED: Final = ("open", "kept", "kept_from")
"""The columns that are computed from the others: `open_`, a boolean or a number, and `kept_row`."""

decode_legs: Final = msgspec.json.Decoder(tuple[HeldLeg, ...]).decode
decode_levels: Final = msgspec.json.Decoder(tuple[Level, ...]).decode
_encode: Final = msgspec.json.Encoder().encode
_STORED: Final = {
    "legs": "encode(hold.legs).decode()",
    "state": "WORDS[hold.state]",
    "above": "encode(hold.above).decode() if hold.above else None",
}
"""The columns that have another form than the field."""
_READ: Final = {"legs": "legs({})", "state": "STATES[{}]", "above": "() if {0} is None else levels({0})"}


def kept_row(hold: StoredHold) -> tuple[int | None, int | None]:
    """Return the columns kept and kept_from."""
    kept = keeping(hold)
    return (None, None) if kept is None else (int(kept[0]), kept[1])


def row_of(arguments: str, columns: Iterable[str], **names: object) -> Any:
    """Return the function that makes a row of these columns from the argument `hold`; a column that is no field is an expression."""
    values = [_STORED.get(name, f"hold.{name}" if name in HOLD else name) for name in columns]
    words = {state: state.value for state in State}  # an exact str is bound several times faster than an enum
    return compiled(
        arguments, f"({', '.join(values)},)", {"encode": _encode, "WORDS": words, "kept_row": kept_row, **names}
    )


_read: Final = [_READ.get(name, "{}").format(f"row[{at}]") for at, name in enumerate(HOLD)]
_names: Final = {"StoredHold": StoredHold, "legs": decode_legs, "levels": decode_levels}
hold_of: Final[Callable[[Row], StoredHold]] = compiled(
    "row", f"StoredHold({', '.join(_read)})", {**_names, "STATES": {state.value: state for state in State}}
)
"""Return the hold of a row that begins with the columns `HOLD`."""
