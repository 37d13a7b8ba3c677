"""A tenant's export and its end: what is deleted, what stays, and that a deletion can be killed at any step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Leg
from holdkit.client import connect
from holdkit.core.reading import ListKinds
from holdkit.kernel.import_ import Import, import_journal
from holdkit.server._async.deletion import AsyncDeletion
from holdkit.testing import FakeClock
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE

ENGINES = ["memory", "sqlite", "postgres"]


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        made: str = request.getfixturevalue("migrated")()
        return made
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'holds.db'}"


def run(work: Any, url: str = "memory://", **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(url, **more) as here:
            await work(here)

    asyncio.run(main())


async def furnish(hk: Any) -> None:
    """Something of everything that a tenant can have."""
    await hk.create_pool("p", 100)
    await hk.create_pool("many", 1_000)
    await hk.create_pool("archived", 3)
    await hk.admin.archive_pool("archived")
    for _ in range(120):
        await hk.hold("many", 1, ttl=600)
    await hk.hold({"p": 2, "many": 3}, ttl=600)
    await hk.confirm(await hk.hold("p", 5, ttl=600), quantity=2, keep_rest=True)
    await hk.confirm(await hk.hold("p", 5, ttl=600), entity="order:1")
    await hk.consume([Leg("born", 4, create_with_total=9)])
    await hk.hold("p", 7, ttl=1)
    await hk.claims.hold("email", "a@b", ttl=600)
    await hk.items.add(["seat:1", "seat:2"])
    await hk.items.hold(["seat:1"], ttl=600)
    for kind in ("note", "other"):
        for n in range(3):
            await hk.admin.records.put(kind, f"r{n}", '"x"')


async def furnish_lines(hk: Any, clock: FakeClock) -> None:
    """Waiters, tallies and trees; and units of accounts whose holds are gone."""
    await hk.create_pool("line", 3)
    await hk.consume("line", 1, account="old")
    await hk.consume("line", 1)
    for level in ("venue", "venue//stalls", "venue//stalls//row"):
        await hk.create_pool(level, 9)
    await hk.consume("venue//stalls//row", 2, account="old")
    await hk.consume("venue//stalls", 1, account="old")
    clock.advance(401 * 86_400)
    await hk.sweep()
    assert await hk.accounts.usage("old")
    assert (await hk.pool("line")).raw.loose == 1
    await hk.admin.limit_pool("line", 9)
    await hk.hold("line", 1, ttl=600, account="a")
    for waiter in range(12):  # more than there are rounds: none of them is served in the end
        await hk.join("line", 3, ttl=600, offer_ttl=60, account=f"b{waiter}")
    await hk.confirm(await hk.hold("venue//stalls//row", 2, ttl=600, account="a"), quantity=1, keep_rest=True)


async def ended(here: InProcessApp, job: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while (found := (await here.call("GET", f"/v1/jobs/{job}")).json())["ended_at"] is None:
            await here.http.get("/readyz")
    return found


async def delete(here: InProcessApp, **body: Any) -> Any:
    return await here.call("DELETE", "/v1/tenants/acme", {"confirm": "acme", **body}, op=body.get("actor"))


async def left_over(here: InProcessApp) -> list[Any]:
    hk = here.running.kernel.tenant("acme")
    pools = [*await hk.pools(archived=True), *await hk.pools("~", archived=True)]
    live = await hk.holds(state="held")
    kinds = await hk._executor.read(ListKinds("acme"))
    keys = [key for key in await here.running.keys.stored() if key.tenant == "acme"]
    return [*pools, *live, *kinds, *keys]


def test_a_deleted_tenant_leaves_its_journal_and_nothing_else(url: str) -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        hk = here.running.kernel.tenant("acme")
        await furnish(hk)
        old = await here.key("admin", "acme")
        await here.call("POST", "/v1/webhooks", {"url": "https://192.0.2.1/"}, tenant="acme")
        await here.call("POST", "/v1/pools", {"id": "theirs", "total": 5}, tenant="globex")
        clock.advance(2)
        active = await delete(here)
        assert (active.status_code, active.json()["reason"]) == (409, "tenant_active")
        await here.call("POST", "/v1/tenants/acme/disable", {"reason": "gone"})
        wrong = await here.call("DELETE", "/v1/tenants/acme", {"confirm": "acne"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "confirm_differs")
        begun = await delete(here, reason="contract ended", actor="user:7")
        assert begun.status_code == 202
        other = await here.call("DELETE", "/v1/tenants/globex", {"confirm": "globex"})
        assert other.json()["reason"] == "tenant_active"
        job = await ended(here, begun.json()["id"])
        assert job["state"] == "done", job
        assert (job["result"]["tenant"], job["result"]["keys"]) == ("acme", 1)
        assert job["result"]["holds"] >= 120
        assert await left_over(here) == []
        fences = [hold.fence for hold in await hk.holds(limit=500) if "p" in {leg.pool for leg in hold.legs}]
        assert len(fences) == 4
        retried = await delete(here, reason="contract ended", actor="user:7")
        assert (retried.status_code, retried.json()["id"]) == (202, job["id"]), (
            "the answer was lost, and is given again"
        )
        assert (await here.call("GET", "/v1/whoami", key=old)).status_code == 401
        forced = [entry for entry in await hk.journal.list(limit=10_000) if entry.reason == "contract ended"]
        assert {entry.actor for entry in forced} == {"user:7"}
        assert len(forced) > 120
        assert (await here.running.kernel.admin.verify()).ok
        assert [one["name"] for one in (await here.call("GET", "/v1/tenants")).json()["items"]] == ["globex"]
        here.keys.clear()
        made = await here.call("POST", "/v1/pools", {"id": "p", "total": 1}, tenant="acme")
        assert made.status_code == 201
        assert made.json()["fence"] >= max(fences), "one that remembers those fences refuses no new hold"
        strangers = await here.call("POST", "/v1/pools", {"id": "p", "total": 1}, tenant="globex")
        assert strangers.json()["fence"] == 0

    run(work, url, clock=clock)


def test_lines_tallies_and_trees_go_with_their_tenant(url: str) -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        hk = here.running.kernel.tenant("acme")
        await furnish_lines(hk, clock)
        await here.call("POST", "/v1/tenants/acme/disable", {"reason": "gone"})
        job = await ended(here, (await delete(here)).json()["id"])
        assert job["state"] == "done", job
        assert await left_over(here) == []
        assert await hk.holds(state="waiting") == []
        assert await hk.accounts.usage("a") == await hk.accounts.usage("old") == []
        assert (await here.running.kernel.admin.verify()).ok

    run(work, url, clock=clock)


def test_a_deletion_that_was_killed_at_any_step_is_started_again(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    async def work(here: InProcessApp) -> None:
        running, kernel = here.running, here.running.kernel
        steps = 0
        for kill_at in range(1, 200):
            await furnish(kernel.tenant("acme"))
            await running.tenants.set_state("acme", "disabled")
            calls = 0

            def progress(_done: int, _total: int, kill_at: int = kill_at) -> None:
                nonlocal calls
                calls += 1
                if calls == kill_at:
                    raise Killed

            deletion = AsyncDeletion(kernel, running.keys, running.tenants, "acme")
            await deletion.check("acme")
            try:
                await deletion.run(progress)
            except Killed:
                steps += 1
                assert (await running.tenants.find("acme")).state == "deleting"
                with pytest.raises(holdkit.InvalidRequest) as no:
                    await running.tenants.set_state("acme", "active")
                assert no.value.code == "tenant_deleting"
                again = AsyncDeletion(kernel, running.keys, running.tenants, "acme")
                await again.check("acme")
                await again.run(lambda *_: None)
            assert await left_over(here) == []
            if calls < kill_at:
                break
        assert steps > 5
        assert (await kernel.admin.verify()).ok

    run(work, f"sqlite:///{tmp_path / 'holds.db'}")


def test_a_deletion_that_has_to_wait_changes_nothing() -> None:
    async def work(here: InProcessApp) -> None:
        gate = asyncio.Event()

        async def busy(_job: Any) -> bytes:
            await gate.wait()
            return b"{}"

        here.running.jobs.start("delete_tenant", "", busy)
        await here.call("POST", "/v1/tenants/acme/disable", {})
        refused = await delete(here)
        assert (refused.status_code, refused.json()["reason"]) == (409, "job_running")
        assert (await here.call("POST", "/v1/tenants/acme/enable", {})).json()["state"] == "active"
        gate.set()

    run(work)


def test_an_export_over_http_can_be_imported(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path / 'holds.db'}", f"sqlite:///{tmp_path / 'copy.db'}"
    with live_server(url) as server, server.client() as http:
        with connect(server.url, key=server.key("admin", "acme")) as hk:
            hk.create_pool("p", 5)
            hold = hk.hold("p", 2, ttl="5m", metadata={"x": "y" * 5_000})
            for _ in range(100):
                hk.hold("p", 1, ttl=0.001, metadata={"x": "y" * 5_000})
        assert (
            http.get(
                "/v1/tenants/acme/export", headers={"Authorization": f"Bearer {server.key('admin', 'acme')}"}
            ).status_code
            == 403
        )
        answer = http.get("/v1/tenants/acme/export")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        assert len(answer.content) > 500_000, "more than one part"
        assert http.get("/v1/tenants/acme/export").status_code == 200, "one after the other"
    import_journal(copy, Import(line + b"\n" for line in answer.content.splitlines()))
    with holdkit.connect(copy) as there:
        assert there.admin.verify().ok
        assert there.tenant("acme").get(hold.id).metadata == {"x": "y" * 5_000}


def test_one_export_at_a_time() -> None:
    async def work(here: InProcessApp) -> None:
        here.running.exporting = True
        busy = await here.call("GET", "/v1/tenants/acme/export")
        assert (busy.status_code, busy.json()["reason"]) == (503, "export_running")
        here.running.exporting = False
        assert (await here.call("GET", "/v1/tenants/acme/export")).status_code == 200
        assert not here.running.exporting

    run(work, settings=QUICK)
