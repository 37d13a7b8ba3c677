"""A world with a bit of everything in it, and its rows as an engine would have stored them, whole or spoiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from holdkit.core.audit_rows import Difference, Found, LegKey, Stored, TenantKey
from holdkit.core.audit_sums import outstanding
from holdkit.core.commands import PutRecord, Sweep
from holdkit.core.model import Key, Leg, Pool, Record, RecordKey, StoredHold
from holdkit.core.outstanding import OpenLeg, Tally, TallyKey
from tests.unit.core.world import World, confirm, done, extend, hold_id, place, release


def bit_of_everything() -> World:
    """11 entries, 2 pools, 3 holds (b has ended), 1 record, a removed pool of fence 2.

    1 p, 2 to 4 a on p, 5 ~k, 6 and 7 b on both, 8 ~k is swept, 9 a record, 10 acme's q, 11 c on it.
    In the end p is 10/3/2 (total, held, consumed) of version 5, and q is 4/4/0 of version 2.
    """
    world = World()
    world.pool("p", 10)
    done(world.do(place("a", {"p": 5}, 60)))
    done(world.do(extend("a", by_slots=40)))
    done(world.do(confirm("a", 2, keep_rest=True)))
    done(world.do(place("b", (Leg("p"), Leg("~k", 1, 3)), 60)))
    done(world.do(release("b")))
    done(world.do(Sweep()))
    done(world.do(PutRecord(kind="k", id="i", body="1")))
    world.pool("q", 4, tenant="acme")
    done(world.do(place("c", {"q": 4}, 60, tenant="acme")))
    assert len(world.entries) == 11
    return world


def stored(world: World, **changed: Any) -> Stored:
    """Its rows, but for the tables that are given."""
    rows: dict[str, Any] = {
        "pools": dict(world.pools),
        "holds": dict(world.holds),
        "records": dict(world.records),
        "legs": outstanding(world.holds.values()),
        "fence_floors": dict(world.fence_floors),
        "tallies": dict(world.tallies),
    }
    return Stored(**rows | changed)


class Flawed:
    """Rows of which the engine that read them has something to say: by table and key, and whether a row can be read."""

    def __init__(self, rows: Stored, flaws: Mapping[tuple[str, tuple[Any, ...]], bool]) -> None:
        self._rows, self._flaws = rows, flaws

    def each_floor(self) -> Iterator[Found[TenantKey, int]]:
        return self._flawed("fence_floors", self._rows.each_floor())

    def each_pool(self) -> Iterator[Found[Key, Pool]]:
        return self._flawed("pools", self._rows.each_pool())

    def each_hold(self) -> Iterator[Found[Key, StoredHold]]:
        return self._flawed("holds", self._rows.each_hold())

    def each_record(self) -> Iterator[Found[RecordKey, Record]]:
        return self._flawed("records", self._rows.each_record())

    def each_leg(self) -> Iterator[Found[LegKey, OpenLeg]]:
        return self._flawed("legs", self._rows.each_leg())

    def each_tally(self) -> Iterator[Found[TallyKey, Tally]]:
        return self._flawed("tallies", self._rows.each_tally())

    def _flawed(self, table: str, rows: Iterator[Found[Any, Any]]) -> Iterator[Found[Any, Any]]:
        for key, row, _ in rows:
            legible = self._flaws.get((table, key))
            found = () if legible is None else (Difference(table, str(key), "flag", "0", "1"),)
            yield key, None if legible is False else row, found


def with_pool(world: World, name: str, **changed: Any) -> Any:
    """The pools, one of them spoiled."""
    return {**world.pools, ("", name): structs.replace(world.row(name), **changed)}


def with_hold(world: World, name: str, **changed: Any) -> Any:
    """The holds, one of them spoiled."""
    return {**world.holds, ("", hold_id(name)): structs.replace(world.held(name), **changed)}
