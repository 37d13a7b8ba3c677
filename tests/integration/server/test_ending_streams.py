"""Streams of keys that stop counting: a revoked key's stream once ran on for as long as its client liked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from holdkit.client import NotAdmitted, connect
from holdkit.server import Settings
from holdkit.server.settings import Streams, Upkeep
from holdkit.testing import FakeClock
from tests.integration.server.test_streams import frames
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until

SETTINGS = Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0), streams=Streams(summary_every=0.05))
KINDS = ["entries", "summary"]


def opened(stack: ExitStack, http: httpx.Client, kind: str = "entries") -> Iterator[tuple[str, str | None, Any]]:
    """A stream whose first event was read."""
    told = frames(stack.enter_context(http.stream("GET", f"/v1/events?kind={kind}")))
    assert next(told)[0] in ("hello", "summary")
    return told


def last_of(told: Iterator[tuple[str, str | None, Any]]) -> tuple[str, Any]:
    """The last event of a stream that ends."""
    *_, (event, _, data) = told
    return event, data


def key_made(http: httpx.Client, **more: Any) -> tuple[str, str]:
    made = http.post("/v1/keys", json={"name": "n", "scope": "read", **more}).json()
    return made["info"]["id"], made["key"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_revoked_key(kind: str) -> None:
    with live_server(settings=SETTINGS) as server, server.client() as http, ExitStack() as stack:
        id, key = key_made(http)
        told = opened(stack, stack.enter_context(server.client(key)), kind)
        spared = opened(stack, http)
        assert http.delete(f"/v1/keys/{id}").json()["state"] == "revoked"
        assert last_of(told) == ("bye", {"reason": "key_refused"})
        http.post("/v1/pools", json={"id": "a", "total": 1})
        assert next(spared)[0] == "pool.created", "other keys' streams go on"
        wait_until(lambda: http.get("/v1/stats").json()["streams"] == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_expired_key(kind: str) -> None:
    clock = FakeClock()
    with live_server(settings=SETTINGS, clock=clock) as server, server.client() as http, ExitStack() as stack:
        _, key = key_made(http, ttl=60)
        told = opened(stack, stack.enter_context(server.client(key)), kind)
        clock.advance(60)
        assert last_of(told) == ("bye", {"reason": "key_refused"})


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_old_secret_once_its_grace_is_over(kind: str) -> None:
    clock = FakeClock()
    with live_server(settings=SETTINGS, clock=clock) as server, server.client() as http, ExitStack() as stack:
        id, key = key_made(http)
        told = opened(stack, stack.enter_context(server.client(key)), kind)
        new = http.post(f"/v1/keys/{id}/rotate", json={"grace": 60}).json()["key"]
        spared = opened(stack, stack.enter_context(server.client(new)))
        clock.advance(59)
        http.post("/v1/pools", json={"id": "a", "total": 1})
        assert next(event for event, _, data in told if event != "summary" or data["actions"])
        clock.advance(1)
        assert last_of(told) == ("bye", {"reason": "key_refused"})
        assert next(spared)[0] == "pool.created"
        http.post("/v1/pools", json={"id": "b", "total": 1})
        assert next(spared)[2]["subject"] == "b", "the new secret's stream goes on"


def test_of_a_client_that_reads_nothing() -> None:
    """It cannot be told, so its connection is closed, long before `stream_timeout`."""
    settings = Settings(
        upkeep=Upkeep(key_refresh=0.05, sweep_every=0), streams=Streams(timeout=3_600, ping_every=3_600)
    )
    with live_server(settings=settings) as server, server.client() as http, ExitStack() as stack:
        id, key = key_made(http)
        answer = stack.enter_context(server.client(key).stream("GET", "/v1/events?after=hkc2.WyIiLFtbMCwwLCIiXV1d"))
        assert answer.status_code == 200
        body = "x" * 200_000
        for number in range(60):
            http.put(f"/v1/records/note/{number}", json={"body": f'"{body}"'}, headers={"Idempotency-Key": str(number)})
        assert http.get("/v1/stats").json()["streams"] == 1
        http.delete(f"/v1/keys/{id}")
        wait_until(lambda: http.get("/v1/stats").json()["streams"] == 0)


def refused(hk: Any, follow: Callable[[], Any]) -> None:
    with pytest.raises(NotAdmitted) as why:
        follow()
    assert why.value.reason == "key_refused"


def test_a_client_says_so_rather_than_to_connect_again_and_again() -> None:
    with live_server(settings=SETTINGS) as server, server.client() as http:
        id, key = key_made(http)
        with connect(server.url, key=key) as hk:
            http.post("/v1/pools", json={"id": "a", "total": 1})
            told = hk.journal.follow()
            assert next(told).subject == "a"
            heard: list[str] = []
            listener = hk.journal.on(None, lambda entry: heard.append(entry.subject))
            wait_until(lambda: http.get("/v1/stats").json()["streams"] == 1)
            http.delete(f"/v1/keys/{id}")
            refused(hk, lambda: list(told))
            began = time.monotonic()
            while listener._worker in hk._executor.workers:
                assert time.monotonic() - began < PATIENCE, "the listener tries for ever"


def open_streams(server: LiveServer, stack: ExitStack, key: str, most: int) -> int:
    """How many streams one key gets at a time."""
    http = stack.enter_context(server.client(key))
    for count in range(most):
        answer = stack.enter_context(http.stream("GET", "/v1/events"))
        if answer.status_code != 200:
            answer.read()
            assert (answer.status_code, answer.json()["reason"]) == (503, "streams_too_many")
            assert int(answer.headers["retry-after"]) >= 1
            return count
    return most


def test_no_key_and_no_tenant_can_take_all_of_them() -> None:
    settings = Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0), streams=Streams(max=12))
    with live_server(settings=settings) as server, ExitStack() as stack:
        assert open_streams(server, stack, server.key("read", "greedy"), 12) == 4, "a third"
        assert open_streams(server, stack, server.key("hold", "greedy"), 12) == 2, "half, for the tenant"
        assert open_streams(server, stack, server.key("admin", "greedy"), 12) == 0
        assert open_streams(server, stack, server.key("read", "quiet"), 1) == 1
        assert open_streams(server, stack, server.key("hold", "quiet"), 1) == 1
