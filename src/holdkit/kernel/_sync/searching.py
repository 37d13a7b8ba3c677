# Generated from ../_async/searching.py by tools/gen_sync.py: do not edit.
"""Reads that search: holds by their fields, the journal in both directions, and the names of entities and accounts.

One call looks at a bounded number of rows. A page that ends there is not full, perhaps empty, and still has `more`; `reached` is where
the next one begins (see `holdkit.core.searching`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...core.model import MAX_SLOT, Slot, State
from ...core.reading import ListHolds
from ...core.validation import flag, invalid, text, whole
from ...core.values import MAX_ENTITY
from ..pages import Page
from ..results import Hold
from ..times import moment
from .executor import Executor


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
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        tx: Any = None,
    ) -> Page[Hold]:
        """Holds that fit, in order of id (which for minted ids is the order of birth), or in the opposite order.

        To read the next page, pass `next` as `after`: one call looks at a bounded number of holds, so a page may be empty and have a
        `next`. With `before` the page ends in front of an id, and its `next` is the `before` of the page in front of it. A hold counts as placed at the time that its id carries, if it was minted; otherwise when it was granted
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
            self._tenant, pool, None if state is None else State(state), entity, before or after or "", limit,
            self._executor.page_bytes, actor, account, _slot(placed_from, "placed_from"),
            _slot(placed_to, "placed_to"), newest_first is not bool(before), within=self._executor.within,
        )  # fmt: skip
        rows = self._executor.read(query, tx)
        found = reversed(rows) if before else rows
        return Page(map(Hold, found), next=rows.reached if rows.more else None)


def check_after(value: object, field: str) -> None:
    """Check where a page begins: None or empty for the first one, else a text."""
    if value is not None and value != "":
        text(value, field, 512)


def number_of(after: object) -> int:
    """Return the number in a line behind which a page begins."""
    if after is None or after == "":
        return 0
    if not isinstance(after, str) or not after.isascii() or not after.isdigit() or len(after) > 19:
        raise invalid("after", "after_malformed", "must be the `next` of a page of the line")
    return whole(int(after), "after", 0, MAX_SLOT)


def check_names(prefix: str, after: str | None, limit: int) -> None:
    """Check the arguments of a list of names."""
    whole(limit, "limit", 1, 1_000)
    for value, field in ((prefix, "prefix"), ("" if after is None else after, "after")):
        if value != "":
            text(value, field, MAX_ENTITY)


def _slot(value: datetime | Slot | None, field: str) -> Slot | None:
    """Return a moment as a slot, if one is given."""
    slot = moment(value, field)
    return None if slot is None else whole(slot, field, -MAX_SLOT, MAX_SLOT)
