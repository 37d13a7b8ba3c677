"""Costly requests run one at a time, tenants in turn, and pause in between, while another tenant sends short ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec import structs

from holdkit.server import Settings, fairness
from holdkit.server.fairness import ACTIVE, REMEMBERED, Pacing
from holdkit.server.settings import Rates
from holdkit.wire.problems import Problem
from tests.support.servers import QUICK, InProcessApp, in_process_app

COSTLY = 65


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fairness, "time", made)
    return made


async def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has run to its first wait."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0)
    return task


def test_a_tenant_that_is_active_alone_passes_without_a_turn(clock: Clock) -> None:
    paced = Pacing(Settings())
    assert not paced.costly("a", 1_000)
    assert not paced.costly("a", 1)
    assert not paced.costly("a", 1_000)


def test_a_costly_request_needs_a_turn_while_another_tenant_is_active(clock: Clock) -> None:
    paced = Pacing(Settings())
    assert not paced.costly("b", 1)
    assert paced.costly("a", COSTLY)
    assert not paced.costly("a", COSTLY - 1), "short requests never wait"
    assert paced.costly("a", COSTLY), "b is active, whoever was last"
    assert paced.costly("b", COSTLY), "and so is a"
    clock.now += ACTIVE
    assert not paced.costly("a", COSTLY)


def test_costly_requests_alone_make_nobody_wait(clock: Clock) -> None:
    paced = Pacing(Settings())
    assert not paced.costly("a", COSTLY)
    assert not paced.costly("b", COSTLY)


def test_a_tenant_whose_requests_touch_many_legs_is_costly_for_a_while(clock: Clock) -> None:
    paced = Pacing(Settings())
    assert not paced.costly("b", 1)
    paced.touched("a", COSTLY - 1)
    assert not paced.costly("a", 1)
    paced.touched("a", COSTLY)
    assert paced.costly("a", 1)
    assert not paced.costly("b", 1), "that is a's alone"
    clock.now += REMEMBERED
    assert not paced.costly("a", 1)


def test_it_can_be_turned_off(clock: Clock) -> None:
    paced = Pacing(Settings(rates=Rates(pace=0)))
    assert not paced.costly("b", 1)
    assert not paced.costly("a", COSTLY)


def test_one_at_a_time_tenants_in_turn_each_in_order(clock: Clock) -> None:
    async def main() -> None:
        paced, order = Pacing(Settings()), list[str]()

        async def request(tenant: str, name: str) -> None:
            began = await paced.begin(tenant)
            order.append(name)
            await asyncio.sleep(0)
            assert order[-1] == name, "no other has begun"
            paced.end(tenant, began)

        names = ["a1", "a2", "a3", "b1", "c1", "b2"]
        await asyncio.gather(*[request(name[0], name) for name in names])
        assert order == ["a1", "a2", "b1", "c1", "a3", "b2"]
        assert not paced._waiting

    asyncio.run(main())


def test_the_pause_is_as_long_as_the_request_took(clock: Clock) -> None:
    async def main() -> None:
        paced = Pacing(Settings(rates=Rates(pace=2.0)))
        assert not paced.costly("b", 1)
        began = await paced.begin("a")
        clock.now += 0.2
        paced.end("a", began)
        waiting = await started(paced.begin("a"))
        assert not waiting.done()
        assert paced._timer is not None
        paced._timer.cancel()
        clock.now += 0.39
        paced._resume()
        await asyncio.sleep(0)
        assert not waiting.done(), "it pauses for 0.4 seconds"
        assert paced._timer is not None
        paced._timer.cancel()
        clock.now += 0.02
        paced._resume()
        began = await waiting
        clock.now += ACTIVE
        paced.end("a", began)
        assert paced._free_at == clock.now, "nobody else is active any more"

    asyncio.run(main())


def test_a_tenant_has_so_many_waiting_and_others_still_enter(clock: Clock) -> None:
    async def main() -> None:
        paced = Pacing(Settings(rates=Rates(max_costly=2)))
        began = await paced.begin("a")
        waiting = [await started(paced.begin("a")) for _ in range(2)]
        with pytest.raises(Problem) as refused:
            await paced.begin("a")
        assert (refused.value.status, refused.value.reason, refused.value.effect) == (503, "overloaded", "none")
        other = await started(paced.begin("b"))
        for tenant, one in (("a", waiting[0]), ("b", other), ("a", waiting[1])):
            paced.end(tenant, began)
            began = await one
        paced.end("a", began)

    asyncio.run(main())


@pytest.mark.parametrize("when", ["waiting", "just in turn", "just before its turn"])
def test_a_cancelled_request_leaves_its_turn_to_the_next(clock: Clock, when: str) -> None:
    async def main() -> None:
        paced = Pacing(Settings())
        began = await paced.begin("a")
        cancelled = await started(paced.begin("a"))
        following = await started(paced.begin("b"))
        if when == "just in turn":
            paced.end("a", began)
        cancelled.cancel()
        if when == "just before its turn":  # it is cancelled, and has not noticed yet
            paced.end("a", began)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        if when == "waiting":
            assert "a" not in paced._waiting
            paced.end("a", began)
        paced.end("b", await following)
        assert (await paced.begin("c"), paced._waiting) == (clock.now, {})

    asyncio.run(main())


# Over HTTP


async def hold(here: InProcessApp, tenant: str) -> int:
    told = await here.call(
        "POST", "/v1/holds", {"pool": "p", "ttl": 60}, key="hold", tenant=tenant, op=f"short-{tenant}"
    )
    return told.status_code


async def large(here: InProcessApp, tenant: str, number: int) -> int:
    commands = [{"type": "hold", "pool": "p", "ttl": 60}] * 70
    told = await here.call("POST", "/v1/batch", {"commands": commands}, key="hold", tenant=tenant, op=f"{number}")
    return told.status_code


def test_large_batches_of_one_tenant_are_decided_one_by_one_in_turn_with_those_of_another() -> None:
    """The attack: a tenant has many batches under way at once, and they fill every transaction."""

    async def main() -> None:
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(pace=1e-6))) as here:
            decided = list[list[str]]()
            engine = here.running.kernel._executor.engine
            apply = engine.apply
            for tenant in ("a", "b", "quiet"):
                assert (
                    await here.call("POST", "/v1/pools", {"id": "p", "total": 10**6}, tenant=tenant)
                ).status_code == 201
                await here.key("hold", tenant)

            def watch(groups: Any, **more: Any) -> Any:
                decided.append([group.commands[0].tenant for group in groups if len(group.commands) > 1])
                return apply(groups, **more)

            engine.apply = watch  # type: ignore[method-assign]
            assert await hold(here, "quiet") == 201
            sent = [large(here, "a", number) for number in range(4)] + [large(here, "b", 9)]
            assert await asyncio.gather(*sent) == [200] * 5
            assert [some for some in decided if some] == [["a"], ["a"], ["b"], ["a"], ["a"]]

    asyncio.run(main())


def test_a_request_beyond_its_rate_is_refused_after_a_moment() -> None:
    """A client that resends at once is kept waiting, and the event loop is free meanwhile."""

    async def main() -> None:
        async with in_process_app(
            settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=2, refusal_delay=60.0))
        ) as here:
            for tenant in ("a", "b"):
                await here.key("read", tenant)
            assert [(await here.call("GET", "/v1/pools", key="read", tenant="a")).status_code for _ in range(2)] == [
                200
            ] * 2
            refused = asyncio.create_task(here.call("GET", "/v1/pools", key="read", tenant="a"))
            assert (await here.call("GET", "/v1/pools", key="read", tenant="b")).status_code == 200
            assert not refused.done()
            refused.cancel()

    asyncio.run(main())
