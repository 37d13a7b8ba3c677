"""A journal in several lanes, sync and async: followers, cursors and pages keep what they promise in each of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import holdkit
from holdkit import OutcomeUnknown
from holdkit.commands import PlaceHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.lanes import MAX_LANES, lane_of_hold, lane_of_pool
from holdkit.core.model import MAX_SLOT, Leg
from holdkit.core.reading import FindEnds, Query, ReadJournal
from holdkit.errors import CursorLost
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from holdkit.kernel.pages import decode_cursor, encode_cursor, generation_of
from holdkit.kernel.results import Position
from tests.support.laned_engine import LanedEngine
from tests.support.modes import Async, Sync, close_quietly
from tests.support.threads import CallerThreads

LANES = 5
POOLS = [f"p{number}" for number in range(12)]


def lane_of(pool: str) -> int:
    return lane_of_pool(("", pool), LANES)


BY_LANE = {lane: [pool for pool in POOLS if lane_of(pool) == lane] for lane in range(LANES)}
"""Pools by lane; each lane has some."""


@pytest.fixture(params=["by time", "by lane"])
def engine(request: pytest.FixtureRequest) -> LanedEngine:
    return LanedEngine(LANES, by_lane=request.param == "by lane")


@pytest.fixture
def hk(mode: Sync | Async, engine: LanedEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    for pool in POOLS:
        kernel.create_pool(pool, 10)
    yield kernel
    close_quietly(kernel)


@pytest.fixture(params=[1, 2, 3, 500])
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", request.param)
    size: int = request.param
    return size


def places(entries: Any) -> list[Position]:
    return [entry.raw.position for entry in entries]


def everything(engine: LanedEngine) -> set[Position]:
    return {Position(row.lane, row.seq) for row in engine.written}


def in_order(entries: Any) -> bool:
    """In each lane one after the other, whatever is hidden in between."""
    last: dict[int, int] = {}
    for place in places(entries):
        if place.seq <= last.get(place.lane, 0):
            return False
        last[place.lane] = place.seq
    return True


def test_all_lanes_are_in_use() -> None:
    assert all(BY_LANE.values())


def test_a_follower_sees_every_lane_whole_and_in_order(hk: Any, engine: LanedEngine, page: int) -> None:
    seen = list(hk.journal.follow(wait=False))
    assert in_order(seen)
    assert len(seen) == len(set(places(seen))) == len(POOLS)
    assert set(places(seen)) == everything(engine)
    assert page == 500 or page < LANES, "pages smaller than the number of lanes are among these"


@pytest.mark.parametrize("limit", [1, 2, 4, 1000])
def test_the_cursor_of_an_entry_goes_on_behind_it_in_the_whole_journal(
    hk: Any, engine: LanedEngine, limit: int
) -> None:
    seen: list[Any] = []
    after: str | None = None
    while entries := hk.journal.list(after=after, limit=limit):
        for number, entry in enumerate(entries, start=1):
            rest = hk.journal.list(after=entry.cursor)
            assert in_order(rest)
            assert {*places(seen), *places(entries[:number])} | set(places(rest)) == everything(engine)
            assert not {*places(seen), *places(entries[:number])} & set(places(rest))
        seen += entries
        after = entries[-1].cursor
    assert set(places(seen)) == everything(engine)
    assert in_order(seen)


def test_cursor_is_behind_everything(hk: Any) -> None:
    end = hk.journal.cursor()
    assert hk.journal.list(after=end) == []
    pools = [BY_LANE[2][0], BY_LANE[4][0]]
    for pool in pools:
        hk.admin.resize_pool(pool, 11)
    assert sorted(entry.subject for entry in hk.journal.list(after=end)) == sorted(pools)


def test_a_named_follower_goes_on_in_every_lane(hk: Any, engine: LanedEngine, page: int) -> None:
    assert {entry.subject for entry in hk.journal.follow("mail", wait=False)} == set(POOLS)
    assert list(hk.journal.follow("mail", wait=False)) == []
    hk.admin.resize_pool(BY_LANE[3][0], 11)
    hk.admin.resize_pool(BY_LANE[1][0], 11)
    fresh = list(hk.journal.follow("mail", wait=False))
    assert sorted(entry.subject for entry in fresh) == sorted([BY_LANE[3][0], BY_LANE[1][0]])
    assert list(hk.journal.follow("mail", wait=False)) == []


def test_after_a_crash_a_named_follower_skips_nothing(hk: Any, engine: LanedEngine, page: int) -> None:
    seen = set()
    for number, entry in enumerate(hk.journal.follow("mail", wait=False), start=1):
        seen.add(entry.subject)
        if number == 7:
            break  # the consumer dies
    seen |= {entry.subject for entry in hk.journal.follow("mail", wait=False)}
    assert seen == set(POOLS)


def test_hidden_entries_move_the_place_on_in_their_lanes(hk: Any, engine: LanedEngine, page: int) -> None:
    """A tenant with entries in some lanes, foreign ones in others: at the end there is nothing left to look at."""
    acme = hk.tenant("acme")
    acme.create_pool("a", 1)
    acme.create_pool("b", 1)
    for pool in BY_LANE[1] + BY_LANE[2]:
        hk.admin.resize_pool(pool, 11)
    follower = iter(acme.journal.follow(wait=True, poll=0.001))
    assert {next(follower).subject, next(follower).subject} == {"a", "b"}
    idle: list[str] = []

    def notice(query: Query[Any]) -> None:
        """Twice in a row at the end, and nothing else was asked in between: then it writes the next one."""
        idle.append(type(query).__name__)
        assert len(idle) < 200, "it never comes to rest"
        if idle[-2:] == ["FindEnds", "FindEnds"]:
            engine.answered = None
            acme_pool()

    def acme_pool() -> None:
        engine.apply([Group((holdkit.commands.CreatePool(id="c", total=1, tenant="acme"),))])

    engine.answered = notice
    assert next(follower).subject == "c"
    follower.close()


def test_what_comes_while_a_page_is_read_is_not_taken_for_hidden(hk: Any, engine: LanedEngine) -> None:
    """The place moves on to the ends from before the page. Ends from after it may lie behind an entry nobody was shown."""
    hk.tenant("acme").create_pool("a", 1)  # hidden from us, so that the page is short and the place has to move on
    end = hk.journal.cursor()
    hk.tenant("acme").create_pool("b", 1)
    late = BY_LANE[0][0]

    def commit(query: Query[Any]) -> None:
        if isinstance(query, ReadJournal) and query.tenant == "":
            engine.answered = None
            engine.apply([Group((holdkit.commands.ResizePool(id=late, total=12),))])

    engine.answered = commit
    assert [entry.subject for entry in hk.journal.follow("mail", after=end, wait=False)] == []
    assert [entry.subject for entry in hk.journal.follow("mail", after=end, wait=False)] == [late]


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("text", [None, '{"slot":0,"action":"pool.created","subject":"x"}'])
def test_a_cursor_is_lost_if_one_lane_was_cut_back(hk: Any, engine: LanedEngine, lane: int, text: str | None) -> None:
    cursor = hk.journal.cursor()
    following = iter(hk.journal.follow(poll=0.001))
    for _ in POOLS:
        next(following)
    last = max(row.seq for row in engine.written if row.lane == lane)
    engine.replace(lane, last, text)
    message = f"entry {last} of lane {lane} is no longer what this cursor saw"
    with pytest.raises(CursorLost, match=message):
        hk.journal.list(after=cursor)
    waiting = CallerThreads()
    waiting.start(lambda: next(following))
    (lost,) = waiting.join()
    assert isinstance(lost, CursorLost)
    assert message in str(lost)


def test_a_page_counts_only_if_every_lane_is_still_there_after_it(hk: Any, engine: LanedEngine) -> None:
    cursor = hk.journal.cursor()
    hk.admin.resize_pool(BY_LANE[1][0], 11)

    def cut(query: Query[Any]) -> None:
        if isinstance(query, ReadJournal):
            engine.replace(3, 1, None)

    engine.answered = cut
    follower = iter(hk.journal.follow(after=cursor, wait=False))
    with pytest.raises(CursorLost, match="of lane 3"):
        next(follower)


def test_a_cursor_of_more_lanes_than_there_are_is_lost(hk: Any) -> None:
    with pytest.raises(CursorLost, match="of lane 9"):
        hk.journal.list(after=encode_cursor({9: (1, "x")}))


# Holds over several lanes


def two_lanes() -> dict[str, int]:
    return {BY_LANE[1][0]: 1, BY_LANE[3][0]: 2}


def test_a_minted_hold_lives_in_the_lane_of_its_first_pool(hk: Any, engine: LanedEngine) -> None:
    for pool in POOLS:
        hold = hk.hold(pool, 1, ttl=60)
        spent = hk.consume(pool, 1)
        batch = hk.apply([PlaceHold(legs=(Leg(pool),), ttl=60)] * 2)
        for one in (hold, spent, *[outcome.unwrap() for outcome in batch]):
            assert lane_of_hold(one.id, LANES) == lane_of(pool) == int(one.position.split(".")[0])
            assert hk.history(one)[-1].position == one.position
            assert not any(entry.raw.part for entry in hk.history(one))
    assert hk.admin.verify().ok


def test_batches_of_minted_ids_stay_in_order(hk: Any) -> None:
    outcomes = hk.apply([PlaceHold(legs=(Leg(POOLS[number % 12]),), ttl=60) for number in range(60)])
    ids = [outcome.unwrap().id for outcome in outcomes]
    assert ids == sorted(set(ids))


def test_a_hold_over_two_lanes_is_one_entry_and_a_part(hk: Any, engine: LanedEngine) -> None:
    before = hk.journal.cursor()
    hold = hk.hold(two_lanes(), ttl=60)
    entries = hk.journal.list(after=before)
    assert [(entry.raw.part, entry.raw.position.lane) for entry in entries] == [(False, 1), (True, 3)]
    assert entries[0].position == hold.position
    assert [[effect.pool.id for effect in entry.pools] for entry in entries] == [[pool] for pool in two_lanes()]
    assert hk.confirm(hold, entity="order:1").position.startswith("1.")
    assert holdkit.journal.reconstruct(hk.history(hold)) == hk.get(hold)


@pytest.mark.parametrize("what", ["hold", "consume"])
def test_a_lost_answer_is_found_though_a_part_comes_last(hk: Any, engine: LanedEngine, what: str) -> None:
    def lose(_: Sequence[Group]) -> None:
        engine.after = None
        raise OutcomeUnknown("the connection was lost")

    engine.after = lose
    got = hk.hold(two_lanes(), ttl=60) if what == "hold" else hk.consume(two_lanes())
    assert got.position in {str(place) for place in places(entry for entry in hk.history(got) if not entry.raw.part)}
    assert got.state == ("held" if what == "hold" else "confirmed")
    assert hk.admin.verify().ok


def test_a_block_tells_a_forced_release_from_its_own(hk: Any) -> None:
    with pytest.raises(holdkit.AlreadyReleased), hk.holding(two_lanes(), ttl=60) as hold:
        hk.admin.release(hold.id, reason="admin_override")
    with hk.holding(two_lanes(), ttl=60) as hold:
        hk.release(hold)


def test_the_journal_is_not_measured_where_others_write(hk: Any, engine: LanedEngine) -> None:
    """Its length proves nothing there: an unexpected error is unknown, and nobody looks before a batch."""
    engine.asked.clear()

    def fail(_: Sequence[Group]) -> None:
        raise RuntimeError("who knows when")

    engine.after = fail
    with pytest.raises(OutcomeUnknown):
        hk.create_pool("new", 1)
    assert not any(isinstance(query, FindEnds) for query in engine.asked)


# Cursors as text


def test_a_cursor_says_every_lane_once_and_in_order() -> None:
    text = encode_cursor({3: (9, "c"), 0: (1, "a")}, "life")
    body = text.removeprefix("hkc2.")
    assert json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) == ["life", [[0, 1, "a"], [3, 9, "c"]]]
    assert decode_cursor(text) == {0: (1, "a"), 3: (9, "c")}
    assert generation_of(text) == "life"


def test_the_beginning_of_an_empty_journal_is_a_place() -> None:
    assert decode_cursor(encode_cursor({})) == {}
    assert generation_of(encode_cursor({})) == ""


def test_a_cursor_holds_a_thousand_lanes() -> None:
    place = {MAX_LANES - 1 - lane: (MAX_SLOT - lane, "0123456789abcdef") for lane in range(1_024)}
    assert decode_cursor(encode_cursor(place)) == place


def test_a_named_follower_of_a_thousand_lanes_keeps_its_place(mode: Sync | Async) -> None:
    hk = mode.open(LanedEngine(1_024, limits=Limits(max_queue=10_000)))
    hk.apply([holdkit.commands.CreatePool(id=f"p{number}", total=1) for number in range(900)])
    assert len(list(hk.journal.follow("mail", wait=False))) == 900
    assert list(hk.journal.follow("mail", wait=False)) == []
    hk.close()
