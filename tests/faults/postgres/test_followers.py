"""Named followers through failovers: a follower recognises its own write, whatever became of the commit, and reports another's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.engines.postgres import migrate
from holdkit.kernel._sync import following
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.processes import running
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that
from tests.faults.postgres.test_failovers import follow, interrupt_wait, promote
from tests.support.threads import PATIENCE


@pytest.fixture
def primary(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        migrate(server.dsn("shop"), lanes=engine_calls.LANES)
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
        mail = hk.journal.follow("mail", wait=False)
        first_page = [next(mail).subject for _ in range(3)]
        standby.stop()
        waiting = thread.submit(lambda: [entry.subject for entry in mail])
        interrupt_wait(primary, "cancel")  # the saved cursor is there for all to see, and the follower was not told
        standby.start()  # for which the next page waits
        assert sorted(first_page + waiting.result(PATIENCE)) == made
        assert list(hk.journal.follow("mail", wait=False)) == [], "its last place was kept"
        primary.change_setting("synchronous_standby_names", "")

        for name in made:
            hk.admin.resize_pool(name, 2)
        first, second = hk.journal.follow("mail", wait=False), hk.journal.follow("mail", wait=False)
        assert next(first).position == next(second).position
        assert len(list(first)) == 8
        with pytest.raises(holdkit.errors.CursorLost, match="another follower named 'mail'"):
            list(second)


def shown(hk: holdkit.Kernel, name: str, told: list[tuple[str, str]], **more: Any) -> list[str]:
    following = hk.journal.follow(name, wait=False, on_generation=lambda *both: told.append(both), **more)
    return sorted(entry.subject for entry in following)


def stop_sending(server: PostgresServer) -> None:
    ((sender,),) = ask(server.dsn(), "select pid from pg_stat_replication")
    os.kill(sender, signal.SIGSTOP)
    await_that(lambda: not running([sender]), "it ignored SIGSTOP")


@pytest.mark.slow
def test_what_a_failover_took_back_is_noticed_outside_and_a_promotion_that_took_nothing_is_fine(
    primary: PostgresServer, tmp_path: Path
) -> None:
    outside, told = tmp_path / "outside", list[tuple[str, str]]()
    with closing(follow(primary, synchronous=True)) as second:
        with holdkit.connect(primary.dsn("shop")) as hk:
            hk.create_pool("a", 1)
            assert shown(hk, "mail", told, remember=outside) == shown(hk, "plain", told) == ["a"]
            cursor, first = hk.journal.cursor(), hk.admin.stats().generation
        primary.kill()
        promote(second)
        with holdkit.connect(second.dsn("shop")) as hk:
            assert hk.admin.stats().generation != first
            hk.create_pool("b", 1)
            assert [entry.subject for entry in hk.journal.list(after=cursor)] == ["b"]
            assert shown(hk, "mail", told, remember=outside) == ["b"], "nothing is gone: it goes on"
            assert told == []
            assert shown(hk, "plain", told) == ["b"]
            assert told == [(first, hk.admin.stats().generation)], "nobody can say what it was shown"
            assert shown(hk, "plain", told) == []
            assert len(told) == 1

        with closing(follow(second, synchronous=False)) as third:
            with holdkit.connect(second.dsn("shop")) as hk:
                stop_sending(second)
                for name in "cde":
                    hk.create_pool(name, 1)
                assert shown(hk, "mail", told, remember=outside) == shown(hk, "plain", told) == [*"cde"]
                cursor, before = hk.journal.cursor(), hk.admin.stats().generation
            second.kill()
            promote(third)
            with holdkit.connect(third.dsn("shop")) as hk:
                hk.create_pool("x", 1)
                with pytest.raises(holdkit.errors.CursorLost):
                    hk.journal.list(after=cursor)
                with pytest.raises(
                    holdkit.errors.CursorLost, match=r"'mail' was shown at least . entr.* remove"
                ) as lost:
                    shown(hk, "mail", told, remember=outside)
                assert lost.value.missing >= 1
                assert shown(hk, "plain", told) == ["x"], "what is kept beside the journal was cut back with it"
                assert told[1:] == [(before, hk.admin.stats().generation)]
