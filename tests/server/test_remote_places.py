"""Named followers through the client whose keeps are unknown: they meet their own writes, and know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from holdkit import CursorLost
from holdkit.client import Policy
from holdkit.client._async import following as async_following
from holdkit.client._sync import following as sync_following
from tests.kernel.rig import Sync

from .conftest import Near
from .rig import Live, live


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 2)


@pytest.fixture
def distant() -> Iterator[Live]:
    """A journal of its own for each test."""
    with live() as running:
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


def open_deaf(near: Near, distant: Live, times: int) -> Any:
    client = httpx.Client if isinstance(near.colour, Sync) else httpx.AsyncClient
    return near.open(distant, policy=Policy(attempts=1), http=client(transport=Deaf(times)))


def names(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


@pytest.mark.parametrize("times", [1, 2])
def test_a_keep_whose_answer_is_lost_is_the_followers_own(near: Near, distant: Live, times: int) -> None:
    hk = open_deaf(near, distant, times)
    for name in "abcde":
        hk.create_pool(name, 1)
    assert names(hk.follow("mail", wait=False)) == [*"abcde"]
    assert names(hk.follow("mail", wait=False)) == []


def test_another_follower_is_known_as_another(near: Near, distant: Live) -> None:
    hk = open_deaf(near, distant, 1)
    for name in "abcdefgh":
        hk.create_pool(name, 1)
    first = iter(hk.follow("mail", wait=False))
    assert [next(first).subject for _ in range(5)] == [*"abcde"]  # kept twice; the first answer was lost
    second = iter(near.open(distant).follow("mail", wait=False))
    assert [next(second).subject for _ in range(3)] == [*"def"]  # taken over
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(first)
