"""The history of a pool: its own entries and those of the holds on it, in order, in pages; on every engine, sync and async."""

from __future__ import annotations

from typing import Any

import pytest

import holdkit
from holdkit.engines.memory import MemoryEngine
from tests.support.kernels import Store
from tests.support.modes import close_quietly


def told(entries: list[Any]) -> list[tuple[str, str]]:
    return [(str(entry.action), entry.subject) for entry in entries]


def paged(hk: Any, subject: Any, limit: int) -> list[Any]:
    """Page after page, until there is none."""
    found: list[Any] = []
    cursor = None
    while page := hk.journal.history(subject, after=cursor, limit=limit):
        assert len(page) <= limit
        found += page
        cursor = page[-1].cursor
    return found


def tour(hk: Any) -> list[tuple[str, str]]:
    """Two holds on show:4, one on others; what happened to show:4."""
    for pool in ("show:4", "show:42", "bar"):
        hk.create_pool(pool, 10)
    a = hk.hold({"show:4": 2, "bar": 1}, ttl=60)
    b = hk.hold("show:4", 1, ttl=60)
    c = hk.hold({"show:42": 1, "bar": 1}, ttl=60, metadata={"beside": "show:4"})
    hk.extend(b, by=60)
    hk.confirm(a)
    hk.confirm(c)
    hk.admin.resize_pool("show:4", 11)
    hk.admin.records.put("k", "x", '{"id":"show:4"}')
    hk.release(b)
    hk.return_units(a, quantity={"show:4": 1})
    return [
        ("pool.created", "show:4"),
        ("hold.held", a.id),
        ("hold.held", b.id),
        ("hold.confirmed", a.id),
        ("pool.resized", "show:4"),
        ("hold.released", b.id),
        ("hold.returned", a.id),
    ]


def test_it_has_the_holds_in_order_and_in_pages(store: Store) -> None:
    hk = store.open()
    happened = tour(hk)
    assert told(hk.journal.history("show:4")) == happened
    for limit in (1, 2, 3, 7):
        assert told(paged(hk, "show:4", limit)) == happened, limit
    numbers = [entry.raw.position.seq for entry in paged(hk, "show:4", 2)]
    assert numbers == sorted(set(numbers))
    hk.create_pool("fresh", 1)
    assert told(paged(hk, "fresh", 1)) == [("pool.created", "fresh")]
    assert paged(hk, "nobody", 2) == []


def test_a_pool_of_the_same_id_of_another_tenant_stays_apart(store: Store) -> None:
    hk = store.open()
    happened = tour(hk)
    other = hk.tenant("other")
    assert other.journal.history("show:4") == []
    other.create_pool("show:4", 1)
    hold = other.hold("show:4", 1, ttl=60)
    assert told(paged(other, "show:4", 1)) == [("pool.created", "show:4"), ("hold.held", hold.id)]
    assert told(paged(hk, "show:4", 2)) == happened


def test_it_goes_on_where_it_was_and_outlives_the_pool(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 1)
    cursor = hk.journal.history("p")[-1].cursor
    hold = hk.hold("p", ttl=60)
    store.clock.advance(60)
    hk.admin.remove_pool("p")
    later = [("hold.held", hold.id), ("hold.expired", hold.id), ("pool.removed", "p")]
    assert told(hk.journal.history("p", after=cursor)) == later
    assert told(paged(hk, "p", 2)) == [("pool.created", "p"), *later]


def test_a_hold_has_its_history_in_pages_too(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 1)
    hold = hk.hold("p", ttl=60)
    for _ in range(3):
        hk.extend(hold, by=1)
    story = hk.history(hold)
    assert story.next is None
    assert story.cursor == story[-1].cursor
    assert [str(entry.action) for entry in story] == ["hold.held", *["hold.extended"] * 3]
    assert holdkit.journal.reconstruct(story) == hk.get(hold)
    assert told(hk.history(hold, after=story[1].cursor)) == told(story[2:])
    assert hk.history(hold, after=story[-1].cursor) == []
    pages, after = [], None
    while page := hk.history(hold, after=after, limit=3):
        pages.append((len(page), page.next is not None))
        assert told(page) == told(story[: len(page)])
        story, after = story[len(page) :], page[-1].cursor
    assert pages == [(3, True), (1, False)]


@pytest.mark.parametrize(
    ("name", "bad"), [("limit", 0), ("limit", 10_001), ("limit", "2"), ("after", "x"), ("after", 7)]
)
def test_what_it_does_not_take(hk: Any, name: str, bad: object) -> None:
    with pytest.raises(holdkit.InvalidRequest) as refused:
        hk.journal.history("p", **{name: bad})
    assert refused.value.field == name


@pytest.mark.parametrize("lanes", [1, 8])
def test_what_a_callers_transaction_wrote_is_there_once(migrated: Any, lanes: int) -> None:
    import psycopg

    url = migrated(lanes=lanes)
    with holdkit.connect(url) as hk, psycopg.connect(url) as connection:
        happened = [("pool.created", "p")]
        for pool in ("p", "q", "r"):
            hk.create_pool(pool, 5)
        for _ in range(3):
            hold = hk.hold({"p": 1, "q": 1, "r": 1}, ttl=60, tx=connection)
            connection.commit()
            happened.append(("hold.held", hold.id))
            assert told(paged(hk, "p", 1)) == happened
        assert told(paged(hk, "q", 2))[1:] == happened[1:]
        assert len(paged(hk, happened[-1][1], 10)) == 1


def test_beyond_what_memory_keeps_it_begins_with_the_pool_as_it_was_then(mode: Any) -> None:
    hk = mode.open(MemoryEngine(journal=10))
    hk.create_pool("p", 5)
    hk.create_pool("q", 5)
    early = hk.journal.history("p")[0].cursor
    for pool in ("p", "q") * 6:
        hk.release(hk.hold(pool, ttl=60))
    entries = hk.journal.history("p")
    assert [str(entry.action) for entry in entries] == ["journal.baseline", *["hold.held", "hold.released"] * 2]
    assert told(paged(hk, "p", 1)) == told(entries)
    with pytest.raises(holdkit.errors.CursorLost):
        hk.journal.history("p", after=early)
    begun = hk.journal.history("p", limit=1)[0].cursor
    hk.release(hk.hold("q", ttl=60))
    with pytest.raises(holdkit.errors.CursorLost):
        hk.journal.history("p", after=begun)
    close_quietly(hk)
