"""Bytes: eight parallel reads with a read key once took 2.65 GB. Pages end at their bytes where rows are read, large answers are
encoded off the event loop, and those under way are bounded."""

from __future__ import annotations

import asyncio
import heapq
import threading
import tracemalloc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdkit import Saga
from holdkit.client import connect
from holdkit.commands import CreatePool
from holdkit.core.reading import ListRecords
from holdkit.server import Settings, feed, large_answers
from holdkit.server.request import Request
from holdkit.server.settings import Answers, Rates, Upkeep
from holdkit.server.streams import PACKET, Stream, entries
from holdkit.wire.fields import encode as encode_json
from tests.support.servers import InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE

PAGE = 64 * 1024
SMALL = Settings(
    upkeep=Upkeep(key_refresh=1, sweep_every=0), answers=Answers(page_bytes=PAGE), rates=Rates(key=1e6, key_burst=10**6)
)
UNBOUNDED = Settings(
    upkeep=Upkeep(key_refresh=1, sweep_every=0),
    answers=Answers(page_bytes=1 << 30),
    rates=Rates(key=1e6, key_burst=10**6),
)
POOLS = [f"p{number:03}" for number in range(300)]
HOLDS, NOTES, EXTENDED = 12, 20, 30


class Shipment(Saga):
    """A saga with a large intent."""

    name = "shipment"

    def reserve(self, intent: Any, step: Any) -> str:
        return "p000"

    def effect(self, intent: Any, step: Any) -> None:
        return None


def play(
    work: Callable[[InProcessApp], Coroutine[Any, Any, None]], url: str = "memory://", settings: Settings = SMALL
) -> None:
    async def main() -> None:
        async with in_process_app(url, settings=settings) as here:
            await work(here)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def done(here: InProcessApp, method: str, path: str, body: Any, op: str, tenant: str = "") -> dict[str, Any]:
    answer = await here.call(method, path, body, op=op, tenant=tenant)
    assert answer.status_code < 300, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def fill(here: InProcessApp) -> str:
    """Holds with many legs, each with a claim; large records and sagas; and one hold, which is returned, with a long history."""
    created = [{"type": "create_pool", "id": pool, "total": 10_000} for pool in POOLS]
    await done(here, "POST", "/v1/batch", {"commands": created}, "pools")
    holds = []
    for number in range(HOLDS):
        legs = [*({"pool": pool} for pool in POOLS), {"claim": f"seat:{number}"}]
        body = {"legs": legs, "ttl": 3_600, "metadata": {"note": "x" * 2_000}}
        holds.append(await done(here, "POST", "/v1/holds", body, f"hold-{number}"))
    sagas = here.running.kernel.sagas.register(Shipment())
    for number in range(NOTES):
        body = {"body": f'"{"y" * 8_000}"'}
        await done(here, "PUT", f"/v1/records/note/{number:03}", body, f"note-{number}")
        await sagas.begin(f"saga-{number:03}", {"text": "z" * 8_000})
    first = holds[0]
    for number in range(EXTENDED):
        body = {"by": 1, "token": first["token"]}
        await done(here, "POST", f"/v1/holds/{first['id']}/extend", body, f"extend-{number}")
    return str(first["id"])


def lists(hold: str) -> dict[str, tuple[str, int | None]]:
    """The lists that may have large items: path, and how many items."""
    return {
        "holds": ("/v1/holds", HOLDS),
        "holds on a pool": ("/v1/holds?pool=p000&state=held", HOLDS),
        "records": ("/v1/records?kind=note", NOTES),
        "claims": ("/v1/claims", HOLDS),
        "sagas": ("/v1/sagas", NOTES),
        "journal": ("/v1/journal", None),
        "history of a hold": (f"/v1/holds/{hold}/history", 1 + EXTENDED),
        "history of a pool": ("/v1/pools/p000/history", 1 + HOLDS),
    }


async def pages_of(here: InProcessApp, path: str) -> list[tuple[int, list[Any]]]:
    """Every page of a list: its bytes and its items."""
    found: list[tuple[int, list[Any]]] = []
    joined = "&" if "?" in path else "?"
    after = ""
    while True:
        answer = await here.call("GET", f"{path}{joined}limit=1000{after}", key="read")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append((len(answer.content), page["items"]))
        if page["next"] is None:
            return found
        assert page["items"], "a page that says that more follow has some"
        after = f"&after={page['next']}"


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_every_page_ends_at_its_bytes_and_none_loses_anything(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """And its canary: without the bound, each of these lists is one page that is larger."""
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}.get(engine)
    url = url or request.getfixturevalue("migrated")()

    async def bounded(here: InProcessApp) -> None:
        for name, (path, count) in lists(await fill(here)).items():
            pages = await pages_of(here, path)
            sizes, items = [size for size, _ in pages], [item for _, page in pages for item in page]
            largest = max(len(repr(item)) for item in items)
            cursors = max(sum(len(item.get("cursor", "")) for item in page) for _, page in pages)
            assert max(sizes) < 1.5 * PAGE + 2 * largest + cursors, name
            assert len(pages) > 1, name
            keys = [item.get("id") or str(item.get("position")) for item in items]
            assert len(keys) == len(set(keys)), f"{name}: none twice"
            assert count is None or len(items) == count, name

    async def unbounded(here: InProcessApp) -> None:
        for name, (path, _) in lists(await fill(here)).items():
            (size, items), *more = await pages_of(here, path)
            assert not more, name
            if name != "claims":  # what is bounded there is what is read: the hold of each, with all its legs
                assert size > 1.5 * PAGE + 2 * max(len(repr(item)) for item in items), name

    play(bounded, url)
    if engine == "memory":
        play(unbounded, url, UNBOUNDED)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_rows_that_do_not_fit_are_never_read(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/holds.db" if engine == "sqlite" else request.getfixturevalue("migrated")()

    async def work(here: InProcessApp) -> None:
        for number in range(60):
            body = {"body": f'"{"y" * 200_000}"'}
            await done(here, "PUT", f"/v1/records/note/{number:03}", body, f"note-{number}")
        read = here.running.kernel._executor.engine.read
        peaks = {}
        for most in (None, PAGE):
            tracemalloc.start()
            read(ListRecords("", "note", "", 1_000, most))
            peaks[most] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert (peaks[None] or 0) > 10_000_000, "the canary: all of them"
        assert (peaks[PAGE] or 0) < 2_000_000

    play(work, url)


def test_the_client_follows_pages_until_it_has_what_it_was_asked_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with live_server(url, settings=SMALL) as server, connect(server.url, key=server.admin) as hk:
        hk.apply([CreatePool(id=pool, total=10_000) for pool in POOLS])
        holds = [hk.hold(dict.fromkeys(POOLS, 1), ttl="1h") for _ in range(HOLDS)]
        for number in range(NOTES):
            hk.admin.records.put("note", f"{number:03}", f'"{"y" * 8_000}"')
        for _ in range(EXTENDED):
            hk.extend(holds[0], by=1)
        assert [hold.id for hold in hk.holds(limit=1_000)] == sorted(hold.id for hold in holds)
        assert len(hk.holds(limit=5)) == 5
        assert len(hk.admin.records.list("note", limit=1_000)) == NOTES
        assert len(hk.history(holds[0])) == 1 + EXTENDED
        assert len(hk.journal.history("p000")) == 1 + HOLDS
        everything = hk.journal.list(limit=1_000)
        assert len(everything) == len(POOLS) + HOLDS + NOTES + EXTENDED
        assert hk.journal.list(after=everything[-1].cursor) == []
        assert [entry.position for entry in hk.journal.follow(wait=False)] == [entry.position for entry in everything]


class SlowClient:
    """A request whose answer is taken only when the test lets it."""

    def __init__(self, here: InProcessApp, key: str, path: bytes) -> None:
        self.status, self.body = 0, b""
        self.began, self.go = asyncio.Event(), asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": path.decode(), "raw_path": path, "query_string": b"limit=1000",
                 "headers": [(b"authorization", f"Bearer {key}".encode()), (b"host", b"localhost")]}  # fmt: skip
        self.task = asyncio.create_task(here.application(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.body += message["body"]
        self.began.set()
        await self.go.wait()

    async def finish(self) -> None:
        self.go.set()
        await self.task


def test_answers_under_way_are_bounded_and_shared() -> None:
    """A key's share is full while its clients take their time; another tenant's is not, and small answers always pass."""
    settings = Settings(
        upkeep=Upkeep(key_refresh=1, sweep_every=0),
        answers=Answers(page_bytes=4 * PAGE, max_bytes=7 * PAGE),
        rates=Rates(key=1e6, key_burst=10**6),
    )

    async def work(here: InProcessApp) -> None:
        for tenant in ("greedy", "quiet"):
            for number in range(16):
                body = {"body": f'"{"y" * 8_000}"'}
                await done(here, "PUT", f"/v1/records/note/{number:03}", body, f"note-{number}", tenant)
        greedy, quiet = await here.key("read", "greedy"), await here.key("read", "quiet")
        under_way = here.running.large_answers.shares
        notes = "/v1/records?kind=note&limit=1000"
        slow = [SlowClient(here, greedy, b"/v1/journal") for _ in range(4)]
        for one in slow:
            await one.began.wait()
        assert sorted(one.status for one in slow) == [200, 503, 503, 503], "its share is one large answer at a time"
        refused = await here.call("GET", notes, key="read", tenant="greedy")
        assert (refused.status_code, refused.json()["reason"], refused.json()["effect"]) == (503, "overloaded", "none")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await here.call("GET", "/v1/whoami", key="read", tenant="greedy")).status_code == 200
        assert (await here.call("GET", notes, key="read", tenant="quiet")).status_code == 200
        other = SlowClient(here, quiet, b"/v1/journal")
        await other.began.wait()
        assert other.status == 200
        for one in (*slow, other):
            await one.finish()
        assert under_way.used == 0
        assert (await here.call("GET", notes, key="read", tenant="greedy")).status_code == 200

    play(work, settings=settings)


def test_a_large_answer_is_encoded_off_the_loop_and_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def encode(value: Any) -> bytes:
        seen.append(threading.current_thread().name)
        return original(value)

    original = encode_json
    monkeypatch.setattr(large_answers, "encode", encode)
    monkeypatch.setattr(large_answers, "PART", 50_000)

    async def work(here: InProcessApp) -> None:
        for number in range(16):
            body = {"body": f'"{"y" * 8_000}"'}
            await done(here, "PUT", f"/v1/records/note/{number:03}", body, f"note-{number}")
        whole = await here.call("GET", "/v1/records?kind=note&limit=1000", key="read")
        assert (len(whole.json()["items"]), whole.headers["content-length"]) == (16, str(len(whole.content)))
        assert [name.rpartition("_")[0] for name in seen] == ["holdkit-encoder"]
        await here.call("GET", "/v1/records?kind=note&limit=1", key="read")
        assert len(seen) == 1, "a small one is not worth a thread"
        assert here.running.large_answers.shares.used == 0

    play(work, settings=UNBOUNDED)


def test_the_answer_of_a_change_is_given_even_if_there_is_no_room() -> None:
    settings = Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), answers=Answers(max_bytes=1, page_bytes=4 * PAGE))

    async def work(here: InProcessApp) -> None:
        created = [{"type": "create_pool", "id": pool, "total": 10_000} for pool in POOLS]
        await done(here, "POST", "/v1/batch", {"commands": created}, "pools")
        legs = [{"pool": pool} for pool in POOLS]
        holds = [{"type": "hold", "legs": legs, "ttl": 60} for _ in range(10)]
        answer = await done(here, "POST", "/v1/batch", {"commands": holds}, "holds")
        assert [len(one["hold"]["legs"]) for one in answer["answers"]] == [len(POOLS)] * 10
        assert here.running.large_answers.shares.used == 0
        assert (await here.call("GET", "/v1/holds?limit=1000", key="read")).json()["reason"] == "overloaded"

    play(work, settings=settings)


def test_a_stream_sends_large_entries_in_small_packets() -> None:
    async def work(here: InProcessApp) -> None:
        await fill(here)
        request = Request({"method": "GET"}, None)  # type: ignore[arg-type]
        request.caller, request.running = here.running.admission._anonymous, here.running
        told = await entries(Stream(request), "hkc2.WyIiLFtbMCwwLCIiXV1d")  # the beginning
        assert b"event: hello" in await anext(told)
        sizes = []
        seen = 0
        while seen < len(POOLS) + HOLDS + NOTES + EXTENDED:
            packet = await anext(told)
            seen += packet.count(b"event: ")
            sizes.append(len(packet))
        assert max(sizes) < 2 * PACKET
        assert len(sizes) > 4
        await told.aclose()

    play(work, settings=UNBOUNDED)


def test_a_summary_is_bounded_however_many_pools_change_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_SHOWN", 100)

    async def work(here: InProcessApp) -> None:
        watched = here.running.feeds.get(here.running.kernel, "")
        await watched.ready.wait()
        created = [{"type": "create_pool", "id": pool, "total": 100} for pool in POOLS]
        await done(here, "POST", "/v1/batch", {"commands": created}, "pools")
        while watched.sums.pools < len(POOLS):
            await watched.wait(watched.tick, 1)
        tick = watched.tick
        holds = [
            {"type": "hold", "legs": [{"pool": pool} for pool in POOLS[n : n + 100]], "ttl": 60} for n in (0, 100, 200)
        ]
        await done(here, "POST", "/v1/batch", {"commands": holds}, "holds")
        while watched.sums.held < len(POOLS):
            await watched.wait(watched.tick, 1)
        shown: list[int] = []
        while tick < watched.tick:
            pools, removed, tick = watched.since(tick)
            shown.append(len(pools) + len(removed))
        assert shown == [100, 100, 100], "one page of entries, one summary for each"

    play(work)


def test_the_fullest_of_many_pools_are_ranked_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FEW", 10)
    monkeypatch.setattr(feed, "RANK_EVERY", 3_600)

    async def work(here: InProcessApp) -> None:
        created = [{"type": "create_pool", "id": pool, "total": 100} for pool in POOLS]
        await done(here, "POST", "/v1/batch", {"commands": created}, "pools")
        await done(here, "POST", "/v1/holds", {"pool": "p007", "quantity": 50, "ttl": 60}, "hold")
        ranked: list[str] = []
        original = heapq.nlargest

        def nlargest(*arguments: Any, **more: Any) -> Any:
            ranked.append(threading.current_thread().name)
            return original(*arguments, **more)

        monkeypatch.setattr(feed, "nlargest", nlargest)
        await here.key("read")
        answers = await asyncio.gather(*(here.call("GET", "/v1/overview", key="read") for _ in range(5)))
        assert [answer.json()["fullest"][0]["id"] for answer in answers] == ["p007"] * 5
        assert [name.rpartition("_")[0] for name in ranked] == ["holdkit-encoder"], "once for all of them"

    play(work)
