"""R11: the server killed under writing clients, again and again: 0 lost, 0 twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import scenes
from tests.engines.postgres.scenes import create, done, place
from tests.faults.postgres.ledger import ROUNDS, Ledger, expect_kept, lost


@pytest.fixture
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        yield server


def prepare(server: PostgresServer) -> str:
    url = server.create_database("shop")
    migrate(url, lanes=scenes.LANES)
    return url


@pytest.mark.slow
def test_a_server_killed_under_load_keeps_what_it_acknowledged(server: PostgresServer) -> None:
    url = prepare(server)
    with closing(PostgresEngine(url)) as engine:
        done(engine, create("seats", 10**9))
        ledger = Ledger(engine, "seats")
        ledger.start()
        for _ in range(ROUNDS):
            ledger.await_more(100)
            ledger.up.clear()
            server.kill()
            server.start()
            ledger.up.set()
        ledger.await_more(100)
        ledger.stop()
        assert len(ledger.acknowledged) >= 100 * (ROUNDS + 1)
        expect_kept(engine, url, ledger)


@pytest.mark.slow
def test_canary_commits_that_do_not_wait_for_the_disk_are_lost(server: PostgresServer) -> None:
    """Allowed by name, and rightly refused otherwise."""
    url = prepare(server)
    server.restart(settings={"synchronous_commit": "off", "wal_writer_delay": "10s"})
    with closing(PostgresEngine(f"{url}&allow_unsafe=synchronous_commit")) as engine:
        done(engine, create("seats", 10**9))
        missing: list[str] = []
        for _ in range(20):
            placed = [done(engine, place("seats")).hold for _ in range(30)]
            server.kill()
            server.start()
            missing = lost(engine, [each.id for each in placed if each is not None])
            if missing:
                break
            done(engine, create("seats", 10**9, exist_ok=True))
    assert missing
