from __future__ import annotations

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, PlaceHold, ReleaseHold, RemovePool, Sweep
from holdkit.core.model import Leg
from holdkit.engines.sqlite import SqliteEngine, open_engine, opening
from holdkit.engines.sqlite.caller_transaction import open_application_connection
from holdkit.engines.sqlite.driver import Driver, load, migrations
from holdkit.engines.sqlite.opening import check_library, error_from_sqlite, file_system, prepare_file
from holdkit.errors import EngineError, InvalidRequest, Overloaded
from tests.engines.commands import create
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, outside, place, pool, rows


class Interrupted(Exception):
    pass


def test_a_new_file_is_for_its_owner_only(engine: SqliteEngine, path: Path) -> None:
    done(engine, create())
    files = [*path.parent.iterdir()]
    assert len(files) > 1, "the file itself, and the files that SQLite and the fair write lock keep beside it"
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_the_settings_we_rely_on_are_always_set(open_one: Open, path: Path) -> None:
    engine = open_one()
    done(engine, create())
    driver = engine._writer._driver
    assert driver is not None
    assert driver.tell("pragma journal_mode") == [("wal",)]
    assert driver.tell("pragma synchronous") == [(2,)]
    assert driver.tell("pragma wal_autocheckpoint") == [(0,)]
    assert driver.tell("pragma fullfsync") == [(1,)]
    assert driver.tell("pragma checkpoint_fullfsync") == [(1,)]


def test_a_connection_for_the_application_syncs_as_ours_do(path: Path) -> None:
    open_engine(path).close()
    with closing(open_application_connection(str(path))) as connection:
        settings = ("synchronous", "fullfsync", "checkpoint_fullfsync")
        assert [connection.execute(f"pragma {name}").fetchone()[0] for name in settings] == [2, 1, 1]


def test_a_url_or_a_path_opens_the_same_file(path: Path) -> None:
    with_url = open_engine(f"sqlite:///{path}")
    done(with_url, create())
    with_path = open_engine(path)
    assert pool(with_path).total == 10
    assert with_url.url == with_path.url == f"sqlite:///{path}"
    with_url.close()
    with_path.close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the directory .*/missing does not exist; create it first"):
        open_engine(tmp_path / "missing" / "holds.db")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="it is a directory"):
        open_engine(tmp_path)


def test_a_file_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"this is a letter to my aunt, not a database\n" * 50)
    before = path.read_bytes()
    with pytest.raises(EngineError, match="not an SQLite database"):
        open_engine(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_place_where_nothing_can_be_created_says_why() -> None:
    with pytest.raises(EngineError, match=r"cannot create /proc/holds\.db"):
        open_engine("/proc/holds.db")


def test_a_file_that_may_not_be_written_is_refused(path: Path) -> None:
    path.touch(0o400)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:  # root may write everything, so somebody else has to try
                os.chown(path.parent, 65534, 65534)
                os.chown(path, 65534, 65534)
                os.chdir(path.parent)
                os.setuid(65534)
            with pytest.raises(EngineError, match="may not read and write"):
                prepare_file(path.name)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_network_file_system_is_refused_where_the_system_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.path.realpath(tmp_path)
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/x {real} nfs4 rw 0 0\n"
    assert file_system(f"{real}/holds.db", mounts) == "nfs4"
    assert file_system("/elsewhere/holds.db", mounts) == "ext4"
    monkeypatch.setattr("holdkit.engines.sqlite.opening.file_system", lambda path: file_system(path, mounts))
    with pytest.raises(EngineError, match=r"network file system \(nfs4\)"):
        prepare_file(f"{tmp_path}/holds.db")


def test_an_old_sqlite_is_refused() -> None:
    check_library((3, 38, 0))
    with pytest.raises(EngineError, match=r"needs SQLite 3\.38\.0 or later, but this Python was built with 3\.37\.2"):
        check_library((3, 37, 2))


def test_our_tables_live_beside_an_applications_own(open_one: Open, path: Path) -> None:
    with outside(path) as application:
        application.execute("create table pools (name text)")
        application.execute("create table holds (name text)")
        application.execute("insert into pools values ('swimming')")
    engine = open_one()
    done(engine, create())
    done(engine, place())
    assert rows(path, "select * from pools") == [("swimming",)]
    consistent(engine)


def test_a_strangers_table_of_our_name_is_refused_and_left_alone(path: Path) -> None:
    with outside(path) as stranger:
        stranger.execute("create table holdkit_pools (name text)")
    before = path.read_bytes()
    with pytest.raises(EngineError, match="has a table holdkit_pools that is not ours"):
        open_engine(path)
    assert path.read_bytes() == before


def test_a_strangers_version_table_is_refused(path: Path) -> None:
    with outside(path) as stranger:
        stranger.execute("create table holdkit_migrations (name text)")
    with pytest.raises(EngineError, match="holdkit_migrations is not ours"):
        open_engine(path)


def test_a_newer_schema_is_refused(open_one: Open, path: Path) -> None:
    open_one().close()
    with outside(path) as future:
        future.execute("insert into holdkit_migrations values (99, '0099_from_the_future', 0)")
    with pytest.raises(EngineError, match=r"its schema is version 99, this release knows [0-9]+;"):
        open_one()


def test_a_migration_interrupted_at_any_statement_is_old_or_new(tmp_path: Path) -> None:
    seen: list[str] = []
    open_engine(tmp_path / "whole.db", on_statement=seen.append).close()
    last = seen.index("commit") + 1
    assert last > 15
    for stop in range(last):
        path = tmp_path / f"{stop}.db"
        left = [stop]

        def interrupt(name: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted(name)

        with pytest.raises(Interrupted):
            open_engine(path, on_statement=interrupt)
        assert rows(path, "select name from sqlite_schema where name like 'holdkit%'") == []
        engine = open_engine(path)
        done(engine, create())
        consistent(engine)
        engine.close()


def test_a_later_migration_runs_once_and_in_order(open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_one()
    done(engine, create())
    engine.close()
    known = migrations()
    later = (len(known) + 1, "a_later_one", "create table holdkit_extra (x text) strict; -- why\n")
    steps = [*known, later]
    monkeypatch.setattr(opening, "migrations", lambda: steps)
    open_one().close()
    open_one().close()
    assert rows(path, "select version, name from holdkit_migrations") == [step[:2] for step in steps]
    assert rows(path, "select count(*) from holdkit_pools") == [(1,)]


def test_the_floors_of_an_older_file_are_found_in_its_journal(open_one: Open, path: Path) -> None:
    """From before each tenant had its own: one setting for all of them."""
    engine = open_one()
    for tenant, grants in (("", 1), ("acme", 3)):
        for number in range(grants):
            id = f"{number:032}"
            done(engine, PlaceHold(id=id, token="me", legs=(Leg("~k", 1, 1),), ttl_slots=5, tenant=tenant))
            done(engine, ReleaseHold(id=id, token="me", tenant=tenant))
    done(engine, CreatePool(id="never granted", total=1, tenant="new"))
    done(engine, RemovePool(id="never granted", tenant="new"))
    done(engine, Sweep())
    engine.close()
    with outside(path) as old:
        old.execute("drop table holdkit_fence_floors")
        old.execute("insert into holdkit_settings values ('fence_floor', '3', 0)")
        for statement in opening.split(migrations()[4][2]):
            old.execute(statement)
    engine = open_one()
    assert rows(path, "select tenant, floor from holdkit_fence_floors") == [("", 1), ("acme", 3)]
    consistent(engine)


def test_a_file_from_before_lines_is_migrated(path: Path, open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(path, monkeypatch)
    with outside(path) as old:
        old.execute(
            "insert into holdkit_holds (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version, entity, kept)"
            " values ('t', 'h', 'held', 77, 1, '[]', 'x', 3, 5, 2, 'order:1', 1)"
        )
        old.execute("insert into holdkit_legs values ('t', 'gpu', 77, 'h', 4)")
        old.execute("delete from holdkit_settings where name = 'limit.max_line'")
    engine = open_one()
    kept = "select tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version, entity, kept from holdkit_holds"
    assert rows(path, kept) == [("t", "h", "held", 77, 1, "[]", "x", 3, 5, 2, "order:1", 1)]
    assert rows(path, "select * from holdkit_legs") == [("t", "gpu", 77, "h", 4, 0, 0, None)]
    assert engine.limits.max_line == 100_000
    with outside(path) as now:
        indexes = now.execute("select name from sqlite_schema where type = 'index' and name like 'holdkit%'").fetchall()
    assert {"holdkit_holds_due", "holdkit_holds_kept", "holdkit_holds_entity", "holdkit_legs_line"} <= {
        name for (name,) in indexes
    }
    assert [one for one in engine.verify() if one.table == "settings"] == []


def old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with the schema before lines, and one pool."""
    with monkeypatch.context() as patched:
        patched.setattr(opening, "migrations", lambda: migrations()[:5])
        driver = Driver(sqlite3.connect(path, isolation_level=None))
        opening.migrate(driver, str(path), Limits(), 1)
        driver.connection.close()
    with outside(path) as old:
        old.execute("insert into holdkit_pools (tenant, id, total, held, consumed, fence, slot, version, on_demand, over)"
                    " values ('t', 'gpu', 9, 4, 0, 3, 5, 2, 0, 0)")  # fmt: skip


def test_an_older_file_with_a_path_in_an_id_is_refused_and_left_as_it_was(
    path: Path, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_file(path, monkeypatch)
    with outside(path) as old:
        old.execute("update holdkit_pools set id = '~face//x'")
    open_one().close()
    path.unlink()
    old_file(path, monkeypatch)
    with outside(path) as old:
        old.execute("update holdkit_pools set id = 'https://example.com'")
    with pytest.raises(
        EngineError, match=r"its pool 'https://example.com' was created before; remove it with the release"
    ):
        open_one()
    assert rows(path, "select max(version) from holdkit_migrations") == [(5,)]


def test_limits_that_change_meaning_are_stored_with_the_data(open_one: Open) -> None:
    open_one(limits=Limits(max_holds=5, retention=77, max_queue=3)).close()
    later = open_one()
    assert (later.limits.max_holds, later.limits.retention, later.limits.max_queue) == (5, 77, 10_000)
    same = open_one(limits=Limits(max_holds=5, max_queue=9))
    assert (same.limits.max_holds, same.limits.retention, same.limits.max_queue) == (5, 77, 9)
    with pytest.raises(InvalidRequest, match=r"max_holds is 5 in .* not 6") as caught:
        open_one(limits=Limits(max_holds=6))
    assert (caught.value.field, caught.value.code) == ("limits", "limits_differ")


def test_closing_twice_is_quiet_and_calls_afterwards_are_refused(engine: SqliteEngine) -> None:
    engine.close()
    engine.close()
    for call in (lambda: done(engine, create()), lambda: pool(engine), lambda: list(engine.verify())):
        with pytest.raises(EngineError, match="is closed"):
            call()


def test_every_statement_has_a_reason_and_is_valid_sql(engine: SqliteEngine, path: Path) -> None:
    with outside(path) as connection:
        for name, sql in load().items():
            if name != "create_version_table":
                parameters = dict.fromkeys(re.findall(r":([a-z_]+)", sql)) if ":tenant" in sql else [None] * places(sql)
                connection.execute(f"explain {sql}", parameters).fetchall()
    named = 0
    for file in (Path(opening.__file__).parent / "sql").glob("*.sql"):
        blocks = file.read_text().split("-- name: ")[1:]
        assert all(block.splitlines()[1].startswith("-- ") for block in blocks), file
        named += len(blocks)
    assert named == len(load())


def places(sql: str) -> int:
    """How many parameters a statement takes."""
    numbered = [int(part[0]) for part in sql.split("?")[1:] if part[:1].isdigit()]
    return max(numbered) if numbered else sql.count("?")


LINE = "SEARCH {} USING COVERING INDEX holdkit_legs_line (tenant=? AND pool=? AND {})"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("load_pools", "SEARCH p USING PRIMARY KEY (tenant=? AND id=?)"),
        ("load_holds", "SEARCH h USING PRIMARY KEY (tenant=? AND id=?)"),
        ("load_operations", "SEARCH o USING INDEX holdkit_operations_key (tenant=? AND id=?)"),
        ("load_operations", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"),
        ("load_due", "SEARCH holdkit_legs USING PRIMARY KEY (tenant=? AND pool=? AND deadline>? AND deadline<?)"),
        ("load_sweep", "SEARCH h USING INDEX holdkit_holds_due (deadline>? AND deadline<?)"),
        ("load_empty_pools", "SCAN p USING INDEX holdkit_pools_empty"),
        ("prune_operations", "SEARCH holdkit_operations USING COVERING INDEX holdkit_operations_end (until<?)"),
        ("prune_holds", "SEARCH holdkit_holds USING COVERING INDEX holdkit_holds_kept (kept=? AND kept_from<?)"),
        ("load_retiring", "SEARCH h USING INDEX holdkit_holds_kept (kept=? AND kept_from<?)"),
        (
            "read_history",
            "SEARCH holdkit_journal USING INDEX holdkit_journal_subject (tenant=? AND subject=? AND rowid>?)",
        ),
        ("read_pool", "SEARCH l USING PRIMARY KEY (tenant=? AND pool=? AND deadline<?)"),
        ("read_pool", LINE.format("l", "number>?")),
        ("load_line", LINE.format("holdkit_legs", "number>?")),
        ("load_tallies", "SEARCH t USING PRIMARY KEY (tenant=? AND pool=? AND account=?)"),
        ("load_waiting_pools", "SCAN p USING INDEX holdkit_pools_waiting"),
        ("load_waiting_pools", LINE.format("l", "number>?")),
        ("count_ahead", LINE.format("holdkit_legs", "number>? AND number<?")),
        ("read_line", LINE.format("holdkit_legs", "number>?")),
        ("next_deadline", "SEARCH holdkit_legs USING PRIMARY KEY (tenant=? AND pool=?)"),
        ("read_usage", "SEARCH t USING INDEX holdkit_tallies_account (tenant=? AND account=? AND pool>? AND pool<?)"),
        ("read_usage", "SEARCH l USING PRIMARY KEY (tenant=? AND pool=? AND deadline<?)"),
        ("read_pools", "SEARCH p USING PRIMARY KEY (tenant=? AND id>? AND id<?)"),
        ("read_pools_of_entity", "SEARCH p USING INDEX holdkit_pools_entity (tenant=? AND entity=? AND id>? AND id<?)"),
    ],
)
def test_hot_statements_are_answered_by_an_index(engine: SqliteEngine, path: Path, name: str, index: str) -> None:
    sql = load()[name]
    with outside(path) as connection:
        parameters = dict.fromkeys(re.findall(r":([a-z_]+)", sql)) if ":tenant" in sql else [None] * places(sql)
        plan = connection.execute(f"explain query plan {sql}", parameters).fetchall()
    assert index in [row[3] for row in plan]
    assert not any("TEMP B-TREE" in row[3] for row in plan)


@pytest.mark.parametrize("name", ["SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"])
def test_a_file_that_somebody_else_has_turns_away_and_is_no_failure(name: str) -> None:
    error = sqlite3.OperationalError("as it says")
    error.sqlite_errorcode = getattr(sqlite3, name)
    assert isinstance(error_from_sqlite("a file", error), Overloaded)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    assert isinstance(error_from_sqlite("a file", error), EngineError)
