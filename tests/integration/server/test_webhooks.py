from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from holdkit import errors
from holdkit.server.settings import Settings, Upkeep, Webhooks
from holdkit.server.webhooks.addresses import AllowedTargets, TargetRefused, check_url, is_public
from holdkit.server.webhooks.events import signed_headers
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE

SECRET = "whsec_" + "A" * 43 + "="


class Receiver:
    """Somebody's endpoint: answers what the plan says, then 204, as soon as it may; keeps what it took."""

    def __init__(self) -> None:
        self.plan: list[int] = []
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.heard = asyncio.Queue[int]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if value}
            body = await reader.readexactly(int(headers["content-length"]))
            self.asked.set()
            await self.may_answer.wait()
            status = self.plan.pop(0) if self.plan else 204
            if status == 204:
                self.taken.append((headers, body))
            extra = "Location: http://127.0.0.1:1/\r\n" if 300 <= status < 400 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{extra}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            self.heard.put_nowait(status)
        finally:
            writer.close()

    async def wait(self, times: int) -> list[int]:
        async with asyncio.timeout(PATIENCE):
            return [await self.heard.get() for _ in range(times)]


@asynccontextmanager
async def scene(pauses: tuple[float, ...] = (0.0, 0.0)) -> AsyncIterator[tuple[InProcessApp, Receiver, dict[str, Any]]]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=b"
    delivery = Webhooks(pauses=pauses, allowed=frozenset(["127.0.0.1"]))
    async with (
        server,
        in_process_app(settings=Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), webhooks=delivery)) as here,
    ):
        made = await here.call("POST", "/v1/webhooks", {"url": url, "actions": ["pool.created"]})
        assert made.status_code == 201, made.text
        yield here, receiver, made.json()


async def replayed(here: InProcessApp, hook: str) -> tuple[int, int]:
    """Replay to the end: how many were taken, and how many remain parked."""
    began = await here.call("POST", f"/v1/webhooks/{hook}/replay")
    assert began.status_code == 202, began.text
    async with asyncio.timeout(PATIENCE):
        while True:
            shown = (await here.call("GET", f"/v1/webhooks/{hook}")).json()
            if shown["replay"]["state"] == "ended":
                return shown["replay"]["taken"], shown["parked"]


def test_an_entry_is_delivered_signed_and_in_its_envelope() -> None:
    async def main() -> None:
        async with scene() as (here, receiver, hook):
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            await here.call("POST", "/v1/holds", {"pool": "a", "ttl": 60}, op="k")  # not asked for
            await here.call("POST", "/v1/pools", {"id": "b", "total": 5})
            await receiver.wait(2)
            events = []
            for headers, body in receiver.taken:
                events.append(Webhook(hook["secret"]).verify(body, headers))
                assert headers["content-type"] == "application/cloudevents+json"
                assert headers["webhook-id"] == json.loads(body)["id"]
            assert [event["subject"] for event in events] == ["a", "b"]
            assert events[0]["specversion"] == "1.0"
            assert events[0]["type"] == "holdkit.pool.created"
            assert events[0]["data"]["pools"][0]["pool"]["total"] == 5
            listed = await here.call("GET", "/v1/webhooks")
            assert hook["secret"] not in listed.text
            assert listed.json()["items"][0]["id"] == hook["id"]

    asyncio.run(main())


def test_a_failure_is_tried_again_under_the_same_id_then_parked_then_replayed() -> None:
    async def main() -> None:
        async with scene() as (here, receiver, hook):
            receiver.plan = [500, 302]
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            assert await receiver.wait(3) == [500, 302, 204]
            receiver.plan = [500, 503, 404]
            await here.call("POST", "/v1/pools", {"id": "b", "total": 5})
            await here.call("POST", "/v1/pools", {"id": "c", "total": 5})
            assert await receiver.wait(4) == [500, 503, 404, 204]
            parked = (await here.call("GET", f"/v1/webhooks/{hook['id']}/parked")).json()["items"]
            assert [one["event"]["subject"] for one in parked] == ["b"]
            assert parked[0]["why"] == "the receiver answered 404"
            assert await replayed(here, hook["id"]) == (1, 0)
            assert [json.loads(body)["subject"] for _, body in receiver.taken] == ["a", "c", "b"]
            assert receiver.taken[2][0]["webhook-id"] == parked[0]["id"]
            async with asyncio.timeout(PATIENCE):
                while True:  # an attempt is counted after its receiver has answered
                    stats = (await here.call("GET", "/v1/stats")).json()["webhooks"]
                    if stats["delivered"] == 3 and not stats["attempts"]:
                        break
            assert (stats["delivered"], stats["failed"], stats["parked"]) == (3, 5, 1)
            assert stats["outcomes"] == {"delivered": 3, "rejected": 5}
            assert (stats["attempts"], stats["waiting"], stats["lookups"]) == (0, 0, 0)

    asyncio.run(main())


def test_gone_stops_a_hook_until_it_is_replayed_and_removing_ends_it() -> None:
    async def main() -> None:
        async with scene() as (here, receiver, hook):
            receiver.plan = [410]
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            await receiver.wait(1)
            async with asyncio.timeout(PATIENCE):
                while True:
                    (shown,) = (await here.call("GET", "/v1/webhooks")).json()["items"]
                    if shown["state"] == "stopped":
                        break
            await here.call("POST", "/v1/pools", {"id": "b", "total": 5})
            assert (await here.call("POST", f"/v1/webhooks/{hook['id']}/replay")).status_code == 202
            assert await receiver.wait(2) == [204, 204]
            assert [json.loads(body)["subject"] for _, body in receiver.taken] == ["a", "b"], "410 lost nothing"
            gone = await here.call("DELETE", f"/v1/webhooks/{hook['id']}")
            assert gone.status_code == 200
            assert (await here.call("GET", "/v1/webhooks")).json()["items"] == []
            assert (await here.call("DELETE", f"/v1/webhooks/{hook['id']}")).status_code == 404

    asyncio.run(main())


def test_a_target_that_is_not_public_is_never_called() -> None:
    private, public = ["93.184.216.34", "10.0.0.7"], ["93.184.216.34"]
    by_default = AllowedTargets(Webhooks())
    with pytest.raises(TargetRefused, match="not public"):
        by_default.choose("https://rebinding.example/x", private)
    with pytest.raises(TargetRefused, match="https"):
        by_default.choose("http://example.org/x", public)
    target = by_default.choose("https://example.org/x?y=1", public)
    assert (target.address, target.port, target.path, target.host) == ("93.184.216.34", 443, "/x?y=1", "example.org")
    named = AllowedTargets(Webhooks(allowed=frozenset(["inside.example"])))
    assert named.choose("http://inside.example:8080", private).authority == "inside.example:8080"


def test_addresses_in_an_allowed_network_are_called() -> None:
    targets = AllowedTargets(Webhooks(networks=frozenset(["10.1.0.0/16", "fd00::/8"])))
    assert targets.choose("http://inside.example/", ["10.1.2.3"]).address == "10.1.2.3"
    assert targets.choose("http://[fd00::7]/", ["fd00::7"]).address == "fd00::7"
    assert targets.choose("https://both.example/", ["93.184.216.34", "10.1.2.3"]).port == 443
    with pytest.raises(TargetRefused, match="does not use https"):
        targets.choose("http://both.example/", ["93.184.216.34", "10.1.2.3"])
    with pytest.raises(TargetRefused, match="not public"):
        targets.choose("https://inside.example/", ["10.2.0.1"])
    with pytest.raises(errors.InvalidRequest, match=r"10\.1\.0\.0/16"):
        AllowedTargets(Webhooks(networks=frozenset(["10.1.0.1/16"])))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fec0::1",
        "3fff::1",
        "192.88.99.1",
        "192.0.0.8",
        "192.0.0.9",
        "198.18.0.1",
        "240.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "5f00::1",
        "4000::1",
        "::7f00:1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public("93.184.216.34")
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")
    assert is_public("64:ff9b::5db8:d822"), "an IPv4 address behind NAT64"


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a/", "https://", "https://u:p@a/", "https://a/#f", "https://a b/", "https://a:0/", "https://ä/", "x" * 3000,
     "https://a\n/", "https://[::1", "file:///etc/passwd", 7],
)  # fmt: skip
def test_addresses_that_are_none(url: Any) -> None:
    with pytest.raises(errors.InvalidRequest) as no:
        check_url(url)
    assert no.value.field == "url"


def test_the_signature_is_the_standards() -> None:
    headers = signed_headers("msg_1", 1_600_000_000, b"{}", [SECRET])
    expected = Webhook(SECRET)
    from datetime import UTC, datetime

    assert headers["webhook-signature"] == expected.sign("msg_1", datetime.fromtimestamp(1_600_000_000, UTC), "{}")


def test_an_event_too_large_to_be_parked_stops_no_other() -> None:
    async def main() -> None:
        async with scene() as (here, receiver, small):
            await here.call("DELETE", f"/v1/webhooks/{small['id']}")
            made = await here.call("POST", "/v1/webhooks", {"url": small["url"], "actions": ["hold.held"]})
            hook, kernel = made.json()["id"], here.running.kernel
            pools = {f"{n:0400}": 1 for n in range(500)}
            for pool in pools:
                await kernel.create_pool(pool, 5)
            receiver.plan = [413, 413, 413]
            large = await kernel.hold(pools, ttl=60)
            after = await kernel.hold("0".zfill(400), ttl=60)
            assert await receiver.wait(4) == [413, 413, 413, 204]
            (delivered,) = [json.loads(body)["subject"] for _, body in receiver.taken]
            assert delivered == after.id

            (parked,) = (await here.call("GET", f"/v1/webhooks/{hook}/parked")).json()["items"]
            assert (parked["event"], parked["why"]) == (None, "the receiver answered 413")
            assert await replayed(here, hook) == (1, 0)
            headers, body = receiver.taken[-1]
            event = Webhook(made.json()["secret"]).verify(body, headers)
            assert (event["id"], event["subject"], len(event["data"]["pools"])) == (parked["id"], large.id, 500)

    asyncio.run(main())


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_the_place_of_a_webhook_is_nobodys_to_see_or_move(method: str) -> None:
    async def main() -> None:
        async with scene() as (here, receiver, hook):
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            await receiver.wait(1)
            end = (await here.call("GET", "/v1/cursor")).json()["cursor"]
            body = {"cursor": end, "if_version": 1} if method == "PUT" else None
            path = f"/v1/cursors/webhook:{hook['id']}"
            answer = await here.call(method, path, body, key="hold", op=None if body is None else "k")
            assert (answer.status_code, answer.json()["code"]) == (400, "name_reserved")

    asyncio.run(main())
