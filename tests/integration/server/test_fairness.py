"""One tenant's load stays its own: batches are bounded by the legs that they touch, rates are charged by command and leg."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.servers import InProcessApp, in_process_app


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
            extend = {"type": "extend", "id": hold["id"], "owner": hold["owner"], "by": 1}
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
