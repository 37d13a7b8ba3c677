"""The rows of holds, and the lists of their columns in our statements: both follow from the fields of `StoredHold`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ...core.fields import says_more
from ...core.model import StoredHold
from ..hold_columns import CHANGING, DERIVED, ERASED, HOLD, Row, row_of

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
