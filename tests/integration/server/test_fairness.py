"""One tenant's load stays its own: batches are bounded by the legs that they touch, rates are charged by command and leg."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from msgspec import structs

from holdkit.server.settings import Rates, Requests
from tests.support.servers import QUICK, InProcessApp, in_process_app


async def wide_hold(here: InProcessApp, legs: int, tenant: str = "") -> dict[str, Any]:
    """A hold of so many legs."""
    pools = [{"type": "create_pool", "id": f"p{number}", "total": 10**6} for number in range(legs)]
    assert (await here.call("POST", "/v1/batch", {"commands": pools}, tenant=tenant, op="pools")).status_code == 200
    named = [{"pool": f"p{number}", "quantity": 1} for number in range(legs)]
    held = await here.call("POST", "/v1/holds", {"legs": named, "ttl": 60}, tenant=tenant, op="wide")
    assert held.status_code == 201
    hold: dict[str, Any] = held.json()
    return hold


def test_a_batch_is_bounded_by_the_legs_that_it_touches() -> None:
    """The attack: a small body, and a million legs loaded, decided and answered in one transaction that stops everybody."""

    async def main() -> None:
        async with in_process_app() as here:
            hold = await wide_hold(here, 101)
            extend = {"type": "extend", "id": hold["id"], "token": hold["token"], "by": 1}
            told = await here.call("POST", "/v1/batch", {"commands": [extend] * 100}, key="hold", op="large")
            assert told.status_code == 400
            problem = told.json()
            assert (problem["reason"], problem["effect"]) == ("invalid_request", "none")
            assert (problem["field"], problem["code"]) == ("commands", "batch_too_large")
            assert "touches 10100 legs, at most 10000 are allowed" in problem["detail"]
            history = await here.call("GET", f"/v1/holds/{hold['id']}/history")
            assert [entry["action"] for entry in history.json()["items"]] == ["hold.held"]
            told = await here.call("POST", "/v1/batch", {"commands": [extend] * 99}, key="hold", op="large")
            assert told.status_code == 200, "and its key is free"

    asyncio.run(main())


PLAIN = {"type": "hold", "pool": "p", "quantity": 1, "ttl": 60}


async def pool_p(here: InProcessApp, *tenants: str) -> None:
    for tenant in tenants:
        made = await here.call("POST", "/v1/pools", {"id": "p", "total": 10**6}, tenant=tenant)
        assert made.status_code == 201


async def batch(
    here: InProcessApp, op: str, commands: list[Any], tenant: str = "a", key: str = "hold"
) -> httpx.Response:
    return await here.call("POST", "/v1/batch", {"commands": commands}, key=key, tenant=tenant, op=op)


def test_a_batch_costs_a_token_for_each_command_and_leg() -> None:
    """The attack: a rate limit that counts requests lets a batch of a thousand commands pass as one."""

    async def main() -> None:
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=100))) as here:
            await pool_p(here, "a")
            assert (await batch(here, "1", [PLAIN] * 60)).status_code == 200
            told = await batch(here, "2", [PLAIN] * 50)
            assert (told.status_code, told.json()["reason"], told.json()["effect"]) == (429, "rate_exceeded", "none")
            assert told.json()["detail"].startswith(
                "the API key exceeds its rate of 0.001 tokens per second: this request costs 49 tokens, and can be sent again in"
            )
            wait = told.json()["retry_after"]
            assert 9_900 < wait <= 10_000, "39 tokens are left of 100, and 49 are needed"
            assert int(told.headers["Retry-After"]) >= wait
            assert (await batch(here, "3", [PLAIN] * 30)).status_code == 200, "what was refused cost little"
            pool = (await here.call("GET", "/v1/pools/p", tenant="a")).json()
            assert pool["held"] == 90

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v1/holds", {"legs": [{"pool": f"p{n}"} for n in range(8)], "ttl": 60}, "hold"),
        ("/v1/consume", {"legs": [{"pool": f"p{n}"} for n in range(8)]}, "hold"),
        ("/v1/items", {"ids": [f"i{n}" for n in range(8)]}, "admin"),
        ("/v1/items/get", {"ids": [f"i{n}" for n in range(8)]}, "read"),
        ("/v1/items/hold", {"ids": [f"i{n}" for n in range(8)], "ttl": 60}, "hold"),
        ("/v1/items/free", {"ids": [f"i{n}" for n in range(8)], "reason": "r"}, "admin"),
        ("/v1/batch", {"commands": [{**PLAIN, "pool": None, "quantity": None, "legs": [{"pool": f"p{n}"} for n in range(8)]}]}, "hold"),
        ("/v1/windows/read", {"pools": [f"~rates/p{n}" for n in range(8)]}, "read"),
    ],
)  # fmt: skip
def test_legs_items_and_pools_beyond_the_first_cost_a_token_each(path: str, body: Any, key: str) -> None:
    async def main() -> None:
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=10))) as here:
            await here.call("POST", path, body, key=key, op="1")  # whatever becomes of it
            told = await here.call("POST", path, body, key=key, op="2")
            assert (told.status_code, told.json()["reason"]) == (429, "rate_exceeded")
            assert "costs 7 tokens" in told.json()["detail"]

    asyncio.run(main())


def test_the_keys_of_a_tenant_share_its_rate_and_other_tenants_have_their_own() -> None:
    """The attack: a tenant whose keys are limited one by one creates more keys."""

    async def main() -> None:
        settings = structs.replace(QUICK, rates=Rates(tenant=0.001, tenant_burst=100))
        async with in_process_app(settings=settings) as here:
            await pool_p(here, "a", "b")
            keys = [(await here.running.keys.make(f"k{n}", scope="hold", tenant="a")).text for n in range(3)]
            await here.running.admission.refresh()
            statuses = [(await batch(here, key[:9], [PLAIN] * 40, key=key)).status_code for key in keys]
            assert statuses == [200, 200, 429]
            told = await batch(here, "again", [PLAIN] * 40, key=keys[0])
            assert told.json()["detail"].startswith("the tenant exceeds its rate of 0.001 tokens per second")
            assert (await batch(here, "b", [PLAIN] * 40, tenant="b")).status_code == 200

    asyncio.run(main())


def test_the_legs_of_a_hold_that_is_named_are_charged_afterwards() -> None:
    async def main() -> None:
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=100))) as here:
            hold = await wide_hold(here, 40)
            extend = {"token": hold["token"], "by": 1}
            path = f"/v1/holds/{hold['id']}/extend"
            statuses = [(await here.call("POST", path, extend, key="hold", op=f"{n}")).status_code for n in range(4)]
            assert statuses == [200, 200, 200, 429], "the third leaves the bucket in debt"
            again = {"type": "extend", "id": hold["id"], **extend}
            key = (await here.running.keys.make("other", scope="hold")).text
            await here.running.admission.refresh()
            assert (await batch(here, "4", [again] * 3, key=key)).status_code == 200
            assert (await batch(here, "5", [again], key=key)).status_code == 429

    asyncio.run(main())


def test_a_fresh_key_may_send_a_batch_of_a_thousand_and_one_dearer_than_its_burst() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            await pool_p(here, "a")
            assert (await batch(here, "1", [PLAIN] * 1_000)).status_code == 200
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=10))) as here:
            await pool_p(here, "a")
            assert (await batch(here, "1", [PLAIN] * 10)).status_code == 200
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=10))) as here:
            await pool_p(here, "a")
            assert (await batch(here, "1", [PLAIN] * 30)).status_code == 200, "the bucket is full"
            told = await batch(here, "2", [PLAIN])
            assert told.status_code == 429
            assert 900 < told.json()["retry_after"] <= 1_000, "and is empty now: nothing costs more than a burst"

    asyncio.run(main())


def test_the_server_bounds_batches_by_its_own_settings() -> None:
    async def main() -> None:
        async with in_process_app(
            settings=structs.replace(QUICK, requests=Requests(max_batch=3, max_touched_legs=2))
        ) as here:
            await pool_p(here, "a")
            told = await batch(here, "1", [PLAIN] * 4)
            assert (told.status_code, told.json()["code"]) == (400, "batch_too_large")
            assert "at most 3 commands" in told.json()["detail"]
            told = await batch(here, "1", [PLAIN] * 3)
            assert (told.status_code, told.json()["code"]) == (400, "batch_too_large")
            assert "touches 3 legs, at most 2" in told.json()["detail"]
            assert (await batch(here, "1", [PLAIN] * 2)).status_code == 200

    asyncio.run(main())
