"""`seats.hold`: finds, holds, and finds again, on every engine; and many buyers at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Hold, Seat
from holdkit.core.reading import FindAvailable
from tests.support.kernels import Store, differences
from tests.support.threads import PATIENCE

BUYERS = 50


def row(name: str, count: int, section: str = "stalls", **fields: Any) -> list[Seat]:
    return [Seat(f"{section}/{name}{number}", section, name, number, **fields) for number in range(1, count + 1)]


def seats_of(hold: Hold) -> list[str]:
    return sorted(leg.pool.removeprefix("~item/stalls/") for leg in hold.legs)


def test_the_best_seats_are_held(store: Store) -> None:
    hk = store.hk
    hk.seats.add([*row("A", 3), *row("B", 6), *row("W", 2, kind="wheelchair")])
    first = hk.seats.hold(3, section="stalls", ttl=60, token="me", metadata={"n": 1})
    assert (seats_of(first), first.token, first.state) == (["A1", "A2", "A3"], "me", "held")
    assert seats_of(hk.seats.hold(2, section="stalls", ttl=None)) == ["B3", "B4"]
    with pytest.raises(holdkit.ItemsTaken, match=r"not 3 seats available side by side in section 'stalls'"):
        hk.seats.hold(3, section="stalls", ttl=None)
    assert seats_of(hk.seats.hold(3, section="stalls", together="prefer", ttl=None)) == ["B1", "B2", "B5"]
    with pytest.raises(holdkit.ItemsTaken, match="not 2 seats available in"):
        hk.seats.hold(2, section="stalls", together=False, ttl=None)  # the wheelchair places are free
    assert seats_of(hk.seats.hold(2, section="stalls", kind="wheelchair", ttl=None)) == ["W1", "W2"]
    store.clock.advance(60)
    assert seats_of(hk.seats.hold(3, section="stalls", ttl=None)) == ["A1", "A2", "A3"]  # expired, and not swept
    with pytest.raises(holdkit.ItemsTaken, match="there is no seat of kind 'box' available in section"):
        hk.seats.hold(1, section="stalls", kind="box", ttl=None)
    with pytest.raises(holdkit.errors.SectionNotFound) as nowhere:
        hk.seats.hold(1, section="circle", ttl=None)
    assert nowhere.value.subject == "circle"
    assert differences(hk) == ()


def test_wrong_questions(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row("A", 3))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"count": 0}, "count_out_of_range"),
        ({"count": 1_001}, "count_out_of_range"),
        ({"count": True}, "count_not_whole"),
        ({"section": ""}, "section_required"),
        ({"section": None}, "section_not_text"),
        ({"kind": None}, "kind_not_text"),
        ({"together": 1}, "together_unknown"),
        ({"together": "yes"}, "together_unknown"),
        ({"together": None}, "together_unknown"),
        ({"op": ""}, "op_required"),
        ({"ttl": -1}, "ttl_too_short"),
    ]
    for fields, code in wrong:
        with pytest.raises(holdkit.InvalidRequest) as refused:
            hk.seats.hold(**{"count": 1, "section": "stalls", "ttl": None, **fields})
        assert refused.value.code == code
    assert {item.state for item in hk.items.list()} == {"available"}


def test_a_retry_gets_the_same_answer(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row("A", 3))
    mine = hk.seats.hold(2, section="stalls", op="mine", ttl=None)
    for _ in range(2):
        with pytest.raises(holdkit.ItemsTaken, match="not 2 seats"):
            hk.seats.hold(2, section="stalls", op="late", ttl=None)
        with pytest.raises(holdkit.errors.SectionNotFound):
            hk.seats.hold(2, section="circle", op="nowhere", ttl=None)
    hk.items.hold(["stalls/A3"], ttl=None)  # nothing is left, and the retry finds what it had
    hk.seats.add(row("A", 2, "circle"))
    again = hk.seats.hold(2, section="stalls", op="mine", ttl=None)
    assert (again.id, again.token, again.replayed) == (mine.id, mine.token, True)
    hk.release(mine)
    with pytest.raises(holdkit.ItemsTaken) as recorded:
        hk.seats.hold(2, section="stalls", op="late", ttl=None)
    assert recorded.value.replayed
    with pytest.raises(holdkit.errors.SectionNotFound) as still:
        hk.seats.hold(2, section="circle", op="nowhere", ttl=None)
    assert still.value.replayed
    for other in ({"count": 1}, {"together": False}, {"kind": "x"}, {"section": "circle"}):
        with pytest.raises(holdkit.OperationConflict):
            hk.seats.hold(**{"count": 2, "section": "stalls", "op": "mine", "ttl": None, **other})
    assert differences(hk) == ()


class LateRival:
    """Gives seats back before a caller looks, and takes seats between its look and its hold."""

    def __init__(self, hk: holdkit.Kernel, rounds: list[list[str]]) -> None:
        self._hk, self._rounds, self.looks = hk, rounds, 0
        self._read = hk._executor.read
        self._hold: Hold | None = None
        hk._executor.read = self.read  # type: ignore[method-assign]

    def read(self, query: Any, tx: Any = None, *, durable: bool = False) -> Any:
        if not isinstance(query, FindAvailable) or not self._rounds:
            return self._read(query, tx, durable=durable)
        self.looks += 1
        if self._hold is not None and self._hold.token == "back":
            self._hk.release(self._hold)
        seen = self._read(query, tx, durable=durable)
        token, *seats = self._rounds.pop(0)
        self._hold = self._hk.items.hold(seats, token=token, ttl=None)
        return seen


def test_a_retry_after_a_lost_race_ends_where_the_first_did(tmp_path: Path) -> None:
    """The refusals on the way are remembered too."""
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.seats.add(row("A", 3))
        LateRival(hk, [["keeps", "stalls/A2"], ["keeps", "stalls/A1"]])
        mine = hk.seats.hold(1, section="stalls", together=False, op="mine", ttl=None)
        assert seats_of(mine) == ["A3"]
        assert hk.seats.hold(1, section="stalls", together=False, op="mine", ttl=None).id == mine.id


def test_after_twenty_tries_the_caller_is_told_to_retry_later(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.seats.add(row("A", 9))
        everything = [f"stalls/A{number}" for number in range(1, 10)]
        rival = LateRival(hk, [["back", *everything] for _ in range(30)])
        draw, drawn = hk._executor.mint.draw, list[int]()

        def noted(below: int) -> int:
            drawn.append(below)
            return draw(below)

        hk._executor.mint.draw = noted  # type: ignore[method-assign]
        with pytest.raises(holdkit.Overloaded, match="took some of the chosen seats at each attempt"):
            hk.seats.hold(1, section="stalls", together=False, ttl=None)
        assert rival.looks == 20
        assert drawn == [1, 2, 4, 8, *[9] * 16]  # among the best 2, 4, 8, then among all


# Many at once


def check_all_served(answers: list[Hold | Exception], pairs: int) -> None:
    """Everybody has two neighbours that nobody else has, or a clear answer; and no pair stays free that somebody wanted."""
    got = [seats_of(answer) for answer in answers if isinstance(answer, Hold)]
    for one, other in got:
        assert (one[0], int(one[1:]) + 1) == (other[0], int(other[1:])), (one, other)
    taken = [seat for pair in got for seat in pair]
    assert len(taken) == len(set(taken)) == 2 * pairs
    assert len(answers) == BUYERS
    assert all(isinstance(one, Hold | holdkit.ItemsTaken) for one in answers), answers


def house() -> list[Seat]:
    """40 pairs of seats with an aisle between them, so that every order of buyers sells all of them."""
    return [Seat(f"stalls/{name}{at}", "stalls", name, at) for name in "ABCD" for at in range(1, 31) if at % 3]


def test_fifty_buyers_in_threads_get_neighbours_or_a_clear_answer(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.seats.add(house())
        answers: list[Hold | Exception] = []
        start = threading.Barrier(BUYERS)

        def buy() -> None:
            start.wait(PATIENCE)
            try:
                answers.append(hk.seats.hold(2, section="stalls", ttl=600))
            except holdkit.HoldkitError as answer:
                answers.append(answer)

        threads = [threading.Thread(target=buy) for _ in range(BUYERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        check_all_served(answers, 40)
        assert hk.admin.verify().ok


def test_fifty_buyers_in_tasks_get_neighbours_or_a_clear_answer(migrated: Any) -> None:
    async def crowd() -> None:
        async with await holdkit.connect_async(migrated()) as hk:
            await hk.seats.add(house())
            buying = [hk.seats.hold(2, section="stalls", ttl=600) for _ in range(BUYERS)]
            answers: list[Any] = await asyncio.gather(*buying, return_exceptions=True)
            check_all_served(answers, 40)
            assert (await hk.admin.verify()).ok

    asyncio.run(crowd())
