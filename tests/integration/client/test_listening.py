"""Listeners and named followers through the client, sync and async, against servers that come and go."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.client import NotAdmitted, connect_async
from holdkit.client.answers import read_entry
from holdkit.client.stream import StreamCursor
from tests.integration.conftest import Clients
from tests.support.recording_listener import RecordingListener
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until


@pytest.fixture
def shared_server() -> Any:
    """A journal of its own for each test."""
    with live_server() as running:
        yield running


def test_a_listener_hears_what_comes_after_it(remote: Any) -> None:
    remote.create_pool("before", 5)
    every, ended = RecordingListener(), RecordingListener()
    remote.journal.on(None, every)
    remote.journal.on("hold.released", ended)
    hold = remote.hold("before", ttl=60)
    remote.release(hold, reason="user_cancelled")
    every.wait(2)
    ended.wait()
    assert every.heard == [f"hold.held {hold.id}", f"hold.released {hold.id}"]
    assert ended.heard == [f"hold.released {hold.id}"]


def test_a_listener_in_an_empty_journal_hears_the_first_entry(remote: Any) -> None:
    listener = RecordingListener()
    remote.journal.on("pool.created", listener)
    remote.create_pool("a", 1)
    listener.wait()
    assert listener.heard == ["pool.created a"]


def test_a_raising_listener_stops_nobody(remote: Any, caplog: pytest.LogCaptureFixture) -> None:
    listener, healthy = RecordingListener(), RecordingListener()

    def fail(entry: Any) -> None:
        listener(entry)
        raise ZeroDivisionError("listener bug")

    remote.journal.on(None, fail)
    remote.journal.on(None, healthy)
    remote.create_pool("a", 1)
    remote.create_pool("b", 1)
    listener.wait(2)
    healthy.wait(2)
    assert listener.heard == healthy.heard == ["pool.created a", "pool.created b"]
    assert "listener failed on pool.created of a; going on" in caplog.text


def test_a_cancelled_listener_hears_no_more_and_its_worker_ends_at_once(remote: Any) -> None:
    """A stream without news is hung up: nobody waits for the next sign of life on it."""
    listener, other = RecordingListener(), RecordingListener()
    subscription = remote.journal.on(None, listener)
    remote.journal.on(None, other)
    remote.create_pool("a", 1)
    listener.wait()
    subscription.cancel()
    subscription.cancel()
    workers = getattr(remote, "_thing", remote)._executor.workers
    wait_until(lambda: len(workers) == 1)
    remote.create_pool("b", 1)
    other.wait(2)
    assert listener.heard == ["pool.created a"]
    assert not remote._executor.closed
    remote.close()
    assert remote._executor.closed
    assert not workers
    with pytest.raises(holdkit.errors.EngineError, match="closed"):
        remote.pools()


def test_bad_listeners_are_refused(remote: Any) -> None:
    with pytest.raises(holdkit.InvalidRequest) as unknown:
        remote.journal.on("hold.hold", print)
    assert unknown.value.code == "action_unknown"
    with pytest.raises(holdkit.InvalidRequest) as useless:
        remote.journal.on(None, "print")
    assert useless.value.code == "callback_not_callable"


def test_a_listener_goes_on_after_the_server_came_back_and_misses_nothing(clients: Clients, tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    listener = RecordingListener()
    with live_server(url) as first:
        hk = clients.open(first)
        hk.journal.on("pool.created", listener)
        hk.create_pool("a", 1)
        listener.wait()
    with holdkit.connect(url) as local:
        local.create_pool("b", 1)  # while nobody serves
    with live_server(url, port=first.port):
        hk.create_pool("c", 1)
        listener.wait(2)
        assert listener.heard == ["pool.created a", "pool.created b", "pool.created c"]
        hk.close()


def test_a_named_follower_goes_on_where_it_was(remote: Any, clients: Clients, shared_server: LiveServer) -> None:
    for name in "abc":
        remote.create_pool(name, 1)
    assert [entry.subject for entry in remote.journal.follow("mailer", wait=False)] == ["a", "b", "c"]
    assert list(remote.journal.follow("mailer", wait=False)) == []
    remote.create_pool("d", 1)
    again = clients.open(shared_server)
    assert [entry.subject for entry in again.journal.follow("mailer", wait=False)] == ["d"]
    assert [entry.subject for entry in again.journal.follow("other/one", wait=False)] == ["a", "b", "c", "d"]
    begun = [entry.subject for entry in remote.journal.follow("late", after=remote.journal.cursor(back=1), wait=False)]
    assert begun == [], "the last entry is the cursor that was kept"


def test_a_named_follower_keeps_its_place_as_things_happen(
    remote: Any, clients: Clients, shared_server: LiveServer
) -> None:
    follower = remote.journal.follow("live")
    remote.create_pool("a", 1)
    assert next(follower).subject == "a"
    remote.create_pool("b", 1)
    assert next(follower).subject == "b"
    remote.create_pool("c", 1)
    assert next(follower).subject == "c"  # so b was taken
    follower.close()
    again = [entry.subject for entry in clients.open(shared_server).journal.follow("live", wait=False)]
    assert again == ["c"], "what was not asked past comes again"


def test_of_two_followers_of_one_name_one_is_told(remote: Any) -> None:
    first, second = remote.journal.follow("twin"), remote.journal.follow("twin")
    remote.create_pool("a", 1)
    assert next(first).subject == next(second).subject == "a"
    remote.create_pool("b", 1)
    assert next(first).subject == "b"
    with pytest.raises(holdkit.errors.CursorLost, match="another follower named 'twin'"):
        next(second)
    first.close()


def test_the_kernel_here_and_the_client_share_a_name(tmp_path: Any, clients: Clients) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    with live_server(url) as server, holdkit.connect(url) as local:
        hk = clients.open(server)
        hk.create_pool("a", 1)
        assert [entry.subject for entry in hk.journal.follow("mailer", wait=False)] == ["a"]
        hk.create_pool("b", 1)
        assert [entry.subject for entry in local.journal.follow("mailer", wait=False)] == ["b"]
        hk.create_pool("c", 1)
        assert [entry.subject for entry in hk.journal.follow("mailer", wait=False)] == ["c"]
        hk.close()


def test_to_keep_a_place_needs_more_than_to_look(remote: Any, clients: Clients, shared_server: LiveServer) -> None:
    remote.create_pool("a", 1)
    reader = clients.open(shared_server, shared_server.key("read"))
    assert [entry.subject for entry in reader.journal.follow(wait=False)] == ["a"]
    with pytest.raises(NotAdmitted) as no:
        list(reader.journal.follow("mailer", wait=False))
    assert no.value.reason == "scope_too_small"


def test_a_follower_ends_when_the_client_closes(remote: Any) -> None:
    remote.create_pool("a", 1)
    seen: list[str] = []
    begun, over = threading.Event(), threading.Event()

    def follow() -> None:
        for entry in remote.journal.follow():
            seen.append(entry.subject)
            begun.set()
        over.set()

    threading.Thread(target=follow, daemon=True).start()
    assert begun.wait(PATIENCE)
    remote.close()
    assert over.wait(PATIENCE)
    assert seen == ["a"]


def test_every_entry_of_a_stream_has_a_cursor_that_skips_nothing(remote: Any) -> None:
    follower = remote.journal.follow()
    remote.create_pool("a", 1)
    next(follower)
    for name in "bcd":
        remote.create_pool(name, 1)
    seen = [next(follower) for _ in "bcd"]
    follower.close()
    for number, entry in enumerate(seen):
        rest = [one.subject for one in remote.journal.follow(after=entry.cursor, wait=False)]
        assert rest[len(rest) - len("bcd"[number + 1 :]) :] == [*"bcd"[number + 1 :]]


@pytest.mark.parametrize("back", [-1, 1.5, True])
def test_a_cursor_back_is_checked(remote: Any, back: Any) -> None:
    with pytest.raises(holdkit.InvalidRequest):
        remote.journal.cursor(back=back)


def test_the_cursor_moves_with_its_event_and_not_before() -> None:
    """A connection may break between an event's id and its data: then the event must come again."""
    position = StreamCursor("old")
    assert position.parse("event: pool.created") is None
    assert position.parse("id: new") is None
    position.restart()
    assert position.cursor == "old"
    assert position.parse('data: {"server_time":"x"}') is None
    assert position.cursor == "old"


def test_what_comes_again_after_a_broken_connection_is_skipped_once() -> None:
    """Positions have no order. Only what lies ahead of the cursor can come again, also in another order, and from a page."""
    entry: dict[str, Any] = {"at": "2026-01-01T00:00:00Z", "subject": "s", "actor": None, "client_id": None, "reason": None,
             "correlation_id": None, "op": None, "forced": False, "part": False, "pools": [], "before": {}, "after": {},
             "action": "pool.created"}  # fmt: skip

    def event(position: str, id: str | None = None) -> bytes:
        data = json.dumps({"position": position, "cursor": id or "", **entry}, separators=(",", ":"))
        return f"event: pool.created\n{'' if id is None else f'id: {id}' + chr(10)}data: {data}\n\n".encode()

    def new(*events: bytes) -> list[str]:
        return [one.position for one in cursor.entries(b"".join(events))]

    cursor = StreamCursor("old")
    assert new(event("c"), event("a", "first")) == ["c", "a"]
    assert new(event("b"), event("z")) == ["b", "z"]  # then the connection breaks
    cursor.restart()
    assert cursor.cursor == "first"
    assert new(event("d"), event("z"), event("b"), event("e", "second")) == ["d", "e"]
    assert new(event("f")) == ["f"]
    cursor.restart()
    page = [read_entry(event(position).split(b"data: ")[1]) for position in ("g", "f")]
    assert [one.position for one in page if cursor.is_new(one)] == ["g"]
    cursor.move("third", page)
    assert not cursor._ahead, "what the cursor covers is forgotten"


def test_a_line_ends_where_the_server_ended_it_and_nowhere_else() -> None:
    """Other signs that some call line breaks are plain text in JSON. Packets may be cut anywhere, also inside a sign."""
    position = StreamCursor("old")
    sent = "id: new\r\ndata: a\u2028b\x85c\x0bd\n\n: ping\r\n".encode()
    cut = sent.index("\u2028".encode()) + 1
    lines = [*position.lines(sent[:cut]), *position.lines(sent[cut:]), *position.lines(b"id: torn")]
    assert lines == ["id: new", "data: a\u2028b\x85c\x0bd", "", ": ping"]
    position.restart()
    assert list(position.lines(b"data: x\n")) == ["data: x"]


def test_a_listener_hears_entries_with_any_text(remote: Any) -> None:
    listener = RecordingListener()
    remote.create_pool("a", 5)
    remote.journal.on("hold.held", listener)
    for _ in range(3):
        remote.hold("a", ttl=60, metadata={"note": "one\u2028two\x85three"})
        listener.wait()


def test_a_hold_granted_to_a_cancelled_block_is_given_back(shared_server: LiveServer) -> None:
    class Slow(httpx.AsyncHTTPTransport):
        """Holds the answer to a hold back until it is told to let go."""

        def __init__(self) -> None:
            super().__init__()
            self.granted, self.go = asyncio.Event(), asyncio.Event()

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.url.path == "/v1/holds":
                self.granted.set()
                await self.go.wait()
            return answer

    async def main() -> None:
        network = Slow()
        async with connect_async(
            shared_server.url, key=shared_server.admin, http=httpx.AsyncClient(transport=network)
        ) as hk:
            await hk.create_pool("p", 1)

            async def work() -> None:
                async with hk.holding("p", ttl=3600):
                    raise AssertionError("never entered")

            task = asyncio.create_task(work())
            await network.granted.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            network.go.set()
            for worker in list(hk._executor.workers):
                await worker.end(PATIENCE)
            assert (await hk.pool("p")).available == 1
            assert [entry.action for entry in await hk.journal.list()][-1] == "hold.released"

    asyncio.run(main())
