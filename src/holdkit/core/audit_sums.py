"""The sums that an audit computes over rows: outstanding legs, consumed units, usage of accounts, children, fence floors; and the checks
of each pool and each tally against the other rows about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from msgspec import Struct

from .audit_rows import Difference, Folded, Found, LegKey, Mismatches, StoredRows, floor_name, leg_name, row_name
from .model import Key, Pool, StoredHold
from .outstanding import OpenLeg, Tally, TallyKey
from .trees import SEPARATOR

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")
W = TypeVar("W")


def aligned(
    stored: Iterator[Found[K, V]], expected: Iterator[tuple[K, W]]
) -> Iterator[tuple[K, V | None, Sequence[Difference], W | None]]:
    """Yield stored and expected rows in one stream, in key order: key, stored row, its faults, expected row."""
    mine, theirs = next(stored, None), next(expected, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine[0] < theirs[0]):
            assert mine is not None
            yield (*mine, None)
            mine = next(stored, None)
        elif mine is None or theirs[0] < mine[0]:
            yield theirs[0], None, (), theirs[1]
            theirs = next(expected, None)
        else:
            yield (*mine, theirs[1])
            mine, theirs = next(stored, None), next(expected, None)


def compare_floors(stored: StoredRows, folded: Folded, wrong: Mismatches) -> Iterator[Difference]:
    """Compare the fence floors; a tenant without a row has the floor 0."""
    for key, mine, found, theirs in aligned(stored.each_floor(), folded.floors.items()):
        if found or (mine or 0) != (theirs or 0):
            wrong.floors[key] = mine, theirs
            yield from found
        if (mine or 0) != (theirs or 0):
            yield Difference("fence_floors", floor_name(key[0]), "floor", str(mine or 0), str(theirs or 0))


def filing_pools(folded: Folded) -> Iterator[tuple[Key, Pool]]:
    """Yield the folded pools, and store the loose units and the number of children of each on the way."""
    for key, pool in folded.pools.items():
        if pool.loose or SEPARATOR in pool.id:
            folded.file_pool(pool)
        yield key, pool


def filing_tallies(folded: Folded) -> Iterator[tuple[TallyKey, Tally]]:
    """Yield the folded tallies, and store the loose units of each on the way."""
    for key, tally in folded.tallies.items():
        folded.file_tally(key, tally)
        yield key, tally


def filing_units(folded: Folded) -> Iterator[tuple[Key, StoredHold]]:
    """Yield the folded holds, and store their outstanding legs and consumed units on the way."""
    put = folded.legs.put
    for key, hold in folded.holds.items():
        for leg, units in _outstanding(hold):
            put(leg, units)
        if hold.consumes or hold.account is not None:
            folded.file_units(hold)
        yield key, hold


def _outstanding(hold: StoredHold) -> Iterator[tuple[LegKey, OpenLeg]]:
    deadline = hold.leg_deadline
    for pool, leg in hold.open_legs():
        yield (hold.tenant, pool, deadline, hold.id), leg


def outstanding(holds: Iterable[StoredHold]) -> dict[LegKey, OpenLeg]:
    """Return the legs that still hold units, or wait for them."""
    return {leg: units for hold in holds for leg, units in _outstanding(hold)}


def compare_legs(stored: StoredRows, folded: Folded, wrong: Mismatches) -> Iterator[Difference]:
    """Check that the outstanding legs are those of the folded holds."""
    for key, mine, found, theirs in aligned(stored.each_leg(), folded.legs.items()):
        if found or mine != theirs:
            wrong.legs[key] = mine, theirs
            yield from found
        name = leg_name(key[0], key[1], key[3])
        for field in OpenLeg.__struct_fields__ if mine != theirs else ():
            was, says = getattr(mine or _NO_LEG, field), getattr(theirs or _NO_LEG, field)
            if was != says:
                yield Difference("legs", name, field, str(was), str(says))


_NO_LEG: Final = OpenLeg(0)


def check_pools(stored: StoredRows, folded: Folded, wrong: Mismatches) -> Iterator[Difference]:
    """Compare each stored pool with the other stored rows about it."""
    by_pool = groupby(stored.each_leg(), key=_pool_of_leg)
    sums = ((key, _sum_legs([leg for _, leg, _ in legs if leg is not None])) for key, legs in by_pool)
    for key, pool, _, open_ in aligned(stored.each_pool(), sums):
        if pool is None:
            continue  # legs of a missing pool: already reported
        counted = Counted(open_ or (0, 0), folded.consumed.get(key) or 0, folded.children.get(key) or 0)
        for difference in pool_agrees(pool, counted):
            wrong.pools.setdefault(key, (pool, folded.pools.get(key)))
            yield difference


def _pool_of_leg(found: Found[LegKey, OpenLeg]) -> Key:
    return found[0][:2]


def _sum_legs(legs: list[OpenLeg]) -> tuple[int, int]:
    return sum([leg.units for leg in legs]), sum([1 for leg in legs if leg.waiting])


class Counted(Struct, frozen=True):
    """The counts of a pool by other rows."""

    open_legs: tuple[int, int]
    """Units held by its outstanding legs, and how many wait."""
    consumed: int
    """What holds account for, and what is loose, on it and below it."""
    children: int = 0


def pool_agrees(pool: Pool, counted: Counted) -> Iterator[Difference]:
    """Check a stored pool against the other rows."""
    held, waiting = counted.open_legs
    for field, was, says, how in (
        ("held", pool.held, held, "sum of its legs"),
        ("waiting", pool.waiting, waiting, "its legs that wait"),
        ("consumed", pool.consumed, counted.consumed, "by its holds, and loose"),
        ("children", pool.children, counted.children, "pools below it"),
    ):
        if was != says:
            yield Difference("pools", row_name(pool.key), field, str(was), f"{says} ({how})")


def check_tallies(stored: StoredRows, folded: Folded, wrong: Mismatches) -> Iterator[Difference]:
    """Compare each stored tally with the units of the account's holds."""
    for key, tally, _, used in aligned(stored.each_tally(), folded.used.items()):
        if (0 if tally is None else tally.used) != (used or 0):
            wrong.tallies.setdefault(key, (tally, folded.tallies.get(key)))
            says = f"{used or 0} (by its holds, and loose)"
            yield Difference("tallies", row_name(key), "used", str(0 if tally is None else tally.used), says)
