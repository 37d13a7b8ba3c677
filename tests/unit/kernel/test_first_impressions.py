"""What the first user of the API stumbled over, kept fixed."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

import holdkit
from holdkit.testing import FakeClock


def test_create_pool_with_exist_ok_leaves_the_pool_as_it_is() -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        hk.create_pool("p", total=5)
        hk.hold("p", 2, ttl=60)
        again = hk.create_pool("p", total=9, exist_ok=True)
        assert (again.total, again.held) == (5, 2)
        with pytest.raises(holdkit.errors.PoolExists):
            hk.create_pool("p", total=9)


def test_replayed_pools_and_records_say_so() -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        assert not hk.create_pool("p", total=5, op="a").replayed
        assert hk.create_pool("p", total=5, op="a").replayed
        assert not hk.pool("p").replayed
        first, second = (hk.admin.records.put("note", "n", '"x"', op="b") for _ in range(2))
        assert first is not None
        assert second is not None
        assert (first.replayed, second.replayed) == (False, True)


def test_a_recorded_refusal_tells_how_to_try_again() -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        hk.create_pool("p", total=1)
        for replayed in (False, True):
            with pytest.raises(holdkit.InsufficientCapacity) as refused:
                hk.hold("p", 2, ttl=60, op="a")
            assert ("use a new operation id" in str(refused.value)) is replayed


def test_refusals_name_their_numbers() -> None:
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", total=5)
        hold = hk.hold("p", 2, ttl=60)
        with pytest.raises(holdkit.errors.BelowInUse) as below:
            hk.admin.resize_pool("p", 1)
        with pytest.raises(holdkit.errors.QuantityExceedsHold) as exceeds:
            hk.release(hold, quantity=3)
        clock.advance(60)
        with pytest.raises(holdkit.HoldExpired) as expired:
            hk.confirm(hold)
    assert (below.value.in_use, exceeds.value.left, expired.value.deadline) == (2, 2, hold.deadline)


def test_an_atomic_batch_raises_what_stopped_it_with_the_index_of_its_command() -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        with pytest.raises(holdkit.errors.PoolNotFound) as refused:
            hk.apply(
                [holdkit.commands.CreatePool(id="p", total=1), holdkit.commands.ResizePool(id="q", total=1)],
                atomic=True,
            )
        assert (refused.value.index, refused.value.subject, hk.pools()) == (1, "q", [])


def test_the_url_of_a_kernel_opens_it_again(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/100%25 sure.db") as hk:
        hk.create_pool("p", total=1)
        url = hk.url
    with holdkit.connect(url) as again:
        assert again.pool("p").total == 1


def test_stats_count_batches_and_commands() -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", total=1)
        hk.apply([holdkit.commands.ResizePool(id="p", total=total) for total in (2, 3, 4)])
        stats = hk.admin.stats()
        assert stats.generation
        sizes = (1, 1, *[0] * 9)
        assert stats == holdkit.reports.Stats(
            batches=2, commands=4, largest=3, sizes=sizes, generation=stats.generation
        )


def test_a_task_never_waits_behind_its_own_transaction(tmp_path: Path) -> None:
    async def main() -> None:
        async with await holdkit.connect_async(f"sqlite:///{tmp_path}/holds.db") as hk:
            await hk.create_pool("p", total=3)
            mine = sqlite3.connect(tmp_path / "holds.db", isolation_level=None)
            await hk.hold("p", 1, ttl=60, tx=mine)
            with pytest.raises(holdkit.InvalidRequest) as refused:
                await hk.hold("p", 1, ttl=60)
            assert (refused.value.field, refused.value.code) == ("tx", "tx_open_here")
            mine.commit()
            await hk.hold("p", 1, ttl=60)
            assert (await hk.pool("p")).held == 2
            mine.close()

    asyncio.run(main())


def test_async_kernels_close_under_the_same_name() -> None:
    async def main() -> None:
        hk = await holdkit.connect_async("memory://")
        await hk.close()
        assert hk._executor.closed

    asyncio.run(main())


def test_messages_advise_what_works() -> None:
    for url in ("holds.db", ""):
        with pytest.raises(holdkit.InvalidRequest, match="has no scheme; known are memory://"):
            holdkit.connect(url)
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        hk.create_pool("p", total=5)
        with pytest.raises(holdkit.errors.PoolExists, match=r"exist_ok=True .* hk\.admin\.resize_pool"):
            hk.create_pool("p", total=9)
        with pytest.raises(holdkit.InvalidRequest, match=r"at most 30d \(max_ttl\)"):
            hk.hold("p", 1, ttl="31d")
        with pytest.raises(holdkit.InvalidRequest, match="must be a Hold or its ticket"):
            hk.confirm("nonsense")


@pytest.mark.parametrize("reason", ["", " ", None])
def test_freeing_needs_a_reason(reason: str) -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        hk.items.add(["a"])
        hk.consume(holdkit.items("a"))
        hk.confirm(hk.claims.hold("email", "a@b.c", ttl=60))
        with pytest.raises(holdkit.InvalidRequest, match="reason: a forced call must say why"):
            hk.items.free(["a"], reason=reason)
        with pytest.raises(holdkit.InvalidRequest, match="reason: a forced call must say why"):
            hk.claims.free("email", "a@b.c", reason=reason)
        assert (hk.items.get(["a"])[0].state, hk.claims.is_taken("email", "a@b.c")) == ("confirmed", True)
