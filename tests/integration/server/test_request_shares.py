"""Requests in work are shared: one tenant that fills its part leaves room for the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdkit.server import Settings
from holdkit.server.settings import Requests
from tests.support.servers import QUICK, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

FEW = replace(QUICK, requests=Requests(max=4, max_of_tenant=3))


async def stuck(here: InProcessApp, monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[asyncio.Event, Any]:
    """So many requests of one tenant that do not end before the event."""
    gate, arrived = asyncio.Event(), asyncio.Semaphore(0)
    read = type(here.running.kernel).pool

    async def slow(self: Any, id: str, **more: Any) -> Any:
        if id == "slow":
            arrived.release()
            await gate.wait()
        return await read(self, id, **more)

    monkeypatch.setattr(type(here.running.kernel), "pool", slow)
    await here.key("admin", "acme")
    tasks = [asyncio.create_task(here.call("GET", "/v1/pools/slow", tenant="acme")) for _ in range(count)]
    async with asyncio.timeout(PATIENCE):
        for _ in range(min(count, 3)):
            await arrived.acquire()
    return gate, tasks


@pytest.mark.parametrize(
    ("settings", "status"),
    [(FEW, 200), (replace(FEW, requests=replace(FEW.requests, max_of_tenant=4)), 503)],
    ids=["shared", "canary"],
)
def test_one_tenants_requests_do_not_take_all_places(
    settings: Settings, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with in_process_app(settings=settings) as here:
            await here.key("admin", "globex")
            gate, tasks = await stuck(here, monkeypatch, 10)
            other = await here.call("GET", "/v1/pools", tenant="globex")
            assert other.status_code == status
            own = await here.call("GET", "/v1/pools", tenant="acme")
            assert (own.status_code, own.json()["reason"], own.json()["effect"]) == (503, "overloaded", "none")
            assert own.headers["retry-after"] == "1"
            gate.set()
            answers = await asyncio.gather(*tasks)
            assert {one.status_code for one in answers} == {404, 503}
            assert here.running.limits.in_work_of == {}
            assert (await here.call("GET", "/v1/pools", tenant="acme")).status_code == 200

    asyncio.run(main())
