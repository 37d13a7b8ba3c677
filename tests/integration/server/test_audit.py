"""The journal records which API key asked, whoever the caller names as actor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdkit
import holdkit.client
from holdkit.core.reading import FindEnds, ReadJournal, entry_of
from holdkit.testing import FakeClock
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app, live_server

CLAIMED = "user:7"


async def every_change(here: InProcessApp, tenant: str = "acme") -> None:
    """One change of each kind of thing, each in the name of somebody else."""

    async def ask(method: str, path: str, body: dict[str, Any], op: str) -> dict[str, Any]:
        answer = await here.call(method, path, {**body, "actor": CLAIMED}, op=op, tenant=tenant)
        assert answer.status_code in (200, 201), answer.text
        return dict(answer.json())

    await ask("POST", "/v1/pools", {"id": "p", "total": 50}, "a")
    await ask("PUT", "/v1/pools/p", {"total": 60}, "b")
    hold = await ask("POST", "/v1/holds", {"legs": [{"pool": "p"}, {"claim": "email:a"}], "ttl": 60}, "c")
    await ask("POST", f"/v1/holds/{hold['id']}/extend", {"token": hold["token"], "by": 60}, "d")
    await ask("POST", f"/v1/holds/{hold['id']}/confirm", {"token": hold["token"]}, "e")
    await ask("POST", f"/v1/holds/{hold['id']}/return", {"token": hold["token"]}, "f")
    claim = await ask("POST", "/v1/claims", {"type": "email", "value": "b", "ttl": 60}, "g")
    await ask("POST", f"/v1/holds/{claim['id']}/release", {"token": claim["token"]}, "h")
    await ask("POST", "/v1/items", {"ids": ["seat:1", "seat:2", "seat:3"]}, "i")
    await ask("POST", "/v1/items/hold", {"ids": ["seat:1"], "ttl": 60}, "j")
    await ask("PUT", "/v1/records/note/n", {"body": "{}"}, "k")
    commands = [
        {"type": "hold", "pool": "p", "ttl": 60, "actor": "api_client:somebody", "op": str(n)} for n in range(2)
    ]
    batch = {"commands": [*commands, {"type": "create_pool", "id": "q", "total": 1, "actor": "system", "op": "x"}]}
    await here.call("POST", "/v1/batch", batch, tenant=tenant)


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_every_entry_names_the_key_that_asked(engine: str, tmp_path: Any, request: pytest.FixtureRequest) -> None:
    if engine == "postgres":
        url = request.getfixturevalue("migrated")()
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/h.db"}[engine]

    async def main() -> None:
        async with in_process_app(url, settings=QUICK) as here:
            await every_change(here)
            (key,) = [key.id for key in await here.running.keys.listed(tenant="acme")]
            items = (await here.call("GET", "/v1/journal?limit=1000", tenant="acme")).json()["items"]
            assert len(items) >= 17
            assert {entry["client_id"] for entry in items} == {key}
            assert {entry["actor"] for entry in items} == {CLAIMED, "api_client:somebody", "system"}
            kernel = here.running.kernel.tenant("acme")
            await kernel.create_pool("ours", 5, actor="user:9")
            (told,) = await kernel.journal.history("ours")
            assert (told.actor, told.client_id) == ("user:9", None), "no server was asked"

    asyncio.run(main())


def test_what_administrators_do_names_their_key_too() -> None:
    """API keys, webhooks and tenants are records of the server's own, which the journal shows to operators if they ask for them."""

    async def main() -> None:
        async with in_process_app(settings=QUICK) as here:
            operator, admin = await here.key("admin"), await here.key("admin", "acme")
            ids = {key.tenant: key.id for key in await here.running.keys.listed()}
            before = await here.running.kernel._executor.read(FindEnds())
            made = (await here.call("POST", "/v1/keys", {"name": "k"}, key=admin)).json()["info"]["id"]
            await here.call("POST", f"/v1/keys/{made}/rotate", {}, key=admin)
            await here.call("DELETE", f"/v1/keys/{made}", key=admin)
            hook = (await here.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"}, key=admin)).json()
            await here.call("DELETE", f"/v1/webhooks/{hook['id']}", key=admin)
            await here.call("POST", "/v1/tenants/acme/disable", {"reason": "unpaid"}, key=operator, op="d")
            query = ReadJournal(None, {row.lane: row.seq for row in before}, 1_000)
            told = [entry_of(row) for row in await here.running.kernel._executor.read(query)]
            asked = {(one.record.kind, one.client_id) for one in told if one.record is not None}
            by = {"~key": ids["acme"], "~webhook": ids["acme"], "~tenant": ids[""]}
            assert {(kind, id) for kind, id in asked if kind in by} == set(by.items())
            path = "/v1/journal?include_reserved=true&all_tenants=true&limit=1000"
            shown = [
                entry for entry in (await here.call("GET", path, key=operator)).json()["items"] if entry["client_id"]
            ]
            found = {(entry["subject"].partition("/")[0], entry["client_id"]) for entry in shown}
            assert found == set(by.items())
            assert {entry["reason"] for entry in shown if entry["subject"].startswith("~tenant/")} == {"unpaid"}
            assert sum(entry["subject"] == f"~key/{made}" for entry in shown) == 3
            everything = await here.running.kernel.journal.list(include_reserved=True)
            assert {
                one.raw.entry.record.body
                for one in everything
                if one.subject == f"~key/{made}" and one.raw.entry.record
            } == {""}

    asyncio.run(main())


def test_a_caller_cannot_name_the_key() -> None:
    """A command of a kernel in this process may not either: what it says is not recorded."""
    with holdkit.connect("memory://", clock=FakeClock(start=NOON)) as hk:
        hk.apply([holdkit.commands.CreatePool(id="p", total=5, client_id="somebody")])
        (told,) = hk.journal.history("p")
        assert told.client_id is None


def test_the_client_shows_what_administrators_did() -> None:
    with live_server() as server, holdkit.client.connect(server.url, key=server.key("admin")) as hk:
        for shown in (hk.journal.list(include_reserved=True), hk.journal.search(include_reserved=True)):
            assert {entry.after["kind"] for entry in shown} == {"~key"}
            assert "body" not in shown[0].after
        assert hk.journal.list() == []


def test_the_client_shows_the_key() -> None:
    with live_server() as server, holdkit.client.connect(server.url, key=server.key("admin", "acme")) as hk:
        hk.create_pool("p", 5, actor=CLAIMED)
        hold = hk.hold("p", 1, ttl=60)
        (entry,) = hk.history(hold)
        assert entry.actor == f"api_client:{entry.client_id}"
        assert hold.position == entry.position
        (made,) = [entry for entry in hk.journal.list() if entry.action == "pool.created"]
        assert (made.actor, made.client_id) == (CLAIMED, entry.client_id)
