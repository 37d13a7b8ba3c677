"""A server that falls silent in the middle of a call: the call ends at its deadline, turned away before COMMIT was sent, unknown
after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import holdkit
from holdkit import OutcomeUnknown, Overloaded
from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.engines.postgres.notifications import Notifier
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres.engine_calls import LANES
from tests.faults.postgres.proxy import Proxy
from tests.faults.postgres.test_silent_primary import NEVER
from tests.support.modes import Async, Sync


@pytest.fixture(scope="module")
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True, within=memory()) as server:
        server.create_database("shop")
        migrate(server.tcp_dsn("shop"), lanes=LANES)
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Sync, Async])
def test_a_call_ends_at_its_deadline(
    server: PostgresServer, mode: type[Sync | Async], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notifier, "notify_soon", lambda _: None)  # it would speak on the same line, whenever it likes
    driven = mode()
    with Proxy(server.port) as proxy, closing(PostgresEngine(server.tcp_dsn("shop"))) as straight:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/shop?sslmode=disable&gssencmode=disable"
        hk = driven.open(PostgresEngine(url, limits=NEVER, prune_every=10**9, guarded=False))
        name = unknown = ""
        for number, (verb, behind, expected) in enumerate(
            [("read", None, Overloaded), ("hold", None, Overloaded), ("hold", 1, OutcomeUnknown)]
        ):
            name = f"seats-{mode.name}-{number}"  # a session that nobody ends keeps its pool locked
            hk.create_pool(name, 100)
            for each in range(4):  # everything is prepared, on a line that is warm
                proxy.arm()
                call(hk, name, verb, f"{mode.name}-{number}-{each}")
            at = 1 if behind is None else len(proxy.sizes["server"]) - behind
            proxy.arm(("server", at, 0), stall=True)
            unknown = f"{mode.name}-{number}-late"
            with holdkit.context(timeout="1s"), pytest.raises(expected):
                call(hk, name, verb, unknown)
            assert proxy.fired.is_set()
            proxy.disarm()
        assert Sync().open(straight).hold(name, 1, ttl=60, op=unknown).replayed, "COMMIT had arrived"
        assert hk.pool(name).held == 5
        hk.close()
    driven.close()


def call(hk: Any, pool: str, verb: str, op: str) -> object:
    return hk.pool(pool) if verb == "read" else hk.hold(pool, 1, ttl=60, op=op)
