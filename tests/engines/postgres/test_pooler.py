"""Behind PgBouncer in transaction mode, where a connection is somebody else's after every transaction."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

import holdkit
from holdkit.testing.postgres import ServerAddress
from tests.support.threads import PATIENCE

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
default_pool_size = 2
max_client_conn = 100
"""


@pytest.fixture
def pooled(postgres_server: ServerAddress, postgres_url: str) -> Iterator[str]:
    """The same database through a pooler that has two connections for everybody."""
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
            database=database, host=postgres_server.host, port=postgres_server.port, listen=PORT, folder=folder
        )
        (folder / "pgbouncer.ini").write_text(text)
        user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, user=user)
        try:
            url = f"postgresql://postgres@/{database}?host={folder}&port={PORT}"
            wait_for(server, url, folder / "log")
            yield f"{url}&pooler=transaction"
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
        assert hk.verify().ok
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
        assert hk.stats.guards.passed >= 24
        assert hk.verify().ok
