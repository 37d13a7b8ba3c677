"""Lanes whose first entries are archived, sync and async: a reader that has missed some is told, whatever its cursor names.

Only one who begins at the very beginning is given the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdkit
from holdkit.core.commands import Group
from holdkit.core.lanes import lane_of_pool
from holdkit.core.reading import FindEnds, Query, ReadJournal
from holdkit.errors import CursorLost
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from holdkit.kernel.pages import decode_cursor, encode_cursor
from tests.support.laned_engine import LanedEngine
from tests.support.modes import Async, Sync, close_quietly

LANES = 5
POOLS = [f"p{number}" for number in range(40)]
BY_LANE = {lane: [pool for pool in POOLS if lane_of_pool(("", pool), LANES) == lane] for lane in range(LANES)}
FIRST, QUIET = BY_LANE[0][:3], BY_LANE[3][:3]
"""Pools of the lane that is written first, and of one in which nothing has happened then."""


@pytest.fixture
def engine() -> LanedEngine:
    return LanedEngine(LANES)


@pytest.fixture
def hk(mode: Sync | Async, engine: LanedEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    yield kernel
    close_quietly(kernel)


@pytest.fixture(params=[1, 2, 500])
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", request.param)
    size: int = request.param
    return size


def make(hk: Any, *pools: str) -> None:
    for pool in pools:
        hk.create_pool(pool, 10)


def everywhere(hk: Any) -> None:
    """Three pools in each lane."""
    make(hk, *(pool for lane in range(LANES) for pool in BY_LANE[lane][:3]))


Reading = Callable[[Any, str], object]
READINGS: dict[str, Reading] = {
    "journal": lambda hk, after: hk.journal.list(after=after),
    "journal of all": lambda hk, after: hk.journal.list(after=after, tenant=holdkit.journal.ALL),
    "page by page": lambda hk, after: hk.journal.list(after=after, limit=1),
    "follow": lambda hk, after: list(hk.journal.follow(after=after, wait=False)),
    "a named follower": lambda hk, after: list(hk.journal.follow("mail", after=after, wait=False)),
    "search": lambda hk, after: hk.journal.search(after=after),
}


@pytest.fixture(params=READINGS)
def read_on(request: pytest.FixtureRequest) -> Reading:
    return READINGS[request.param]


def assert_lost(hk: Any, read_on: Reading, after: str, position: tuple[int, int]) -> None:
    with pytest.raises(CursorLost, match=r"were archived to /archive: read on there") as lost:
        read_on(hk, after)
    assert (lost.value.archived_to, lost.value.position, lost.value.missing) == ("/archive", position, 0)


def test_a_lane_that_a_cursor_does_not_name_and_that_was_archived_is_lost(
    hk: Any, engine: LanedEngine, read_on: Reading
) -> None:
    make(hk, *FIRST)
    cursor = hk.journal.cursor()
    make(hk, *QUIET)
    engine.archive({3: 2})
    assert_lost(hk, read_on, cursor, (3, 1))


def test_it_is_lost_although_other_lanes_were_archived_too(hk: Any, engine: LanedEngine, read_on: Reading) -> None:
    make(hk, *FIRST)
    cursor = hk.journal.cursor()
    make(hk, *QUIET, BY_LANE[0][3])
    engine.archive({0: 3})  # exactly what the cursor has seen: it would go on there
    assert len(hk.journal.list(after=cursor)) == 4
    engine.archive({3: 2})
    assert_lost(hk, read_on, cursor, (3, 1))


def test_a_lane_that_is_not_archived_is_read_from_its_beginning(hk: Any, engine: LanedEngine) -> None:
    make(hk, *FIRST, BY_LANE[0][3])
    engine.archive({0: 3})
    cursor = hk.journal.cursor()
    make(hk, *QUIET)
    assert [entry.subject for entry in hk.journal.list(after=cursor)] == QUIET
    assert [entry.subject for entry in hk.journal.follow(after=cursor, wait=False)] == QUIET


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_from_the_very_beginning_every_lane_begins_with_its_baseline(hk: Any, engine: LanedEngine, limit: int) -> None:
    everywhere(hk)
    engine.archive({0: 2, 3: 1})
    expected = sorted([*("journal.baseline",) * 3, *("pool.created",) * 12])
    for beginning in (None, encode_cursor({})):
        seen: list[Any] = []
        after = beginning
        while entries := hk.journal.list(after=after, limit=limit):
            for entry in entries:
                rest = list(hk.journal.follow(after=entry.cursor, wait=False))
                seen.append(entry)
                read = [one.subject for one in (*seen, *rest)]
                assert sorted(read) == sorted(pool for lane in range(LANES) for pool in BY_LANE[lane][:3])
            after = entries[-1].cursor
        assert sorted(entry.action for entry in seen) == expected


def test_a_follower_is_given_every_baseline_and_goes_on(hk: Any, engine: LanedEngine, page: int) -> None:
    everywhere(hk)
    engine.archive({0: 2, 3: 1, 4: 2})
    every = sorted(pool for lane in range(LANES) for pool in BY_LANE[lane][:3])
    assert sorted(entry.subject for entry in hk.journal.follow("mail", wait=False)) == every
    make(hk, BY_LANE[0][3])
    assert [entry.subject for entry in hk.journal.follow("mail", wait=False)] == [BY_LANE[0][3]]
    crashing = hk.journal.follow("other", wait=False)
    first = [next(crashing).subject for _ in range(page)] if page < 3 else []
    crashing.close()
    again = [entry.subject for entry in hk.journal.follow("other", wait=False)]
    assert sorted({*first, *again}) == sorted([*every, BY_LANE[0][3]])


def test_from_its_first_entry_on_a_cursor_names_every_archived_lane(hk: Any, engine: LanedEngine) -> None:
    everywhere(hk)
    engine.archive({0: 2, 3: 1, 4: 2})
    (first,) = hk.journal.list(limit=1)
    assert {lane: seq for lane, (seq, _) in decode_cursor(first.cursor).items()} == {0: 2, 3: 1, 4: 2}


def test_a_lane_that_is_archived_later_is_lost_to_who_began_with_a_baseline(
    hk: Any, engine: LanedEngine, read_on: Reading
) -> None:
    """In the middle of the baselines, the reader has not seen the beginning of another lane."""
    everywhere(hk)
    engine.archive({0: 2})
    (first,) = hk.journal.list(limit=1)
    engine.archive({3: 2})
    assert_lost(hk, read_on, first.cursor, (3, 1))


def test_a_baseline_that_changes_or_grows_while_it_is_read_is_lost(
    hk: Any, engine: LanedEngine, read_on: Reading
) -> None:
    everywhere(hk)
    engine.archive({0: 2, 3: 1})
    (first,) = hk.journal.list(limit=1)
    engine.change_baseline(3)
    assert_lost(hk, read_on, first.cursor, (3, 1))
    (first,) = hk.journal.list(limit=1)
    make(hk, *BY_LANE[0][3:5])
    engine.archive({0: 4})
    assert_lost(hk, read_on, first.cursor, (0, 1))


@pytest.mark.parametrize("overtaken", [FindEnds, ReadJournal])
def test_a_follower_that_is_overtaken_between_two_reads_is_told(
    hk: Any, engine: LanedEngine, monkeypatch: pytest.MonkeyPatch, overtaken: type[Query[Any]]
) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 1)
    make(hk, *FIRST)
    following = hk.journal.follow(after=hk.journal.cursor(), wait=False)
    make(hk, *BY_LANE[1][:2])
    assert next(following).subject == BY_LANE[1][0]

    def overtake(query: Query[Any]) -> None:
        if isinstance(query, overtaken):
            engine.answered = None
            engine.apply([Group((holdkit.commands.CreatePool(id=pool, total=1),)) for pool in QUIET])
            engine.archive({3: 2})

    engine.answered = overtake
    with pytest.raises(CursorLost) as lost:
        list(following)
    assert (lost.value.archived_to, lost.value.position) == ("/archive", (3, 1))


def test_where_a_search_has_come_to_is_lost_when_more_is_archived(hk: Any, engine: LanedEngine) -> None:
    """The cursor of a search that stands at an archived entry has no digest of it: its number alone must be enough."""
    make(hk, *QUIET, *BY_LANE[3][3:5], *FIRST)
    engine.archive({3: 2})
    reached = hk.journal.search(limit=100).cursor
    assert decode_cursor(reached)[3] == (2, "")
    assert len(hk.journal.list(after=reached)) == 6
    engine.archive({3: 4})
    for read_on in READINGS.values():
        assert_lost(hk, read_on, reached, (3, 3))


def test_back_from_a_cursor_nothing_is_missed(hk: Any, engine: LanedEngine) -> None:
    """What follows the cursor may be archived: it is not asked for."""
    make(hk, *FIRST)
    cursor = hk.journal.cursor()
    make(hk, *QUIET)
    engine.archive({3: 2})
    assert [entry.subject for entry in hk.journal.search(before=cursor)] == FIRST[::-1]


def test_at_the_end_of_an_empty_journal_a_reader_is_at_the_very_beginning(hk: Any, engine: LanedEngine) -> None:
    cursor = hk.journal.cursor()
    make(hk, *QUIET)
    engine.archive({3: 2})
    read = [str(entry.action) for entry in hk.journal.follow(after=cursor, wait=False)]
    assert read == ["journal.baseline", "journal.baseline", "pool.created"]
