"""A slow, hostile or dead receiver costs its own tenant only. Each test was an attack that worked."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from holdkit.server.settings import Delivery, Settings
from tests.support.receivers import HANG, receivers
from tests.support.servers import InProcessApp, in_process_app

POOLS = ["pool.created"]


def settings(**more: Any) -> Settings:
    delivery = Delivery(**{"pauses": (), "seconds": 0.5, "allowed": frozenset(["127.0.0.1"]), **more})
    return Settings(sweep_every=0, webhooks=delivery)


async def hook(here: InProcessApp, url: str, tenant: str) -> str:
    made = await here.call("POST", "/v1/webhooks", {"url": url, "actions": POOLS}, tenant=tenant)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def pool(here: InProcessApp, name: str, tenant: str) -> None:
    made = await here.call("POST", "/v1/pools", {"id": name, "total": 1}, tenant=tenant)
    assert made.status_code == 201, made.text


async def parked(here: InProcessApp, id: str, tenant: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        while True:
            found = (await here.call("GET", f"/v1/webhooks/{id}/parked", tenant=tenant)).json()["items"]
            if len(found) == count:
                return list(found)


def test_parallel_replays_of_one_tenant_take_nothing_from_another() -> None:
    """More than a hundred attempts that waited for the shared connection pool left it unusable until a restart."""

    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            there.plans["/hangs"] = lambda _event: HANG
            theirs = await hook(here, there.url("/hangs"), "mallory")
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await parked(here, theirs, "mallory", 1)
            replays = [
                asyncio.create_task(here.call("POST", f"/v1/webhooks/{theirs}/replay", tenant="mallory"))
                for _ in range(300)
            ]
            await there.until(lambda: len(there.seen) > 1)
            await pool(here, "during", "quiet")
            await there.until(lambda: there.subjects("/good") == ["during"])
            await asyncio.gather(*replays)
            await pool(here, "after", "quiet")
            await there.until(lambda: there.subjects("/good") == ["during", "after"])

    asyncio.run(main())


def test_a_cookie_of_one_tenants_receiver_is_sent_to_nobody() -> None:
    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            there.headers["/theirs"] = b"Set-Cookie: session=of-mallory; Path=/\r\n"
            await hook(here, there.url("/theirs"), "mallory")
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await there.until(lambda: there.subjects("/theirs") == ["a"])
            await pool(here, "b", "quiet")
            await pool(here, "c", "mallory")
            await there.until(lambda: len(there.taken) == 3)
            assert [headers.get("cookie") for _, headers, _ in there.taken] == [None, None, None]

    asyncio.run(main())


def test_slow_name_lookups_of_one_tenant_stop_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup, answer = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *args: Any, **more: Any) -> Any:
        if host == "slow.example":
            answer.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "slow")
        return lookup("127.0.0.1" if host == "good.example" else host, *args, **more)

    async def main() -> None:
        allowed = frozenset(["slow.example", "good.example"])
        slow = settings(allowed=allowed, lookup_timeout=0.2)
        async with receivers() as there, in_process_app(settings=slow) as here:
            await here.key("admin", "mallory")
            try:
                await asyncio.gather(
                    *(hook(here, f"http://slow.example:{there.port}/{n}", "mallory") for n in range(12))
                )
                await hook(here, f"http://good.example:{there.port}/good", "quiet")
                await pool(here, "a", "mallory")
                await pool(here, "b", "quiet")
                await there.until(lambda: there.subjects("/good") == ["b"], 5)
            finally:
                answer.set()

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(main())


def test_events_that_hang_do_not_keep_a_replay_from_those_behind_them() -> None:
    async def main() -> None:
        quick = Settings(sweep_every=0, request_timeout=1.0, webhooks=settings().webhooks)
        async with receivers() as there, in_process_app(settings=quick) as here:
            up = False
            there.plans["/hangs"] = lambda event: 204 if up and event["subject"] > "c" else HANG if up else 500
            mine = await hook(here, there.url("/hangs"), "acme")
            for name in "abcdef":
                await pool(here, name, "acme")
            await parked(here, mine, "acme", 6)
            up = True
            await here.call("POST", f"/v1/webhooks/{mine}/replay", tenant="acme")
            await there.until(lambda: sorted(there.subjects("/hangs")) == ["d", "e", "f"], 10)
            left = await parked(here, mine, "acme", 3)
            assert [one["event"]["subject"] for one in left] == ["a", "b", "c"]

    asyncio.run(main())
