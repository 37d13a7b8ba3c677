# Generated from ../_async/searching.py by tools/gen_sync.py: do not edit.
"""Reads that search: holds by what is known of them, the journal in both directions, and the names of entities and accounts.

One call looks at a bounded number of rows. A page that ends there is not full, perhaps empty, and still has `more`; `reached` is where
the next one begins (see `holdkit.core.searching`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...core.entries import Action
from ...core.model import MAX_SLOT, Slot, State
from ...core.pages import Page
from ...core.personal import text_digest
from ...core.reading import FindEntries, ListHolds, ReadGeneration
from ...core.searching import FoundEntries, ListAccounts, ListEntities, SearchJournal
from ...core.validation import flag, invalid, text, whole
from ...core.values import MAX_ENTITY
from ..journal import JournalEntry, Positions, Tenants, decode_cursor, encode_cursor, journal_entries, visible, whose
from ..normalise import moment
from ..results import Hold
from .executor import Executor
from .following import Follower


class Searches:
    """The reads of one tenant that search."""

    def __init__(self, executor: Executor, tenant: str = "") -> None:
        self._executor, self._tenant = executor, tenant
        if tenant:
            text(tenant, "tenant", 64)

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
        """Holds that fit, in order of id (which for minted ids is the order of birth), or in the opposite order.

        For the next page give `reached` of this one as `after`, as long as it has `more`: one call looks at a bounded number of holds,
        so a page may be empty although more follow. With `before` the page ends in front of an id; then `more` and `reached` tell of
        the pages before it. A hold counts as placed at the time that its id carries, if it was minted; otherwise when it was granted
        or joined a line. `placed_to` is the first moment that is too late.
        """
        whole(limit, "limit", 1, 1_000)
        flag(newest_first, "newest_first")
        if state is not None and state not in list(State):
            raise invalid("state", "state_unknown", f"must be one of {', '.join(State)}")
        for field, value in (("pool", pool), ("entity", entity), ("actor", actor), ("account", account)):
            if value is not None:
                text(value, field, 512)
        check_after(after, "after")
        check_after(before, "before")
        if after and before:
            raise invalid("before", "before_ambiguous", "give either after or before, not both")
        query = ListHolds(
            self._tenant, pool, None if state is None else State(state), entity, before or after, limit,
            self._executor.page_bytes, actor, account, _slot(placed_from, "placed_from"),
            _slot(placed_to, "placed_to"), newest_first is not bool(before), within=self._executor.within,
        )  # fmt: skip
        rows = self._executor.read(query, tx)
        found = reversed(rows) if before else rows
        return Page(map(Hold, found), more=rows.more, size=rows.size, reached=rows.reached)

    def entities(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[str]:
        """Names of the entities that holds were placed or confirmed for, in order; give the last one as `after` for the next page."""
        _names(prefix, after, limit)
        return self._executor.read(ListEntities(self._tenant, prefix, after, limit), tx)

    def accounts(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[str]:
        """Names of the accounts that use anything of a pool, in order; give the last one as `after` for the next page."""
        _names(prefix, after, limit)
        return self._executor.read(ListAccounts(self._tenant, prefix, after, limit), tx)

    def journal(
        self,
        *,
        after: str | None = None,
        limit: int = 1_000,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> Page[JournalEntry]:
        """Up to `limit` entries in order, behind a cursor (the `cursor` of an entry); none only at the end. `tenant=ALL`:
        of all tenants. `include_reserved`: with the changes of a server's API keys, tenants and webhooks, but not what their
        records say.

        Raises `CursorLost` if the journal was cut back, or what follows the cursor in any lane was archived.
        """
        whole(limit, "limit", 1, 10_000)
        flag(include_reserved, "include_reserved")
        follower = Follower(self._executor, whose(tenant, self._tenant), include_reserved=include_reserved)
        return read_page(follower, after, limit)

    def search_journal(
        self,
        *,
        action: Action | str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 100,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> Page[JournalEntry]:
        """Entries that fit, newest first, back from the end of the journal or from a cursor (`before`); or oldest first, behind a
        cursor (`after`).

        A cursor is a place between entries, so the same one leads in both directions. For the next page give `reached` of this one,
        in the same direction, as long as it has `more`: one call searches a bounded part of the journal, so a page may be empty
        although more follow. Entries of different lanes are in order of time as far as one call has searched. Raises `CursorLost` if
        the journal was cut back. `include_reserved` as in `journal`.
        """
        whole(limit, "limit", 1, 1_000)
        flag(include_reserved, "include_reserved")
        if action is not None and action not in list(Action):
            raise invalid("action", "action_unknown", f"must be one of {', '.join(Action)}")
        for field, value, most in (
            ("subject", subject, 600),
            ("actor", actor, 512),
            ("correlation_id", correlation_id, 512),
        ):
            if value is not None:
                text(value, field, most)
        if after is not None and before is not None:
            raise invalid("before", "before_ambiguous", "give either after or before, not both")
        cursor = before if after is None else after
        owner = whose(tenant, self._tenant)
        Follower(self._executor, owner).begin(cursor, reads_on=after is not None)  # is what it saw still there?
        start = None if cursor is None else {lane: seq for lane, (seq, _) in decode_cursor(cursor).items()}
        wanted = None if action is None else Action(action)
        query = SearchJournal(
            owner, start, after is None, wanted, subject, actor, correlation_id, limit, self._executor.page_bytes
        )
        return self._found(query, self._executor.read(query), cursor, include_reserved)

    def _found(
        self, query: SearchJournal, found: FoundEntries, cursor: str | None, include_reserved: bool
    ) -> Page[JournalEntry]:
        """The entries of a search, each with the cursor behind it, in the order of the query."""
        generation = self._executor.read(ReadGeneration())
        reached = self._positions(found.reached)
        begins: Positions = reached if query.newest_first or cursor is None else decode_cursor(cursor)
        rows = found.rows[::-1] if query.newest_first else found.rows
        entries, _ = journal_entries(rows, begins, self._executor.now(), generation)
        shown = [*visible(entries, include_reserved)]
        return Page(
            reversed(shown) if query.newest_first else shown,
            more=found.rows.more, size=found.rows.size, reached=encode_cursor(reached, generation),
        )  # fmt: skip

    def _positions(self, numbers: Mapping[int, int]) -> dict[int, tuple[int, str]]:
        """These places in the journal, with the digests of the entries in front of them, as far as they are kept."""
        wanted = tuple((lane, seq) for lane, seq in numbers.items() if seq)
        rows = self._executor.read(FindEntries(wanted)) if wanted else []
        seen = {(row.lane, row.seq): text_digest(row.text) for row in rows}
        return {lane: (seq, seen.get((lane, seq), "")) for lane, seq in wanted}


def read_page(follower: Follower, after: str | None, limit: int) -> Page[JournalEntry]:
    """A page behind a cursor; empty only at the end."""
    follower.begin(after)
    while True:
        entries = follower.page(limit)
        if entries or follower.at_end:
            return entries


def check_after(value: object, field: str) -> None:
    """Check where a page begins: empty for the first one, else a text."""
    if value != "":
        text(value, field, 512)


def _names(prefix: str, after: str, limit: int) -> None:
    whole(limit, "limit", 1, 1_000)
    for value, field in ((prefix, "prefix"), (after, "after")):
        if value != "":
            text(value, field, MAX_ENTITY)


def _slot(value: datetime | Slot | None, field: str) -> Slot | None:
    """A moment as a slot, if one is given."""
    slot = moment(value, field)
    return None if slot is None else whole(slot, field, -MAX_SLOT, MAX_SLOT)
