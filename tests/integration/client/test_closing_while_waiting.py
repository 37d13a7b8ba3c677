"""A client that is closed does not wait for the end of a pause between two attempts."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdkit.client import Policy
from holdkit.errors import EngineError
from tests.integration.conftest import Clients
from tests.support.servers import live_server
from tests.support.threads import PATIENCE


def test_a_pause_ends_with_the_client(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = threading.Event()

    def an_hour(*_: Any) -> float:
        paused.set()
        return 3_600.0

    monkeypatch.setattr("holdkit.client.problems.Attempts.pause", an_hour)
    with live_server() as server:
        hk = clients.open(server, policy=Policy(seconds=7_200.0))
        hk.create_pool("a", 1)
    raised: list[BaseException] = []

    def call() -> None:
        try:
            hk.pool("a")
        except EngineError as closed:
            raised.append(closed)

    calling = threading.Thread(target=call)
    calling.start()
    assert paused.wait(PATIENCE)
    hk.close()
    calling.join(PATIENCE)
    assert ["client is closed" in str(error) for error in raised] == [True]
