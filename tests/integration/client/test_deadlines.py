"""How long a whole call of a client may take: attempts and pauses together, whatever the server does."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import holdkit
from holdkit import OutcomeUnknown, Overloaded
from holdkit.client import Policy, connect
from holdkit.client._sync.transport import capped_timeout
from tests.integration.conftest import Clients
from tests.support.servers import LiveServer, problem


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts requests, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def at(clients: Clients, url: str, **more: Any) -> Any:
    """A client that is pointed there."""
    return clients.open(SimpleNamespace(url=url, admin="hk_a_b"), **more)  # type: ignore[arg-type]


def test_a_server_that_never_answers(clients: Clients, silent: str) -> None:
    """The request was sent, so nobody knows; with a kernel's own timeout, and with a call's."""
    for policy, timeout in ((None, "200ms"), (Policy(seconds=0.2), None)):
        remote = at(clients, silent, policy=policy)
        with holdkit.context(timeout=timeout):
            with pytest.raises(OutcomeUnknown):
                remote.hold("a", ttl=60)
            with pytest.raises(OutcomeUnknown):
                remote.pool("a")
        remote.close()


def test_a_server_that_is_not_there(clients: Clients) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    remote = at(clients, f"http://127.0.0.1:{port}", policy=Policy(attempts=10**9, seconds=3600))
    with pytest.raises(Overloaded), holdkit.context(timeout="200ms"):
        remote.hold("a", ttl=60)
    remote.close()


def test_a_later_attempt_has_what_is_left() -> None:
    seen: list[dict[str, float]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return problem(503, reason="overloaded", effect="none", retry_after=0.01, detail="busy")

    http = httpx.Client(transport=httpx.MockTransport(answer), timeout=httpx.Timeout(None, connect=3.0))
    remote = connect("http://localhost", http=http, policy=Policy(attempts=3, seconds=20))
    with pytest.raises(Overloaded):
        remote.hold("a", ttl=60)
    assert len(seen) == 3
    assert [each["connect"] for each in seen] == [3.0] * 3, "the client's own, where that is less"
    reads = [each["read"] for each in seen]
    assert 20 >= reads[0] > reads[1] > reads[2] > 0


def test_a_verification_may_take_longer_than_a_call() -> None:
    """Each look at the job is a call, with the time of one; the job as a whole has none."""
    looks: list[dict[str, float]] = []
    now = "2026-01-01T00:00:00Z"
    job = {"id": "j", "kind": "verify", "state": "running", "done": 0, "total": 0, "began_at": now, "ended_at": None,
           "result": None, "problem": None, "server_time": now}  # fmt: skip
    found = {"ok": True, "differences": [], "found": [], "server_time": now}

    def answer(request: httpx.Request) -> httpx.Response:
        looks.append(request.extensions["timeout"])
        if len(looks) < 5:
            return httpx.Response(202, json=job)
        return httpx.Response(200, json=job | {"state": "done", "ended_at": now, "result": found})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    with holdkit.context(timeout="0.2s"):
        assert connect("http://localhost", http=http).admin.verify().ok
    assert len(looks) == 5
    assert max(each["read"] for each in looks) <= 0.2


@pytest.mark.parametrize("left", [-1.0, 0.0])
def test_a_pause_that_ended_late_leaves_no_negative_timeout(left: float) -> None:
    """`socket.create_connection` raises ValueError for one."""
    assert set(capped_timeout(left, httpx.Timeout(5.0, pool=None)).as_dict().values()) == {0.001}


@pytest.mark.parametrize(
    "seconds", [0, -1, 0.0009, 8_640_000_001, 1e300, math.inf, math.nan, 10**400, True, "30", None]
)
def test_seconds_that_no_call_can_have_are_refused_where_they_are_given(seconds: Any) -> None:
    """The attack: with a day too many every call failed, with an error of the operating system."""
    with pytest.raises(holdkit.InvalidRequest, match=r"must be a number from 0.001 to 8640000000") as refused:
        Policy(seconds=seconds)
    assert (refused.value.field, refused.value.code) == ("seconds", "seconds_out_of_range")


@pytest.mark.parametrize(("attempts", "code"), [(0, "out_of_range"), (10**9 + 1, "out_of_range"), (2.0, "not_whole")])
def test_attempts_that_no_call_can_have_are_refused_where_they_are_given(attempts: Any, code: str) -> None:
    with pytest.raises(holdkit.InvalidRequest, match="attempts") as refused:
        Policy(attempts=attempts)
    assert (refused.value.field, refused.value.code) == ("attempts", f"attempts_{code}")


def test_a_call_can_have_the_longest_time(clients: Clients, shared_server: LiveServer) -> None:
    assert Policy(attempts=1, seconds=0.001).attempts == 1
    hk = clients.open(shared_server, policy=Policy(attempts=10**9, seconds=8_640_000_000))
    assert isinstance(hk.pools(), list)
    hk.close()
