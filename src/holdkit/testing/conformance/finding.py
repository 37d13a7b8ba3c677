"""Checks of searches: what is found is what fits, in order, in both directions, however little one query may look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import structs

from ...core.codec import minted_id
from ...core.commands import ConfirmHold, CreatePool, ReleaseHold
from ...core.entries import Action
from ...core.model import Leg, State, StoredHold
from ...core.reading import JournalRow, ListHolds, ReadJournal, entry_of
from ...core.searching import ListAccounts, ListEntities, SearchJournal, fits_entry, fits_hold
from .harness import START, TOKEN, Harness, hold_id, joining, placing, require, require_equal

POOLS: Final = ("a", "b", "b//c")
MINUTE: Final = 60_000_000


def _id(number: int) -> str:
    """Return an id: every third one as a caller would choose it, the others as minted a minute apart, from long before the start."""
    return hold_id(number) if number % 3 == 0 else minted_id(number * MINUTE, number.to_bytes(10))


def _fill(harness: Harness) -> list[str]:
    """Create holds in every state, for some entities, accounts and actors."""
    for pool in POOLS:
        harness.done(CreatePool(id=pool, total=1_000))
    harness.done(CreatePool(id="full", total=1))
    harness.done(placing(99, "full", ttl=10_000))
    ids = [_id(number) for number in range(40)]
    for number, id in enumerate(ids):
        fields: dict[str, Any] = {"actor": f"user:{number % 4}"} if number % 2 else {}
        if number % 5 == 0:
            fields["account"] = f"customer:{number % 2}"
        if number % 3 == 1:
            fields["entity"] = f"order:{number % 2}"
        if number % 8 == 7:
            harness.done(structs.replace(joining(0, "full"), id=id, **fields))
            continue
        legs = [Leg(POOLS[number % 3], 1), Leg("a", 1)] if number % 3 else [Leg("a", 1)]
        plain = placing(0, legs, ttl=10 + number, correlation_id=f"request {number % 6}")
        harness.done(structs.replace(plain, id=id, **fields))
        if number % 4 == 1:
            harness.done(ConfirmHold(id=id, token=TOKEN, actor="job:confirm"))
        elif number % 4 == 2:
            harness.done(ReleaseHold(id=id, token=TOKEN))
    harness.clock.set(START + 30)
    return [*ids, hold_id(99)]


_FILTERS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    *({"pool": pool} for pool in (*POOLS, "full")),
    *({"state": state} for state in State),
    *({"pool": "b//c", "state": state} for state in State),
    {"pool": "full", "state": State.WAITING},
    {"entity": "order:1"},
    {"entity": "order:0", "state": State.HELD, "actor": "user:3"},
    {"actor": "user:3"},
    {"account": "customer:1"},
    {"account": "customer:0", "pool": "a"},
    {"placed_from": 10 * MINUTE, "placed_to": 20 * MINUTE},
    {"placed_to": 10 * MINUTE - 1},
    {"placed_from": 30 * MINUTE + 1, "placed_to": START + 1},
    {"placed_from": START, "state": State.EXPIRED},
    {"placed_from": START + 1},
    {"placed_to": -1},
    {"placed_from": 2**62},
    {"entity": "order:1", "placed_from": 10 * MINUTE},
    *({"within": prefixes} for prefixes in (("a",), ("b",), ("a", "b//"), ("full",), ("b", "ful", "a"))),
    {"within": ("b", "a"), "state": State.CONFIRMED},
    {"within": ("a",), "entity": "order:1"},
    {"within": ("a",), "account": "customer:0"},
    {"within": ("a", "b"), "placed_from": 10 * MINUTE},
    {"actor": "nobody"},
)


def holds_are_found(harness: Harness) -> None:
    """A list of holds has all that fit and no others, in order of id from either end, wherever its pages end."""
    ids = _fill(harness)
    everything = harness.engine.read(ListHolds(""))
    require_equal([hold.id for hold in everything], sorted(ids), "all holds, in order")
    require({hold.state for hold in everything} == set(State), "there are holds in every state")
    some = 0
    sizes = ((100, 20_000), (1, 4), (3, 20_000), (100, 7))
    for number, filters in enumerate(_FILTERS):
        wanted = [hold.id for hold in everything if fits_hold(hold, ListHolds("", **filters))]
        some += bool(wanted)
        for backward in (False, True):
            expected = wanted[::-1] if backward else wanted
            for limit, scanned in sizes[(number + backward) % 2 :: 2]:
                found = _pages(harness, {**filters, "newest_first": backward, "limit": limit, "max_scanned": scanned})
                require_equal(found, expected, f"holds with {filters}, newest first: {backward}, {limit} of {scanned}")
    require(some > 20, "most of these filters find something")
    require_equal(harness.engine.read(ListHolds("stranger", actor="user:3")), [], "holds of another tenant")
    harness.verify()


def _pages(harness: Harness, query: Mapping[str, Any]) -> list[str]:
    """Return all pages of a list, one after the other."""
    found: list[StoredHold] = []
    after, most = "", 500
    while True:
        page = harness.engine.read(ListHolds("", after=after, **query))
        require(len(page) <= query["limit"], "no page has more than its limit")
        found += page
        if not page.more:
            return [hold.id for hold in found]
        most -= 1
        onwards = page.reached is not None and page.reached != after and most > 0
        require(onwards, "each page goes on from where the last one ended")
        after = page.reached or ""


def entries_are_found(harness: Harness) -> None:
    """A search of the journal finds every entry that matches, from either end, and continues where the last page ended."""
    _fill(harness)
    everything = harness.engine.read(ReadJournal("", limit=10_000))
    subject = next(entry_of(row).subject for row in everything if entry_of(row).action is Action.HOLD_CONFIRMED)
    harness.done(CreatePool(id="theirs", total=1, tenant="stranger", actor="user:3"))
    searches: list[Mapping[str, Any]] = [
        {},
        {"subject": subject},
        {"subject": subject, "action": Action.HOLD_CONFIRMED},
    ]
    searches += [{"action": action} for action in (Action.HOLD_HELD, Action.POOL_CREATED, Action.HOLD_EXPIRED)]
    searches += [{"actor": actor} for actor in ("user:3", "job:confirm", "system", "nobody")]
    searches += [{"correlation_id": "request 4"}, {"correlation_id": "request 4", "action": Action.HOLD_RELEASED}]
    sizes = ((1_000, 20_000), (2, 11), (3, 20_000), (100, 5))
    for number, filters in enumerate(searches):
        wanted = _places(row for row in everything if fits_entry(entry_of(row), SearchJournal("", **filters)))
        for backward in (True, False):
            for limit, scanned in sizes[(number + backward) % 2 :: 2]:
                query = {**filters, "newest_first": backward, "limit": limit, "max_scanned": scanned}
                found = _searched(harness, query)
                if harness.engine.lanes == 1:
                    require_equal(_places(found), wanted[::-1] if backward else wanted, f"entries with {query}")
                require_equal(sorted(_places(found)), sorted(wanted), f"entries with {query}, in any order")
                for lane in {row.lane for row in found}:
                    its = [row.seq for row in found if row.lane == lane]
                    require_equal(its, sorted(its, reverse=backward), f"the entries of lane {lane}, in order")
    theirs = harness.engine.read(SearchJournal(None, actor="user:3", action=Action.POOL_CREATED)).rows
    require_equal([entry_of(row).tenant for row in theirs], ["stranger"], "entries of all tenants")


def _places(rows: Iterable[JournalRow]) -> list[tuple[int, int]]:
    return [(row.lane, row.seq) for row in rows]


def _searched(harness: Harness, query: Mapping[str, Any]) -> list[JournalRow]:
    """Return all pages of a search, one after the other."""
    found: list[JournalRow] = []
    start: Mapping[int, int] | None = None
    for _ in range(2_000):
        answer = harness.engine.read(SearchJournal("", start, **query))
        found += answer.rows
        if not answer.rows.more:
            return found
        require(answer.reached != start, "each page goes on from where the last one ended")
        start = answer.reached
    require(False, "the search comes to an end")
    return found


def names_are_found(harness: Harness) -> None:
    """Entities and accounts are listed in order, each once, by prefix, for their own tenant."""
    _fill(harness)
    harness.done(placing(90, "a", entity="order:%", account="customer:_"))
    require_equal(harness.engine.read(ListEntities("")), ["order:%", "order:0", "order:1"], "entities")
    require_equal(harness.engine.read(ListEntities("", "order:", "order:%", 1)), ["order:0"], "a page of entities")
    require_equal(harness.engine.read(ListEntities("", "order:1")), ["order:1"], "an entity by its name")
    require_equal(harness.engine.read(ListEntities("", "ord%")), [], "a pattern is none")
    require_equal(
        harness.engine.read(ListAccounts("", "customer:")), ["customer:0", "customer:1", "customer:_"], "accounts"
    )
    require_equal(harness.engine.read(ListAccounts("", "", "customer:0", 1)), ["customer:1"], "a page of accounts")
    require_equal(harness.engine.read(ListEntities("stranger")), [], "entities of another tenant")
    require_equal(harness.engine.read(ListAccounts("stranger")), [], "accounts of another tenant")


CHECKS: Final = (holds_are_found, entries_are_found, names_are_found)
