"""Behind PgBouncer in transaction mode, where a connection is somebody else's after every transaction."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.kernel._sync import line_watch
from holdkit.kernel.export import export
from holdkit.server import Settings
from holdkit.server.application import Application
from holdkit.testing import FakeClock
from holdkit.testing.postgres import ServerAddress
from tests.support.command_line import run
from tests.support.threads import PATIENCE, wait_until

PORT = 6432
CONFIGURATION = """
[databases]
{database} = host={host} port={port} user=postgres
[pgbouncer]
listen_port = {listen}
unix_socket_dir = {folder}
auth_type = any
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 100
"""


@pytest.fixture
def pooled(postgres_server: ServerAddress, postgres_url: str) -> Iterator[str]:
    """The same database through a pooler that has two connections for everybody."""
    with pooler(postgres_server, postgres_url, 2) as url:
        yield f"{url}&pooler=transaction"


@contextmanager
def pooler(postgres_server: ServerAddress, postgres_url: str, size: int) -> Iterator[str]:
    """A pooler that has so many connections for everybody: the URL of the database there."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    holdkit.migrate(postgres_url)
    database = str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"])
    with tempfile.TemporaryDirectory(prefix="hkpb-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "users").write_text('"postgres" ""\n')
        text = CONFIGURATION.format(
            database=database,
            host=postgres_server.host,
            port=postgres_server.port,
            listen=PORT,
            folder=folder,
            size=size,
        )
        (folder / "pgbouncer.ini").write_text(text)
        user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, user=user)
        try:
            url = f"postgresql://postgres@/{database}?host={folder}&port={PORT}"
            wait_for(server, url, folder / "log")
            yield url
        finally:
            server.terminate()
            server.wait(PATIENCE)


def wait_for(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Until it answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(psycopg.OperationalError), closing(psycopg.connect(url, connect_timeout=5)):
            return
    pytest.fail(f"the pooler did not come up: {log.read_text()}")


def test_callers_share_few_connections(pooled: str, postgres_url: str) -> None:
    with closing(holdkit.connect(pooled)) as hk, closing(holdkit.connect(pooled)) as other:
        hk.create_pool("seats", 40)
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda n: grant((hk, other)[n % 2], n), range(60)))
        assert sum(answer is not None for answer in answers) == 40
        held = [answer for answer in answers if answer is not None]
        hk.confirm(held[0], entity="order:1")
        other.release(held[1])
        assert (hk.pool("seats").held, hk.pool("seats").consumed) == (38, 1)
        assert hk.admin.verify().ok
    with closing(psycopg.connect(postgres_url)) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where application_name = 'holdkit' and datname = current_database()"
        ).fetchone()
        assert row is not None
        assert row[0] <= 2


def grant(hk: holdkit.Kernel, number: int) -> holdkit.Hold | None:
    try:
        return hk.hold("seats", 1, ttl=60, op=f"op-{number}")
    except holdkit.InsufficientCapacity:
        return None


def test_nothing_is_left_behind_on_a_connection(pooled: str) -> None:
    with closing(holdkit.connect(pooled)) as hk:
        hk.create_pool("seats", 1)
        hold = hk.hold("seats", 1, ttl=60)
        hk.release(hold)
    with closing(psycopg.connect(pooled.replace("&pooler=transaction", ""), autocommit=True)) as connection:
        for _ in range(4):  # whichever of the pooler's connections it is
            row = connection.execute(
                "select (select count(*) from pg_prepared_statements where name not like '\\_pg%'),"
                " current_setting('enable_seqscan'), current_setting('lock_timeout'), current_setting('search_path')",
                prepare=False,
            ).fetchone()
            assert row == (0, "on", "0", '"$user", public')


def test_a_retry_is_answered_through_the_pooler(pooled: str) -> None:
    with closing(holdkit.connect(pooled)) as hk:
        hk.create_pool("seats", 1)
        first = hk.hold("seats", 1, ttl=60, op="one")
        again = hk.hold("seats", 1, ttl=60, op="one")
        assert (again.id, again.replayed) == (first.id, True)


def test_calls_in_callers_transactions_through_the_pooler(pooled: str) -> None:
    """Each transaction may be on another of its connections; what a call needs is there."""
    plain = pooled.replace("&pooler=transaction", "")
    with (
        closing(holdkit.connect(pooled)) as hk,
        closing(psycopg.connect(plain)) as one,
        closing(psycopg.connect(plain)) as two,
    ):
        hk.create_pool("seats", 40)
        for turn in range(6):
            for tx in (one, two):
                hold = hk.hold("seats", 1, ttl=60, op=f"{turn}-{id(tx)}", tx=tx)
                hk.confirm(hold, tx=tx) if turn % 2 else hk.release(hold, tx=tx)
                tx.commit()
        assert hk.pool("seats").consumed == 6
        assert hk.admin.stats().guards.passed >= 24
        assert hk.admin.verify().ok


# A URL that does not say so

CAUSE = "is reached through a pooler: prepared statement"
CURE = "add pooler=transaction to the URL, or name the server itself"


def test_a_pooler_that_the_url_does_not_name_is_recognised(postgres_server: ServerAddress, postgres_url: str) -> None:
    """The second one finds the statements of the first on the pooler's only connection (42P05)."""
    with pooler(postgres_server, postgres_url, 1) as url:
        with closing(holdkit.connect(url)) as hk:
            hk.create_pool("seats", 1)
        for opening in (holdkit.connect, holdkit.migrate):
            with pytest.raises(holdkit.errors.EngineError) as refused:
                opening(url)
            assert CAUSE in str(refused.value)
            assert "already exists (42P05)" in str(refused.value)
            assert CURE in str(refused.value)
        examined = run("doctor", url, code=6)
        assert CAUSE in examined.out
        assert CURE in examined.out
        assert "please report it" not in examined.out + examined.err


def test_a_connection_that_changes_under_a_kernel_is_recognised(
    postgres_server: ServerAddress, postgres_url: str
) -> None:
    """Somebody else has the connection on which the statements were prepared, so they are missing on the other one (26000)."""
    with (
        pooler(postgres_server, postgres_url, 2) as url,
        closing(holdkit.connect(url)) as hk,
        closing(psycopg.connect(url)) as other,
    ):
        other.execute("select 1")
        with pytest.raises(holdkit.errors.EngineError) as refused:
            hk.pool("seats")
        assert CAUSE in str(refused.value)
        assert "does not exist (26000)" in str(refused.value)
        assert CURE in str(refused.value)


# Notifications past the pooler

HOUR = 3_600.0
"""Between two looks of its own: whoever is woken later than this test's time limit was not woken."""


def test_a_follower_is_woken_past_the_pooler(pooled: str, postgres_url: str) -> None:
    with closing(holdkit.connect(pooled, notify_url=postgres_url)) as one, closing(holdkit.connect(pooled)) as other:
        other.create_pool("first", 1)
        followed = one.journal.follow(poll=HOUR)
        assert next(followed).subject == "first"
        other.create_pool("second", 1)
        assert next(followed).subject == "second"


def test_a_blocked_call_is_woken_past_the_pooler(
    pooled: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_watch, "LOOK", HOUR)
    with (
        closing(holdkit.connect(pooled, notify_url=postgres_url)) as one,
        closing(holdkit.connect(pooled)) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        other.create_pool("seats", 1)
        first = other.hold("seats", 1, ttl=600)
        waiting = thread.submit(one.hold, "seats", 1, ttl=600, wait=600)
        wait_until(lambda: one.pool("seats").waiting == 1)
        other.release(first)
        assert waiting.result(PATIENCE).state == "held"


def test_without_a_way_past_the_pooler_nothing_listens(pooled: str) -> None:
    with closing(holdkit.connect(pooled)) as hk:
        hk._executor.listen()
        assert "holdkit-listener" not in {thread.name for thread in threading.enumerate()}


SECRET = "hunter2"


def with_password(url: str, database: str | None = None) -> str:
    """The URL as a user with a password would write it; the test's server asks for none."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return f"postgresql://postgres:{SECRET}@/{database or parts['dbname']}?host={parts['host']}&port={parts['port']}"


def test_a_notify_url_that_leads_elsewhere_is_refused(
    pooled: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To another database of the server, to none, and through the pooler itself; and no message has its password."""
    caplog.set_level("DEBUG")
    plain = pooled.replace("&pooler=transaction", "")
    refusals: dict[str, str] = {
        with_password(postgres_url, "postgres"): "leads to another database (PostgreSQL database postgres",
        with_password(postgres_url, "nowhere"): "notify_url: cannot connect to PostgreSQL database nowhere",
        with_password(plain): "through a pooler: it must name the server itself",
    }
    for url, says in refusals.items():
        with pytest.raises(holdkit.errors.EngineError) as refused:
            holdkit.connect(pooled, notify_url=url)
        assert says in str(refused.value)
        told = "".join(traceback.format_exception(refused.value)) + caplog.text
        assert SECRET not in told
    with closing(holdkit.connect(pooled, notify_url=with_password(postgres_url))) as hk:
        assert SECRET not in hk.url + repr(hk) + repr(hk.admin.stats())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://app:p/ss@host/shop", "is not a PostgreSQL URL"),
        (f"postgresql:///shop?password={SECRET}%zz", "is not a PostgreSQL URL"),
        ("postgresql:///shop?pooler=transaction", "takes no pooler: give that in the URL itself"),
        ("postgresql:///shop?schema=other", "takes no schema"),
        ("sqlite:///holds.db", "must begin with postgresql://"),
        (7, "must begin with postgresql://"),
    ],
)
def test_a_notify_url_that_is_none(url: Any, says: str) -> None:
    with pytest.raises(holdkit.InvalidRequest) as refused:
        holdkit.connect("postgresql:///shop", notify_url=url)
    assert (refused.value.field, refused.value.code) == ("notify_url", "notify_url_malformed")
    assert says in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_notify_url_goes_with_postgresql_only() -> None:
    with pytest.raises(holdkit.InvalidRequest) as refused:
        holdkit.connect("memory://", notify_url="postgresql:///shop")
    assert (refused.value.field, refused.value.code) == ("notify_url", "notify_url_unsupported")


def test_a_server_takes_it_as_a_setting_and_never_shows_it(
    pooled: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def followed() -> str:
        settings = Settings(notify_url=with_password(postgres_url))
        async with Application(pooled, settings=settings).lifespan() as running:
            woken = running.kernel.journal.follow(poll=HOUR)
            async with await holdkit.connect_async(pooled) as other:
                await other.create_pool("first", 1)
                assert (await anext(woken)).subject == "first"
                await other.create_pool("second", 1)
                return (await anext(woken)).subject

    assert asyncio.run(followed()) == "second"
    monkeypatch.setenv("HOLDKIT_SERVER_NOTIFY_URL", with_password(postgres_url))
    shown = run("doctor", postgres_url, "--settings").out
    assert "notify_url  " in shown
    assert "(hidden)  (environment)" in shown
    assert SECRET not in shown


class Halls(holdkit.Resource[str, None]):
    kind = "hall"

    def capacity(self, tx: Any, key: str, window: None) -> int:
        return int(tx.execute("select 3").fetchone()[0])


def test_everything_else_works_through_the_pooler_too(pooled: str) -> None:
    clock = FakeClock()
    with closing(holdkit.connect(pooled, clock=clock)) as hk, closing(holdkit.connect(pooled, clock=clock)) as other:
        hk.create_pool("seats", 10)
        assert hk.resource(Halls()).hold("big", ttl=60).state == "held"
        hk.hold("seats", 1, ttl=60, account="ada")
        hk.admin.resize_pool("seats", 12)
        assert [entry.action for entry in hk.journal.follow("mail", wait=False)][-1] == "pool.resized"
        clock.advance(100 * 86_400)
        assert other.sweep().expired == 2
        assert hk.admin.repair(reason="looked").repaired == ()
        assert b"".join(export(hk._executor.engine)).count(b"\n") > 5
        assert hk.admin.verify().ok
        hk.admin.erase("account", "ada", reason="asked")
        assert hk.accounts.list() == []
