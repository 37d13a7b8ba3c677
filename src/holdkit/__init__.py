"""Holdkit: hold N units of something scarce until a deadline, then confirm or release.

import holdkit

hk = holdkit.connect("sqlite:///holds.db")
hk.create_pool("show:42", total=500)
hold = hk.hold("show:42", 2, ttl="5m")
hk.confirm(hold, entity="order:9")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from . import commands as commands
    from . import errors as errors
    from . import journal as journal
    from . import reports as reports
    from . import resources as resources
    from . import sagas as sagas
    from .core.audit_rows import Difference
    from .core.commands import (
        ArchivePool,
        ConfirmHold,
        Consume,
        CreatePool,
        ExpireHold,
        ExtendHold,
        JoinLine,
        LimitPool,
        PlaceHold,
        PutRecord,
        ReleaseHold,
        RemovePool,
        ResizePool,
        ReturnToPool,
        ReturnUnits,
        Sweep,
        UnarchivePool,
    )
    from .core.entries import Action
    from .core.model import Leg, Pool, Record, State
    from .core.outcomes import Reason, Shortfall
    from .core.reading import AccountUsage
    from .engines.durability import Durability, Standby
    from .engines.lock_times import LockTimes
    from .errors import (
        Aborted,
        AccountLimit,
        AccountRequired,
        AlreadyClaimed,
        AlreadyConfirmed,
        AlreadyExists,
        AlreadyReleased,
        BelowInUse,
        CursorLost,
        DeadlinePassed,
        EngineError,
        HoldEnded,
        HoldExists,
        HoldExpired,
        HoldkitError,
        HoldNotFound,
        HoldRetired,
        HoldTableFull,
        HoldWaiting,
        InsufficientCapacity,
        InvalidRequest,
        ItemsTaken,
        LifetimeExceeded,
        LineAhead,
        LineFull,
        MissingExtra,
        NotConfirmed,
        NotDue,
        NotFound,
        NotOwner,
        OperationConflict,
        OperationTableFull,
        OutcomeUnknown,
        Overloaded,
        PartOfHold,
        PoolArchived,
        PoolExists,
        PoolInUse,
        PoolNotFound,
        PoolTableFull,
        PromiseBroken,
        QuantityExceedsConsumed,
        QuantityExceedsHold,
        Refused,
        SagaBusy,
        SagaCancelled,
        SagaParked,
        SectionNotFound,
        SlotOverflow,
        TableFull,
        Unavailable,
        UnknownArgument,
        VersionConflict,
        WindowClosed,
    )
    from .faces._async.kernel import AsyncKernel
    from .faces._async.resources import AsyncResourceKernel
    from .faces._sync.kernel import Kernel
    from .faces._sync.resources import ResourceKernel
    from .faces.allowances import Allowance, Usage
    from .faces.claim import Claim
    from .faces.grid import Availability
    from .faces.keys import Item, claim, items
    from .faces.opening import connect, connect_async
    from .faces.resources import Resource, ResourceHold, ResourcePool
    from .faces.saga import Saga, SagaStep
    from .faces.saga_records import RecoveryReport, SagaError, SagaRecord
    from .faces.saga_steps import Phase
    from .faces.seating import Seat
    from .kernel.answers import Outcome
    from .kernel.archive import ArchiveReport
    from .kernel.context import Actor, ReleaseReason, context
    from .kernel.follower_state import CursorFile, CursorStore
    from .kernel.group_commit import Stats
    from .kernel.journal import ALL
    from .kernel.journal_archive import JournalArchive
    from .kernel.limits import Limits, LimitsInForce
    from .kernel.normalise import ticket
    from .kernel.opening import migrate
    from .kernel.reports import RepairReport, SweepReport, VerifyReport
    from .kernel.results import HeldLeg, Hold, JournalEntry, Position, reconstruct
    from .kernel.seals import Sealing

    __version__: str

__all__ = [
    "ALL",
    "Aborted",
    "AccountLimit",
    "AccountRequired",
    "AccountUsage",
    "Action",
    "Actor",
    "Allowance",
    "AlreadyClaimed",
    "AlreadyConfirmed",
    "AlreadyExists",
    "AlreadyReleased",
    "ArchivePool",
    "ArchiveReport",
    "AsyncKernel",
    "AsyncResourceKernel",
    "Availability",
    "BelowInUse",
    "Claim",
    "ConfirmHold",
    "Consume",
    "CreatePool",
    "CursorFile",
    "CursorLost",
    "CursorStore",
    "DeadlinePassed",
    "Difference",
    "Durability",
    "EngineError",
    "ExpireHold",
    "ExtendHold",
    "HeldLeg",
    "Hold",
    "HoldEnded",
    "HoldExists",
    "HoldExpired",
    "HoldNotFound",
    "HoldRetired",
    "HoldTableFull",
    "HoldWaiting",
    "HoldkitError",
    "InsufficientCapacity",
    "InvalidRequest",
    "Item",
    "ItemsTaken",
    "JoinLine",
    "JournalArchive",
    "JournalEntry",
    "Kernel",
    "Leg",
    "LifetimeExceeded",
    "LimitPool",
    "Limits",
    "LimitsInForce",
    "LineAhead",
    "LineFull",
    "LockTimes",
    "MissingExtra",
    "NotConfirmed",
    "NotDue",
    "NotFound",
    "NotOwner",
    "OperationConflict",
    "OperationTableFull",
    "Outcome",
    "OutcomeUnknown",
    "Overloaded",
    "PartOfHold",
    "Phase",
    "PlaceHold",
    "Pool",
    "PoolArchived",
    "PoolExists",
    "PoolInUse",
    "PoolNotFound",
    "PoolTableFull",
    "Position",
    "PromiseBroken",
    "PutRecord",
    "QuantityExceedsConsumed",
    "QuantityExceedsHold",
    "Reason",
    "Record",
    "RecoveryReport",
    "Refused",
    "ReleaseHold",
    "ReleaseReason",
    "RemovePool",
    "RepairReport",
    "ResizePool",
    "Resource",
    "ResourceHold",
    "ResourceKernel",
    "ResourcePool",
    "ReturnToPool",
    "ReturnUnits",
    "Saga",
    "SagaBusy",
    "SagaCancelled",
    "SagaError",
    "SagaParked",
    "SagaRecord",
    "SagaStep",
    "Sealing",
    "Seat",
    "SectionNotFound",
    "Shortfall",
    "SlotOverflow",
    "Standby",
    "State",
    "Stats",
    "Sweep",
    "SweepReport",
    "TableFull",
    "UnarchivePool",
    "Unavailable",
    "UnknownArgument",
    "Usage",
    "VerifyReport",
    "VersionConflict",
    "WindowClosed",
    "claim",
    "connect",
    "connect_async",
    "context",
    "items",
    "migrate",
    "reconstruct",
    "ticket",
]

# `import holdkit` imports none of the modules behind these names: a name brings its module when it is first used (PEP 562), so that a
# command or a worker pays only for what it uses. Type checkers read the imports above; a test compares them with this table.
_MODULES: Final = {
    ".core.audit_rows": "Difference",
    ".core.commands": (
        "ArchivePool ConfirmHold Consume CreatePool ExpireHold ExtendHold JoinLine LimitPool PlaceHold PutRecord "
        "ReleaseHold RemovePool ResizePool ReturnToPool ReturnUnits Sweep UnarchivePool"
    ),
    ".core.entries": "Action",
    ".core.model": "Leg Pool Record State",
    ".core.outcomes": "Reason Shortfall",
    ".core.reading": "AccountUsage",
    ".engines.durability": "Durability Standby",
    ".engines.lock_times": "LockTimes",
    ".errors": (
        "Aborted AccountLimit AccountRequired AlreadyClaimed AlreadyConfirmed AlreadyExists AlreadyReleased "
        "BelowInUse CursorLost DeadlinePassed EngineError HoldEnded HoldExists HoldExpired HoldkitError "
        "HoldNotFound HoldRetired HoldTableFull HoldWaiting InsufficientCapacity InvalidRequest ItemsTaken "
        "LifetimeExceeded LineAhead LineFull MissingExtra NotConfirmed NotDue NotFound NotOwner OperationConflict "
        "OperationTableFull OutcomeUnknown Overloaded PartOfHold PoolArchived PoolExists PoolInUse PoolNotFound "
        "PoolTableFull PromiseBroken QuantityExceedsConsumed QuantityExceedsHold Refused SagaBusy SagaCancelled "
        "SagaParked SectionNotFound SlotOverflow TableFull Unavailable UnknownArgument VersionConflict "
        "WindowClosed"
    ),
    ".faces._async.kernel": "AsyncKernel",
    ".faces._async.resources": "AsyncResourceKernel",
    ".faces._sync.kernel": "Kernel",
    ".faces._sync.resources": "ResourceKernel",
    ".faces.allowances": "Allowance Usage",
    ".faces.claim": "Claim",
    ".faces.grid": "Availability",
    ".faces.keys": "Item claim items",
    ".faces.opening": "connect connect_async",
    ".faces.resources": "Resource ResourceHold ResourcePool",
    ".faces.saga": "Saga SagaStep",
    ".faces.saga_records": "RecoveryReport SagaError SagaRecord",
    ".faces.saga_steps": "Phase",
    ".faces.seating": "Seat",
    ".kernel.answers": "Outcome",
    ".kernel.archive": "ArchiveReport",
    ".kernel.context": "Actor ReleaseReason context",
    ".kernel.follower_state": "CursorFile CursorStore",
    ".kernel.group_commit": "Stats",
    ".kernel.journal": "ALL",
    ".kernel.journal_archive": "JournalArchive",
    ".kernel.limits": "Limits LimitsInForce",
    ".kernel.normalise": "ticket",
    ".kernel.opening": "migrate",
    ".kernel.reports": "RepairReport SweepReport VerifyReport",
    ".kernel.results": "HeldLeg Hold JournalEntry Position reconstruct",
    ".kernel.seals": "Sealing",
}
_SUBMODULES: Final = frozenset({"commands", "errors", "journal", "reports", "resources", "sagas"})
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # or a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for."""
        if name == "__version__":
            value: Any = _version()
        elif name in _SUBMODULES:
            value = import_module(f".{name}", __name__)
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name], __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("holdkit")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0"
