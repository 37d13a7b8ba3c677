"""Databases that earlier revisions have written: opened, migrated and verified by the code of today, or refused with a clear message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdkit
from holdkit import Kernel
from holdkit.engines import archive_files
from holdkit.engines.postgres import statements
from holdkit.engines.sqlite import driver
from holdkit.errors import EngineError
from holdkit.kernel import export
from holdkit.testing import FakeClock

from .fixtures import Stored, load_postgres, stored, unpack_archive, unpack_export, unpack_sqlite, versions

REFUSED = {
    "sqlite": {"0001", "0002", "0003"},
    "postgres": {"0001", "0002"},
}
"""Formats from before the first release that are not migrated: nobody has data in them."""


def use(hk: Kernel, expected: Stored) -> None:
    """Everything is as it was written, and goes on from there."""
    assert hk.admin.verify().differences == ()
    for name, counters in expected.pools.items():
        pool = hk.pool(name)
        assert (pool.total, pool.held, pool.consumed) == counters, name
    other = hk.tenant("acme").pool("stock")
    assert (other.total, other.held, other.consumed) == expected.acme
    assert {id: hk.get(id).state for id in expected.states} == expected.states
    live = expected.live
    again = hk.hold("stock", 3, ttl=86_400, op=live.op, token=live.token)
    assert (again.id, again.replayed) == (live.id, True)
    assert hk.confirm(holdkit.ticket(live.id, live.token)).state == "confirmed"
    total, held, consumed = expected.pools["stock"]
    assert (hk.pool("stock").held, hk.pool("stock").consumed) == (held - 3, consumed + 3)
    hk.create_pool("new", total=1)
    hk.hold("new", 1, ttl="5m", account="customer:1")
    assert hk.pool("stock").total == total
    assert hk.admin.verify().differences == ()


@pytest.mark.parametrize("version", versions("sqlite"))
def test_sqlite_files_are_migrated_when_they_are_opened(version: str, tmp_path: Path) -> None:
    expected = stored("sqlite", version)
    url = unpack_sqlite(version, tmp_path)
    if version in REFUSED["sqlite"]:
        before = (tmp_path / f"{version}.db").read_bytes()
        with pytest.raises(
            EngineError, match=f"version {int(version)}, this release migrates from 4 on; .* begin a new one"
        ):
            holdkit.connect(url)
        assert (tmp_path / f"{version}.db").read_bytes() == before
        return
    for turn in range(2):  # migrated now, and as it was left
        with holdkit.connect(url, clock=FakeClock(expected.slot)) as hk:
            if not turn:
                use(hk, expected)
            assert hk.admin.verify().ok


@pytest.mark.parametrize("version", versions("postgres"))
def test_postgresql_databases_are_migrated_by_command(version: str, postgres_url: str) -> None:
    expected = stored("postgres", version)
    load_postgres(version, postgres_url)
    newest = statements.migrations()[-1][0]
    if version in REFUSED["postgres"]:
        for call in (holdkit.connect, holdkit.migrate):
            with pytest.raises(EngineError, match=f"version {int(version)}, this release migrates from 3 on"):
                call(postgres_url)
        return
    if int(version) < newest:
        with pytest.raises(EngineError, match=f"has schema version {int(version)}: run `holdkit migrate"):
            holdkit.connect(postgres_url)
    assert holdkit.migrate(postgres_url) == newest
    with holdkit.connect(postgres_url, clock=FakeClock(expected.slot)) as hk:
        use(hk, expected)


@pytest.mark.parametrize("version", versions("archive"))
def test_archives_are_read(version: str, tmp_path: Path) -> None:
    expected = unpack_archive(version, tmp_path)
    archive = tmp_path / "archive"
    entries = [*holdkit.journal.JournalArchive(archive).entries()]
    assert [str(entry.action) for entry in entries] == ["pool.created", "hold.held", "hold.confirmed"]
    assert len(entries) == expected.archived
    with holdkit.connect(f"sqlite:///{tmp_path / 'holds.db'}", clock=FakeClock(expected.slot)) as hk:
        assert hk.admin.verify().ok
        assert hk.admin.verify(archive=archive).ok
        history = [str(entry.action) for entry in hk.history(expected.old, archive=archive)]
        assert history == ["hold.held", "hold.confirmed"]
        assert hk.confirm(holdkit.ticket(expected.live, expected.token)).state == "confirmed"
        assert hk.pool("stock").consumed == 5


@pytest.mark.parametrize("version", versions("export"))
def test_exports_are_imported(version: str, tmp_path: Path) -> None:
    expected = stored("export", version)
    url = f"sqlite:///{tmp_path / 'new.db'}"
    arguments = ["admin", "import", "--url", url, str(unpack_export(version, tmp_path))]
    subprocess.run([sys.executable, "-m", "holdkit", *arguments], check=True, capture_output=True)
    with holdkit.connect(url, clock=FakeClock(expected.slot)) as hk:
        assert {id: hk.get(id).state for id in expected.states} == expected.states
        assert hk.confirm(holdkit.ticket(expected.live.id, expected.live.token)).state == "confirmed"
        assert hk.admin.verify().ok


def test_the_newest_formats_have_a_fixture() -> None:
    """A migration that is added today needs none yet, but the version before it does: `python -m tools.write_format HEAD`."""
    for kind, newest in (("sqlite", driver.migrations()[-1][0]), ("postgres", statements.migrations()[-1][0])):
        assert int(versions(kind)[-1]) >= newest - 1, kind
    assert int(versions("archive")[-1]) >= archive_files.FORMAT - 1
    assert int(versions("export")[-1]) >= export.FORMAT - 1
