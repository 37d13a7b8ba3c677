"""What a client sends beside the body: its address, its key, its retry keys; and answers that are not a server's of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdkit.client import connect
from holdkit.errors import EngineError, InvalidRequest, OutcomeUnknown
from tests.integration.conftest import Clients
from tests.support.servers import LiveServer


@pytest.mark.parametrize("key", ["hk_a_b\n", " hk_a_b", "hk_a b", "", "hk_\u00e9", 5])
def test_a_key_that_cannot_be_sent_is_refused_and_not_told(key: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        connect("http://localhost", key=key)
    assert (refused.value.field, refused.value.code) == ("key", "key_malformed")
    assert "hk_" not in str(refused.value)


@pytest.mark.parametrize("op", ["x ", " x", "", " ", "x\ty", "\u00e9", "x" * 201, 5])
def test_a_retry_key_that_cannot_be_sent_is_refused(remote: Any, op: Any) -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: remote.create_pool("a", 1, op=op),
        lambda: remote.claims.hold("email", "a@b", ttl=60, op=op),
        lambda: remote.items.add(["a"], op=op),
        lambda: remote.sagas.resolve("a", "done", reason="x", op=op),
    )
    for call in calls:
        with pytest.raises(InvalidRequest) as refused:
            call()
        assert refused.value.field == "op"


def test_two_clients_over_one_http_client_keep_to_their_own_tenants(shared_server: LiveServer) -> None:
    with httpx.Client() as http:
        ours = connect(shared_server.url, key=shared_server.key("admin", "ours"), http=http)
        theirs = connect(shared_server.url + "/", key=shared_server.key("admin", "theirs"), http=http)
        ours.create_pool("a/b", 1)
        assert theirs.pools() == []
        assert [pool.id for pool in ours.pools()] == ["a/b"]
        assert "authorization" not in http.headers


@pytest.mark.parametrize("status", [200, 301, 302])
def test_an_answer_that_is_not_ours_is_said_to_be_so(clients: Clients, shared_server: LiveServer, status: int) -> None:
    page = httpx.Response(status, html="<html>", headers={"location": "https://elsewhere/"})
    network = httpx.MockTransport(lambda _request: page)
    http = httpx.Client if clients.mode.__class__.__name__ == "Sync" else httpx.AsyncClient
    remote = clients.open(shared_server, http=http(transport=network))
    for call in (remote.pools, lambda: remote.hold("a", ttl=60)):
        with pytest.raises(EngineError, match=f"not a Holdkit server: it answered {status}") as refused:
            call()
        assert not isinstance(refused.value, OutcomeUnknown)
