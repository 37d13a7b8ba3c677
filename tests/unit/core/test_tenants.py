"""Tenants: pools, holds, operation ids and records of one are nothing to another."""

from __future__ import annotations

from holdkit.core.commands import CreatePool, PutRecord, Sweep
from holdkit.core.model import Leg
from holdkit.core.view import View
from tests.unit.core.world import World, confirm, done, expire, place, release, said


def test_nothing_crosses() -> None:
    world = World()
    world.pool("p", 1)
    world.pool("p", 5, tenant="acme")
    assert said(world.do(place("a", {"p": 5}, 60, tenant="acme"))) == "done"
    assert said(world.do(place("a", {"p": 1}, 60))) == "done"  # the same id, another tenant
    assert said(world.do(confirm("a", tenant="other"))) == "hold_not_found"
    assert said(world.do(place("b", "q", 60, tenant="acme"))) == "pool_not_found"
    assert said(world.do(confirm("a", tenant="acme"))) == "done"
    assert world.row("p").held == 1
    assert world.pools["acme", "p"].consumed == 5
    assert {entry.tenant for entry in world.entries if entry.subject == "p"} == {"", "acme"}


def test_a_removed_pool_raises_the_fences_of_its_tenant_only() -> None:
    world = World()
    for name in "abc":
        done(world.do(place(name, (Leg("~k", 1, 1),), 60, tenant="acme")))
        done(world.do(release(name, tenant="acme")))
    answers = world.batch(
        Sweep(),
        CreatePool(id="~k", total=1),
        CreatePool(id="~k", total=1, tenant="acme"),
        place("d", (Leg("~l", 1, 1),), 60),
        place("d", (Leg("~l", 1, 1),), 60, tenant="acme"),
    )
    assert [said(one) for one in answers] == ["done"] * 5
    fences = {key: (pool.floor, pool.fence) for key, pool in world.pools.items()}
    assert fences == {("", "~k"): (0, 0), ("acme", "~k"): (3, 3), ("", "~l"): (0, 1), ("acme", "~l"): (3, 4)}
    assert world.fence_floors == {"acme": 3}


def test_a_tenants_own_floor_counts_however_it_is_known() -> None:
    """As it was loaded, or as this batch has raised it: the higher one."""
    world = World()
    world.fence_floors = {"acme": 5}
    view = View(world.loaded())
    for fence, floor in ((3, 5), (7, 7), (6, 7)):
        view.raise_floor("acme", fence)
        assert (view.fence_floor("acme"), view.fence_floor("")) == (floor, 0)
    assert view.raised_floors == {"acme": 7}


def test_operation_ids_are_scoped() -> None:
    world = World()
    done(world.do(CreatePool(id="p", total=1, op="o")))
    assert said(world.do(CreatePool(id="q", total=1, op="o"))) == "operation_conflict"
    assert said(world.do(CreatePool(id="q", total=1, op="o", tenant="acme"))) == "done"
    replay = done(world.do(CreatePool(id="q", total=1, op="o", tenant="acme")))
    assert replay.replayed
    assert replay.pool is not None
    assert replay.pool.tenant == "acme"


def test_records_are_scoped() -> None:
    world = World()
    for tenant in ("", "acme"):
        done(world.do(PutRecord(kind="k", id="i", body="1", if_version=0, tenant=tenant)))
    assert len(world.records) == 2
    done(world.do(PutRecord(kind="k", id="i", body=None, tenant="acme")))
    assert list(world.records) == [("", "k", "i")]


def test_expiry_stays_with_its_tenant() -> None:
    world = World()
    for tenant in ("", "acme"):
        done(world.do(place("a", (Leg("~k", 1, 1),), 60, tenant=tenant)))
    world.slot = 60
    done(world.do(expire("a", tenant="acme")))
    assert world.pools["", "~k"].held == 1
    assert world.entries[-1].tenant == "acme"
    done(world.do(Sweep()))  # the sweep is everyone's
    assert world.pools["", "~k"].held == 0
    assert [entry.tenant for entry in world.entries[-2:]] == ["", "acme"]
