"""Point-in-time recovery, as docs/backups.md describes it: a base backup, archived WAL, and a restore to a moment in between.

What was done up to that moment is there, with its retries; what was done after it is gone, and those who know of it can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory

POINT = "before_the_mistake"


@pytest.fixture
def archiving(postgres_binaries: object) -> Iterator[tuple[PostgresServer, Path]]:
    """A server that archives its WAL, and where to."""
    with PostgresServer({"archive_mode": "on", "archive_timeout": "0"}, within=memory()) as server:
        kept = server.home / "wal"
        kept.mkdir(mode=0o777)
        kept.chmod(0o777)
        server.restart(settings={"archive_command": f"cp %p {kept}/%f"})
        yield server, kept


@pytest.mark.slow
def test_restored_to_a_moment(archiving: tuple[PostgresServer, Path]) -> None:
    server, kept = archiving
    url = server.create_database("shop")
    migrate(url)
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", total=10)
        hk.create_pool("brief", total=1)
        early = hk.hold("gpu", 1, ttl="1h", op="early")
    copy = server.standby(within=memory())  # a base backup
    with closing(copy), holdkit.connect(url) as hk:
        kept_hold = hk.hold("gpu", 2, ttl="1h", op="kept")
        short = hk.hold("brief", 1, ttl=0.001)
        assert [entry.subject for entry in hk.journal.follow("mail", wait=False)][-1] == short.id
        seen, generation = hk.journal.cursor(), hk.admin.stats().generation
        with closing(server.connect("shop")) as connection:
            connection.execute("select pg_create_restore_point(%s)", (POINT,))
            connection.commit()
        lost = hk.hold("gpu", 3, ttl="1h", op="lost")
        hk.confirm(early)
        assert [entry.subject for entry in hk.journal.follow("mail", wait=False)][-1] == early.id
        after = hk.journal.cursor()
        with closing(server.connect("shop")) as connection:
            connection.execute("select pg_switch_wal()")
            connection.commit()
        server.stop()  # the archiver copies the last segment before it ends

        (copy.data / "standby.signal").unlink()
        (copy.data / "recovery.signal").touch()
        copy.start(
            {
                "archive_mode": "off",
                "hot_standby": "off",  # it answers once it is promoted, not while it recovers
                "primary_conninfo": "",
                "restore_command": f"cp {kept}/%f %p",
                "recovery_target_name": POINT,
                "recovery_target_action": "promote",
            }
        )
        judge_restored(copy.dsn("shop"), early, kept_hold, lost, seen, after)
        judge_others(copy.dsn("shop"), short, kept_hold, lost, generation)


def judge_restored(
    url: str, early: holdkit.Hold, kept: holdkit.Hold, lost: holdkit.Hold, seen: str, after: str
) -> None:
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        assert hk.get(early).state == "held", "its confirm was after that moment"
        retried = hk.hold("gpu", 2, ttl="1h", op="kept")
        assert (retried.id, retried.token) == (kept.id, kept.token), "a retry of what is there"
        with pytest.raises(holdkit.errors.HoldNotFound):
            hk.get(lost)
        again = hk.hold("gpu", 3, ttl="1h", op="lost")
        assert again.id != lost.id, "a retry of what is gone does it anew"
        assert again.fence == lost.fence, "fences are given again: docs/backups.md says what to do"
        with pytest.raises(holdkit.errors.HoldNotFound):
            hk.confirm(lost)
        with pytest.raises(holdkit.errors.CursorLost):
            hk.journal.list(after=after)
        (entry,) = hk.journal.list(after=seen)
        assert entry.subject == again.id, "a cursor whose entries are there goes on"
        assert hk.pool("gpu").held == 6


def judge_others(url: str, short: holdkit.Hold, kept: holdkit.Hold, lost: holdkit.Hold, generation: str) -> None:
    """The clock was not restored; a named follower goes on where it was, in a new generation; a minted id is a retry key."""
    noticed: list[str] = []
    with holdkit.connect(url) as hk:
        assert hk.admin.stats().generation != generation
        shown = hk.journal.follow("mail", wait=False, on_generation=lambda before, now: noticed.extend((before, now)))
        subjects = [entry.subject for entry in shown]
        assert lost.id not in subjects
        assert hk.get(hk.hold("gpu", 3, ttl="1h", op="lost")).id in subjects, "with new contents"
        assert noticed == [generation, hk.admin.stats().generation]
        with pytest.raises(holdkit.errors.HoldExists):
            hk.hold("gpu", 2, ttl="1h", id=kept.id)
        assert hk.get(short).state == "expired", "its deadline has passed meanwhile"
        assert hk.admin.verify().ok
