"""Queries about what has left the journal for an archive, and about the baseline that stands for it."""

from __future__ import annotations

from typing import ClassVar

from .audit_rows import Difference
from .baseline import ArchivedLane, BaselineRow, KnownFile, RowKey
from .pages import Page
from .reading import Query


class FindArchived(Query[list[ArchivedLane]], frozen=True):
    """Find the last archived entry of each lane, in order of lane; omit lanes without archived entries. A follower shows a lane's
    baseline only with this answer: rows of the baseline belong to exactly one."""

    shown: ClassVar[bool] = True


class ReadBaseline(Query[Page[BaselineRow]], frozen=True):
    """Rows of a lane's baseline in the order of `KINDS` and keys, behind one of them (None: from the beginning), of one tenant or of
    all. Empty if the lane is not archived through exactly this entry any more: then the rows are others."""

    tenant: str | None
    lane: int
    through: int
    after: RowKey | None = None
    limit: int = 1_000


class ReadRewritten(Query[dict[int, str]], frozen=True):
    """A lane's archived entries that an erasure has rewritten and whose files do not have them yet: text by number. Empty unless an
    erasure is under way, or was interrupted."""

    lane: int


class FindKnownFiles(Query[dict[int, KnownFile]], frozen=True):
    """The files of a lane's archive that the database knows, by the number of their first entry. Releases from before there were such
    records have written files that it does not know."""

    lane: int


class CheckBaselines(Query[list[Difference]], frozen=True):
    """Check the rows of the baselines by themselves, as they are at one moment; return at most `limit` differences."""

    limit: int = 10
