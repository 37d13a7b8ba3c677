"""One retry key for a whole batch: the operation ids of its commands, and the guard of its group."""

from __future__ import annotations

from ..core.codec import group_fingerprint
from ..core.commands import AnyCommand, Group, Guard
from ..core.validation import invalid


def op_within(key: str | None, index: int, own: str | None) -> str | None:
    """The operation id of a command: its own, or else one made of the batch's key and its place."""
    if key is None:
        return own
    places = f"{key}#"
    if own is None or own == f"{places}{index}":
        return f"{places}{index}"
    if own == key:
        raise invalid("op", "op_ambiguous", "is the operation id of the whole batch: give the command another, or none")
    if str(own).startswith(places):  # whoever has that place would be taken for its retry
        raise invalid(
            "op", "op_ambiguous", "may be that of another place in the batch: give the command another, or none"
        )
    return own


def guarded(commands: tuple[AnyCommand, ...], atomic: bool, key: str | None, checked: int | None = None) -> Group:
    """Prepared commands as a group, under a guard if there is a key; `checked` under this version of the limits."""
    if key is None or not commands:
        return Group(commands, atomic, checked=checked)
    guard = Guard(commands[0].tenant, key, group_fingerprint(commands, atomic))
    return Group(commands, atomic, guard, checked)
