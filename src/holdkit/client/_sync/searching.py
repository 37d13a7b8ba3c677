# Generated from ../_async/searching.py by tools/gen_sync.py: do not edit.
"""Reads over HTTP that search: holds, the journal in both directions, the names of entities and accounts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...core.model import Slot, State
from ...core.pages import Page
from ...core.validation import flag
from ...kernel.journal import Tenants, of_all
from ...kernel.normalise import moment
from ...kernel.results import Hold
from ...wire.journal import EntryAnswer
from ..answers import read_entries, read_holds, read_names, row_from
from .transport import RemoteCalls, no_transaction


class RemoteSearches(RemoteCalls):
    """The reads that search."""

    def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        actor: str | None = None,
        account: str | None = None,
        placed_from: datetime | Slot | None = None,
        placed_to: datetime | Slot | None = None,
        newest_first: bool = False,
        after: str = "",
        before: str = "",
        limit: int = 100,
        tx: Any = None,
    ) -> Page[Hold]:
        """Holds in order of id, or in the opposite order; for the next page pass `reached` as `after`, as long as there are `more`.
        With `before` the page ends in front of an id."""
        no_transaction(tx)
        flag(newest_first, "newest_first")
        found: list[Hold] = []
        while True:
            page = read_holds((self._get(
                "/v1/holds", pool=pool, state=state, entity=entity, actor=actor, account=account,
                placed_from=moment(placed_from, "placed_from"), placed_to=moment(placed_to, "placed_to"),
                order="newest" if newest_first else None, after=after or None, before=before or None, limit=limit - len(found),
            )).content)  # fmt: skip
            found += [Hold(row_from(one)) for one in page.items]
            # A page may be short because its documents are large. One that is empty was a long search: the caller decides on the next.
            if page.next is None or not page.items or before or len(found) >= limit:
                return Page(found, more=page.next is not None, reached=page.next)
            after = page.next

    def entities(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[str]:
        """Names of the entities that holds were placed or confirmed for, in order."""
        no_transaction(tx)
        return self._pages("/v1/entities", read_names, limit, after=after, prefix=prefix)

    def accounts(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[str]:
        """Names of the accounts that use anything of a pool, in order."""
        no_transaction(tx)
        return self._pages("/v1/accounts", read_names, limit, after=after, prefix=prefix)

    def search_journal(
        self,
        *,
        action: str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 100,
        tenant: Tenants = None,
    ) -> Page[EntryAnswer]:
        """Entries that fit, newest first, or oldest first after a cursor; for the next page pass `reached` in the same direction, as
        long as there are `more`. Raises `CursorLost`."""
        page = read_entries((self._get(
            "/v1/journal", action=action, subject=subject, actor=actor, correlation_id=correlation_id, before=before,
            after=after, limit=limit, all_tenants=True if of_all(tenant) else None,
            order="newest" if after is None else None,
        )).content)  # fmt: skip
        return Page(page.items, more=page.more, reached=page.next)
