from __future__ import annotations

import asyncio
from typing import Any

from holdkit.testing import FakeClock
from tests.support.servers import NOON, InProcessApp, in_process_app

LLM = {"budgets": {"tokens": [{"total": 1_000, "per": "day"}, {"total": 400, "per": "minute"}], "dollars": [{"total": 9, "per": "month"}]}}  # fmt: skip


def run(work: Any) -> None:
    clock = FakeClock(start=NOON)

    async def main() -> None:
        async with in_process_app(clock=clock) as here:
            assert (await here.call("PUT", "/v1/budgets/llm", LLM)).status_code == 200
            await work(here, clock)

    asyncio.run(main())


def test_the_estimate_is_held_and_the_actual_confirmed() -> None:
    async def work(here: InProcessApp, clock: FakeClock) -> None:
        estimate = {"client": "team:1", "estimate": {"tokens": 300, "dollars": 2}, "ttl": 60}
        held = await here.call("POST", "/v1/budgets/llm/hold", estimate, op="a", key="hold")
        assert held.status_code == 201, held.text
        short = await here.call("POST", "/v1/budgets/llm/hold", estimate, op="b", key="hold")
        assert (short.status_code, short.json()["reason"]) == (409, "insufficient_capacity")
        assert short.json()["budgets"] == ["tokens"]
        assert 0 < short.json()["retry_after"] <= 60
        assert int(short.headers["retry-after"]) >= 1
        said = {"hold": held.json()["id"], "token": held.json()["token"], "actual": {"tokens": 500, "dollars": 1}}
        done = await here.call("POST", "/v1/budgets/llm/confirm", said, op="c", key="hold")
        assert done.json()["uncovered"] == {"tokens": 100}
        clock.advance(60)
        usage = (await here.call("GET", "/v1/budgets/llm/usage?client=team%3A1", key="read")).json()["items"]
        assert {(one["budget"], one["per"]): one["consumed"] for one in usage} == {
            ("dollars", "month"): 1,
            ("tokens", "day"): 500,
            ("tokens", "60s"): 0,
        }
        spent = await here.call("POST", "/v1/budgets/llm/consume", {"client": "x", "actual": {"tokens": 1}}, op="d")
        assert spent.json()["state"] == "confirmed"

    run(work)


def test_sets_are_written_down_by_admins_and_checked() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        assert (await here.call("PUT", "/v1/budgets/llm", LLM, key="hold")).status_code == 403
        bads: list[Any] = [
            {"budgets": {}},
            {"budgets": {"t": []}},
            {"budgets": {"t": [{"total": -1, "per": "day"}]}},
            {"budgets": {"t": [{"total": 1, "per": "fortnight"}]}},
            {"budgets": {"t": [{"total": 1, "per": "day", "zone": "Mars/Olympus"}]}},
            {"budgets": {" ": [{"total": 1, "per": "day"}]}},
        ]
        for bad in bads:
            answer = await here.call("PUT", "/v1/budgets/llm", bad)
            assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_request"), bad
        assert (await here.call("GET", "/v1/budgets/llm")).json()["budgets"]["dollars"] == [
            {"total": 9, "per": "month"}
        ]
        assert [one["name"] for one in (await here.call("GET", "/v1/budgets")).json()["items"]] == ["llm"]
        none = await here.call("GET", "/v1/budgets/other/usage?client=x")
        assert (none.status_code, none.json()["reason"]) == (404, "budget_not_found")
        assert (await here.call("GET", "/v1/budgets/llm/usage")).json()["field"] == "client"

    run(work)
