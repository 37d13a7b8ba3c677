"""Whoever acts on an entry is shown it only when the engine can answer durably: followers, listeners, streams and webhooks, here and over
HTTP. Here the engine cannot for a while; `tests/faults/postgres/test_shown_entries.py` takes its standby away."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest

import holdkit
from holdkit import client
from holdkit.client import Policy
from holdkit.core.reading import Query
from holdkit.engines.memory import MemoryEngine
from holdkit.server.settings import Settings, Upkeep, Webhooks
from tests.integration.server.test_streams import frames
from tests.integration.server.test_webhooks import Receiver
from tests.support.modes import Async, Sync
from tests.support.servers import InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE, CallerThreads


class Standby:
    """Whether the standbys of every memory engine confirm what is about to be shown."""

    def __init__(self) -> None:
        self.confirms = False
        self.asked = threading.Semaphore(0)
        """Released with every question that it does not confirm."""

    def wait_until_asked(self, times: int) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=PATIENCE), "nobody asked"


@pytest.fixture
def standby(monkeypatch: pytest.MonkeyPatch) -> Standby:
    made, plain = Standby(), MemoryEngine.read

    def read(self: MemoryEngine, query: Query[Any], *, durable: bool = False) -> Any:
        if durable and query.shown and not made.confirms:
            made.asked.release()
            raise holdkit.OutcomeUnknown("no standby has it")
        return plain(self, query, durable=durable)

    monkeypatch.setattr(MemoryEngine, "read", read)
    return made


@pytest.fixture
def hk(mode: Sync | Async, standby: Standby) -> Iterator[Any]:
    with mode.connect("memory://") as kernel:
        kernel.create_pool("a", 1)
        kernel.create_pool("b", 1)
        yield kernel


def subjects(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


def test_a_follower_is_shown_nothing_before_it_is_confirmed(hk: Any, standby: Standby) -> None:
    for name in (None, "mail"):
        with pytest.raises(holdkit.Overloaded, match="no standby has confirmed these entries"):
            list(hk.journal.follow(name, wait=False))
    assert subjects(hk.journal.list()) == ["a", "b"], "a plain read"
    standby.confirms = True
    for name in (None, "mail"):
        assert subjects(hk.journal.follow(name, wait=False)) == ["a", "b"]


def test_a_follower_that_waits_tries_again_and_says_so_once(
    hk: Any, standby: Standby, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    callers = CallerThreads()
    callers.start(lambda: seen.extend(entry.subject for entry in islice(hk.journal.follow(poll=0.001), 2)))
    standby.wait_until_asked(3)
    assert seen == []
    standby.confirms = True
    callers.join()
    assert seen == ["a", "b"]
    (warning,) = [record for record in caplog.records if record.name == "holdkit"]
    assert warning.event == "follower_waits"  # type: ignore[attr-defined]


def test_a_listener_is_called_when_it_is_confirmed(hk: Any, standby: Standby) -> None:
    heard, called = list[str](), threading.Event()

    def listen(entry: holdkit.JournalEntry) -> None:
        heard.append(entry.subject)
        called.set()

    listening = hk.journal.on("pool.created", listen)
    hk.create_pool("c", 1)
    standby.wait_until_asked(2)
    assert heard == []
    standby.confirms = True
    assert called.wait(PATIENCE)
    assert heard == ["c"]
    listening.cancel()


def test_a_stream_says_nothing_and_stays_open(standby: Standby) -> None:
    with live_server() as server, server.client() as http, http.stream("GET", "/v1/events") as answer:
        told = frames(answer)
        assert next(told)[0] == "hello"
        http.post("/v1/pools", json={"id": "a", "total": 5})
        standby.wait_until_asked(2)
        assert http.get("/v1/pools/a").status_code == 200, "other reads do not wait"
        standby.confirms = True
        event, _, data = next(told)
        assert (event, data["subject"]) == ("pool.created", "a")


def test_a_client_follows_only_what_is_confirmed(standby: Standby) -> None:
    with live_server() as server, server.client() as http:
        with client.connect(server.url, key=server.admin, policy=Policy(attempts=1)) as remote:
            remote.create_pool("a", 1)
            with pytest.raises(holdkit.Overloaded, match="no standby has confirmed"):
                list(remote.journal.follow(wait=False))
            assert "a" in subjects(remote.journal.list()), "a plain read"
            standby.confirms = True
            assert "a" in subjects(remote.journal.follow(wait=False))
        standby.confirms = False
        refused = http.get("/v1/journal", params={"durable": True})
        assert (refused.status_code, refused.json()["reason"], refused.json()["effect"]) == (503, "overloaded", "none")
        assert refused.headers["retry-after"] == "1"
        assert http.get("/v1/journal").status_code == 200
        for more in ({"last": 5}, {"order": "newest"}, {"subject": "a"}):
            wrong = http.get("/v1/journal", params={"durable": True, **more})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "durable_unsupported")


@asynccontextmanager
async def webhook_of(receiver: Receiver) -> AsyncIterator[InProcessApp]:
    """An application with a webhook for this receiver."""
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    delivery = Webhooks(allowed=frozenset(["127.0.0.1"]))
    async with (
        server,
        in_process_app(settings=Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), webhooks=delivery)) as here,
    ):
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        made = await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
        assert made.status_code == 201
        yield here


def test_a_webhook_is_sent_only_what_is_confirmed(standby: Standby) -> None:
    async def main() -> list[str]:
        receiver = Receiver()
        async with webhook_of(receiver) as here:
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            await asyncio.to_thread(standby.wait_until_asked, 2)
            assert receiver.taken == []
            standby.confirms = True
            await receiver.wait(1)
        return [json.loads(body)["subject"] for _, body in receiver.taken]

    assert asyncio.run(main()) == ["a"]
