"""Old and new processes on one PostgreSQL database: an old one works on, or it is refused with a message that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest

import holdkit
from holdkit import Kernel
from holdkit.engines.postgres import statements
from holdkit.errors import EngineError
from tools.write_format import Revision

FORMATS: Final = Path(__file__).parents[2] / "fixtures/formats"
BEFORE_ERASURE: Final = "ba2f82d2"
"""The last revision with schema version 11."""

OLD_PROCESS: Final = """
import sys, holdkit
hk = holdkit.connect(sys.argv[1])
for line in sys.stdin:
    hold = hk.hold("stock", 1, ttl=600)
    print(hk.confirm(hold).state, flush=True)
"""


@contextmanager
def process(revision: Revision, url: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the code of another revision, which holds and confirms one unit for each line that it is sent."""
    started = subprocess.Popen(
        [sys.executable, "-c", OLD_PROCESS, url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(revision.source)},
    )  # fmt: skip
    with started:
        yield started
        assert started.stdin
        started.stdin.close()


def ask(old: subprocess.Popen[str]) -> str:
    assert old.stdin
    assert old.stdout
    old.stdin.write("\n")
    old.stdin.flush()
    return old.stdout.readline().strip()


@pytest.fixture
def old(tmp_path: Path) -> Revision:
    """From a file, because a copy of the repository may come without its history. Made by `git archive`, and xz."""
    return Revision(BEFORE_ERASURE, (FORMATS / f"source-{BEFORE_ERASURE}.tar.xz").read_bytes(), tmp_path)


def test_a_process_that_runs_through_a_compatible_migration_works_on(old: Revision, postgres_url: str) -> None:
    old.python("-c", f"import holdkit; assert holdkit.migrate({postgres_url!r}) == 11")
    with process(old, postgres_url) as running:
        old.python("-c", f"import holdkit; holdkit.connect({postgres_url!r}).create_pool('stock', total=10)")
        assert ask(running) == "confirmed"
        assert holdkit.migrate(postgres_url) == statements.migrations()[-1][0]
        with holdkit.connect(postgres_url) as hk:
            hk.hold("stock", 1, ttl=600)
            assert [ask(running) for _ in range(3)] == ["confirmed"] * 3
            assert (hk.pool("stock").held, hk.pool("stock").consumed) == (1, 4)
            assert hk.admin.verify().ok


def test_an_old_process_does_not_open_a_newer_schema(old: Revision, postgres_url: str) -> None:
    newest = holdkit.migrate(postgres_url)
    with pytest.raises(
        SystemExit, match=f"has schema version {newest}, this release knows 11; use a release at least as new"
    ):
        old.python("-c", f"import holdkit; holdkit.connect({postgres_url!r})")


def incompatible_migration(url: str) -> None:
    """What a migration does that older processes must not survive: it changes the setting that each of their transactions reads."""
    newest = statements.migrations()[-1][0]
    with psycopg.connect(url) as connection:
        connection.execute("insert into holdkit.migrations (version, name) values (%s, 'next')", (newest + 1,))
        connection.execute("update holdkit.settings set value = '1000000000' where name = 'limits_version'")


def every_way(hk: Kernel, url: str) -> Iterator[str]:
    """A hold, another one, one in the caller's own transaction, a sweep: the error of each."""

    def in_transaction() -> object:
        with psycopg.connect(url) as connection:
            return hk.hold("stock", 1, ttl=600, tx=connection)

    for call in (lambda: hk.hold("stock", 1, ttl=600), lambda: hk.hold("stock", 1, ttl=600), in_transaction, hk.sweep):
        with pytest.raises(EngineError) as refused:
            call()
        yield str(refused.value)


def test_a_process_that_runs_through_an_incompatible_migration_is_refused(postgres_url: str) -> None:
    newest = holdkit.migrate(postgres_url)
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("stock", total=10)
        hold = hk.hold("stock", 1, ttl=600)
        incompatible_migration(postgres_url)
        said = f"was migrated to schema version {newest + 1} while this process was running, which knows {newest}: restart it"
        assert [error for error in every_way(hk, postgres_url) if said not in error] == []
        with pytest.raises(EngineError, match="was migrated to schema version"):
            hk.get(hold.id)
        with pytest.raises(EngineError, match="was migrated to schema version"):
            hk.confirm(hold)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select held, consumed from holdkit.pools where id = 'stock'").fetchone() == (1, 0)
