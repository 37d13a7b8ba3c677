"""Blocking calls over HTTP: in the same line as those of the server's own process, woken by the stream of their place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.client import NotAdmitted, Policy, connect
from tests.integration.conftest import Clients
from tests.support.servers import LiveServer, live_server
from tests.support.threads import CallerThreads, wait_until


@pytest.fixture
def shared_server() -> Iterator[LiveServer]:
    with live_server() as running:
        yield running


@pytest.fixture
def hk(clients: Clients, shared_server: LiveServer) -> Any:
    kernel = clients.open(shared_server)
    kernel.create_pool("gpu", 1)
    return kernel


def waiting(hk: Any, count: int) -> None:
    wait_until(lambda: hk.pool("gpu").waiting == count)


def test_those_who_block_over_http_are_served_in_their_order(hk: Any) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    callers = CallerThreads()
    for number in range(3):
        callers.start(lambda: hk.hold("gpu", 1, ttl=60, wait="10m"))
        waiting(hk, number + 1)
    hk.release(taken)
    for number in range(1, 4):
        wait_until(lambda number=number: len(callers.results) == number)  # type: ignore[misc]
        hold = [*callers.results.values()][-1]
        assert (hold.raw.number, hold.state) == (number, "held")
        hk.release(hold)


def test_the_time_is_over_and_a_retry_is_told_the_same(hk: Any) -> None:
    hk.hold("gpu", 1, ttl=600)
    for replayed in (False, True):
        with pytest.raises(holdkit.InsufficientCapacity) as refused:
            hk.hold("gpu", 1, ttl=60, wait=0.2, op="job")
        assert (refused.value.requested, refused.value.available) == (1, 0)
        assert refused.value.replayed is replayed
    assert hk.pool("gpu").waiting == 0


def test_units_that_become_free_by_themselves_are_offered(hk: Any) -> None:
    hk.hold("gpu", 1, ttl=0.5)
    with hk.lease("gpu", 1, ttl=60, wait="10m") as lease:
        assert (lease.hold.raw.number, lease.lost) == (1, False)
    assert hk.pool("gpu").held == 0


def test_without_a_stream_the_client_asks(hk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise httpx.ReadError("no stream")

    for mode in ("_sync.transport.Transport", "_async.transport.AsyncTransport"):
        monkeypatch.setattr(f"holdkit.client.{mode}.stream", broken)
    taken = hk.hold("gpu", 1, ttl=600)
    callers = CallerThreads()
    callers.start(lambda: hk.hold("gpu", 1, ttl=60, wait="10m"))
    waiting(hk, 1)
    hk.release(taken)
    assert callers.join()[0].state == "held"


class Cut(httpx.HTTPTransport):
    """A network on which the server cannot be reached for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.failed = False, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            self.failed += 1
            raise httpx.ConnectError("nobody listens", request=request)
        return super().handle_request(request)


def test_a_server_that_is_away_for_a_while_costs_nobody_the_place(hk: Any, shared_server: LiveServer) -> None:
    taken, network = hk.hold("gpu", 1, ttl=600), Cut()
    one_attempt = Policy(
        attempts=1
    )  # one failed attempt is an error: a restart outlasts all attempts of a usual policy too
    with (
        httpx.Client(transport=network) as http,
        connect(shared_server.url, key=shared_server.admin, policy=one_attempt, http=http) as remote,
    ):
        callers = CallerThreads()
        callers.start(lambda: remote.hold("gpu", 1, ttl=60, wait="10m"))
        waiting(hk, 1)
        network.down = True
        hk.release(taken)
        wait_until(lambda: network.failed >= 3 or bool(callers.results))
        network.down = False
        (held,) = callers.join()
        assert (held.state, held.raw.number) == ("held", 1)


def test_a_key_that_is_revoked_ends_the_wait(hk: Any, shared_server: LiveServer) -> None:
    hk.hold("gpu", 1, ttl=600)
    key = shared_server.key("hold")
    with connect(shared_server.url, key=key) as remote, shared_server.client() as operator:
        callers = CallerThreads()
        callers.start(lambda: remote.hold("gpu", 1, ttl=60, wait="10m"))
        waiting(hk, 1)
        assert operator.delete(f"/v1/keys/{key.split('_')[1]}").status_code == 200
        (refused,) = callers.join()
        assert isinstance(refused, NotAdmitted)


@pytest.mark.parametrize(
    "more", [{"wait": 60}, {"offer_ttl": 10}, {"wait": 60, "offer_ttl": 10, "deadline": "2030-01-01T00:00:00Z"}]
)
def test_a_hold_that_may_wait_says_all_of_it(hk: Any, shared_server: LiveServer, more: dict[str, Any]) -> None:
    body = {"pool": "gpu", "ttl": 60, **more}
    with shared_server.client() as client:
        answer = client.post("/v1/holds", json=body, headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (400, "wait_incomplete")
