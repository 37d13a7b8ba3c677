"""Rows of the baseline that somebody has removed, added or changed: `verify` names them, with the archive's files and without, and neither an
export nor a repair takes what is left for the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdkit.core.audit_rows import row_name
from holdkit.core.baseline import KINDS
from holdkit.engines.archiving import row_checksum
from holdkit.engines.sqlite import SqliteEngine
from holdkit.errors import EngineError
from holdkit.kernel.archive import archived_entries
from holdkit.kernel.export import export
from tests.engines.test_archive import DAY, World
from tests.support.databases import Databases

Row = tuple[int, str, str, str, str, str, int]
"""Lane, kind, tenant, id, part, body, checksum."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def original(
    request: pytest.FixtureRequest, postgres_kept: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("original")
    taken = postgres_kept.take("one server", 4, None) if request.param == "postgres" else None
    made = World(f"sqlite:///{folder}/holds" if taken is None else taken.url, folder)
    for seed in (1, 2):
        made.live(45, seed)
        made.archive()
    yield made
    made.hk.close()
    if taken is not None:
        taken.give_back()


def run(world: World, sql: str, rows: list[tuple[Any, ...]] | None = None) -> list[Any]:
    engine: Any = world.hk._executor.engine
    if isinstance(engine, SqliteEngine):
        with closing(sqlite3.connect(engine.path)) as db, db:
            sql = sql.replace("holdkit.", "holdkit_").replace("%s", "?")
            return list(db.execute(sql)) if rows is None else [db.executemany(sql, rows)]
    with psycopg.connect(engine.url) as other, other.cursor() as cursor:
        if rows is None:
            cursor.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
        cursor.executemany(sql.encode(), rows)
    return []


def stored(world: World) -> list[Row]:
    sql = "select lane, kind, tenant, id, part, body, crc from holdkit.baseline order by lane, kind, tenant, id, part"
    return [tuple(row) for row in run(world, sql)]


def put(world: World, rows: list[Row]) -> None:
    run(world, "insert into holdkit.baseline (lane, kind, tenant, id, part, body, crc) values (%s, %s, %s, %s, %s, %s, %s)", rows)  # fmt: skip


def remove(world: World, rows: list[Row]) -> None:
    sql = "delete from holdkit.baseline where lane = %s and kind = %s and tenant = %s and id = %s and part = %s"
    run(world, sql, [row[:5] for row in rows])


@pytest.fixture
def world(original: World) -> Iterator[World]:
    before = stored(original)
    yield original
    remove(original, stored(original))
    put(original, before)


def some(world: World, kind: str) -> Row:
    found = [row for row in stored(world) if row[1] == kind]
    return found[len(found) // 2]


def assert_noticed(world: World) -> None:
    """By everybody who goes by the baseline; the files still have the whole history."""
    engine = world.hk._executor.engine
    pools = world.hk.pools()
    for archive in (None, world.to):
        assert "baseline" in {one.table for one in world.hk.admin.verify(archive=archive).differences}
    for tenant in (None, "acme"):
        with pytest.raises(
            EngineError, match=r"baseline, which stands .* was damaged \(baseline .* nothing was exported"
        ):
            list(export(engine, tenant=tenant))
    report = world.hk.admin.repair(reason="a row is missing")
    assert (report.repaired, "baseline" in {one.table for one in report.left}) == ((), True)
    assert world.hk.pools() == pools


def test_with_the_files_an_export_has_the_whole_history(world: World) -> None:
    engine = world.hk._executor.engine
    whole = list(export(engine, archive=archived_entries(engine, world.to)))
    remove(world, [row for row in stored(world) if row[1] in KINDS])
    assert list(export(engine, archive=archived_entries(engine, world.to))) == whole


def test_the_baseline_itself_is_whole(world: World) -> None:
    """Else every other test here would pass."""
    assert {row[1] for row in stored(world)} == {*KINDS, "file", "total"}
    for archive in (None, world.to):
        assert world.hk.admin.verify(archive=archive).differences == ()
    assert list(export(world.hk._executor.engine))


@pytest.mark.parametrize("kind", [*KINDS, "file", "total"])
def test_a_row_that_is_missing_is_noticed(world: World, kind: str) -> None:
    lane, _, tenant, id, part, *_ = row = some(world, kind)
    remove(world, [row])
    assert_noticed(world)
    if kind in KINDS:
        name = row_name((tenant, part, id) if part else (tenant, id))
        told = [str(one) for one in world.hk.admin.verify(archive=world.to).differences]
        assert f"baseline {kind} {name}: row is missing, the journal says there" in told
        assert any(f"of lane {lane}: rows" in one for one in told)


def test_without_the_files_a_missing_pool_is_named_and_not_the_tallies_that_need_it(world: World) -> None:
    lane, _, tenant, id, *_ = some(world, "tally")
    rows = sum(row[0] == lane and row[1] != "total" for row in stored(world))
    remove(world, [row for row in stored(world) if row[1:4] == ("pool", tenant, id)])
    assert [str(one) for one in world.hk.admin.verify().differences if one.table == "baseline"] == [
        f"baseline pool {row_name((tenant, id))}: row is missing, the journal says there",
        f"baseline of lane {lane}: rows is {rows - 1}, the journal says {rows}",
    ]


def test_a_follower_is_told_that_the_baseline_is_damaged(world: World) -> None:
    lane, _, tenant, id, *_ = some(world, "tally")
    remove(world, [row for row in stored(world) if row[1:4] == ("pool", tenant, id)])
    hk = world.hk if not tenant else world.hk.tenant(tenant)
    with pytest.raises(
        EngineError, match=f"baseline of lane {lane}, which stands .* is damaged: run `holdkit admin verify`"
    ):
        list(hk.journal.follow(wait=False))


def test_a_missing_hold_that_has_ended_is_noticed_while_it_is_stored(
    original: World, postgres_kept: Databases, tmp_path: Path
) -> None:
    """Holds that nothing needs leave the baseline: not so one that a row of the holds still tells of."""
    on_sqlite = isinstance(original.hk._executor.engine, SqliteEngine)
    taken = None if on_sqlite else postgres_kept.take("one server", 2, None)
    world = World(f"sqlite:///{tmp_path}/holds" if taken is None else taken.url, tmp_path)
    world.hk.create_pool("p", 5)
    holds = [world.hk.hold("p", 1, ttl="1h") for _ in range(3)]
    world.hk.release(holds[0])
    world.hk.release(holds[1])
    world.clock.advance(2 * DAY)
    world.hk.confirm(world.hk.hold("p", 1, ttl="1h"))
    assert world.archive("1d").entries == 6
    assert world.hk.admin.verify(archive=world.to).differences == ()
    remove(world, [row for row in stored(world) if row[3] == holds[1].id])
    told = [one for one in world.hk.admin.verify(archive=world.to).differences if one.field == "row"]
    assert [str(one) for one in told] == [f"baseline hold {holds[1].id}: row is missing, the journal says there"]
    world.hk.close()
    if taken is not None:
        taken.give_back()


def test_a_baseline_without_any_row_is_noticed(world: World) -> None:
    remove(world, stored(world))
    assert_noticed(world)


def test_a_lane_without_its_rows_is_noticed(world: World) -> None:
    first = stored(world)[0][0]
    remove(world, [row for row in stored(world) if row[0] == first])
    assert_noticed(world)


Change = Callable[[Row], Row]


def changed(row: Row, **fields: str) -> Row:
    """With the checksum that fits."""
    lane, kind, tenant, id, part, body, _ = row
    id, body = fields.get("id", id), fields.get("body", body)
    return (lane, kind, tenant, id, part, body, row_checksum(lane, (kind, tenant, id, part), body))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_was_changed_with_its_checksum_is_noticed(world: World, kind: str) -> None:
    row = some(world, kind)
    body = str(int(row[5]) + 1) if kind == "floor" else row[5].replace('"', ' "', 1)
    remove(world, [row])
    put(world, [changed(row, body=body)])
    assert_noticed(world)


def test_a_row_that_was_added_is_noticed(world: World) -> None:
    row = some(world, "pool")
    put(world, [changed(row, id="another", body=row[5].replace(f'"id":"{row[3]}"', '"id":"another"'))])
    assert_noticed(world)


def test_what_an_earlier_release_has_left_is_no_damage(world: World) -> None:
    """It knew neither of totals nor of files; and one that archived beside this one has left the total behind."""
    remove(world, [row for row in stored(world) if row[1] in ("file", "total")])
    for archive in (None, world.to):
        assert world.hk.admin.verify(archive=archive).differences == ()
    assert list(export(world.hk._executor.engine))
    world.clock.advance(45 * DAY)
    for number in range(40):
        world.hk.create_pool(f"later{number}", 1)
    world.clock.advance(45 * DAY)
    for number in range(40):
        world.hk.admin.resize_pool(f"later{number}", 2)
    assert world.archive().entries > 0
    assert {row[1] for row in stored(world)} >= {"file", "total"}
    for archive in (None, world.to):
        assert world.hk.admin.verify(archive=archive).differences == ()
