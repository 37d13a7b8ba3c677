"""Named followers through the client whose keeps are unknown: they meet their own writes, and know them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdkit import connect
from holdkit.client import Policy
from holdkit.client._async import following as async_following
from holdkit.client._sync import following as sync_following
from holdkit.core.model import SECOND
from holdkit.errors import CursorLost
from holdkit.kernel.backup import back_up, restore
from holdkit.kernel.pages import generation_of
from holdkit.testing import FakeClock
from tests.integration.conftest import Clients
from tests.support.modes import Sync
from tests.support.servers import LiveServer, live_server


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 2)


@pytest.fixture
def shared_server() -> Iterator[LiveServer]:
    """A journal of its own for each test."""
    with live_server() as running:
        yield running


class Deaf(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The server does what it is sent; the answers to so many keeps are lost."""

    def __init__(self, times: int) -> None:
        self.left = times
        self._inner, self._inner_async = httpx.HTTPTransport(), httpx.AsyncHTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        self._lose(request)
        return answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner_async.handle_async_request(request)
        self._lose(request)
        return answer

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner_async.aclose()

    def _lose(self, request: httpx.Request) -> None:
        if request.method == "PUT" and self.left:
            self.left -= 1
            raise httpx.ReadError("the answer is lost")


def open_deaf(clients: Clients, shared_server: LiveServer, times: int) -> Any:
    client = httpx.Client if isinstance(clients.mode, Sync) else httpx.AsyncClient
    return clients.open(shared_server, policy=Policy(attempts=1), http=client(transport=Deaf(times)))


def names(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


@pytest.mark.parametrize("times", [1, 2])
def test_a_keep_whose_answer_is_lost_is_the_followers_own(
    clients: Clients, shared_server: LiveServer, times: int
) -> None:
    hk = open_deaf(clients, shared_server, times)
    for name in "abcde":
        hk.create_pool(name, 1)
    assert names(hk.journal.follow("mail", wait=False)) == [*"abcde"]
    assert names(hk.journal.follow("mail", wait=False)) == []


def test_another_follower_is_known_as_another(clients: Clients, shared_server: LiveServer) -> None:
    hk = open_deaf(clients, shared_server, 1)
    for name in "abcdefgh":
        hk.create_pool(name, 1)
    first = iter(hk.journal.follow("mail", wait=False))
    assert [next(first).subject for _ in range(5)] == [*"abcde"]  # kept twice; the first answer was lost
    second = iter(clients.open(shared_server).journal.follow("mail", wait=False))
    assert [next(second).subject for _ in range(3)] == [*"def"]  # taken over
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(first)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "holds.db"


@pytest.mark.parametrize("tenant", ["", "acme"])  # an operator's key, and one whose cursors are sealed
def test_what_was_shown_and_is_gone_is_noticed_by_the_client(
    clients: Clients, files: Path, tmp_path: Path, tenant: str
) -> None:
    """The server's file is put back: the place under the name with it, what the client remembers not."""
    url, outside, told = f"sqlite:///{files}", tmp_path / "outside", list[tuple[str, str]]()
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        hk.create_pool("a", 1)
        assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["a"]
        assert names(hk.journal.follow("plain", wait=False)) == ["a"]
        before = hk.journal._follower(None).generation()
    back_up(url, tmp_path / "copy", lambda *_: None, verify=False)
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        for name in "bcd":
            hk.create_pool(name, 1)
        cursor = hk.journal.cursor()
        following = hk.journal.follow("mail", remember=outside)
        assert [next(following).subject for _ in range(3)] == [*"bcd"]
        hk.create_pool("e", 1)
        assert next(following).subject == "e"  # by the stream
        following.close()
        hk.close()
    restore(tmp_path / "copy", url, lambda *_: None, force=True, verify=False)
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        with pytest.raises(CursorLost, match="start anew"):
            hk.journal.list(after=cursor)
        with pytest.raises(CursorLost, match=f"'mail' was shown at least .* remove {outside}") as lost:
            list(hk.journal.follow("mail", wait=False, remember=outside))
        assert lost.value.missing >= 1
        hk.create_pool("x", 1)
        following = hk.journal.follow("plain", wait=False, on_generation=lambda *both: told.append(both))
        assert names(following) == ["x"]
        assert told == [(before, hk.journal._follower(None).generation())]
        assert hk.journal._follower(None).generation() != before


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_what_was_archived_is_not_taken_for_lost_by_the_client(
    clients: Clients, files: Path, tmp_path: Path, tenant: str
) -> None:
    """A month later, everything was archived: what the client was shown, and what it has not read."""
    url, outside = f"sqlite:///{files}", tmp_path / "outside"
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        hk.create_pool("a", 1)
        assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["a"]
        for name in "bcd":
            hk.create_pool(name, 1)
    later = FakeClock(int(time.time() * SECOND) + 30 * 86_400 * SECOND)
    with connect(url, clock=later) as local:
        local.sweep()
        assert local.admin.archive(before="1d", to=tmp_path / "archive").entries > 3
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        with pytest.raises(CursorLost, match="what follows this cursor was archived") as lost:
            list(hk.journal.follow("mail", wait=False, remember=outside))
        assert (lost.value.archived_to, lost.value.missing) == ("", 0)


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_an_event_id_of_another_generation_goes_on_while_its_entries_are_there(
    clients: Clients, files: Path, tmp_path: Path, tenant: str
) -> None:
    """`Last-Event-ID` over a real stream: of a journal that was cut back it is refused, of another generation alone it is not."""
    url = f"sqlite:///{files}"
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        hk.create_pool("a", 1)
        kept, before = hk.journal.cursor(), hk.journal._follower(None).generation()
    back_up(url, tmp_path / "copy", lambda *_: None, verify=False)
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        hk.create_pool("b", 1)
        gone = hk.journal.cursor()
    restore(tmp_path / "copy", url, lambda *_: None, force=True, verify=False)
    with live_server(url) as server:
        clients.open(server, server.key("admin", tenant)).create_pool("c", 1)
        with server.client(server.key("admin", tenant)) as http:
            lost = http.get("/v1/events", headers={"Last-Event-ID": gone})
            assert (lost.status_code, lost.json()["reason"]) == (410, "cursor_lost")
            with http.stream("GET", "/v1/events", headers={"Last-Event-ID": kept}) as stream:
                lines = stream.iter_lines()
                said = dict(next(lines).split(": ", 1) for _ in range(3))
                assert said["event"] == "hello"
                generation = json.loads(said["data"])["generation"]
                told = dict(line.split(": ", 1) for line in takewhile(bool, dropwhile(lambda line: not line, lines)))
                assert told["event"] == "pool.created"
                assert json.loads(told["data"])["subject"] == "c"
                assert generation != before
                if not tenant:
                    assert generation_of(told["id"]) == generation
