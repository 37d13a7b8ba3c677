"""Tenants: an operator lists, disables and enables them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdkit.core.reading import ReadHistory, entry_of
from holdkit.server import AsyncKeys
from holdkit.server._async.tenants import AsyncTenants
from holdkit.testing import FakeClock
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE


def run(work: Any, url: str = "memory://", **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(url, **more) as here:
            await work(here)

    asyncio.run(main())


def test_tenants_with_pools_keys_or_a_record_are_listed() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "p", "total": 1}, tenant="pools")
        await here.key("read", "keys")
        await here.call("PUT", "/v1/tenants/record/quota", {"quota": {"bytes": 5}})
        page = (await here.call("GET", "/v1/tenants", key="read")).json()
        assert [(one["name"], one["state"], one["keys"], one["usage"]) for one in page["items"]] == [
            ("keys", "active", 1, None),
            ("pools", "active", 1, None),
            ("record", "active", 0, None),
        ]
        first = (await here.call("GET", "/v1/tenants?limit=2")).json()
        rest = (await here.call("GET", f"/v1/tenants?limit=2&after={first['next']}")).json()
        assert [one["name"] for one in first["items"] + rest["items"]] == ["keys", "pools", "record"]
        assert rest["next"] is None
        one = (await here.call("GET", "/v1/tenants/pools")).json()
        assert (one["usage"]["pools"], one["usage"]["complete"]) == (1, True)
        missing = await here.call("GET", "/v1/tenants/nobody")
        assert (missing.status_code, missing.json()["reason"]) == (404, "tenant_not_found")

    run(work)


def test_a_disabled_tenant_is_not_admitted_and_an_enabled_one_has_everything_again() -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "p", "total": 5}, tenant="acme")
        held = await here.call("POST", "/v1/holds", {"pool": "p", "ttl": 60}, tenant="acme", op="h1")
        kept = await here.call("POST", "/v1/holds", {"pool": "p", "ttl": 600}, tenant="acme", op="h2")
        said = await here.call("POST", "/v1/tenants/acme/disable", {"reason": "unpaid", "actor": "user:7"})
        assert (said.status_code, said.json()["state"], said.json()["note"]) == (200, "disabled", "unpaid")
        for method, path in (
            ("GET", "/v1/pools"),
            ("GET", "/v1/whoami"),
            ("POST", f"/v1/holds/{held.json()['id']}/confirm"),
        ):
            refused = await here.call(method, path, {} if method == "POST" else None, tenant="acme", op="x")
            assert (refused.status_code, refused.json()["reason"], refused.json()["effect"]) == (
                403,
                "tenant_disabled",
                "none",
            )
        assert (await here.call("GET", "/v1/pools", key="hk_wrong", tenant="acme")).status_code == 401
        assert (await here.call("GET", "/v1/pools", tenant="globex")).status_code == 200
        clock.advance(61)
        assert (await here.call("POST", "/v1/sweep", {})).json()["expired"] == 1, "its holds go on expiring"
        again = await here.call("POST", "/v1/tenants/acme/enable", {})
        assert (again.json()["state"], again.json()["note"]) == ("active", None)
        body = {"token": kept.json()["token"]}
        confirmed = await here.call("POST", f"/v1/holds/{kept.json()['id']}/confirm", body, tenant="acme", op="c")
        assert confirmed.status_code == 200
        rows = await here.running.kernel._executor.read(ReadHistory("", "~tenant/=acme"))
        assert next((entry.actor, entry.reason) for entry in map(entry_of, rows)) == ("user:7", "unpaid")

    run(work, clock=clock)


def test_another_server_learns_of_it_within_its_refresh(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"

    async def work(here: InProcessApp) -> None:
        await here.key("admin", "acme")
        async with in_process_app(url) as elsewhere:
            keys = AsyncKeys(elsewhere.running.kernel)
            await AsyncTenants(elsewhere.running.kernel, keys).set_state("acme", "disabled", reason="unpaid")
            async with asyncio.timeout(PATIENCE):
                while (await here.call("GET", "/v1/whoami", tenant="acme")).status_code != 403:
                    await here.http.get("/readyz")

    run(work, url)


def test_streams_of_a_disabled_tenant_end() -> None:
    with live_server() as server, server.client() as operator, server.client(server.key("read", "acme")) as acme:
        with acme.stream("GET", "/v1/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: hello"
            operator.post("/v1/tenants/acme/disable", json={})
            rest = list(lines)
        assert rest, "the stream has ended"
        assert acme.get("/v1/events").json()["reason"] == "tenant_disabled"


def test_webhooks_of_a_disabled_tenant_pause_and_resume() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"}, tenant="acme")
        sender = here.running.webhook_sender
        assert [*sender._runners] == ["acme"]
        await here.call("POST", "/v1/tenants/acme/disable", {})
        assert sender._runners == {}
        await sender.sync_all()
        assert sender._runners == {}, "the periodic round does not start them"
        await here.call("POST", "/v1/tenants/acme/enable", {})
        assert [*sender._runners] == ["acme"]

    run(work)


@pytest.mark.parametrize("path", ["/v1/tenants//disable", "/v1/tenants/" + "t" * 65 + "/disable"])
def test_what_cannot_be_disabled(path: str) -> None:
    async def work(here: InProcessApp) -> None:
        assert (await here.call("POST", path, {})).status_code in (400, 404)
        assert (await here.call("GET", "/v1/pools")).status_code == 200

    run(work, settings=QUICK)
