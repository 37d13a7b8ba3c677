"""The choice of seats: the rules one by one, and every small house against a search through all choices."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit import InvalidRequest, Seat
from holdkit.faces.seating import ROW_RANK, Layout, Together, checked_seat, natural

FREE, TAKEN = b"\1", b"\0"


def row(name: str, positions: Any, **fields: Any) -> list[Seat]:
    return [checked_seat(Seat(f"{name}{at}", "stalls", name, at, **fields)) for at in positions]


def best(seats: list[Seat], count: int, together: Together = True, *, taken: str = "", kind: str = "") -> list[str]:
    """The best choice, or an empty list."""
    plan = Layout(seats).plans[kind]
    gone = set(taken.split())
    free = b"".join(TAKEN if pool.removeprefix("~item/") in gone else FREE for pool in plan.pools)
    return next(iter(plan.choices(free, count, together)), [])


# The rules


def test_seats_of_two_rows_are_never_neighbours() -> None:
    """What was given as neighbours once: the last of row A and the first of row B."""
    house = row("A", [1, 2, 3]) + row("B", [1, 2, 3])
    assert best(house, 2, taken="A1 A2 B2 B3") == []
    assert best(house, 2, taken="A1 B2") == ["A2", "A3"]
    assert best(row("A", [1, 2, 3]) + row("B", [4, 5]), 2, taken="A1 A2 B5") == []


def test_an_aisle_is_a_position_left_out() -> None:
    house = row("A", [1, 2, 4, 5])
    assert best(house, 3) == []
    assert best(house, 2) == ["A1", "A2"]


def test_odd_seats_are_neighbours_by_their_positions() -> None:
    odd = [checked_seat(Seat(f"A{number}", "stalls", "A", number, position=number // 2)) for number in (1, 3, 5, 7)]
    assert best(odd, 4) == ["A1", "A3", "A5", "A7"]
    assert best(row("A", [1, 3, 5, 7]), 2) == []


def test_wheelchair_places_are_never_a_fallback() -> None:
    house = row("A", [1, 2], kind="wheelchair") + row("A", [3])
    assert best(house, 2) == []
    assert best(house, 2, False) == []
    assert best(house, 2, kind="wheelchair") == ["A1", "A2"]


def test_the_front_and_the_middle_are_best() -> None:
    house = row("A10", range(1, 6)) + row("A9", range(1, 6))
    assert best(house, 1, False) == ["A93"]
    assert best(house, 3, False) == ["A93", "A92", "A94"]
    assert best(house, 5, taken="A93") == ["A101", "A102", "A103", "A104", "A105"]


def test_no_single_seat_is_left_if_that_can_be() -> None:
    house = row("A", range(1, 8))
    assert best(house, 4) == ["A1", "A2", "A3", "A4"]  # A3 to A6 are better, and would leave A7 alone
    assert best(house, 3) == ["A3", "A4", "A5"]
    assert best(house, 6) == ["A1", "A2", "A3", "A4", "A5", "A6"]  # one stays alone whatever is taken


def test_a_seat_that_was_alone_before_is_not_newly_left() -> None:
    house = row("A", [1, 2, 3, 4, 5]) + row("B", [1, 2])
    assert best(house, 1, taken="A2 A4") == ["A3"]
    assert best(house, 2, taken="A1 A3") == ["A4", "A5"]


def test_ranks_of_your_own_decide() -> None:
    house = [checked_seat(Seat(f"A{at}", "stalls", "A", at, rank=rank)) for at, rank in enumerate([9, 9, 9, 1, 0], 1)]
    assert best(house, 1, False) == ["A5"]
    assert best(house, 2) == ["A4", "A5"]


def test_rather_together_than_good() -> None:
    house = row("A", [1, 2, 3]) + row("B", range(1, 6))
    assert best(house, 4, "prefer") == ["B1", "B2", "B3", "B4"]


def test_if_not_together_then_in_few_groups() -> None:
    """The longest run whole, and the better end of the next."""
    house = row("A", [1, 2, 3]) + row("B", range(1, 6)) + row("C", range(1, 6))
    assert best(house, 6, "prefer") == ["B1", "B2", "B3", "B4", "B5", "C1"]
    assert best(house, 6, "prefer", taken="C4 C5") == ["B1", "B2", "B3", "B4", "B5", "A1"]
    ranked = [checked_seat(Seat(f"C{at}", "stalls", "C", at, rank=5 - at)) for at in range(4)]
    assert best(row("B", range(1, 6)) + ranked, 7, "prefer") == ["B1", "B2", "B3", "B4", "B5", "C2", "C3"]
    assert best(house, 14, "prefer") == []


def test_natural_order() -> None:
    rows = ["A10", "A9", "B", "A", "10", "9", "A09", "AA", "Ü"]
    assert sorted(rows, key=natural) == ["9", "10", "A", "A09", "A9", "A10", "AA", "B", "Ü"]


def test_the_default_rank_is_by_row_whatever_the_distance() -> None:
    """A thousand seats of one row never outweigh the next row."""
    wide = row("A", range(-100_000, 100_001, 100_000))
    assert [seat.position for seat in Layout(wide).seats] == [-100_000, 0, 100_000]
    assert ROW_RANK > 1_000 * 200_000


def test_choices_share_no_seat() -> None:
    plan = Layout(row("A", range(1, 9))).plans[""]
    for together in (True, "prefer"):
        found = plan.choices(FREE * 8, 2, together, most=8)
        assert found == [["A4", "A5"], ["A1", "A2"], ["A7", "A8"]]
    assert plan.choices(FREE * 8, 2, True, most=2) == [["A4", "A5"], ["A1", "A2"]]
    assert plan.choices(FREE * 8, 3, False, most=8) == [["A4", "A5", "A3"], ["A6", "A2", "A7"]]
    scattered = Layout(row("A", [1, 3, 5, 7, 8])).plans[""]
    assert scattered.choices(FREE * 5, 3, "prefer", most=4) == [["A7", "A8", "A5"]]
    assert scattered.choices(FREE * 5, 2, "prefer", most=4) == [["A7", "A8"]]
    assert scattered.choices(b"\1\1\1\1\0", 2, "prefer", most=4) == [["A5", "A3"], ["A7", "A1"]]


# What a seat may be


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rank": float("nan")}, "rank_not_whole"),
        ({"rank": 1.5}, "rank_not_whole"),
        ({"rank": True}, "rank_not_whole"),
        ({"rank": 2**53}, "rank_out_of_range"),
        ({"number": "12a"}, "position_required"),
        ({"number": 10**9}, "position_out_of_range"),
        ({"number": "9999999"}, "position_required"),
        ({"position": 1.0}, "position_not_whole"),
        ({"position": 100_001}, "position_out_of_range"),
        ({"id": ""}, "item_required"),
        ({"id": "x" * 501}, "item_too_long"),
        ({"section": ""}, "section_required"),
        ({"section": "x" * 201}, "section_too_long"),
        ({"section": "a\0b"}, "section_unprintable"),
        ({"row": None}, "row_not_text"),
        ({"row": 10**5000}, "row_out_of_range"),
        ({"number": 10**5000, "position": 1}, "number_out_of_range"),
        ({"row": "\ud800"}, "row_unprintable"),
        ({"number": None}, "number_not_text"),
        ({"kind": None}, "kind_not_text"),
        ({"kind": "x" * 65}, "kind_too_long"),
    ],
)
def test_bad_seats(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        checked_seat(Seat(**{"id": "A1", "section": "stalls", "row": "A", "number": 1, **fields}))
    assert wrong.value.code == code
    with pytest.raises(InvalidRequest, match="Seat objects"):
        checked_seat(("A1", "stalls", "A", 1))


def test_a_seat_as_it_is_stored() -> None:
    assert checked_seat(Seat("A1", "s", 3, "012")) == Seat("A1", "s", "3", "012", 12)
    assert checked_seat(Seat("A1", "s", "A", "1a", position=-4)).position == -4


# Every small house

SEATS = st.builds(
    Seat,
    id=st.just(""),
    section=st.just("s"),
    row=st.sampled_from(["A2", "A10", "B"]),
    number=st.integers(1, 7),
    rank=st.one_of(st.none(), st.none(), st.integers(-1, 2)),
    kind=st.sampled_from(["", "", "", "wheelchair"]),
)
HOUSES = st.lists(SEATS, min_size=1, max_size=14, unique_by=lambda seat: (seat.row, seat.number)).map(
    lambda seats: [checked_seat(Seat(f"{seat.row}/{seat.number}", "s", seat.row, seat.number, None, seat.rank, seat.kind)) for seat in seats]
)  # fmt: skip


class Oracle:
    """SPEC's order, read word by word, by looking at every choice."""

    def __init__(self, seats: list[Seat], free: set[str]) -> None:
        self.free = {seat.id: seat for seat in seats if not seat.kind and seat.id in free}
        rows = sorted({str(seat.row) for seat in seats}, key=["A2", "A10", "B"].index)
        self.first = {seat.id: (rows.index(str(seat.row)), seat.position) for seat in seats}
        ends = {name: [seat.position or 0 for seat in seats if seat.row == name] for name in rows}
        middle = {name: (min(its) + max(its)) / 2 for name, its in ends.items()}
        self.rank = {
            seat.id: seat.rank
            if seat.rank is not None
            else rows.index(str(seat.row)) * ROW_RANK + 2 * abs((seat.position or 0) - middle[str(seat.row)])
            for seat in seats
        }

    def beside(self, one: str, other: str) -> bool:
        a, b = self.first[one], self.first[other]
        return a[0] == b[0] and abs((a[1] or 0) - (b[1] or 0)) == 1

    def singles(self, taken: tuple[str, ...] = ()) -> set[str]:
        left = [id for id in self.free if id not in taken]
        return {id for id in left if not any(self.beside(id, other) for other in left)}

    def ranks(self, chosen: tuple[str, ...]) -> float:
        return sum(self.rank[id] for id in chosen)

    def together(self, count: int) -> list[tuple[Any, ...]]:
        found = []
        for chosen in combinations(sorted(self.free, key=self.first.__getitem__), count):
            if all(self.beside(a, b) for a, b in pairwise(chosen)):
                newly = len(self.singles(chosen) - self.singles())
                found.append((newly, self.ranks(chosen), self.first[chosen[0]], chosen))
        return sorted(found)

    def scattered(self, count: int) -> list[str]:
        """The longest runs first, ties by rank, the last taken from its best end."""
        if len(self.free) < count:
            return []
        runs: list[list[str]] = []
        for id in sorted(self.free, key=self.first.__getitem__):
            if runs and self.beside(runs[-1][-1], id):
                runs[-1].append(id)
            else:
                runs.append([id])
        chosen: list[str] = []
        for run in sorted(runs, key=lambda its: (-len(its), self.ranks(tuple(its)), self.first[its[0]])):
            need = count - len(chosen)
            ends = run[:need], run[len(run) - need :] if need < len(run) else run
            chosen += min(ends, key=lambda its: self.ranks(tuple(its))) if need else []
        return chosen


@given(seats=HOUSES, data=st.data(), count=st.integers(1, 5))
def test_every_small_house_against_a_search_through_all_choices(
    seats: list[Seat], data: st.DataObject, count: int
) -> None:
    ids = [seat.id for seat in seats]
    free = set(data.draw(st.lists(st.sampled_from(ids), unique=True), label="free"))
    oracle, layout = Oracle(seats, free), Layout(seats)
    assert [seat.id for seat in layout.seats] == sorted(ids, key=oracle.first.__getitem__)
    plan = layout.plans.get("")
    if plan is None:
        assert not oracle.free
        return
    cells = bytes([pool.removeprefix("~item/") in free for pool in plan.pools])
    windows = oracle.together(count)
    expected = [list(windows[0][3])] if windows else []
    assert plan.choices(cells, count, True) == expected
    assert plan.choices(cells, count, "prefer") == (expected or [its for its in [oracle.scattered(count)] if its])
    by_rank = sorted(oracle.free, key=lambda id: (oracle.rank[id], oracle.first[id]))
    assert plan.choices(cells, count, False) == ([by_rank[:count]] if len(by_rank) >= count else [])
    if len(by_rank) >= count:
        least = min(oracle.ranks(chosen) for chosen in combinations(by_rank, count))
        assert oracle.ranks(tuple(by_rank[:count])) == least
    several = plan.choices(cells, count, True, most=4)
    assert several[:1] == expected
    assert all([(1, list(window[3])) for window in windows if list(window[3]) == choice] for choice in several)
    assert len({id for choice in several for id in choice}) == count * len(several)
