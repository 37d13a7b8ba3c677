"""Webhooks through the client: made, tested, rotated, replayed, removed; and retries that do nothing twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

import holdkit
from holdkit.client import RemoteKernel, connect
from holdkit.server.settings import Webhooks
from tests.integration.server.test_two_webhook_senders import Receiver, receiver_running
from tests.support.servers import QUICK, live_server
from tests.support.threads import wait_until

SETTINGS = structs.replace(QUICK, webhooks=Webhooks(pauses=(), allowed=frozenset(["127.0.0.1"])))


@pytest.fixture(scope="module")
def hk() -> Iterator[RemoteKernel]:
    with live_server(settings=SETTINGS) as server, connect(server.url, key=server.admin) as remote:
        yield remote


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    with receiver_running() as running:
        yield running


def test_from_the_first_event_to_the_end(hk: RemoteKernel, receiver: tuple[Receiver, str]) -> None:
    there, url = receiver
    hook = hk.server.webhooks.make(url, actions=["pool.created"])
    assert hook.secret is not None
    assert hook.secret.startswith("whsec_")
    assert hk.server.webhooks.test(hook.id).outcome == "delivered"
    there.answer = lambda _subject: 503
    hk.create_pool("a", total=1)
    wait_until(lambda: hk.server.webhooks.get(hook.id).parked == 1)
    found = hk.server.webhooks.get(hook.id)
    assert (found.state, found.why, found.secret) == ("failing", "the receiver answered 503", None)
    (parked,) = hk.server.webhooks.parked(hook.id)
    assert parked.why == "the receiver answered 503"
    there.answer = lambda _subject: 204
    assert hk.server.webhooks.replay(hook.id).total == 1
    there.wait_for(["a"])
    wait_until(lambda: hk.server.webhooks.get(hook.id).parked == 0)
    assert hk.server.webhooks.get(hook.id).state == "active"
    assert [(one.kind, one.status) for one in hk.server.webhooks.deliveries(hook.id)] == [
        ("replay", 204),
        ("first", 503),
        ("test", 204),
    ]
    assert [one.id for one in hk.server.webhooks.list()] == [hook.id]
    assert hk.server.webhooks.remove(hook.id).id == hook.id
    assert hk.server.webhooks.list() == []
    with pytest.raises(holdkit.InvalidRequest) as gone:
        hk.server.webhooks.get(hook.id)
    assert gone.value.code == "webhook_not_found"


def test_a_retry_gives_the_same_webhook_and_the_same_secret(hk: RemoteKernel, receiver: tuple[Receiver, str]) -> None:
    _, url = receiver
    first, again = (hk.server.webhooks.make(url, op="make-1") for _ in range(2))
    assert (first.id, first.secret) == (again.id, again.secret)
    assert hk.server.webhooks.make(url, op="make-2").id != first.id
    with pytest.raises(holdkit.OperationConflict):
        hk.server.webhooks.make(url + "other", op="make-1")
    rotated, once_more = (hk.server.webhooks.rotate(first.id, grace="1h", op="rotate-1") for _ in range(2))
    assert rotated.secret == once_more.secret != first.secret
    assert rotated.old_secret_until == once_more.old_secret_until is not None
    assert hk.server.webhooks.rotate(first.id, grace=0, op="rotate-2").old_secret_until is None


def test_a_private_target_is_refused_with_its_code(hk: RemoteKernel) -> None:
    with pytest.raises(holdkit.InvalidRequest, match="must lead to public addresses") as refused:
        hk.server.webhooks.make("https://10.0.0.1/")
    assert (refused.value.field, refused.value.code) == ("url", "url_not_allowed")
