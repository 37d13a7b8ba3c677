"""Reports: what a sweep, a check, a repair and a count return."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..core.audit_rows import Difference
from .one_line import line, summary


class SweepReport(Struct, frozen=True):
    """What one sweep did: `holds` names the holds that it expired, in order of (deadline, id), at most the sweep's limit, and
    `tenants` the tenant of each.

    A kernel that is bound to a tenant counts and names the holds of that tenant only, even if others were expired too; a
    kernel without a tenant, those of all tenants. `more` is about all tenants in either case.
    """

    expired: int
    holds: tuple[str, ...]
    tenants: tuple[str, ...]
    scanned_at: datetime
    """When the sweep was decided."""
    more: bool

    def __repr__(self) -> str:
        return line("SweepReport", f"expired={self.expired}", "more" if self.more else None)


class VerifyReport(Struct, frozen=True):
    """The differences that `verify` found."""

    differences: tuple[Difference, ...]
    sealed: dict[int, int] = {}
    """By lane: the last entry that a seal covers. What is sealed was checked too; entries behind that can be changed unnoticed."""

    @property
    def ok(self) -> bool:
        """Whether the stored rows are exactly what the journal says, and the sealed entries what was sealed."""
        return not self.differences

    def __repr__(self) -> str:
        return line("VerifyReport", "ok" if self.ok else f"differences={len(self.differences)}")


class RepairReport(Struct, frozen=True):
    """What `repair` corrected, or would correct with `dry_run`, and what it cannot correct from the journal."""

    repaired: tuple[Difference, ...]
    left: tuple[Difference, ...]
    """What the journal cannot repair: restore a backup, or find out what changed it."""
    dry_run: bool

    @property
    def ok(self) -> bool:
        """Whether the stored rows are, by now, exactly what the journal says."""
        return not self.left and not (self.dry_run and self.repaired)

    __repr__ = summary


class StorageUsage(Struct, frozen=True, kw_only=True):
    """What one tenant has stored: rows by table, and their bytes.

    `bytes` counts the text of all columns, and 100 for each row. With indexes and pages, SQLite needs about a tenth more on the
    disk, PostgreSQL about a third.
    """

    pools: int = 0
    holds: int = 0
    """Also ended ones, until their retention is over."""
    live_holds: int = 0
    """Of these, those that have not ended."""
    operations: int = 0
    """Answers that are kept for retries."""
    records: int = 0
    entries: int = 0
    """In the journal, which keeps them for good. (The memory engine's journal does not, and is not counted.)"""
    bytes: int = 0
    complete: bool = True
    """Whether the whole journal has been counted yet."""

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        return self.pools + self.holds + self.operations + self.records + self.entries

    __repr__ = summary
