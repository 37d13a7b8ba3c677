# Generated from ../_async/reads.py by tools/gen_sync.py: do not edit.
"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing.

Those of pools, holds and records take `tx=`: asked in a caller's transaction, they see what that has not committed yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from ...core.commands import Command
from ...core.fold import reconstruct as fold_history
from ...core.ladders.finding import missing
from ...core.model import Pool, Record, Slot, State
from ...core.outcomes import Reason, Refusal
from ...core.reading import (
    FindHold,
    FindPool,
    FindRecord,
    ListHolds,
    ListPools,
    ListRecords,
    ListTenants,
    expired_at,
)
from ...core.validation import flag, hold_id, invalid, pool_id, text, whole
from ...engines.metering import Progress
from ..answers import refusal_of
from ..journal import JournalEntry
from ..normalise import moment, reference
from ..results import Hold, RepairReport, VerifyReport
from ..tenants import unbound
from .calls import Call
from .journal import Journal


class Reads(Journal):
    """Everything that only looks."""

    def pool(self, id: str, *, tx: Any = None) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        pool_id(id, "id", faces=True)
        found = self._executor.read(FindPool((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(Refusal(Reason.POOL_NOT_FOUND, id))
        return found

    def pools(
        self, prefix: str = "", *, archived: bool = False, after: str = "", limit: int = 100, tx: Any = None
    ) -> list[Pool]:
        """Pools in order of id, those that are archived only if asked for; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        flag(archived, "archived")
        _place(prefix, "prefix")
        _place(after, "after")
        return self._executor.read(ListPools(self._tenant, prefix, after, limit, archived=archived), tx)

    def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        hold_id(id)
        found = self._executor.read(FindHold((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(missing(id, self._executor.stored_limits(), self._executor.now()))
        return Hold(found)

    def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        after: str = "",
        limit: int = 100,
        tx: Any = None,
    ) -> list[Hold]:
        """Holds in order of id (which for minted ids is the order of birth); give the last id as `after`."""
        whole(limit, "limit", 1, 1_000)
        if state is not None and state not in list(State):
            raise invalid("state", "state_unknown", f"must be one of {', '.join(State)}")
        for field, value in (("pool", pool), ("entity", entity)):
            if value is not None:
                text(value, field, 512)
        _place(after, "after")
        wanted = None if state is None else State(state)
        query = ListHolds(self._tenant, pool, wanted, entity, after, limit)
        return [Hold(row) for row in self._executor.read(query, tx)]

    def record(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """One record, or None."""
        return self._executor.read(FindRecord((self._tenant, text(kind, "kind", 64), text(id, "id", 512))), tx)

    def records(self, kind: str, *, after: str = "", limit: int = 100, tx: Any = None) -> list[Record]:
        """Records of a kind in order of id."""
        whole(limit, "limit", 1, 1_000)
        _place(after, "after")
        return self._executor.read(ListRecords(self._tenant, text(kind, "kind", 64), after, limit), tx)

    def tenants(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Names of the tenants that have pools, in order; give the last one as `after` for the next page. The default tenant
        has no name, and is not listed. On a kernel without a tenant only."""
        unbound(self._tenant)
        whole(limit, "limit", 1, 1_000)
        _place(after, "after")
        return self._executor.read(ListTenants(after, limit))

    def verify(self, *, progress: Progress | None = None) -> VerifyReport:
        """Fold the whole journal and compare it with every stored row; names each difference, changes nothing.

        `progress(done, total)` is called now and then, from the thread that does it. Memory is bounded, however long the
        journal: what does not fit is on disk meanwhile, in a temporary file.
        """
        return self._executor.run_blocking(lambda: VerifyReport(tuple(self._executor.engine.verify(progress))))

    def repair(self, *, dry_run: bool = True, progress: Progress | None = None, **call: Unpack[Call]) -> RepairReport:
        """Make every row again what the journal says, of all tenants; each pool that is mended gets an entry
        `pool.repaired`. Only with `dry_run=False`; every writer waits meanwhile.

        If the journal itself is damaged nothing is touched. Memory and log have no rows beside their journal to mend. Memory
        and `progress` are as with `verify`.
        """
        engine = self._executor.engine
        if call.get("tx") is not None or call.get("op") is not None:
            raise invalid(
                "call", "argument_unknown", "a repair takes neither tx nor op: it is a transaction of its own"
            )
        if type(dry_run) is not bool:
            raise invalid("dry_run", "dry_run_not_boolean", "must be True or False")
        repairable = engine.capabilities.repair
        if repairable is None:
            raise invalid(
                "url", "repair_unsupported", "this engine's state is its folded journal: there is nothing to mend"
            )
        command = Command(**self._frame(call))
        found = self._executor.run_blocking(lambda: repairable.repair(command, dry_run=dry_run, progress=progress))
        return RepairReport(found.mended, found.left, dry_run)


def _place(value: object, field: str) -> None:
    """Empty, for the beginning; else a text."""
    if value != "":
        text(value, field, 512)


def reconstruct(history: Iterable[JournalEntry], *, at: Slot | datetime | None = None) -> Hold | None:
    """Fold one hold's history to what it makes of the hold; None if its birth is not there.

    A hold whose deadline has come is expired, whether or not anybody has noticed: by the engine's clock when the history was
    read, or at the time that you say.
    """
    told = list(history)
    row = fold_history([item.entry for item in told])
    if row is None:
        return None
    now = max(max(item.as_of, item.slot) for item in told) if at is None else moment(at, "at")
    return Hold(expired_at(row, now))
