"""Reads about holds: single ones as they look now, and lists of those that fit (`core/searching.py`).

Never shows a due leg as held, never writes, never waits for a writer. A list is one or two walks along an order that is stored: that of
all ids, that of an entity's or an account's, or that of the ids that carry no time. A walk reads a few columns of each hold; holds that
may fit are then read as a whole. The live holds of a pool that has few of them are found by its outstanding legs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from ...core.hold_columns import hold_of
from ...core.model import LIVE, Slot, State, StoredHold
from ...core.pages import Page, beyond, hold_bytes, page_of
from ...core.reading import CountAhead, FindHold, FindHolds, ListHolds
from ...core.searching import (
    AT_ONCE,
    FEW,
    IdRange,
    ListAccounts,
    ListEntities,
    ListLine,
    Walked,
    fits_hold,
    ids_left,
    ids_minted,
    joined,
    line_page,
    reached,
    spans,
)
from ...core.seen import seen_hold
from ..journal_search import written
from .driver import Row
from .pool_reading import BEHIND_ALL_TEXT, At, by_tenant, count_waiting_before
from .rows import BESIDE_HOLD, keys_json


def _slot(row: Row, at: At) -> Slot:
    """Return the latest of the clock and the last slots of a hold's pools."""
    of_its_legs, above_them = row[BESIDE_HOLD]
    return max(at.now, of_its_legs or at.now, above_them or at.now)


def _hold(row: Row, at: At) -> StoredHold | None:
    return seen_hold(hold_of(row), at.limits, _slot(row, at))


def find_hold(at: At, query: FindHold) -> StoredHold | None:
    """Return a hold as it looks now: at the latest of the clock and its pools' last slots."""
    rows = at.driver.ask("read_hold", query.key)
    return _hold(rows[0], at) if rows else None


def find_holds(at: At, query: FindHolds) -> list[StoredHold | None]:
    """Return several holds, in the order asked."""
    rows = [row for some in by_tenant(query.keys) for row in at.driver.ask("read_holds_by_id", some)]
    holds = [hold for row in rows if (hold := _hold(row, at)) is not None]
    by_key = {hold.key: hold for hold in holds}
    return [by_key.get(key) for key in query.keys]


def list_holds(at: At, query: ListHolds) -> Page[StoredHold]:
    """Return holds by id that fit as they show now."""
    found: Page[StoredHold] = Page()
    walked = Walked(())
    for span in spans(query):
        walked = _by_legs(at, query) or joined(_walks(at, query, span), newest_first=query.newest_first)
        found = page_of(_both(found, _fitting(at, query, walked)), hold_bytes, query.limit, query.max_bytes)
        if found.more or walked.end is None:
            break
        query = structs.replace(query, after=walked.end)
    return reached(found, walked.end)


def _both(first: list[StoredHold], second: Iterator[StoredHold]) -> Iterator[StoredHold]:
    yield from first
    yield from second


def _fitting(at: At, query: ListHolds, walked: Walked) -> Iterator[StoredHold]:
    """Yield the found holds that fit; read a few at a time, so that those behind a full page are not read."""
    ids = list(walked.ids)
    for begin in range(0, len(ids), AT_ONCE):
        keys = tuple((query.tenant, id) for id in ids[begin : begin + AT_ONCE])
        yield from (hold for hold in find_holds(at, FindHolds(keys)) if hold is not None and fits_hold(hold, query))


def _by_legs(at: At, query: ListHolds) -> Walked | None:
    """Walk the live holds of a pool by its outstanding legs, if it has few."""
    if query.pool is None or query.state not in LIVE:
        return None
    rows = at.driver.ask("read_legs_of_pool", (query.tenant, query.pool, FEW + 1))
    left = ids_left(query)
    return (
        None if len(rows) > FEW else Walked(sorted((id for (id,) in rows if left.has(id)), reverse=query.newest_first))
    )


def _walks(at: At, query: ListHolds, span: int) -> Iterator[Walked]:
    """Yield the walks that together pass every hold that may fit."""
    minted, left = ids_minted(query), ids_left(query)
    if query.entity is not None:
        yield _walk(at, query, "walk_holds_of_entity", left, span)
    elif query.account is not None:
        yield _walk(at, query, "walk_holds_of_account", left, span)
    elif minted is None:
        yield _walk(at, query, "walk_holds", left, span)
    else:
        yield _walk(at, query, "walk_holds", left.meets(minted), span)
        yield _walk(at, query, "walk_chosen_holds", left, span)


def _walk(at: At, query: ListHolds, name: str, ids: IdRange, span: int) -> Walked:
    """Return the next `span` ids of one walk."""
    parameters = {
        "tenant": query.tenant, "lower": ids.lower, "upper": BEHIND_ALL_TEXT if ids.upper is None else ids.upper,
        "state": query.state and query.state.value, "entity": query.entity, "actor": query.actor,
        "account": query.account, "pool": None if query.pool is None else written(query.pool), "most": span,
        "within": keys_json([written(prefix)[:-1] for prefix in query.within]) if query.within else None,
    }  # fmt: skip
    rows = at.driver.ask(name + "_back" if query.newest_first else name, parameters)
    return Walked([id for id, fits in rows if fits], rows[-1][0] if len(rows) == span else None)


def list_entities(at: At, query: ListEntities) -> list[str]:
    """Return a page of the entities of holds."""
    return [entity for (entity,) in at.driver.ask("read_entities", _names(query))]


def list_accounts(at: At, query: ListAccounts) -> list[str]:
    """Return a page of the accounts that use anything."""
    return [account for (account,) in at.driver.ask("read_accounts", _names(query))]


def _names(query: ListEntities | ListAccounts) -> dict[str, Any]:
    upper = beyond(query.prefix)
    return {"tenant": query.tenant, "lower": max(query.after, query.prefix), "after": query.after,
            "upper": BEHIND_ALL_TEXT if upper is None else upper, "limit": query.limit}  # fmt: skip


def count_ahead(at: At, query: CountAhead) -> int | None:
    """Count the holds in front of a hold; None if it does not wait."""
    rows = at.driver.ask("read_hold", query.key)
    hold = _hold(rows[0], at) if rows else None
    if hold is None or hold.state is not State.WAITING:
        return None
    return count_waiting_before(at, hold, _slot(rows[0], at), query.limit)


def list_line(at: At, query: ListLine) -> Page[StoredHold]:
    """Return the holds that wait in a line."""
    tenant, pool = query.key
    asked = {"tenant": tenant, "pool": pool, "after": query.after, "now": at.now, "limit": query.limit}
    keys = tuple((tenant, id) for (id,) in at.driver.ask("read_line", asked))
    return line_page(find_holds(at, FindHolds(keys)), query)
