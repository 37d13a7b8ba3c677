"""A sweep over HTTP: an operator is told of all tenants' holds, and nobody else may ask."""

from __future__ import annotations

import asyncio

import pytest

from holdkit.client import NotAdmitted, connect, connect_async
from holdkit.kernel.times import moment
from holdkit.testing import FakeClock
from tests.support.servers import NOON, InProcessApp, in_process_app, live_server


async def _held(here: InProcessApp, tenant: str, ttl: int) -> str:
    await here.call("POST", "/v1/pools", {"id": "p", "total": 1}, tenant=tenant, op="pool")
    body = {"pool": "p", "quantity": 1, "ttl": ttl}
    told = await here.call("POST", "/v1/holds", body, tenant=tenant, op="hold")
    assert told.status_code == 201, told.text
    found: str = told.json()["id"]
    return found


def test_an_operator_is_told_which_holds_of_which_tenants() -> None:
    async def main() -> None:
        clock = FakeClock(NOON)
        async with in_process_app(clock=clock) as here:
            acme, globex = await _held(here, "acme", 60), await _held(here, "globex", 30)
            clock.advance(60)
            for tenant in ("acme", "globex"):
                refused = await here.call("POST", "/v1/sweep", {}, tenant=tenant)
                assert refused.status_code == 403
                assert acme not in refused.text
                assert globex not in refused.text
            told = (await here.call("POST", "/v1/sweep", {"limit": 1})).json()
            assert (told["expired"], told["holds"], told["tenants"], told["more"]) == (1, [globex], ["globex"], True)
            told = (await here.call("POST", "/v1/sweep", {})).json()
            assert (told["expired"], told["holds"], told["tenants"], told["more"]) == (1, [acme], ["acme"], False)
            told = (await here.call("POST", "/v1/sweep", {})).json()
            assert (told["expired"], told["holds"], told["tenants"]) == (0, [], [])

    asyncio.run(main())


def test_the_client_names_them() -> None:
    clock = FakeClock(NOON)
    with live_server(clock=clock) as server:
        ids: dict[str, str] = {}
        for tenant in ("acme", "globex"):
            with connect(server.url, key=server.key("admin", tenant)) as hk:
                hk.create_pool("p", 1)
                ids[tenant] = hk.hold("p", 1, ttl=60 if tenant == "acme" else 30).id
                with pytest.raises(NotAdmitted):
                    hk.sweep()
        clock.advance(60)
        with connect(server.url, key=server.admin) as hk:
            report = hk.sweep(limit=1)
        assert (report.expired, report.holds, report.tenants) == (1, (ids["globex"],), ("globex",))
        assert (moment(report.scanned_at), report.more) == (NOON + 60_000_000, True)

        async def other() -> None:
            async with connect_async(server.url, key=server.admin) as hk:
                report = await hk.sweep()
                assert (report.holds, report.tenants, report.more) == ((ids["acme"],), ("acme",), False)

        asyncio.run(other())
