"""Storage quotas: a tenant cannot fill the disk of all, and can always end what it holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import holdkit
from holdkit.core.reading import ListRecords
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._async.usage import AsyncUsageCounter
from holdkit.operations import OPERATIONS
from holdkit.server import Application, Settings
from holdkit.server.quotas import Quotas
from holdkit.server.room import GROWING, grows
from holdkit.server.settings import Tenants
from holdkit.wire.batches import Batch
from holdkit.wire.journal import MoveCursor
from holdkit.wire.records import PutRecordBody
from holdkit.wire.windows import Windowed
from tests.support.servers import QUICK, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

SMALL = replace(QUICK, tenants=Tenants(quota_bytes=100_000), upkeep=replace(QUICK.upkeep, usage_every=0.05))
NOTE = {"note": "x" * 5_000}


def run(work: Any, settings: Settings = SMALL, url: str = "memory://") -> None:
    async def main() -> None:
        async with in_process_app(url, settings=settings) as here:
            await here.call("POST", "/v1/pools", {"id": "p", "total": 1_000_000}, tenant="acme")
            await work(here)

    asyncio.run(main())


async def hold(here: InProcessApp, n: int, tenant: str = "acme") -> Any:
    body = {"pool": "p", "ttl": 600, "metadata": NOTE}
    return await here.call("POST", "/v1/holds", body, tenant=tenant, op=f"op-{n}")


async def fill(here: InProcessApp, most: int = 1_000) -> list[Any]:
    """Hold until a hold is refused; the holds that were granted."""
    held: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        for n in range(most):
            found = await hold(here, n)
            if found.status_code != 201:
                assert (found.status_code, found.json()["reason"]) == (403, "storage_quota_exceeded")
                assert found.json()["effect"] == "none"
                assert (found.json()["what"], found.json()["allowed"]) == ("bytes", 100_000)
                assert found.json()["used"] >= 100_000
                return held
            held.append(found.json())
            await asyncio.sleep(0)  # lets the count run
    raise AssertionError("nothing was refused")


def test_one_key_cannot_fill_the_storage_of_all(tmp_path: Any) -> None:
    async def work(here: InProcessApp) -> None:
        number = len(await fill(here))
        assert number < 100
        async with asyncio.timeout(PATIENCE):  # a count may find less than was estimated: then there is room again
            while (await here.call("GET", "/v1/usage", tenant="acme")).json()["usage"]["bytes"] < 100_000:
                await hold(here, number)
                number += 1
        assert (await here.call("GET", "/v1/stats")).json()["full_quotas"] == 1
        metrics = (await here.call("GET", "/metrics")).text
        assert "\nholdkit_full_quotas 1.0\n" in metrics
        assert "acme" not in metrics
        usage = (await here.call("GET", "/v1/usage", tenant="acme")).json()
        assert usage["quota"] == {"bytes": 100_000, "rows": None}
        assert usage["usage"]["bytes"] < 200_000
        await here.call("POST", "/v1/pools", {"id": "p", "total": 10}, tenant="globex")
        assert (await hold(here, 0, "globex")).status_code == 201, "another tenant has its own quota"

    run(work, url=f"sqlite:///{tmp_path / 'holds.db'}")


def test_what_a_tenant_holds_can_be_ended_when_its_quota_is_full() -> None:
    async def work(here: InProcessApp) -> None:
        one, two, three, four = [(await hold(here, n)).json() for n in range(4)]
        await here.call("PUT", "/v1/tenants/acme/quota", {"quota": {"bytes": 1}})
        async with asyncio.timeout(PATIENCE):
            n = 4
            while (await hold(here, n)).status_code == 201:  # until the first count
                n += 1

        async def change(kind: str, which: Any, **body: Any) -> int:
            path = f"/v1/holds/{which['id']}/{kind}"
            body = {"token": which["token"], **body}
            return (await here.call("POST", path, body, tenant="acme", op=f"{kind}-{which['id']}")).status_code

        assert await change("extend", one, by=60) == 200
        assert await change("reassign", one, account="customer:9") == 200
        assert await change("confirm", one) == 200
        assert await change("return", one) == 200
        assert await change("release", two) == 200
        ends = [{"type": "confirm", "id": three["id"], "token": three["token"]}]
        assert (await here.call("POST", "/v1/batch", {"commands": ends}, tenant="acme", op="b1")).status_code == 200
        both = [{"type": "release", "id": four["id"], "token": four["token"]}, {"type": "hold", "pool": "p", "ttl": 60}]
        refused = await here.call("POST", "/v1/batch", {"commands": both}, tenant="acme", op="b2")
        assert (refused.status_code, refused.json()["reason"]) == (403, "storage_quota_exceeded")
        gone = await here.call("PUT", "/v1/records/k/r", {"body": None}, tenant="acme", op="r1")
        assert gone.status_code == 200, gone.text
        kept = await here.call("PUT", "/v1/records/k/r", {"body": "1"}, tenant="acme", op="r2")
        assert kept.status_code == 403

    run(work)


def test_every_route_that_changes_something_is_either_refused_or_never() -> None:
    """A new route must be decided on: may a full quota refuse it?"""
    never = {
        "ArchivePool", "BudgetConfirm", "BudgetResize", "ChangeLimitsBody", "ChangeQuota", "ChangeTenant", "Confirm",
        "ConfirmItems", "Expire", "Extend", "FreeClaim", "FreeItems", "Leave", "NewKeyBody", "Reassign", "ReleaseItems",
        "NewWebhook", "PoolEnd", "PoolLimit", "PoolTotal", "Release", "RemoveSeats", "ResolveSaga", "Return", "ReturnToPool",
        "RotateKeyBody", "RotateWebhook", "SweepBody", "DeleteTenant", "RemoveWebhook", "ReplayWebhook", "RetrySaga",
        "RevokeKeyBody", "EraseBody",
    }  # fmt: skip
    by_content = {Batch, Windowed, PutRecordBody, MoveCursor}
    bodies = {route.body for route in OPERATIONS if route.changes and route.body is not None}
    assert len(bodies) > 20
    for body in bodies - by_content:
        if issubclass(body, GROWING):
            continue
        assert body.__name__ in never, f"{body.__name__} is new: may a full quota refuse it?"
    assert not any(body.__name__ in never for body in GROWING)
    assert grows(MoveCursor(cursor="c", if_version=0))
    assert not grows(MoveCursor(cursor="c", if_version=3))


def test_a_quota_of_its_own_takes_effect_and_is_taken_away_again() -> None:
    async def work(here: InProcessApp) -> None:
        set_ = await here.call("PUT", "/v1/tenants/acme/quota", {"quota": {"rows": 30}, "reason": "trial"})
        assert (set_.status_code, set_.json()["quota"]) == (200, {"bytes": None, "rows": 30})
        n = 0
        while (found := await hold(here, n)).status_code == 201 and n < 1_000:
            n += 1
        assert found.json()["reason"] == "storage_quota_exceeded"
        assert (found.json()["what"], found.json()["allowed"]) == ("rows", 30)
        assert (await here.call("GET", "/v1/usage", tenant="acme")).json()["usage"]["rows"] < 60
        assert (await here.call("PUT", "/v1/tenants/acme/quota", {"quota": None})).json()["quota"] is None
        assert (await hold(here, 5_000)).status_code == 201
        here.running.quotas._recent.clear()  # a count of a moment ago may be older than the pool
        listed = (await here.call("GET", "/v1/tenants?usage=true")).json()["items"]
        assert [(one["name"], one["usage"]["pools"]) for one in listed] == [("acme", 1)]

    run(work, settings=QUICK)


@pytest.mark.parametrize(("share", "status"), [(0.5, 201), (1.0, 503)], ids=["shared", "canary"])
def test_one_tenant_cannot_fill_a_table_that_is_bounded_for_all(share: float, status: int) -> None:
    """Recorded answers are bounded on the memory engine: with all of them taken, nobody can hold anything for a day."""

    async def main() -> None:
        async with await holdkit.connect_async("memory://", limits=holdkit.Limits(max_operations=60)) as kernel:
            application = Application(kernel, settings=replace(QUICK, tenants=Tenants(table_share=share)))
            async with application.lifespan() as running:
                here = InProcessApp(application, running)
                for tenant in ("acme", "globex"):
                    await here.call("POST", "/v1/pools", {"id": "p", "total": 1_000}, tenant=tenant)
                n = 0
                while (found := await hold(here, n)).status_code == 201:
                    n += 1
                    running.quotas._recent.clear()
                    await running.quotas.usage("acme")
                assert found.json()["reason"] in ("storage_quota_exceeded", "operation_table_full")
                assert n >= 60 * share - 1
                assert (await hold(here, 0, "globex")).status_code == status
                await here.http.aclose()

    asyncio.run(main())


def test_many_requests_cost_one_count_and_a_slow_one_delays_nobody_else(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(here: InProcessApp) -> None:
        gate, begun, counted = asyncio.Event(), asyncio.Event(), list[str]()
        usage = AsyncUsageCounter.usage

        async def slow(self: Any, tenant: str) -> Any:
            counted.append(tenant)
            if tenant == "acme":
                begun.set()
                await gate.wait()
            return await usage(self, tenant)

        monkeypatch.setattr(AsyncUsageCounter, "usage", slow)
        many = [asyncio.create_task(here.call("GET", "/v1/usage", tenant="acme")) for _ in range(20)]
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            assert (await here.call("GET", "/v1/usage", tenant="globex")).status_code == 200
        gate.set()
        assert {one.status_code for one in await asyncio.gather(*many)} == {200}
        assert (await here.call("GET", "/v1/usage", tenant="acme")).status_code == 200
        assert counted == ["acme", "globex"]

    run(work, settings=QUICK, url=f"sqlite:///{tmp_path / 'holds.db'}")


def test_the_count_of_the_journal_is_stored_and_continued(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    monkeypatch.setattr("holdkit.server.checkpoints.STORE_AFTER", 1)
    monkeypatch.setattr("holdkit.server.checkpoints.PART", 2)
    seen: list[int] = []

    async def first(here: InProcessApp) -> None:
        for n in range(5):
            await here.call("POST", "/v1/pools", {"id": "p", "total": 1}, tenant=f"t{n}")
        seen.append((await here.running.quotas.usage("acme")).entries)
        assert len(await here.running.kernel._executor.read(ListRecords("", "~usage", "", 100))) == 4

    async def again(here: InProcessApp) -> None:
        counter = here.running.quotas._counter
        usage = await here.running.quotas.usage("t3")
        assert (usage.entries, usage.complete) == (1, True)
        assert (await here.running.quotas.usage("acme")).entries == seen[0]
        assert stepped[0] > 5, "it continued where the other had stopped"
        assert sum(rows for rows, _ in counter.journal.tenants.values()) == sum(counter.journal.reached.values())

    run(first, url=url, settings=QUICK)
    stepped: list[int] = []
    step = AsyncUsageCounter.step

    async def watched(self: Any) -> bool:
        stepped.append(sum(self.journal.reached.values()))
        return await step(self)

    monkeypatch.setattr(AsyncUsageCounter, "step", watched)
    run(again, url=url, settings=QUICK)


def test_the_default_tenant_has_a_quota_like_any_other() -> None:
    """The attack: a key of scope hold of the default tenant, which is the only one on most servers, fills the disk."""

    async def work(here: InProcessApp) -> None:
        for n in range(4):
            assert (await hold(here, n, "")).status_code in (201, 404)
        set_ = await here.call("PUT", "/v1/tenants//quota", {"quota": {"rows": 3}, "reason": "small"})
        assert (set_.status_code, set_.json()["name"], set_.json()["quota"]) == (200, "", {"bytes": None, "rows": 3})
        async with asyncio.timeout(PATIENCE):
            n = 0
            while (made := await here.call("POST", "/v1/pools", {"id": f"p{n}", "total": 5})).status_code == 201:
                n += 1
                await asyncio.sleep(0)
        assert (made.status_code, made.json()["reason"], made.json()["allowed"]) == (403, "storage_quota_exceeded", 3)
        assert (await here.call("PUT", "/v1/tenants//quota", {"quota": None})).status_code == 200, (
            "its own setting is reached"
        )
        assert (await here.call("POST", "/v1/pools", {"id": "again", "total": 5})).status_code == 201
        assert (await here.call("GET", "/v1/usage")).json()["quota"] == {"bytes": 100_000, "rows": None}
        assert (await here.call("GET", "/v1/tenants")).json()["items"][0]["name"] == "acme", "it is still not listed"

    run(work)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/seats/hold", {"count": 10**15, "section": "stalls", "ttl": 60}, 400),
        ("/v1/batch", {"commands": [{"type": "hold", "pool": "p", "ttl": "soon"}] * 900}, 400),
        ("/v1/seats/hold", {"count": 900, "section": "stalls", "ttl": 60}, 404),
        ("/v1/holds", {"legs": [{"pool": f"p{n}"} for n in range(900)], "ttl": 60}, 404),
    ],
)
def test_a_request_that_is_refused_uses_up_no_quota(path: str, body: Any, status: int) -> None:
    """The attack: a key of scope hold sends one request that is refused; until the next count its tenant was told that its quota was
    full."""

    async def work(here: InProcessApp) -> None:
        await here.call("GET", "/v1/usage", tenant="acme")
        told = await here.call("POST", path, body, tenant="acme", op="refused")
        assert told.status_code == status
        made = await here.call("POST", "/v1/pools", {"id": "q", "total": 1}, tenant="acme")
        assert made.status_code == 201, made.text
        estimate = here.running.quotas._estimates["acme"]
        assert estimate.commands == (1 if status == 400 else 2), (
            "the pool, and the recorded answer of what the kernel refused"
        )

    run(work, replace(QUICK, tenants=Tenants(quota_rows=1_000)))


def test_a_request_that_is_turned_away_uses_up_no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("GET", "/v1/usage", tenant="acme")

        async def busy(*_: Any, **__: Any) -> Any:
            raise holdkit.Overloaded("busy")

        with monkeypatch.context() as patch:
            patch.setattr(AsyncExecutor, "execute", busy)
            told = await here.call("POST", "/v1/pools", {"id": "q", "total": 1}, tenant="acme")
        assert (told.status_code, told.json()["reason"], told.json()["effect"]) == (503, "overloaded", "none")
        estimate = here.running.quotas._estimates["acme"]
        assert (estimate.commands, estimate.added_bytes) == (0, 0)

    run(work, replace(QUICK, tenants=Tenants(quota_rows=1_000)))


def test_the_default_tenant_may_have_all_of_a_bounded_table() -> None:
    async def main() -> None:
        async with await holdkit.connect_async("memory://", limits=holdkit.Limits(max_pools=10)) as kernel:
            application = Application(
                kernel, settings=replace(QUICK, tenants=Tenants(table_share=0.1, quota_rows=1_000))
            )
            async with application.lifespan() as running:
                here = InProcessApp(application, running)
                statuses = []
                for n in range(10):
                    statuses.append((await here.call("POST", "/v1/pools", {"id": f"p{n}", "total": 1})).status_code)
                    running.quotas._recent.clear()
                    await running.quotas.usage("")
                assert statuses == [201] * 10
                await here.http.aclose()

    asyncio.run(main())


def test_counting_rests_so_that_it_takes_a_fiftieth_of_a_processor(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tenants there are, and however often they ask."""
    names = [f"t{n}" for n in range(10)]

    async def work(here: InProcessApp) -> None:
        now, counted = [1_000.0], list[str]()
        settings = replace(QUICK, tenants=Tenants(quota_rows=1_000))
        executor, directory = here.running.kernel._executor, here.running.admission.directory
        quotas = Quotas(executor, directory, settings, clock=lambda: now[0])
        usage = AsyncUsageCounter.usage

        async def slow(self: Any, tenant: str) -> Any:
            counted.append(tenant)
            now[0] += 0.1
            return await usage(self, tenant)

        async def rest(self: Quotas) -> None:
            now[0] = max(now[0], self._rests_until)

        monkeypatch.setattr(AsyncUsageCounter, "usage", slow)
        monkeypatch.setattr(Quotas, "_rest", rest)

        def change_all() -> None:
            for name in names:
                assert quotas.add(name, 1, 100) is None

        change_all()
        await quotas._count_all(due=True)
        assert (sorted(counted), round(now[0], 6)) == (names, 1_001), "at first without a rest"
        change_all()
        counted.clear()
        await quotas._count_all(due=True)
        assert (sorted(counted), round(now[0], 6)) == (names, 1_051), "10 counts of 0.1 s in 50 s"
        now[0] += 10
        counted.clear()
        for _ in range(3):
            for name in names:
                await quotas.usage(name)
        assert counted == ["t0"], "who asks while counts rest is told the last count"
        change_all()
        quotas._estimates["t7"].wanted = True
        counted.clear()
        await quotas._count_all(due=True)
        assert (counted[0], sorted(counted)) == ("t7", names), "first of all what is wanted"

    run(work, settings=QUICK, url=f"sqlite:///{tmp_path / 'holds.db'}")


def test_without_a_quota_nothing_is_counted(tmp_path: Any) -> None:
    async def work(here: InProcessApp) -> None:
        for n in range(5):
            assert (await hold(here, n)).status_code == 201
        assert [one.counted for one in here.running.quotas._estimates.values()] == [None], "nothing was counted"

    run(work, settings=QUICK, url=f"sqlite:///{tmp_path / 'holds.db'}")
