"""Seats: where each one is in its section, and which are the best that are free. Pure functions.

Theory of operation. A `Plan` is the seats of one section and kind as a row of *cells*: sorted by row and position, with an empty cell
wherever the next seat is not a neighbour (another row, or a position left out: an aisle, a pillar, a seat of another kind). So
neighbours are cells side by side, and nothing else is: a run of free seats is a run of ones in a `bytes` of cells, found by one
regular expression, and the ranks of any run are the difference of two sums.

What is best is decided by tuples, compared in order:

- `together=True`: windows of `count` cells within one free run, by (single free seats newly left, sum of ranks, first seat). A window
  leaves a single seat at an end of its run if exactly one seat stays there; a seat that was alone before is not newly left.
- `together="prefer"`: the same; if no run is long enough, whole runs, by (longest first, sum of ranks, first seat), and of the last
  one the end with the smaller sum of ranks.
- `together=False`: single seats by (rank, first seat), which is the smallest sum of ranks.

Every choice takes O(n log n) of the seats of the section. Where several callers compete, `choices` also gives the next best ones,
which share no seat with a better one: two callers who draw different choices never meet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import attrgetter, sub
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..core.model import MAX_QUANTITY
from ..core.validation import invalid, text, whole
from .keys import item_name, item_pool

MAX_SECTION: Final = 200
MAX_ROW: Final = 64
MAX_KIND: Final = 64
MAX_POSITION: Final = 100_000
"""Positions lie between this and its negative."""
ROW_RANK: Final = 1_000_000_000
"""How much the default rank grows from one row to the next: more than a thousand seats of one row can differ by."""

Together: TypeAlias = Literal[True, False, "prefer"]
"""Whether seats must be neighbours: True, "prefer" (if possible) or False."""

_FREE: Final = re.compile(rb"\x01+")
_DIGITS: Final = re.compile("[0-9]{1,6}")
_PARTS: Final = re.compile("[0-9]+|[^0-9]+")


class Seat(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """An item with a place in a section."""

    id: str
    section: str
    row: str | int
    number: int | str
    """What is written on the seat."""
    position: int | None = None
    """Where it is in its row: seats whose positions differ by 1 are neighbours. Default: the number, if it is an integer."""
    rank: int | None = None
    """The smaller, the better. Default: by row in natural order, then by the distance from the middle of the row."""
    kind: str = ""
    """Seats of another kind, such as wheelchair places, are only found if they are asked for."""


class Asked(Struct, frozen=True, array_like=True):
    """The seats that a call of `seats.hold` wants."""

    count: int
    section: str
    kind: str
    together: Together


def checked_seat(seat: Any) -> Seat:
    """Check a seat, and return it as it is stored: its row as text, its position filled in; or raise `InvalidRequest`."""
    if not isinstance(seat, Seat):
        raise invalid("seats", "seats_malformed", "must be a list of Seat objects")
    item_pool(seat.id)
    text(seat.section, "section", MAX_SECTION)
    if type(seat.row) is int:
        whole(seat.row, "row", -MAX_QUANTITY, MAX_QUANTITY)
    row = text(str(seat.row) if type(seat.row) is int else seat.row, "row", MAX_ROW)
    if type(seat.number) is int:
        whole(seat.number, "number", -MAX_QUANTITY, MAX_QUANTITY)
    else:
        text(seat.number, "number", MAX_ROW)
    checked_kind(seat.kind)
    if seat.rank is not None:
        whole(seat.rank, "rank", -MAX_QUANTITY, MAX_QUANTITY)
    return replace(seat, row=row, position=_position(seat))


def _position(seat: Seat) -> int:
    position = seat.position
    if position is None:
        if type(seat.number) is int:
            position = seat.number
        elif _DIGITS.fullmatch(str(seat.number)):
            position = int(seat.number)
        else:
            raise invalid(
                "position", "position_required", f"seat {seat.id!r} needs one: its number {seat.number!r} is no integer"
            )
    return whole(position, "position", -MAX_POSITION, MAX_POSITION)


def checked_kind(kind: Any) -> str:
    """Check a kind, and return it; empty for ordinary seats."""
    return "" if kind == "" and type(kind) is str else text(kind, "kind", MAX_KIND)


def checked_together(together: Any) -> Together:
    """Check `together`: True, False or "prefer"."""
    if type(together) is not bool and together != "prefer":
        raise invalid("together", "together_unknown", 'must be True, False or "prefer"')
    found: Together = together
    return found


def natural(row: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a key that sorts rows as people do: A9 before A10."""
    return [(0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in _PARTS.findall(row)], row


def location_of(seat: Seat) -> tuple[str, str, int]:
    """Return section, row and position of a checked seat: no two seats have the same."""
    return seat.section, str(seat.row), seat.position or 0


class Layout:
    """The seats of one section in order of row and position, and a `Plan` for each kind."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        """Take checked seats of one section."""
        by_row: dict[str, list[Seat]] = {}
        for seat in seats:
            by_row.setdefault(str(seat.row), []).append(seat)
        self.seats: list[Seat] = []
        ranked: dict[str, list[tuple[Seat, int]]] = {}
        for place, row in enumerate(sorted(by_row, key=natural)):
            its = sorted(by_row[row], key=attrgetter("position"))
            self.seats += its
            ends = (its[0].position or 0) + (its[-1].position or 0)
            for seat in its:
                default = place * ROW_RANK + abs(2 * (seat.position or 0) - ends)
                ranked.setdefault(seat.kind, []).append((seat, default if seat.rank is None else seat.rank))
        self.plans = {kind: Plan(its) for kind, its in ranked.items()}


class Plan:
    """The seats of one section and kind as cells."""

    def __init__(self, ranked: Sequence[tuple[Seat, int]]) -> None:
        """Take seats in order of row and position, with their ranks."""
        self.pools = tuple([item_pool(seat.id) for seat, _ in ranked])
        self._blocks: list[tuple[int, int]] = []
        """Begin and end, among `pools`, of seats that are neighbours in a chain. Between two blocks is an empty cell."""
        self._cells: list[int] = []
        """Of each cell, the index of its pool; -1 if it is empty."""
        ranks: list[int] = []
        begin = 0
        for index, (seat, rank) in enumerate(ranked):
            if index and not _neighbours(ranked[index - 1][0], seat):
                self._blocks.append((begin, index))
                self._cells.append(-1)
                ranks.append(0)
                begin = index
            self._cells.append(index)
            ranks.append(rank)
        self._blocks.append((begin, len(self.pools)))
        self._sums = [0, *accumulate(ranks)]
        """The ranks of all cells before each cell."""
        self._by_rank = sorted((cell for cell, index in enumerate(self._cells) if index >= 0), key=ranks.__getitem__)

    def choices(self, free: bytes, count: int, together: Together, most: int = 1) -> list[list[str]]:
        """Return the best choices of `count` free seats, as item ids, best first: at most `most` that share no seat. `free` has a 1 for
        each pool with a free seat."""
        cells = b"\0".join([free[begin:end] for begin, end in self._blocks])
        if together is False:
            found = self._anywhere(cells, count, most)
        else:
            windows = self._windows(cells, count)
            if windows:
                found = _disjoint(windows, count, most, len(cells))
            else:
                found = self._scattered(cells, count, most) if together == "prefer" else []
        return [[item_name(self.pools[self._cells[cell]]) for cell in choice] for choice in found]

    def _windows(self, cells: bytes, count: int) -> list[tuple[int, int, int]]:
        """Return each window of free neighbours: single seats that it newly leaves, sum of its ranks, first cell."""
        sums, found = self._sums, list[tuple[int, int, int]]()
        for run in _FREE.finditer(cells):
            begin, end = run.span()
            spare = end - begin - count
            if spare >= 0:
                totals = map(sub, sums[begin + count : end + 1], sums[begin : end - count + 1])
                found += [((at == 1) + (spare - at == 1), total, begin + at) for at, total in enumerate(totals)]
        return found

    def _anywhere(self, cells: bytes, count: int, most: int) -> list[Sequence[int]]:
        """Return the free seats of the smallest ranks, wherever they are."""
        found: list[Sequence[int]] = []
        chosen: list[int] = []
        for cell in self._by_rank:
            if cells[cell]:
                chosen.append(cell)
                if len(chosen) == count:
                    found.append(chosen)
                    if len(found) == most:
                        break
                    chosen = []
        return found

    def _scattered(self, cells: bytes, count: int, most: int) -> list[Sequence[int]]:
        """Choose whole runs of free seats, the longest first, and one end of the last run. Make each further choice of the seats that
        remain."""
        runs = [self._run(*run.span()) for run in _FREE.finditer(cells)]
        heapify(runs)
        found: list[Sequence[int]] = []
        left = cells.count(1)
        while len(found) < most and left >= count:
            chosen: list[int] = []
            while len(chosen) < count:
                _, _, begin, end = heappop(runs)
                missing = count - len(chosen)
                if end - begin > missing:
                    first = self._total(begin, begin + missing) <= self._total(end - missing, end)
                    cut = begin + missing if first else end - missing
                    rest = (cut, end) if first else (begin, cut)
                    begin, end = (begin, cut) if first else (cut, end)
                    heappush(runs, self._run(*rest))
                chosen += range(begin, end)
            found.append(chosen)
            left -= count
        return found

    def _run(self, begin: int, end: int) -> tuple[int, int, int, int]:
        """Rate a run of free cells, so that the one to be taken first is the smallest."""
        return begin - end, self._total(begin, end), begin, end

    def _total(self, begin: int, end: int) -> int:
        return self._sums[end] - self._sums[begin]


def _neighbours(seat: Seat, other: Seat) -> bool:
    return seat.row == other.row and (other.position or 0) - (seat.position or 0) == 1


def _disjoint(windows: list[tuple[int, int, int]], count: int, most: int, cells: int) -> list[Sequence[int]]:
    """Choose the best windows that share no cell with a better one."""
    taken = bytearray(cells)
    found: list[Sequence[int]] = []
    for _, _, at in sorted(windows) if most > 1 else [min(windows)]:
        if not any(taken[at : at + count]):
            taken[at : at + count] = b"\1" * count
            found.append(range(at, at + count))
            if len(found) == most:
                break
    return found
