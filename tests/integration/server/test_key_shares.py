"""API keys are bounded per tenant: one tenant's keys, revoked or not, take nothing from another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdkit
from holdkit.core.reading import ListRecords
from holdkit.server import Keys, Settings
from holdkit.server._async.keystore import AsyncKeys
from holdkit.server.keys import KEPT_ENDED
from holdkit.server.settings import Tenants
from holdkit.testing import FakeClock
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

FEW = replace(QUICK, tenants=Tenants(max_keys=3))


def run(work: Any, settings: Settings = FEW, **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(settings=settings, **more) as here:
            await work(here)

    asyncio.run(main())


async def make(here: InProcessApp, tenant: str, **more: Any) -> Any:
    return await here.call("POST", "/v1/keys", {"name": "till", "scope": "read", **more}, tenant=tenant)


def test_one_tenants_keys_do_not_keep_another_from_creating_one() -> None:
    async def work(here: InProcessApp) -> None:
        for tenant in ("acme", "globex"):
            await here.key("admin", tenant)
        for _ in range(2):
            assert (await make(here, "acme")).status_code == 201
        full = await make(here, "acme")
        assert (full.status_code, full.json()["reason"], full.json()["effect"]) == (409, "keys_too_many", "none")
        assert (await make(here, "globex")).status_code == 201

    run(work)


def test_a_revoked_or_expired_key_does_not_count() -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        admin = await here.key("admin", "acme")
        for _ in range(10):
            made = await make(here, "acme")
            assert made.status_code == 201, made.text
            assert (await here.call("DELETE", f"/v1/keys/{made.json()['info']['id']}", key=admin)).status_code == 200
        for _ in range(2):
            assert (await make(here, "acme", ttl=60)).status_code == 201
        assert (await make(here, "acme")).status_code == 409
        clock.advance(60)
        assert (await make(here, "acme")).status_code == 201

    run(work, clock=clock)


def test_ended_keys_are_kept_for_a_while_and_up_to_a_number() -> None:
    clock = FakeClock(start=NOON)

    async def stored(here: InProcessApp) -> int:
        return len(await here.running.kernel._executor.read(ListRecords("", "~key", "", 1_000)))

    async def work(here: InProcessApp) -> None:
        admin = await here.key("admin", "acme")
        ids = []
        for _ in range(6):
            ids.append((await make(here, "acme")).json()["info"]["id"])
            await here.call("DELETE", f"/v1/keys/{ids[-1]}", key=admin)
            clock.advance(1)
        assert await stored(here) == 1 + 3 + 1, (
            "the admin's, the three that ended last, and one that the next creation removes"
        )
        listed = {one["id"] for one in (await here.call("GET", "/v1/keys", key=admin)).json()["items"]}
        assert set(ids[-3:]) <= listed
        clock.advance(KEPT_ENDED // 1_000_000)
        await here.running.admission.directory.remove_ended()
        assert await stored(here) == 1
        assert (await here.call("GET", "/v1/pools", key=admin)).status_code == 200

    run(work, clock=clock)


def test_neither_a_creation_nor_a_list_reads_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(here: InProcessApp) -> None:
        await here.key("admin", "acme")

        async def too_much(_self: Any) -> Any:
            raise AssertionError("all keys were read")

        monkeypatch.setattr(AsyncKeys, "stored", too_much)
        made = await make(here, "acme")
        assert made.status_code == 201
        assert (await here.call("GET", "/v1/pools", key=made.json()["key"])).status_code == 200
        listed = (await here.call("GET", "/v1/keys", tenant="acme")).json()["items"]
        assert made.json()["info"] in [{**one, "used_at": None} for one in listed]
        assert {one["tenant"] for one in listed} == {"acme"}

    run(work)


def test_more_changes_than_are_announced_are_found_all_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"

    async def work(here: InProcessApp) -> None:
        def elsewhere() -> list[str]:
            with holdkit.connect(url) as hk:
                return [Keys(hk).make(f"n{n}", scope="read", tenant=f"t{n}").text for n in range(80)]

        for text in await asyncio.to_thread(elsewhere):
            async with asyncio.timeout(PATIENCE):
                while (await here.call("GET", "/v1/pools", key=text)).status_code != 200:
                    await here.http.get("/readyz")

    run(work, url=url)
