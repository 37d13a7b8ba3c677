"""All tenants over HTTP and through the client: for operators, and for nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdkit
from holdkit.client import NotAdmitted
from holdkit.journal import ALL
from tests.integration.conftest import Clients
from tests.support.recording_listener import RecordingListener
from tests.support.servers import QUICK, InProcessApp, LiveServer, in_process_app, live_server


@pytest.fixture
def shared_server() -> Any:
    """A journal of its own for each test."""
    with live_server() as running:
        yield running


def told(entries: Any) -> list[tuple[str, str]]:
    return [(entry.tenant, entry.subject) for entry in entries]


async def scene(here: InProcessApp) -> None:
    for tenant in ("", "acme", "*"):
        await here.call("POST", "/v1/pools", {"id": f"of-{tenant}", "total": 5}, tenant=tenant)


def play(work: Any) -> None:
    async def main() -> None:
        async with in_process_app(settings=QUICK) as here:
            await scene(here)
            await work(here)

    asyncio.run(main())


def test_an_operators_journal_says_whose_each_entry_is() -> None:
    async def work(here: InProcessApp) -> None:
        everything = [("", "of-"), ("acme", "of-acme"), ("*", "of-*")]
        for query in ("", "&last=10"):
            answer = await here.call("GET", "/v1/journal?all_tenants=true" + query, key="read")
            assert [(one["tenant"], one["subject"]) for one in answer.json()["items"]] == everything
        own = (await here.call("GET", "/v1/journal")).json()["items"]
        assert [one["subject"] for one in own] == ["of-"]
        assert all("tenant" not in one for one in own)
        first = await here.call("GET", "/v1/journal?all_tenants=true&limit=1")
        rest = await here.call("GET", f"/v1/journal?all_tenants=true&after={first.json()['next']}")
        assert [one["tenant"] for one in rest.json()["items"]] == ["acme", "*"]

    play(work)


def test_tenants_are_told_to_operators() -> None:
    async def work(here: InProcessApp) -> None:
        first = (await here.call("GET", "/v1/tenants?limit=1", key="read")).json()
        assert ([one["name"] for one in first["items"]], first["next"]) == (["*"], "*")
        rest = (await here.call("GET", "/v1/tenants", params={"after": "*"}, key="read")).json()
        assert ([one["name"] for one in rest["items"]], rest["next"]) == (["acme"], None)

    play(work)


def test_a_summary_is_of_one_tenant() -> None:
    async def work(here: InProcessApp) -> None:
        answer = await here.call("GET", "/v1/events?kind=summary&all_tenants=true")
        assert (answer.status_code, answer.json()["code"]) == (400, "summary_of_one")

    play(work)


def test_places_of_all_tenants_are_apart() -> None:
    async def work(here: InProcessApp) -> None:
        body = {"cursor": "hkc2.WyIiLFtbMCwwLCIiXV1d", "if_version": 0}
        kept = await here.call("PUT", "/v1/cursors/mail?all_tenants=true", body, op="one")
        assert kept.json()["version"] == 1
        assert (await here.call("GET", "/v1/cursors/mail")).status_code == 404
        assert (await here.call("GET", "/v1/cursors/mail?all_tenants=true")).json()["version"] == 1

    play(work)


def test_the_client_follows_all_tenants(clients: Clients, shared_server: LiveServer) -> None:
    hk, acme = clients.open(shared_server), clients.open(shared_server, shared_server.key("admin", "acme"))
    hk.create_pool("a", 1)
    acme.create_pool("b", 1)
    everything: list[tuple[str, str]] = [("", "a"), ("acme", "b")]
    assert told(hk.journal.list(tenant=ALL)) == told(hk.journal.follow(wait=False, tenant=ALL)) == everything
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == everything
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == []
    assert told(hk.journal.follow("mail", wait=False)) == [("", "a")], "its place is its own"
    acme.create_pool("c", 1)
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == [("acme", "c")]
    assert hk.admin.tenants() == ["acme"]
    assert hk.admin.tenants(after="acme", limit=1) == []
    stream = iter(hk.journal.follow(after=hk.journal.cursor(), tenant=ALL))
    listener, heard = RecordingListener(), list[str]()

    def hear(entry: Any) -> None:
        heard.append(entry.tenant)
        listener(entry)

    hk.journal.on("pool.created", hear, tenant=ALL)
    acme.create_pool("d", 1)
    hk.create_pool("e", 1)
    listener.wait(2)
    assert (listener.heard, heard) == (["pool.created d", "pool.created e"], ["acme", ""])
    assert told([next(stream), next(stream)]) == [("acme", "d"), ("", "e")]


def test_a_tenants_client_is_refused(clients: Clients, shared_server: LiveServer) -> None:
    clients.open(shared_server).create_pool("a", 1)
    acme = clients.open(shared_server, shared_server.key("admin", "acme"))
    calls = (
        lambda: acme.journal.list(tenant=ALL),
        lambda: list(acme.journal.follow(wait=False, tenant=ALL)),
        lambda: list(acme.journal.follow("mail", wait=False, tenant=ALL)),
        lambda: acme.journal.on(None, print, tenant=ALL),
        acme.admin.tenants,
    )
    for call in calls:
        with pytest.raises(NotAdmitted) as caught:
            call()
        assert caught.value.reason == "operator_only"
    with pytest.raises(holdkit.InvalidRequest) as wrong:
        acme.journal.list(tenant="other")
    assert wrong.value.code == "tenant_unknown"
