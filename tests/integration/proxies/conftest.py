"""A server behind each proxy, and the count of the hostile clients that were sent there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import httpx
import pytest
from msgspec import Struct

from holdkit.server import Settings
from holdkit.server.settings import Journal, Upkeep
from holdkit.server.settings import Proxy as ProxySettings
from tests.support.proxies import PROGRAMS, Program, Proxy, running_proxy
from tests.support.servers import LiveServer, live_server

Tally: TypeAlias = Callable[[str, int, int], None]
BEHIND_PROXY = Settings(
    upkeep=Upkeep(key_refresh=0.05, sweep_every=0),
    journal=Journal(min_free=0),
    proxy=ProxySettings(trusted=("127.0.0.1/32",)),
)
"""A server that believes its proxy, as behind one that authenticates people: what a client smuggles through can name any actor."""
SHORTER: Mapping[Program, Mapping[str, str]] = {
    "nginx": {},
    "caddy": {"write 10m": "write 20s", "grace_period 10s": "grace_period 1s"},
}
"""What is too long for a test, by proxy."""


class Proxied(Struct, frozen=True):
    """A server, and a proxy that its clients go through."""

    server: LiveServer
    proxy: Proxy

    def client(self) -> httpx.Client:
        """An honest client, with the admin's key."""
        return self.proxy.client(self.server.admin)

    @property
    def working(self) -> int:
        """How many requests the server works on, without the one that asks."""
        with self.server.client() as http:
            return int(http.get("/v1/stats").json()["in_work"]) - 1


@pytest.fixture(params=PROGRAMS, scope="module")
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with (
        live_server(settings=BEHIND_PROXY) as server,
        running_proxy(
            request.param, tmp_path_factory.mktemp(request.param), server.port, SHORTER[request.param]
        ) as proxy,
    ):
        yield Proxied(server, proxy)


@pytest.fixture
def tally(request: pytest.FixtureRequest, proxied: Proxied) -> Tally:
    """Record how many clients of a kind were sent, and how many got through; `tests/conftest.py` prints it."""

    def record(kind: str, sent: int, through: int) -> None:
        assert sent > 0
        request.node.user_properties.append(("hostile clients", [proxied.proxy.program, kind, sent, through]))

    return record


@pytest.fixture
def http(proxied: Proxied) -> Iterator[httpx.Client]:
    """An honest client."""
    with proxied.client() as client:
        yield client
