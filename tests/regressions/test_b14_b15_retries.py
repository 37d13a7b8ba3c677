"""B14 and B15: a reply that was lost, and an attempt that failed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Leg
from tests.support.kernels import Store, differences

DIES_SILENTLY = """
import os, sys, holdkit
hk = holdkit.connect(sys.argv[1])
if sys.argv[2] == "hold":
    hk.hold("p", 2, ttl=3600, op="req-1", entity="order:1")
else:
    hk.confirm(sys.argv[3], op="pay-1")
os._exit(9)  # it is done, and nobody was told
"""


def die_after(url: str, *said: str) -> None:
    died = subprocess.run([sys.executable, "-c", DIES_SILENTLY, url, *said], check=False, capture_output=True)
    assert died.returncode == 9, died.stderr.decode()


def test_b14_a_caller_dies_before_it_hears_the_answer(tmp_path: Path) -> None:
    """Another process asks again with the same operation id: the same hold with the same token, and one effect."""
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 5)
    die_after(url, "hold")
    with holdkit.connect(url) as hk:
        assert hk.pool("p").held == 2
        hold = hk.hold("p", 2, ttl=3600, op="req-1", entity="order:1")
        assert hold.replayed
        assert hk.pool("p").held == 2
        assert hold.ticket is not None
    die_after(url, "confirm", hold.ticket)
    with holdkit.connect(url) as hk:
        again = hk.confirm(hold, op="pay-1")
        assert (again.state, again.replayed) == ("confirmed", True)
        assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)
        assert [entry.action for entry in hk.history(hold)] == ["hold.held", "hold.confirmed"]
        assert hk.admin.verify().ok


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_b14_a_cancelled_await_is_unknown_and_its_retry_is_safe(engine: str, turns: int, tmp_path: Path) -> None:
    """Cancelled before it was queued, while queued, in flight, or just after: asked again, there is one effect."""

    async def play() -> None:
        url = "memory://" if engine == "memory" else f"sqlite:///{tmp_path}/holds.db"
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("p", 5)
            lost = asyncio.ensure_future(hk.hold("p", 2, ttl=60, op="req-1"))
            for _ in range(turns):
                await asyncio.sleep(0)  # one turn of the loop
            lost.cancel()
            with suppress(asyncio.CancelledError):
                await lost
            hold = await hk.hold("p", 2, ttl=60, op="req-1")
            assert (await hk.hold("p", 2, ttl=60, op="req-1")).id == hold.id
            assert (await hk.pool("p")).held == 2
            await hk.confirm(hold)
            assert (await hk.pool("p")).consumed == 2
            assert (await hk.admin.verify()).ok

    asyncio.run(play())


def test_b14_every_command_has_one_effect_however_often_it_is_sent(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 10, op="create")
    a, c = hk.hold("p", 4, ttl=60, op="hold"), hk.consume("p", 3, op="consume")
    for _ in range(3):
        hk.create_pool("p", 10, op="create")
        hk.admin.resize_pool("p", 12, op="resize")
        a = hk.hold("p", 4, ttl=60, op="hold")
        hk.extend(a, by=10, op="extend")
        hk.confirm(a, quantity=1, keep_rest=True, op="part")
        hk.release(a, quantity=1, op="drop")
        hk.confirm(a, op="all")
        hk.return_units(a, quantity=2, op="return")
        c = hk.consume("p", 3, op="consume")
        hk.admin.records.put("note", "1", "{}", op="note")
        store.clock.advance(1)
        hk = store.reopen(hk)
    assert hk.get(a).raw.deadline == 70_000_000
    assert (hk.pool("p").total, hk.pool("p").held, hk.pool("p").consumed) == (12, 0, 4)
    assert hk.admin.records.get("note", "1").version == 1
    assert len(hk.history(a)) == 6
    assert len(hk.history(c)) == 2
    assert differences(hk) == ()


def test_b14_another_worker_asks_again(store: Store) -> None:
    """Another actor, for another reason: the same answers, token included, from verbs and faces."""
    hk = store.open()

    def all_of_it(who: str) -> list[Any]:
        said: dict[str, Any] = {"actor": who, "reason": f"asked by {who}", "correlation_id": who}
        hk.create_pool("p", 10, op="create", **said)
        a = hk.hold("p", 4, ttl=60, op="hold", **said)
        claim = hk.claims.hold("email", "a@b.c", ttl=60, op="claim", **said)
        hk.items.add(["seat:1"])
        return [
            a.token,
            hk.confirm(a, quantity=1, keep_rest=True, op="part", **said),
            hk.extend(a, by=10, op="extend", **said),
            hk.release(a, op="rest", **said),
            hk.return_units(a, op="return", **said),
            hk.consume("p", 1, op="consume", **said),
            claim,
            claim.token,
            hk.confirm(claim, entity="user:1", op="claimed", **said),
            hk.items.hold(["seat:1"], ttl=None, token="me", op="seats", **said),
            hk.apply([holdkit.commands.Consume(legs=(Leg("p"),), **said)], op="batch"),
        ]

    first = all_of_it("user:7")
    end = len(hk.journal.list(limit=1_000))
    store.clock.advance(1)
    hk = store.reopen(hk)
    assert all_of_it("job:retry") == first
    assert len(hk.journal.list(limit=1_000)) == end
    assert {hold.actor for hold in hk.holds()} == {"user:7"}
    assert differences(hk) == ()


def test_b15_a_refused_attempt_leaves_nothing_in_the_way(store: Store) -> None:
    """The same hold id, owner and pools, with a new operation id or none: nothing of the failed attempt remains."""
    hk = store.open()
    hk.create_pool("p", 2)
    rival = hk.hold("p", 2, ttl=60)
    wanted = [Leg("fresh", 1, 5), Leg("p", 1)]
    for op in ("try-1", "try-2", None, None):
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold(wanted, ttl=60, id=f"{7:032x}", token="me", op=op)
        with pytest.raises(holdkit.errors.PoolNotFound):
            hk.pool("fresh")
    hk.release(rival)
    assert hk.hold(wanted, ttl=60, id=f"{7:032x}", token="me", op="try-3").state == "held"
    assert hk.pool("fresh").held == 1
    assert differences(hk) == ()


def test_b15_an_aborted_batch_leaves_nothing_in_the_way(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 1)
    place = holdkit.commands.PlaceHold(legs=(Leg("p", 1),), ttl=60, id=f"{1:032x}", token="me")
    impossible = holdkit.commands.PlaceHold(legs=(Leg("p", 9),), ttl=60)
    for _ in range(3):
        with pytest.raises(holdkit.InsufficientCapacity) as refused:
            hk.apply([place, impossible], atomic=True)
        assert refused.value.index == 1
    (granted,) = hk.apply([place], atomic=True)
    assert granted.unwrap().state == "held"
    assert differences(hk) == ()


def test_b15_a_block_that_raises_frees_its_units(tmp_path: Path) -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), hk.holding("p", 1, ttl=60):
                raise ZeroDivisionError
        with hk.holding("p", 1, ttl=60) as hold:
            pass
        assert hk.get(hold).state == "confirmed"
