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
from holdkit.core.entries import Action
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
"""Holds and confirms one unit for each line."""

OLD_ENDING: Final = """
import sys, holdkit
hk = holdkit.connect(sys.argv[1])
for line in sys.stdin:
    verb, *named = line.split()
    try:
        if named:
            hold = getattr(hk, verb)(named[0], owner=named[1])
            print(hold.state, hold.account, flush=True)
        else:
            entries = hk.journal()
            print(len([entry for entry in entries if entry.subject != "stock"]), *{entry.subject for entry in entries}, flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""
"""Ends the hold of an id and a token, or reads the journal."""


@contextmanager
def process(revision: Revision, url: str, program: str = OLD_PROCESS) -> Iterator[subprocess.Popen[str]]:
    """A process with the code of another revision, which answers each line that it is sent."""
    started = subprocess.Popen(
        [sys.executable, "-c", program, url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(revision.source)},
    )  # fmt: skip
    with started:
        yield started
        assert started.stdin
        started.stdin.close()


def ask(old: subprocess.Popen[str], line: str = "") -> str:
    assert old.stdin
    assert old.stdout
    old.stdin.write(f"{line}\n")
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


# Actions of the journal that older processes do not know


def test_an_old_process_ends_what_a_new_one_has_moved(old: Revision, postgres_url: str) -> None:
    """It goes by the rows, whose account it reads. Only what reads the entry itself stops there, until it is replaced."""
    old.python("-c", f"import holdkit; assert holdkit.migrate({postgres_url!r}) == 11")
    with process(old, postgres_url, OLD_ENDING) as running:
        old.python(
            "-c", f"import holdkit; holdkit.connect({postgres_url!r}).create_pool('stock', total=10, per_account=4)"
        )
        assert ask(running, "read") == "0 stock"
        holdkit.migrate(postgres_url)
        with holdkit.connect(postgres_url) as hk:
            holds = [hk.hold("stock", 2, ttl=600, account="ann", op=f"op-{n}") for n in range(2)]
            for hold in holds:
                hk.reassign(hold, account="bob")
            released, confirmed = holds
            assert ask(running, f"release {released.id} {released.token}") == "released bob"
            assert ask(running, f"confirm {confirmed.id} {confirmed.token}") == "confirmed bob"
            assert ask(running, "read") == "ValidationError"
            assert [use.used for use in hk.accounts.usage("bob")] == [2]
            assert hk.accounts.usage("ann") == []
            assert hk.admin.verify().ok


BESIDE: Final = {"hold.reassigned": test_an_old_process_ends_what_a_new_one_has_moved}
"""Of each action that an older process does not know: what that process does beside the new one."""


def test_of_every_new_action_it_is_known_what_an_older_process_does(old: Revision) -> None:
    """docs/upgrades.md, "For contributors": a new action is a change of the format, even without a migration."""
    known = old.python("-c", "from holdkit.core.entries import Action; print(*Action)").split()
    assert len(known) > 20
    assert {*Action} - {*known} == {*BESIDE}
