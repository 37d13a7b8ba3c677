"""Holds and their rows: the columns follow from the fields of `StoredHold`, and so do the statements that name them.

Pure functions, computed from the fields once: nothing here reads a clock, a file or a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from ...core.fields import Fact, compiled, fields_that, says_more
from ...core.ladders.retiring import keeping
from ...core.model import HeldLeg, State, StoredHold
from ...core.outstanding import Level

_Row: TypeAlias = tuple[Any, ...]
HoldRow: TypeAlias = Callable[[StoredHold, int], _Row]
"""The second argument is whether anything is outstanding, 0 or 1."""

_legs: Final = msgspec.json.Decoder(tuple[HeldLeg, ...]).decode
_levels: Final = msgspec.json.Decoder(tuple[Level, ...]).decode
_encode: Final = msgspec.json.Encoder().encode
_STATES: Final = {state.value: state for state in State}
# sqlite3 binds exact str and int several times faster than enums and booleans: rows are made of these only.
_WORDS: Final = {state: state.value for state in State}

HOLD: Final = StoredHold.__struct_fields__
_DERIVED: Final = ("open", "kept", "kept_from")
_WHOLE: Final = frozenset({"account", "number", "above"})
"""What most holds do not have. (Binding a None costs sqlite3 six times a text.)"""
_CHANGING: Final = (*fields_that(Fact.CHANGING, StoredHold), *fields_that(Fact.GRANTED, StoredHold))
_CHANGING_PLAINLY: Final = tuple(name for name in fields_that(Fact.CHANGING, StoredHold) if name not in _WHOLE)
_ERASED: Final = ("legs", *fields_that(Fact.PERSONAL, StoredHold))
"""The legs name pools of faces."""
_STORED: Final = {
    "legs": "legs_text(hold.legs)",
    "state": "_WORDS[hold.state]",
    "above": "_encode(hold.above).decode() if hold.above else None",
}
"""The columns that have another form than the field."""
_READ: Final = {
    "legs": "_legs({})",
    "state": "_STATES[{}]",
    "above": "() if {0} is None else _levels({0})",
}


def _columns(names: Iterable[str], form: str) -> str:
    return ", ".join(form.format(name) for name in names)


def _fields(names: Iterable[str]) -> str:
    return ", ".join(_STORED.get(name, f"hold.{name}") for name in names)


PARTS: Final = {
    "hold": _columns(HOLD, "h.{}"),
    "new_hold": _columns((*HOLD, *_DERIVED), "{}"),
    "new_hold_values": _columns((*HOLD, *_DERIVED), "?"),
    "changed_hold": _columns((*_CHANGING_PLAINLY, *_DERIVED), "{} = ?"),
    "whole_changed_hold": _columns((*_CHANGING, *_DERIVED), "{} = ?"),
    "erased_hold": _columns(_ERASED, "{} = ?"),
}
"""The columns of holds in our statements."""


def kept_row(hold: StoredHold) -> tuple[int | None, int | None]:
    """kept, kept_from."""
    kept = keeping(hold)
    return (None, None) if kept is None else (int(kept[0]), kept[1])


def legs_text(legs: tuple[HeldLeg, ...]) -> str:
    """Legs as JSON."""
    return _encode(legs).decode()


_NAMES: Final = {
    "StoredHold": StoredHold,
    "_legs": _legs,
    "_levels": _levels,
    "_encode": _encode,
    "_STATES": _STATES,
    "_WORDS": _WORDS,
    "kept_row": kept_row,
    "legs_text": legs_text,
}
_read: Final = ", ".join(_READ.get(name, "{}").format(f"row[{at}]") for at, name in enumerate(HOLD))
hold_of: Final[Callable[[_Row], StoredHold]] = compiled("row", f"StoredHold({_read})", _NAMES)
"""The columns of the part `hold`."""
new_hold_row: Final[HoldRow] = compiled("hold, open_", f"({_fields(HOLD)}, open_, *kept_row(hold))", _NAMES)
"""For `insert_whole_holds` and `replace_holds`."""
changed_hold_row: Final[HoldRow] = compiled(
    "hold, open_", f"({_fields(_CHANGING_PLAINLY)}, open_, *kept_row(hold), hold.tenant, hold.id)", _NAMES
)
"""For `update_holds`."""
whole_changed_hold_row: Final[HoldRow] = compiled(
    "hold, open_", f"({_fields(_CHANGING)}, open_, *kept_row(hold), hold.tenant, hold.id)", _NAMES
)
"""For `update_whole_holds`."""
erased_hold_row: Final[Callable[[StoredHold], _Row]] = compiled(
    "hold", f"({_fields(_ERASED)}, hold.tenant, hold.id)", _NAMES
)
"""For `rewrite_holds`."""


def plain_row(hold: StoredHold, legs: str) -> _Row:
    """For `insert_plain_holds`."""
    return (hold.tenant, hold.id, legs, hold.owner_hash, hold.held_at, hold.fence, hold.deadline)


def held_row(hold: StoredHold, legs: str, open_: int) -> _Row:
    """For `insert_holds`. `legs` is their text: holds that were placed together mostly share them."""
    return (hold.tenant, hold.id, legs, hold.owner_hash, hold.held_at, hold.fence, hold.deadline,
            open_, hold.version, hold.closes or 0, hold.actor or "", hold.correlation_id or "", hold.metadata or "",
            hold.entity or "")  # fmt: skip


_PLAIN: Final = ("deadline", "state", "version")
_HELD: Final = (*_PLAIN, "closes", "actor", "correlation_id", "metadata", "entity")
is_more_than_plain: Final[Callable[[StoredHold], bool]] = says_more(StoredHold, _PLAIN)
"""Whether a hold that is held has anything that `insert_plain_holds` leaves out."""
is_more_than_held: Final[Callable[[StoredHold], bool]] = says_more(StoredHold, _HELD)
"""The same of `insert_holds`."""
