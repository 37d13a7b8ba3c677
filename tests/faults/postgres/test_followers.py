"""Named followers through failovers: a follower meets its own write, whatever became of the commit, and another one's is told."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import holdkit
from holdkit.engines.postgres import migrate
from holdkit.kernel._sync import following
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import scenes

from .test_failovers import follow, interrupt_wait, set_synchronous


@pytest.fixture
def primary(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        migrate(server.dsn("shop"), lanes=scenes.LANES)
        yield server


@pytest.mark.slow
def test_a_follower_whose_keep_is_unknown_goes_on_when_the_standby_is_back(
    primary: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE", 3)
    with (
        closing(follow(primary, synchronous=True)) as standby,
        holdkit.connect(primary.dsn("shop")) as hk,
        ThreadPoolExecutor(1) as thread,
    ):
        made = [f"pool-{number}" for number in range(9)]
        for name in made:
            hk.create_pool(name, 1)
        standby.stop()
        waiting = thread.submit(lambda: [entry.subject for entry in hk.follow("mail", wait=False)])
        interrupt_wait(primary, "cancel")  # it is there for all to see, and the follower was not told
        standby.start()
        assert sorted(waiting.result(scenes.PATIENCE)) == made
        assert list(hk.follow("mail", wait=False)) == [], "its last place was kept"
        set_synchronous(primary, "")

        for name in made:
            hk.resize_pool(name, 2)
        first, second = hk.follow("mail", wait=False), hk.follow("mail", wait=False)
        assert next(first).position == next(second).position
        assert len(list(first)) == 8
        with pytest.raises(holdkit.CursorLost, match="another follower named 'mail'"):
            list(second)
