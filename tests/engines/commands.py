"""Commands in one line, and the clock they are decided by, for the tests of every engine."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from holdkit.core.codec import fingerprint
from holdkit.core.commands import (
    AnyCommand,
    ConfirmHold,
    CreatePool,
    ExtendHold,
    Group,
    PutRecord,
    ReleaseHold,
    Sweep,
)
from holdkit.core.model import SECOND, Slot

START: Slot = 1_700_000_000_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self, slot: Slot = START) -> None:
        self.slot = slot

    def __call__(self) -> Slot:
        return self.slot


def create(pool: str = "gpu", total: int = 10, **more: Any) -> CreatePool:
    return CreatePool(id=pool, total=total, **more)


def confirm(hold: str, **more: Any) -> ConfirmHold:
    return ConfirmHold(id=hold, token="me", **more)


def release(hold: str, **more: Any) -> ReleaseHold:
    return ReleaseHold(id=hold, token="me", **more)


def extend(hold: str, by: Slot = SECOND, **more: Any) -> ExtendHold:
    return ExtendHold(id=hold, token="me", by_slots=by, **more)


def put(id: str, body: str | None = "{}", **more: Any) -> PutRecord:
    return PutRecord(kind="note", id=id, body=body, **more)


def sweep(limit: int = 500) -> Sweep:
    return Sweep(limit=limit)


def group_of(command: AnyCommand) -> Group:
    """A group of its own, with its fingerprint, as the kernel would send it."""
    return Group((command if command.op is None else structs.replace(command, fingerprint=fingerprint(command)),))


def groups(*commands: AnyCommand) -> list[Group]:
    """One group per command."""
    return [group_of(command) for command in commands]
