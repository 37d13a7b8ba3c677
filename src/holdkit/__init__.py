"""Holdkit: hold N units of something scarce until a deadline, then confirm or release.

import holdkit

hk = holdkit.connect("sqlite:///holds.db")
hk.create_pool("show:42", total=500)
hold = hk.hold("show:42", 2, ttl="5m")
hk.confirm(hold, entity="order:9")
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

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
from .core.model import HeldLeg, Leg, Pool, Record, State
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
    AlreadyReleased,
    BelowInUse,
    CursorLost,
    DeadlinePassed,
    EngineError,
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
    NotConfirmed,
    NotDue,
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
from .faces.keys import Item, items, key, units
from .faces.opening import connect, connect_async
from .faces.resources import Resource, ResourceHold, ResourcePool
from .faces.saga import Saga, SagaStep
from .faces.saga_records import RecoveryReport, SagaError, SagaRecord
from .faces.saga_steps import Phase
from .faces.seating import Seat
from .kernel.archive import ArchiveReport
from .kernel.context import Actor, ReleaseReason, context
from .kernel.follower_state import CursorFile, CursorStore
from .kernel.group_commit import Stats
from .kernel.journal import ALL
from .kernel.journal_archive import JournalArchive
from .kernel.limits import Limits, LimitsInForce
from .kernel.normalise import span
from .kernel.opening import migrate
from .kernel.results import Hold, JournalEntry, Position, RepairReport, SweepReport, VerifyReport, reconstruct
from .kernel.seals import Sealing

try:
    __version__ = version("holdkit")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"

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
    "NotConfirmed",
    "NotDue",
    "NotOwner",
    "OperationConflict",
    "OperationTableFull",
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
    "UnarchivePool",
    "Usage",
    "VerifyReport",
    "VersionConflict",
    "WindowClosed",
    "connect",
    "connect_async",
    "context",
    "items",
    "key",
    "migrate",
    "reconstruct",
    "span",
    "units",
]
