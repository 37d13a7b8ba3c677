"""A base backup that was taken while guarded batches were in flight: restored, it has every answer that was given before it began."""

from __future__ import annotations

from contextlib import closing

import pytest

import holdkit
from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign import guarded
from tests.faults.campaign.guarded_callers import LANES, POOLS
from tests.faults.campaign.ledger import now

SEED = 13


@pytest.mark.slow
def test_a_restored_backup_is_sound_and_goes_on(postgres_binaries: object) -> None:
    with PostgresServer(within=memory()) as server:
        url = server.create_database("shop")
        migrate(url, lanes=LANES)
        with guarded.competing(url, SEED) as clients:
            clients.await_answers(150)
            began = now()
            copy = server.standby(within=memory())
            clients.await_answers(50)
        lines = clients.reader.lines
        assert guarded.judged(url, lines).verdict.violations == []
        with closing(copy):
            (copy.data / "standby.signal").unlink()
            copy.start()
            earlier = [line for line in lines if line.said in ("asked", "guarded") or line.at < began]
            found = guarded.judged(copy.dsn("shop"), earlier)
            assert found.verdict.violations == []
            assert found.passed > 20
            assert found.verdict.done >= 150
            goes_on(copy.dsn("shop"))


def goes_on(url: str) -> None:
    """By the guard, on pools that have units left or get some."""
    with holdkit.connect(url) as hk:
        for id in POOLS:
            pool = hk.pool(id)
            hk.admin.resize_pool(id, pool.total + 10)
            for _ in range(5):
                hk.confirm(hk.hold(id, 1, ttl=60))
        assert hk.admin.stats().guards.passed > 5
        assert hk.admin.verify().differences == ()
