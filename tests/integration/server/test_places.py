"""The stream of a place in line: what it tells, when, and what it costs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdkit.server import places
from holdkit.server.request import Request
from holdkit.server.streams import Stream
from tests.integration.server.test_lines import LINE, NUMBERS, do, full_pool, play
from tests.integration.server.test_streams import frames
from tests.support.servers import QUICK, InProcessApp, live_server
from tests.support.threads import PATIENCE


def test_a_stream_tells_the_place_and_ends_with_the_offer() -> None:
    with live_server() as server, server.client() as http:

        def post(path: str, body: Any) -> Any:
            answer = http.post(path, json=body, headers={"Idempotency-Key": f"s-{next(NUMBERS)}"})
            assert answer.status_code < 300, answer.text
            return answer.json()

        post("/v1/pools", {"id": "show", "total": 2})
        held = [post("/v1/holds", {"pool": "show", "ttl": "5m"}) for _ in range(2)]
        waiters = [post("/v1/pools/show/line", LINE) for _ in range(2)]
        with http.stream("GET", f"/v1/holds/{waiters[1]['id']}/place/events") as answer:
            told = frames(answer)
            event, id, place = next(told)
            assert (event, id, place["place"]) == ("place", None, 2)
            for one in held:
                post(f"/v1/holds/{one['id']}/release", {"token": one["token"]})
            event, _, last = next(told)
            while event == "place":
                event, _, last = next(told)
            assert (event, last["id"], last["state"]) == ("offered", waiters[1]["id"], "held")
            assert last["deadline"] > last["held_at"]
            assert "token" not in last
            assert list(told) == [], "that was the last event"
        with http.stream("GET", f"/v1/holds/{held[0]['id']}/place/events") as answer:
            assert [event for event, _, _ in frames(answer)] == ["ended"]
        assert http.get(f"/v1/holds/{'0' * 32}/place/events").json()["reason"] == "hold_not_found"


def test_a_place_is_sent_at_most_every_two_seconds_and_the_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pause that never ends, no second place comes; what became of the hold does."""
    monkeypatch.setattr(places, "EVERY", 3600.0)
    throttled = asyncio.Event()
    original = places.Watcher.wait

    async def wait(watcher: places.Watcher, seconds: float) -> None:
        if watcher.line_moved:
            throttled.set()  # the stream knows that somebody has left, and has not counted again
        await original(watcher, seconds)

    monkeypatch.setattr(places.Watcher, "wait", wait)

    async def work(here: InProcessApp) -> None:
        await full_pool(here)
        waiters = [(await do(here, "POST", "/v1/pools/show/line", LINE))[1] for _ in range(3)]
        key = (await here.running.keys.stored())[0]
        request = Request({"method": "GET"}, None)  # type: ignore[arg-type]
        request.caller, request.running = here.running.admission._caller(key), here.running
        request.names = (waiters[2]["id"],)
        told = await places._content(Stream(request))
        async with asyncio.timeout(PATIENCE):
            assert b'"place":3,' in await anext(told)
            following = asyncio.create_task(anext(told))
            await do(here, "POST", f"/v1/holds/{waiters[0]['id']}/release", {"token": waiters[0]["token"]})
            paused = asyncio.create_task(throttled.wait())
            await asyncio.wait([following, paused], return_when=asyncio.FIRST_COMPLETED)
            assert not following.done(), "it has moved up, and the stream keeps that to itself for now"
            await do(here, "POST", f"/v1/holds/{waiters[2]['id']}/release", {"token": waiters[2]["token"]})
            assert (await following).startswith(b"event: ended")

    play(work)


def test_many_streams_of_places_share_one_reader_and_leave_none_behind() -> None:
    async def work(here: InProcessApp) -> None:
        await full_pool(here)
        watch = here.running.places
        _, ahead = await do(here, "POST", "/v1/pools/show/line", LINE)
        _, waiter = await do(here, "POST", "/v1/pools/show/line", LINE)
        row = await here.running.kernel._executor.find_hold(("", waiter["id"]))
        assert row is not None
        with watch.watching(row) as one, watch.watching(row) as two:
            reader = watch._reading
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(one.news.wait(), two.news.wait())  # the reader begins
                for watcher in (one, two):
                    watcher.news.clear()
                    watcher.line_moved = False
                await do(here, "POST", f"/v1/holds/{ahead['id']}/release", {"token": ahead["token"]})
                await asyncio.gather(one.news.wait(), two.news.wait())
            assert (one.line_moved, two.line_moved) == (True, True)
            assert watch._reading is reader
        assert (watch._reading, watch._holds, watch._lines) == (None, {}, {})

    play(work)


def test_entries_of_another_tenant_wake_no_stream() -> None:
    async def work(here: InProcessApp) -> None:
        await full_pool(here, tenant="rival")
        theirs = await full_pool(here, tenant="acme")
        _, mine = await do(here, "POST", "/v1/pools/show/line", LINE, tenant="rival")
        await do(here, "POST", "/v1/pools/show/line", LINE, tenant="acme")
        row = await here.running.kernel._executor.find_hold(("rival", mine["id"]))
        assert row is not None
        with here.running.places.watching(row) as watcher:
            async with asyncio.timeout(PATIENCE):
                await watcher.news.wait()
                watcher.news.clear()
                watcher.line_moved = False
                await do(here, "POST", f"/v1/holds/{theirs['id']}/release", {"token": theirs["token"]}, tenant="acme")
                await do(
                    here, "POST", f"/v1/holds/{mine['id']}/extend", {"by": 9, "token": mine["token"]}, tenant="rival"
                )
                await watcher.news.wait()
            assert not watcher.line_moved, "only the stream's own hold was changed in its own tenant"

    play(work)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_stream_hears_of_an_offer_that_another_server_makes(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}" if engine == "sqlite" else request.getfixturevalue("migrated")()
    with live_server(url) as one, live_server(url) as other, one.client() as here, other.client() as there:

        def post(path: str, body: Any) -> Any:
            answer = there.post(path, json=body, headers={"Idempotency-Key": f"t-{next(NUMBERS)}"})
            assert answer.status_code < 300, answer.text
            return answer.json()

        post("/v1/pools", {"id": "show", "total": 1})
        held = post("/v1/holds", {"pool": "show", "ttl": "5m"})
        waiter = post("/v1/pools/show/line", {**LINE, "account": "a"})
        with here.stream("GET", f"/v1/holds/{waiter['id']}/place/events") as answer:
            told = frames(answer)
            assert next(told)[2]["place"] == 1
            post(f"/v1/holds/{held['id']}/release", {"token": held["token"]})
            assert [event for event, _, _ in told] == ["offered"]
        usage = here.get("/v1/accounts/a/usage").json()["items"]
        assert usage == [{"pool": "show", "used": 1, "limit": None}]


def test_the_servers_own_sweep_offers_what_expires() -> None:
    """Nobody touches the pool: a server looks."""
    with (
        live_server(settings=replace(QUICK, upkeep=replace(QUICK.upkeep, sweep_every=0.05))) as server,
        server.client() as http,
    ):

        def post(path: str, body: Any) -> Any:
            return http.post(path, json=body, headers={"Idempotency-Key": f"x-{next(NUMBERS)}"}).json()

        post("/v1/pools", {"id": "show", "total": 1})
        post("/v1/holds", {"pool": "show", "ttl": 0.2})
        waiter = post("/v1/pools/show/line", LINE)
        with http.stream("GET", f"/v1/holds/{waiter['id']}/place/events") as answer:
            events = [event for event, _, _ in frames(answer)]
        assert events[-1] == "offered"
