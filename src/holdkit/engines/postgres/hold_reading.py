"""Reads of holds, as scripts: single holds in their current state, and lists of those that fit (`core/searching.py`).

A list is one or two walks along a stored order: of all ids in each lane, of the holds of an entity or an account, or of the ids that carry
no time. A walk returns the ids that may fit; these holds are then read as a whole. If a pool has few live holds, its outstanding legs lead
to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ...core.hold_columns import hold_of
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import LIVE, State, StoredHold
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
from .database import BatchOptions, load_limits
from .driver import Row, Script
from .in_doubt import find_settled
from .rows import DIGITS, HOLD_COLUMNS, hold_keys, is_id, pool_keys


def query_one(name: str, parameters: Sequence[Any] = ()) -> Script[list[Row]]:
    """Return one statement's rows."""
    (rows,) = yield ((name, parameters),)
    return rows


def find_hold(options: BatchOptions, query: FindHold) -> Script[StoredHold | None]:
    """Return one hold in its current state: at the latest of the clock and its pools' last slots."""
    tenant, hold_id = query.key
    if not is_id(hold_id):
        return None
    lane = lane_of_hold(hold_id, options.lanes)
    rows = yield from find_settled(options, lane, "read_hold", (options.slot, lane, tenant, hold_id))
    return (yield from as_shown(options, rows))[0] if rows else None


def find_holds(options: BatchOptions, query: FindHolds) -> Script[list[StoredHold | None]]:
    """Return several holds, in the order of the query."""
    wanted = sorted({key for key in query.keys if is_id(key[1])})
    if not wanted:
        return [None] * len(query.keys)
    rows = yield from query_one("read_holds_by_id", (options.slot, *hold_keys(wanted, options.lanes)))
    found = {hold.key: hold for hold in (yield from as_shown(options, rows)) if hold is not None}
    return [found.get(key) for key in query.keys]


def as_shown(options: BatchOptions, rows: Sequence[Row]) -> Script[list[StoredHold | None]]:
    """Return each hold in its current state. With distributed tables a hold's lane does not have the slots of its pools in other lanes, so
    those are read too."""
    limits = options.limits
    if any((row[HOLD_COLUMNS + 1] or 0) != limits.version for row in rows):
        limits = yield from load_limits(options)
    holds = [hold_of(row) for row in rows]
    slots = [row[HOLD_COLUMNS] for row in rows]
    if options.distributed:
        for index, hold in enumerate(holds):
            home = lane_of_hold(hold.id, options.lanes)
            pools = [(hold.tenant, name) for name in hold.pools]
            elsewhere = [pool for pool in pools if lane_of_pool(pool, options.lanes) != home]
            found = (yield from query_one("read_slots", pool_keys(elsewhere, options.lanes))) if elsewhere else []
            slots[index] = max([slots[index], *(slot for (slot,) in found if slot is not None)])
    return [seen_hold(hold, limits, slot) for hold, slot in zip(holds, slots, strict=True)]


def count_ahead(options: BatchOptions, query: CountAhead) -> Script[int | None]:
    """Return how many holds are before a hold in its line; None if it does not wait."""
    hold = yield from find_hold(options, FindHold(query.key))
    if hold is None or hold.state is not State.WAITING:
        return None
    pool = (hold.tenant, hold.legs[0].pool)
    place = (lane_of_pool(pool, options.lanes), *pool, hold.number, query.limit)
    ((ahead,),) = yield from query_one("count_ahead", (options.slot, *place))
    found: int = ahead
    return found


def list_line(options: BatchOptions, query: ListLine) -> Script[Page[StoredHold]]:
    """Return a page of the holds that wait in a line."""
    tenant, pool = query.key
    place = (lane_of_pool(query.key, options.lanes), tenant, pool, query.after, query.limit)
    rows = yield from query_one("read_line", (options.slot, *place))
    holds = yield from find_holds(options, FindHolds(tuple((tenant, id) for (id,) in rows)))
    return line_page(holds, query)


def list_holds(options: BatchOptions, query: ListHolds) -> Script[Page[StoredHold]]:
    """Return a page of the holds that fit in their current state, by id."""
    found: Page[StoredHold] = Page()
    walked = Walked(())
    for span in spans(query):
        walked = (yield from _by_legs(options, query)) or (yield from _walk_all(query, span))
        ids = list(walked.ids)
        for begin in range(0, len(ids), AT_ONCE):
            keys = tuple((query.tenant, id) for id in ids[begin : begin + AT_ONCE])
            holds = yield from find_holds(options, FindHolds(keys))
            shown = [hold for hold in holds if hold is not None and fits_hold(hold, query)]
            found = page_of([*found, *shown], hold_bytes, query.limit, query.max_bytes)
            if found.more:
                return reached(found, None)
        if walked.end is None:
            break
        query = structs.replace(query, after=walked.end)
    return reached(found, walked.end)


def _by_legs(options: BatchOptions, query: ListHolds) -> Script[Walked | None]:
    """Return the live holds of a pool, found by its outstanding legs; None if it has more than `FEW`, or if they cannot answer the
    query."""
    if query.pool is None or query.state not in LIVE:
        return None
    lane = lane_of_pool((query.tenant, query.pool), options.lanes)
    rows = yield from query_one("read_legs_of_pool", (lane, query.tenant, query.pool, FEW + 1))
    left = ids_left(query)
    if len(rows) > FEW:
        return None
    return Walked(sorted((id for (id,) in rows if left.has(id)), reverse=query.newest_first))


def _walk_all(query: ListHolds, span: int) -> Script[Walked]:
    """Join the walks that together pass every hold that may fit."""
    minted, left = ids_minted(query), ids_left(query)
    if query.entity is not None:
        walks = [("walk_holds_of_entity", left)]
    elif query.account is not None:
        walks = [("walk_holds_of_account", left)]
    elif minted is None:
        walks = [("walk_holds", left)]
    else:
        walks = [("walk_holds", left.meets(minted)), ("walk_chosen_holds", left)]
    found: list[Walked] = []
    for name, ids in walks:
        found += yield from _walk(query, name, ids, span)
    return joined(found, newest_first=query.newest_first)


def _walk(query: ListHolds, name: str, ids: IdRange, span: int) -> Script[list[Walked]]:
    """Return the next ids of one walk, up to `span` of each lane."""
    lower, upper = _first_from(ids.lower), _last_before(ids.upper)
    if lower is None or upper is None or lower > upper:
        return []
    state = query.state and query.state.value
    fitting = (state, query.entity, query.actor, query.account, query.pool)
    back = "_back" if query.newest_first else ""
    within = [*query.within] if query.within else None
    rows = yield from query_one(name + back, (query.tenant, lower, upper, *fitting, span, within))
    return [Walked([id for id, fits, _ in rows if fits]), *(Walked((), id) for id, _, last in rows if last)]


def _first_from(text: str) -> str | None:
    """Return the first id that is not before a text; None if there is none."""
    return text if is_id(text) else first_id_after(text)


def _last_before(text: str | None) -> str | None:
    """Return the last id before a text, or the last of all; None if there is none."""
    if text is None:
        return "f" * 32
    first = _first_from(text)
    number = 1 << 128 if first is None else int(first, 16)
    return f"{number - 1:032x}" if number else None


def list_entities(_: BatchOptions, query: ListEntities) -> Script[list[str]]:
    """Return a page of the entities of holds."""
    return (yield from _names("read_entities", query))


def list_accounts(_: BatchOptions, query: ListAccounts) -> Script[list[str]]:
    """Return a page of the accounts that use any units."""
    return (yield from _names("read_accounts", query))


def _names(name: str, query: ListEntities | ListAccounts) -> Script[list[str]]:
    page = (query.tenant, query.after, query.prefix, beyond(query.prefix), query.limit)
    rows = yield from query_one(name, page)
    return sorted({found for (found,) in rows})[: query.limit]


def first_id_after(text: str) -> str | None:
    """Return the first possible id after a text, which need not be an id itself; None if there is none."""
    digits = ""
    for letter in text[:32]:
        if letter not in DIGITS:
            later = [digit for digit in DIGITS if digit > letter]
            if later:
                return (digits + later[0]).ljust(32, "0")
            break
        digits += letter
    else:
        if len(text) < 32:
            return digits.ljust(32, "0")
    number = (int(digits or "0", 16) + 1) << 4 * (32 - len(digits))
    return f"{number:032x}" if digits and number < 1 << 128 else None
