"""Two answers that the dashboard begins with: whom a key stands for, and the end of the journal."""

from __future__ import annotations

import pytest

from tests.support.servers import InProcessApp, in_process_app

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def made(at: InProcessApp, count: int, tenant: str = "") -> None:
    for n in range(count):
        answer = await at.call("POST", "/v1/pools", {"id": f"{tenant}pool-{n:03}", "total": n}, tenant=tenant)
        assert answer.status_code == 201


async def test_a_key_is_told_what_it_may_do() -> None:
    async with in_process_app() as at:
        told = (await at.call("GET", "/v1/whoami", key="read", tenant="acme")).json()
        assert (told["scope"], told["tenant"], told["operator"], told["open"]) == ("read", "acme", False, False)
        assert (await at.call("GET", "/v1/whoami")).json()["operator"] is True
        assert (await at.call("GET", "/v1/whoami", key=None)).status_code == 401


async def test_the_end_of_the_journal_and_where_to_go_on() -> None:
    async with in_process_app() as at:
        await made(at, 12)
        tail = (await at.call("GET", "/v1/journal?last=5")).json()
        assert [entry["subject"] for entry in tail["items"]] == [f"pool-{n:03}" for n in range(7, 12)]
        await at.call("POST", "/v1/pools", {"id": "later", "total": 1})
        after = (await at.call("GET", "/v1/journal", params={"after": tail["cursor"]})).json()
        assert [entry["subject"] for entry in after["items"]] == ["later"]


async def test_more_than_there_is_gives_all_and_nothing_of_another_tenant() -> None:
    async with in_process_app() as at:
        await made(at, 3)
        await made(at, 2, "acme")
        tail = (await at.call("GET", "/v1/journal?last=1000")).json()
        assert [entry["subject"] for entry in tail["items"]] == ["pool-000", "pool-001", "pool-002"]
        theirs = (await at.call("GET", "/v1/journal?last=1000", tenant="acme")).json()
        assert [entry["subject"] for entry in theirs["items"]] == ["acmepool-000", "acmepool-001"]


async def test_an_empty_journal_has_an_end_too_and_both_ways_at_once_are_refused() -> None:
    async with in_process_app() as at:
        tail = (await at.call("GET", "/v1/journal?last=5")).json()
        assert tail["items"] == []
        await made(at, 1)
        after = (await at.call("GET", "/v1/journal", params={"after": tail["cursor"]})).json()
        assert [entry["subject"] for entry in after["items"]] == ["pool-000"]
        both = await at.call("GET", "/v1/journal", params={"after": tail["cursor"], "last": 5})
        assert (both.status_code, both.json()["code"]) == (400, "last_ambiguous")
        assert (await at.call("GET", "/v1/journal?last=1001")).status_code == 400
