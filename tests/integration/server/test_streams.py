from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from holdkit.server import Settings, streams
from holdkit.server.settings import Streams, Upkeep
from tests.support.servers import QUICK, in_process_app, live_server
from tests.support.threads import PATIENCE


def frames(answer: httpx.Response) -> Iterator[tuple[str, str | None, Any]]:
    """(event, id, data) of each event as it comes; pings are passed over."""
    event, id = "", None
    for line in answer.iter_lines():
        if line.startswith("event: "):
            event = line[7:]
        elif line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data: "):
            yield event, id, json.loads(line[6:])
            event, id = "", None


def test_the_journal_comes_as_events_and_resumes_behind_the_last_one_seen() -> None:
    with live_server() as server, server.client() as http:
        with http.stream("GET", "/v1/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            told = frames(answer)
            assert next(told)[0] == "hello"
            http.post("/v1/pools", json={"id": "a", "total": 5})
            event, seen, data = next(told)
            assert (event, data["subject"]) == ("pool.created", "a")
        http.post("/v1/pools", json={"id": "b", "total": 5})
        with http.stream("GET", "/v1/events", headers={"Last-Event-ID": seen or ""}) as answer:
            told = frames(answer)
            assert next(told)[0] == "hello"
            assert next(told)[2]["subject"] == "b"


def test_a_stream_says_how_often_it_gives_a_sign_of_life_and_does() -> None:
    with live_server(settings=replace(QUICK, streams=Streams(ping_every=0.05))) as server, server.client() as http:
        for path in ("/v1/events", "/v1/events?kind=summary"):
            with http.stream("GET", path) as answer:
                assert answer.headers["holdkit-ping-every"] == "0.05"
                assert next(line for line in answer.iter_lines() if line.startswith(": ping")), path


def test_summaries_tell_what_changed_and_add_up() -> None:
    with live_server() as server, server.client() as http:
        http.post("/v1/pools", json={"id": "a", "total": 5})
        with http.stream("GET", "/v1/events?kind=summary") as answer:
            told = frames(answer)
            event, _, first = next(told)
            assert (event, first["reset"]) == ("summary", True)
            assert (first["sums"]["pools"], first["sums"]["available"]) == (1, 5)
            for n in range(3):
                http.post("/v1/holds", json={"pool": "a", "ttl": 60}, headers={"Idempotency-Key": str(n)})
            seen: dict[str, int] = {}
            latest: dict[str, Any] = {}
            data: dict[str, Any] = {}
            while seen.get("hold.held", 0) < 3:
                _, _, data = next(told)
                for action, count in data["actions"].items():
                    seen[action] = seen.get(action, 0) + count
                latest |= {pool["id"]: pool for pool in data["pools"]}
            assert latest["a"]["held"] == 3
            assert data["sums"]["held"] == 3
        overview = http.get("/v1/overview").json()
        assert overview["sums"]["held"] == 3
        assert overview["fullest"][0]["id"] == "a"


def test_how_long_a_stream_was_open_is_no_latency() -> None:
    """A page that was looked at for an hour would be the slowest request of all, and spoil the percentiles."""
    with live_server() as server, server.client() as http:
        with http.stream("GET", "/v1/events") as answer:
            assert next(frames(answer))[0] == "hello"
        counted: dict[str, float] = {}
        while 'holdkit_requests_total{kind="events",outcome="done"}' not in counted:
            lines = [line.rpartition(" ") for line in http.get("/metrics").text.splitlines() if line[:1] != "#"]
            counted = {name: float(number) for name, _, number in lines}
        asked = sum(number for name, number in counted.items() if name.startswith("holdkit_requests_total"))
        assert counted["holdkit_request_seconds_count"] == asked - 1


def test_the_units_of_a_tree_are_summed_once() -> None:
    """What is held below a pool is held in the pool too."""
    with live_server() as server, server.client() as http:
        for id in ("hall", "hall//stalls", "hall//stalls//left", "yard"):
            assert http.post("/v1/pools", json={"id": id, "total": 10}).is_success
        taken = {"pool": "hall//stalls//left", "quantity": 10, "ttl": 60}
        assert http.post("/v1/holds", json=taken, headers={"Idempotency-Key": "1"}).is_success
        said: dict[str, Any] = {}
        while said.get("held", 0) == 0:  # the feed follows the journal
            said = http.get("/v1/overview").json()["sums"]
        expected = {"total": 20, "held": 10, "consumed": 0, "available": 10, "pools": 4, "over": 0, "full": 3}
        assert said == expected


def test_a_server_that_stops_says_goodbye_to_its_streams() -> None:
    with live_server() as server:
        http = server.client()
        stream = http.stream("GET", "/v1/events")
        told = frames(stream.__enter__())
        assert next(told)[0] == "hello"
    assert next(told)[0] == "bye"
    http.close()


def test_there_are_only_so_many_streams() -> None:
    settings = Settings(upkeep=Upkeep(key_refresh=0.1, sweep_every=0), streams=Streams(max=1))
    with live_server(settings=settings) as server, server.client() as http:
        with http.stream("GET", "/v1/events") as answer:
            told = frames(answer)  # kept: a generator that is dropped closes its connection
            assert next(told)[0] == "hello"
            turned_away = http.get("/v1/events")
            assert (turned_away.status_code, turned_away.json()["reason"]) == (503, "streams_too_many")
        while http.get("/v1/stats").json()["streams"]:
            pass  # until the server has seen that the reader is gone
        lost = http.get("/v1/events?after=hkc2.nonsense")
        assert (lost.status_code, lost.json()["code"]) == (400, "cursor_malformed")


def test_whoever_waits_for_news_is_woken_when_the_server_stops() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            feed = here.running.feeds.get(here.running.kernel, "")
            await feed.ready.wait()
            waiting = asyncio.create_task(feed.wait(feed.tick, 3_600))
            await asyncio.sleep(0)
            here.running.stop()
            await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(main())


def test_streams_that_begin_together_are_counted_too() -> None:
    async def main() -> None:
        async with in_process_app(
            settings=Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), streams=Streams(max=1))
        ) as here:
            await here.key()
            calls = [asyncio.create_task(here.call("GET", "/v1/events")) for _ in range(3)]
            turned_away = [await one for one in calls[1:]]
            assert [one.json()["reason"] for one in turned_away] == ["streams_too_many"] * 2
            here.running.stop()
            assert (await calls[0]).status_code == 200

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_feed_that_nobody_watches_makes_room_for_another_tenant() -> None:
    """Otherwise as many tenants as there are feeds, each asking for an overview now and then, lock out all others."""

    async def main() -> None:
        async with in_process_app(settings=replace(QUICK, streams=Streams(max_feeds=2))) as here:
            for tenant in ("one", "two", "three", "one"):
                assert (await here.call("GET", "/v1/overview", tenant=tenant)).status_code == 200
            assert list(here.running.feeds._feeds) == ["three", "one"]
            for tenant in ("three", "one"):
                here.running.feeds._feeds[tenant].watchers = 1
            answer = await here.call("GET", "/v1/events?kind=summary", tenant="two")
            assert (answer.status_code, answer.json()["reason"]) == (503, "feeds_too_many")
            assert (await here.call("GET", "/v1/overview", tenant="one")).status_code == 200

    asyncio.run(main())


def test_a_stream_that_is_cut_off_by_the_stop_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the server complains of an answer that was never completed."""

    class CutOff:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"event: hello\n\n", "more_body": True})

    monkeypatch.setattr(streams, "EventSourceResponse", CutOff)
    said: list[Any] = []

    async def main() -> None:
        async with in_process_app() as here:
            headers = [(b"authorization", f"Bearer {await here.key('read')}".encode())]
            scope = {"type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events",
                     "query_string": b"", "headers": headers}  # fmt: skip

            async def send(message: Any) -> None:
                said.append(message)

            async def receive() -> Any:
                return {"type": "http.disconnect"}

            await here.application(scope, receive, send)

    asyncio.run(main())
    assert [bool(one.get("more_body")) for one in said] == [False, True, False]
    assert said[-1] == {"type": "http.response.body", "body": b""}


@pytest.mark.parametrize("mark", ["\n", "\r", "\n\ndata: {}\n\n", " ", "=", "é", "\x00", "+", "/", "!"])
def test_no_character_that_a_cursor_never_has_comes_back_in_an_id(mark: str) -> None:
    """A decoder that passes over what is not base64 would put line breaks of the caller's choice into the stream."""

    async def main() -> None:
        async with in_process_app() as here:
            await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
            cursor = (await here.call("GET", "/v1/cursor")).json()["cursor"]
            for place in (5, 9, len(cursor)):
                after = cursor[:place] + mark * 4 + cursor[place:]  # four: what is left has the length of base64
                for path in ("/v1/journal", "/v1/pools/a/history", "/v1/events"):
                    answer = await here.call("GET", path, params={"after": after})
                    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_request"), (path, place)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
