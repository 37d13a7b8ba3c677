"""A reader that takes nothing costs nobody anything: holds go on, memory stays, and in the end it is dropped."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from holdkit import Allowance
from holdkit.server import Settings
from holdkit.server.feed import MAX_SHOWN, Feed
from holdkit.server.settings import Streams, Upkeep
from tests.support.servers import in_process_app, live_server
from tests.support.threads import PATIENCE


@pytest.mark.parametrize("kind", ["entries", "summary"])
def test_a_reader_that_takes_nothing_is_dropped_and_delays_no_hold(kind: str) -> None:
    settings = Settings(
        upkeep=Upkeep(key_refresh=0.1, sweep_every=0), streams=Streams(timeout=0.3, summary_every=0.001)
    )
    heard = LogRecorder()
    with live_server(settings=settings) as server, server.client() as http, heard:
        names = [f"{n:0500}" for n in range(100)]
        made = {"commands": [{"type": "create_pool", "id": name, "total": 10**9} for name in names]}
        assert http.post("/v1/batch", json=made, headers={"Idempotency-Key": "pools"}).status_code == 200
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", server.port))
            request = f"GET /v1/events?kind={kind} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.admin}\r\n\r\n"
            slow.sendall(request.encode())
            assert slow.recv(1024).startswith(b"HTTP/1.1 200")
            commands = [{"type": "consume", "pool": name, "reason": "x" * 900} for name in names]
            batches = 0
            while http.get("/v1/stats").json()["streams"]:  # until it is dropped
                answer = http.post("/v1/batch", json={"commands": commands}, headers={"Idempotency-Key": str(batches)})
                assert answer.status_code == 200
                batches += 1
                assert batches < 500, "the slow reader was never dropped"
        assert http.get("/readyz").status_code == 200
    (told,) = heard.records
    assert (told.name, told.levelname) == ("holdkit.server", "WARNING")
    assert told.getMessage().endswith("dropped: its client read nothing for 0.3 s")


class LogRecorder(logging.Handler):
    """Everything that our server and uvicorn log, from warnings upwards."""

    LOGGERS = ("holdkit.server", "uvicorn.error")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> None:
        for name in self.LOGGERS:
            logging.getLogger(name).addHandler(self)

    def __exit__(self, *_error: object) -> None:
        for name in self.LOGGERS:
            logging.getLogger(name).removeHandler(self)


def test_a_feed_coalesces_and_bounds_what_it_tells() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            kernel = here.running.kernel
            feed = Feed(kernel, "")
            await feed.ready.wait()
            from holdkit import Leg
            from holdkit.commands import CreatePool, PlaceHold

            for start in range(0, 3_000, 1_000):
                await kernel.apply([CreatePool(id=f"p{n:04}", total=9) for n in range(start, start + 1_000)])
            await kernel.apply([PlaceHold(legs=(Leg("p0000"),), ttl=60) for _ in range(9)])
            async with asyncio.timeout(PATIENCE):
                while feed.actions["hold.held"] < 9:
                    await feed.wait(feed.tick, 1)
            seen: dict[str, int] = {}
            tick, summaries = 0, 0
            while True:
                pools, removed, tick = feed.since(tick)
                if not pools:
                    break
                assert len(pools) <= MAX_SHOWN + 500
                assert removed == []
                seen |= {pool.id: pool.held for pool in pools}
                summaries += 1
            assert summaries >= 3
            assert len(seen) == 3_000
            assert seen["p0000"] == 9
            assert (feed.sums.pools, feed.sums.held, feed.sums.full) == (3_000, 9, 1)
            await feed.close()

    asyncio.run(main())


def test_a_feed_tells_nothing_of_pools_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdkit.server.feed.MAX_POOLS", 2)

    async def main() -> None:
        async with in_process_app() as here:
            kernel = here.running.kernel
            feed = Feed(kernel, "")
            await feed.ready.wait()
            for name in ("a", "b", "c"):
                await kernel.create_pool(name, 5)
            await kernel.hold({"a": 1, "c": 1}, ttl=60)
            async with asyncio.timeout(20):
                while not feed.actions["hold.held"]:
                    await feed.wait(feed.tick, 1)
            pools, removed, _ = feed.since(0)
            assert ([pool.id for pool in pools], removed) == (["b", "a"], []), "one that is not kept is not gone"
            assert (feed.complete, feed.sums.pools, feed.sums.held) == (False, 2, 1)
            await feed.close()

    asyncio.run(main())


def test_a_feed_tells_nothing_of_the_pools_behind_claims_items_and_budgets() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            kernel = here.running.kernel
            await kernel.claims.hold("email", "before@example.com", ttl=60)
            feed = Feed(kernel, "")
            await feed.ready.wait()
            await kernel.claims.hold("email", "after@example.com", ttl=60)
            await kernel.items.add(["seat:1"])
            await kernel.items.hold(["seat:1"], ttl=60)
            await kernel.budget("llm", tokens=Allowance(9, per="day")).hold("ann", 3, ttl=60)
            await kernel.create_pool("plain", 5)
            await kernel.hold("plain", 2, ttl=60)
            async with asyncio.timeout(PATIENCE):
                while feed.actions["hold.held"] < 4:
                    await feed.wait(feed.tick, 1)
            pools, removed, _ = feed.since(0)
            assert ([pool.id for pool in pools], removed, list(feed.pools)) == (["plain"], [], ["plain"])
            assert (feed.sums.pools, feed.sums.held) == (1, 2)
            await feed.close()

    asyncio.run(main())


def test_a_feed_lists_what_a_list_of_pools_lists_archived_ones_left_out() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            kernel = here.running.kernel
            for pool in ("before", "later", "kept"):
                await kernel.create_pool(pool, 5)
            await kernel.admin.archive_pool("before")
            feed = Feed(kernel, "")
            await feed.ready.wait()
            assert sorted(feed.pools) == ["kept", "later"]
            tick = feed.tick
            hold = await kernel.hold("later", 2, ttl=60)
            await kernel.admin.archive_pool("later")
            await kernel.release(hold)
            await kernel.admin.unarchive_pool("before")
            async with asyncio.timeout(PATIENCE):
                while not feed.actions["pool.unarchived"]:
                    await feed.wait(feed.tick, 1)
            pools, removed, _ = feed.since(tick)
            assert ([pool.id for pool in pools], removed, sorted(feed.pools)) == (
                ["before"],
                ["later"],
                ["before", "kept"],
            )
            assert (feed.sums.pools, feed.sums.held) == (2, 0)
            await feed.close()

    asyncio.run(main())
