"""The commands of `hk.apply`: what the kernel's verbs send, as values. Each has the fields of its verb."""

from __future__ import annotations

from .core.commands import (
    Amounts,
    ArchivePool,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    JoinLine,
    LimitPool,
    Overage,
    PlaceHold,
    PutRecord,
    ReassignHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    Ttl,
    UnarchivePool,
)
from .core.model import Leg

__all__ = [
    "Amounts",
    "ArchivePool",
    "ConfirmHold",
    "Consume",
    "CreatePool",
    "ExpireHold",
    "ExtendHold",
    "JoinLine",
    "Leg",
    "LimitPool",
    "Overage",
    "PlaceHold",
    "PutRecord",
    "ReassignHold",
    "ReleaseHold",
    "RemovePool",
    "ResizePool",
    "ReturnToPool",
    "ReturnUnits",
    "Sweep",
    "Ttl",
    "UnarchivePool",
]
