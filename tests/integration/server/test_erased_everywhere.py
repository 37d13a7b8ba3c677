"""An erasure reaches everything that a server stores: parked deliveries, statistics, keys, jobs. No byte of it is left in the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook

from holdkit.server.settings import Delivery, Settings
from tests.integration.server.test_jobs import ended
from tests.integration.server.test_webhooks import Receiver, replayed
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE

PRIVATE = (b"user:7", b"customer:7", b"Ann", b"ann@example.org")
BY = (("entity", "user:7"), ("account", "customer:7"), ("claim", "email:ann@example.org"), ("actor", "user:7"))


@asynccontextmanager
async def scene(data: Path) -> AsyncIterator[tuple[InProcessApp, Receiver, dict[str, Any]]]:
    """A server with a webhook whose receiver refuses everything at first."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    delivery = Delivery(pauses=(0.0,), allowed=frozenset(["127.0.0.1"]))
    settings = Settings(key_refresh=1, sweep_every=0, rollup_every=3_600.0, webhooks=delivery)
    async with server, in_process_app(f"sqlite:///{data}", settings=settings) as here:
        receiver.plan = [500] * 1_000
        made = await here.call("POST", "/v1/webhooks", {"url": url, "actions": ["hold.held", "hold.confirmed"]})
        assert made.status_code == 201, made.text
        yield here, receiver, made.json()


async def erase(here: InProcessApp, by: str, value: str) -> dict[str, Any]:
    """To the end of its job."""
    started = await here.call("POST", "/v1/erase", {"by": by, "value": value, "reason": "request 1"})
    assert started.status_code == 202, started.text
    job = await ended(here, started.json()["id"])
    assert job["state"] == "done", job
    erased: dict[str, Any] = job["result"]["erased"]
    return erased


async def parked(here: InProcessApp, hook: str, count: int) -> list[dict[str, Any]]:
    """As soon as there are so many."""
    async with asyncio.timeout(PATIENCE):
        while True:
            items: list[dict[str, Any]] = (await here.call("GET", f"/v1/webhooks/{hook}/parked")).json()["items"]
            if len(items) == count:
                return items


async def live(here: InProcessApp) -> None:
    """Everything that can name somebody."""
    call = here.call
    await call("POST", "/v1/pools", {"id": "show", "total": 10, "per_account": 4})
    asked = {"pool": "show", "ttl": 600, "account": "customer:7", "actor": "user:7", "metadata": {"name": "Ann"}}
    held = (await call("POST", "/v1/holds", asked, op="place")).json()
    assert "id" in held, held
    done = await call("POST", f"/v1/holds/{held['id']}/confirm", {"owner": held["owner"], "entity": "user:7"}, op="pay")
    assert done.status_code == 200, done.text
    kernel = here.running.kernel
    await kernel.claims.reserve("email", "ann@example.org", ttl=600, actor="user:7", metadata={"for": "Ann"})
    refused = await call("POST", "/v1/holds", {**asked, "quantity": 9}, op="too much")
    assert refused.status_code == 409, refused.text
    assert here.running.rollups is not None
    await here.running.rollups.round()


def test_no_byte_of_it_is_left_and_what_was_parked_is_delivered_without_it(tmp_path: Path) -> None:
    data = tmp_path / "holds.db"

    async def main() -> None:
        async with scene(data) as (here, receiver, hook):
            await live(here)
            before = await parked(here, hook["id"], 3)
            assert "Ann" in json.dumps(before)
            told = [await erase(here, by, value) for by, value in BY]
            assert [one for one in told if one.get("in_use")] == []
            assert sum(one["records"] for one in told) == 3
            after = await parked(here, hook["id"], 3)
            assert [one["event"] for one in after] == [None] * 3
            assert [one["id"] for one in after] == [one["id"] for one in before]
            receiver.plan = []
            assert await replayed(here, hook["id"]) == (3, 0)
            events = [Webhook(hook["secret"]).verify(body, headers) for headers, body in receiver.taken]
            came = sorted((event["id"], event["subject"]) for event in events)  # a replay sends several at once
            assert came == sorted((was["event"]["id"], was["event"]["subject"]) for was in before)
            assert [word for word in PRIVATE for _, body in receiver.taken if word in body] == []
            assert (await here.running.kernel.verify()).ok
            await erase(here, "entity", "user:7")  # writes the file anew, without what was parked

    asyncio.run(main())
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(files["holds.db"]) > 4096
    assert [(name, word) for name, content in files.items() for word in PRIVATE if word in content] == []
