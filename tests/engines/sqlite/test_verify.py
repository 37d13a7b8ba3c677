from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.core.commands import PutRecord
from holdkit.engines.sqlite import SqliteEngine
from tests.engines.commands import confirm, create
from tests.engines.sqlite.engine_calls import consistent, done, hold_id, outside, place


@pytest.fixture
def engine(engine: SqliteEngine) -> SqliteEngine:
    ended, held = hold_id(900), hold_id(901)
    done(engine, create(total=10))
    done(engine, place(("gpu", 2), id=ended, op="o", fingerprint="f" * 32))
    done(engine, confirm(ended))
    done(engine, place(("gpu", 3), id=held))
    done(engine, PutRecord(kind="saga", id="1", body="{}"))
    consistent(engine)
    return engine


@pytest.mark.parametrize(
    ("sql", "table", "field"),
    [
        ("update holdkit_pools set total = 11", "pools", "total"),
        ("update holdkit_pools set held = 2", "pools", "held"),
        ("update holdkit_pools set consumed = 1", "pools", "consumed"),
        ("update holdkit_pools set fence = 9", "pools", "fence"),
        ("update holdkit_pools set slot = 9", "pools", "slot"),
        ("update holdkit_pools set over = 1", "pools", "over"),
        ("update holdkit_pools set on_demand = 1", "pools", "on_demand"),
        ("delete from holdkit_pools", "pools", "row"),
        (
            "insert into holdkit_pools values ('', 'new', 1, 0, 0, 0, 0, 1, 0, 0, null, null, null, null, 0, 0, 0, 0, 0, 0, null, null)",
            "pools",
            "row",
        ),
        ("update holdkit_holds set state = 'released' where state = 'confirmed'", "holds", "state"),
        ("update holdkit_holds set deadline = 1 where open", "holds", "deadline"),
        ("update holdkit_holds set open = 1", "holds", "open"),
        ("update holdkit_holds set legs = '[]' where open", "holds", "legs"),
        ("update holdkit_holds set legs = 'x' where open", "holds", "legs"),
        ("update holdkit_holds set owner_hash = 'mine'", "holds", "owner_hash"),
        ("update holdkit_holds set last_op = 'x'", "holds", "last_op"),
        ("delete from holdkit_holds where open", "holds", "row"),
        ("update holdkit_legs set units = 1", "legs", "units"),
        ("update holdkit_legs set deadline = 7", "legs", "units"),
        ("delete from holdkit_legs", "legs", "units"),
        ("update holdkit_journal set body = replace(body, 'gpu', 'cpu') where seq = 2", "journal", "crc"),
        ("update holdkit_journal set body = 'x' where seq = 2", "journal", "body"),
        ("update holdkit_journal set crc = 1 where seq = 2", "journal", "crc"),
        ("update holdkit_journal set tenant = 'x' where seq = 2", "journal", "tenant"),
        ("update holdkit_journal set subject = 'x' where seq = 2", "journal", "subject"),
        ("update holdkit_journal set seq = 77 where seq = 2", "journal", "seq"),
        ("delete from holdkit_journal where seq = 2", "journal", "seq"),
        ("update holdkit_operations set outcome = '{}'", "operations", "crc"),
        ("update holdkit_operations set fingerprint = 'x'", "operations", "crc"),
        ("update holdkit_operations set until = until + 1", "operations", "crc"),
        ("update holdkit_operations set id = 'x'", "operations", "crc"),
        ("update holdkit_records set body = '[]'", "records", "body"),
        ("update holdkit_records set version = 9", "records", "version"),
        ("delete from holdkit_records", "records", "row"),
        ("insert into holdkit_fence_floors values ('x', 9)", "fence_floors", "floor"),
        ("update holdkit_settings set value = '1' where name = 'limit.retention'", "settings", "value"),
        ("update holdkit_settings set crc = 1 where name = 'limit.max_holds'", "settings", "crc"),
        ("delete from holdkit_settings where name = 'limit.max_ttl'", "settings", "row"),
        ("insert into holdkit_settings values ('x', '1', 1)", "settings", "row"),
        ("update holdkit_migrations set name = 'x'", "migrations", "name"),
        ("insert into holdkit_migrations values (99, 'x', 1)", "migrations", "name"),
    ],
)
def test_a_row_changed_by_hand_is_named(engine: SqliteEngine, path: Path, sql: str, table: str, field: str) -> None:
    with outside(path) as someone:
        assert someone.execute(sql).rowcount >= 1
    found = [(difference.table, difference.field) for difference in engine.verify()]
    assert (table, field) in found


def test_a_difference_names_its_row(engine: SqliteEngine, path: Path) -> None:
    with outside(path) as someone:
        someone.execute("update holdkit_pools set total = 11")
        someone.execute("update holdkit_operations set until = 1")
    assert sorted((difference.table, difference.key) for difference in engine.verify()) == [
        ("operations", "o"),
        ("pools", "gpu"),
    ]


def test_verify_reads_one_snapshot_and_can_be_left_early(engine: SqliteEngine) -> None:
    differences = engine.verify()
    assert list(differences) == []
    with outside(Path(engine.path)) as someone:
        someone.execute("update holdkit_pools set total = 11, fence = 99")
    half = engine.verify()
    next(half)
    half.close()
    assert len(list(engine.verify())) == 2
    done(engine, place())
