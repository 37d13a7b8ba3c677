"""A client sync or async at a real server, behind one way of calling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdkit.client import connect, connect_async
from tests.support.modes import Async, Sync
from tests.support.servers import LiveServer, live_server


class Clients:
    """Opens clients, sync or async; closes what a test has left open."""

    def __init__(self, mode: Sync | Async) -> None:
        self.mode = mode
        self._opened: list[Any] = []

    def open(self, server: LiveServer, key: str | None = None, **more: Any) -> Any:
        chosen = key or server.admin
        if isinstance(self.mode, Sync):
            hk: Any = connect(server.url, key=chosen, **more)
        else:
            hk = self.mode.run(connect_async, server.url, key=chosen, **more)
        self._opened.append(hk)
        return hk

    def close(self) -> None:
        for hk in self._opened:
            hk.close()
        self.mode.close()


@pytest.fixture(params=["sync", "async"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made = Clients(Sync() if request.param == "sync" else Async())
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[LiveServer]:
    with live_server() as running:
        yield running


@pytest.fixture
def remote(clients: Clients, shared_server: LiveServer) -> Any:
    """A client with an admin's key."""
    return clients.open(shared_server)
