"""Behind an authenticating proxy a header names the person; from anybody else it is ignored. And tickets never travel in a path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from holdkit import InvalidRequest, ticket
from holdkit.server import Settings
from holdkit.server.settings import Proxy, Upkeep
from tests.support.servers import InProcessApp, in_process_app, live_server

PROXY = "10.1.2.3"
WITH_PROXIES = Settings(
    upkeep=Upkeep(key_refresh=0.05, sweep_every=0), proxy=Proxy(trusted=("10.1.2.0/24", "fd00::/8"))
)


def play(work: Callable[[InProcessApp], Coroutine[Any, Any, None]], settings: Settings = WITH_PROXIES) -> None:
    async def main() -> None:
        async with in_process_app(settings=settings) as here:
            await work(here)

    asyncio.run(main())


async def actor_of(here: InProcessApp, peer: str, headers: list[tuple[str, str | bytes]], body: Any = None) -> Any:
    """Who made a pool, if the connection comes from this address; or the reason of a refusal."""
    transport = httpx.ASGITransport(here.application, client=(peer, 4711))
    name = f"pool-{len(headers)}-{peer}-{hash((tuple(headers), str(body)))}"
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        key = ("authorization", f"Bearer {await here.key('admin', 'acme')}")
        sent = [(one, value.encode() if isinstance(value, str) else value) for one, value in (key, *headers)]
        made = await http.post(
            "/v1/pools",
            json={"id": name, "total": 1, **(body or {})},
            headers=[(one.encode(), value) for one, value in sent],
        )
    if made.status_code >= 400:
        return made.json()["reason"]
    (entry,) = await here.running.kernel.tenant("acme").journal.history(name)
    assert entry.client_id is not None, "the key is recorded whoever the proxy names"
    return entry.actor


def test_only_a_named_proxy_names_the_person() -> None:
    async def work(here: InProcessApp) -> None:
        named: list[tuple[str, str | bytes]] = [("X-Forwarded-User", "anna@example.org")]
        assert await actor_of(here, PROXY, named) == "user:anna@example.org"
        assert await actor_of(here, "::ffff:10.1.2.9", named) == "user:anna@example.org"
        assert await actor_of(here, "fd00::1", named) == "user:anna@example.org"
        (key,) = [key.id for key in await here.running.keys.listed(tenant="acme")]
        for peer in ("10.1.3.1", "127.0.0.1", "::1", "testclient", ""):
            assert await actor_of(here, peer, named) == f"api_client:{key}", peer
            spoofed = [*named, ("X-Forwarded-For", PROXY), ("X-Real-IP", PROXY), ("Forwarded", f"for={PROXY}")]
            assert await actor_of(here, peer, spoofed) == f"api_client:{key}", peer
        assert await actor_of(here, PROXY, []) == f"api_client:{key}"
        assert await actor_of(here, PROXY, [], {"actor": "job:nightly"}) == "job:nightly"

    play(work)


def test_nobody_is_believed_by_default() -> None:
    async def work(here: InProcessApp) -> None:
        told = await actor_of(here, "127.0.0.1", [("X-Forwarded-User", "anna")])
        assert told.startswith("api_client:")

    play(work, Settings(upkeep=Upkeep(sweep_every=0)))


def test_a_caller_behind_the_proxy_cannot_name_somebody_else() -> None:
    async def work(here: InProcessApp) -> None:
        named: list[tuple[str, str | bytes]] = [("X-Forwarded-User", "anna")]
        assert await actor_of(here, PROXY, named, {"actor": "user:anna"}) == "user:anna"
        assert await actor_of(here, PROXY, named, {"actor": "user:bert"}) == "actor_conflict"
        assert await actor_of(here, PROXY, [*named, ("X-Forwarded-User", "bert")]) == "header_twice"
        for bad in ("", " ", "a" * 257, b"\xff\xfe", b"a\x01b"):
            assert await actor_of(here, PROXY, [("X-Forwarded-User", bad)]) == "actor_header_malformed", bad
        batch = {"commands": [{"type": "create_pool", "id": "b", "total": 1, "op": "x"}]}
        transport = httpx.ASGITransport(here.application, client=(PROXY, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            headers = {"authorization": f"Bearer {await here.key('admin', 'acme')}", "x-forwarded-user": "anna"}
            assert (await http.post("/v1/batch", json=batch, headers=headers)).status_code == 200
        (entry,) = await here.running.kernel.tenant("acme").journal.history("b")
        assert entry.actor == "user:anna"

    play(work)


def test_the_peer_is_that_of_the_connection() -> None:
    """Through a real socket: what the request says about where it comes from plays no part."""
    for trusted, actor in (("127.0.0.1/32", "user:anna"), ("10.1.2.0/24", "api_client:")):
        settings = Settings(upkeep=Upkeep(sweep_every=0), proxy=Proxy(trusted=(trusted,)))
        with live_server(settings=settings) as server, server.client() as http:
            headers = {"X-Forwarded-User": "anna", "X-Forwarded-For": PROXY, "X-Real-IP": PROXY}
            assert http.post("/v1/pools", json={"id": "p", "total": 1}, headers=headers).status_code == 201
            (entry,) = http.get("/v1/pools/p/history").json()["items"]
            assert entry["actor"].startswith(actor)


def test_a_network_that_is_none_stops_the_start() -> None:
    async def work(_here: InProcessApp) -> None:
        raise AssertionError("it must not start")

    with pytest.raises(InvalidRequest, match=r"10\.1\.2\.3/8"):
        play(work, Settings(proxy=Proxy(trusted=("10.1.2.3/8",))))


def test_a_ticket_in_a_path_is_refused_on_every_route(caplog: pytest.LogCaptureFixture) -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "p", "total": 5})
        hold = (await here.call("POST", "/v1/holds", {"pool": "p", "ttl": 60}, op="a")).json()
        paths = [f"/v1/holds/{hold['ticket']}/{verb}" for verb in ("confirm", "release", "extend", "expire", "return")]
        for path in paths:
            answer = await here.call("POST", path, {}, op=path[-40:])
            assert (answer.status_code, answer.json()["reason"]) == (400, "ticket_in_path"), path
            assert hold["token"] not in answer.text
        for path in (f"/v1/holds/{hold['ticket']}", f"/v1/holds/{hold['ticket']}/history"):
            answer = await here.call("GET", path)
            assert (answer.status_code, answer.json()["reason"]) == (400, "ticket_in_path"), path
        shown = await here.call("GET", f"/v1/holds/{hold['id']}")
        assert shown.json()["state"] == "held"
        logged = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
        assert not [line for line in logged if hold["token"] in line]

    caplog.set_level("DEBUG")
    play(work, Settings(upkeep=Upkeep(sweep_every=0)))


def test_a_ticket_in_its_header_confirms_releases_and_extends() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "p", "total": 5})
        hold = (await here.call("POST", "/v1/holds", {"pool": "p", "ttl": 60}, op="a")).json()
        other = (await here.call("POST", "/v1/holds", {"pool": "p", "ttl": 60}, op="b")).json()

        async def use(path: str, ticket: str, op: str, body: Any = None) -> tuple[int, str]:
            headers = {"Holdkit-Ticket": ticket}
            answer = await here.call("POST", path, body or {}, op=op, headers=headers)
            return answer.status_code, str(answer.json().get("reason") or answer.json().get("state"))

        assert await use("/v1/holds/-/extend", hold["ticket"], "c", {"by": 5}) == (200, "held")
        assert await use(f"/v1/holds/{hold['id']}/confirm", hold["ticket"], "d") == (200, "confirmed")
        assert await use("/v1/holds/-/return", hold["ticket"], "e") == (200, "confirmed")
        assert await use(f"/v1/holds/{hold['id']}/release", other["ticket"], "f") == (400, "ticket_malformed")
        assert await use("/v1/holds/-/release", other["ticket"][:-1], "j") == (400, "ticket_malformed"), (
            "and j is not used up"
        )
        stranger = ticket(other["id"], "wrong")
        assert await use("/v1/holds/-/release", stranger, "g") == (403, "not_owner")
        assert await use("/v1/holds/-/release", "hk1.x", "h") == (400, "ticket_malformed")
        for path, text, detail in (
            ("-", other["ticket"][:-3], "the ticket is cut short or damaged"),
            (hold["id"], other["ticket"], "the ticket belongs to another hold than the path names"),
        ):
            answer = await here.call("POST", f"/v1/holds/{path}/release", {}, op="m", headers={"Holdkit-Ticket": text})
            assert detail in answer.json()["detail"]
        assert await use("/v1/holds/-/release", other["ticket"], "i", {"token": "z" * 32}) == (400, "invalid_request")
        assert await use("/v1/holds/-/release", other["ticket"], "j") == (200, "released")
        claim = (await here.call("POST", "/v1/claims", {"type": "t", "value": "v", "ttl": 60}, op="k")).json()
        assert await use("/v1/holds/-/confirm", claim["ticket"], "l", {"entity": "user:1"}) == (200, "confirmed")
        bare = await here.call("POST", "/v1/holds/-/release", {}, op="m")
        assert bare.status_code == 400

    play(work, Settings(upkeep=Upkeep(sweep_every=0)))


def test_the_client_sends_no_ticket_in_a_path() -> None:
    import holdkit.client

    with live_server() as server, holdkit.client.connect(server.url, key=server.admin) as hk:
        hk.create_pool("p", 5)
        held = hk.hold("p", 1, ttl=60)
        assert held.ticket is not None
        assert hk.extend(held.ticket, by=5).state == "held"
        assert hk.get(held.ticket).state == "held"
        assert len(hk.history(held.ticket)) == 2
        assert hk.confirm(held.ticket).state == "confirmed"
        claim = hk.claims.hold("t", "v", ttl=60)
        assert claim.ticket is not None
        assert hk.confirm(claim.ticket, entity="user:1").state == "confirmed"
