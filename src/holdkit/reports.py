"""What reads and upkeep return: counts, differences, usage, and why a call was refused."""

from __future__ import annotations

from .core.audit_rows import Difference
from .core.outcomes import Reason, Shortfall
from .core.reading import AccountUsage
from .engines.durability import Durability, Standby
from .engines.lock_times import LockTimes
from .faces.allowances import Usage
from .faces.grid import Availability
from .kernel.archive import ArchiveReport
from .kernel.group_commit import Stats
from .kernel.limits import LimitsInForce
from .kernel.reports import RepairReport, StorageUsage, SweepReport, VerifyReport

__all__ = [
    "AccountUsage",
    "ArchiveReport",
    "Availability",
    "Difference",
    "Durability",
    "LimitsInForce",
    "LockTimes",
    "Reason",
    "RepairReport",
    "Shortfall",
    "Standby",
    "Stats",
    "StorageUsage",
    "SweepReport",
    "Usage",
    "VerifyReport",
]
