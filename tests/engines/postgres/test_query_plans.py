"""With large tables every keyed statement uses an index, even if it was planned while the tables were empty.

The aim that a hold costs the same after millions of past ones rests on this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, Final

import psycopg
import pytest

from holdkit.core.bounds import Limits
from holdkit.engines.postgres.encoding import Sql
from holdkit.engines.postgres.opening import settings_text
from holdkit.engines.postgres.statements import load

ROWS: Final = 200_000
POOLS: Final = 20_000
WAITERS: Final = 10_000
"""In the line of pool-1, which has other legs too."""
BIG: Final = {"pools", "holds", "legs", "journal", "operations", "fence_floors", "tallies"}
KEYS: Final = {
    "pools": r"\b(id|resting|closes|entity)\b",
    "holds": r"\b(id|deadline|kept_from|entity)\b",
    "legs": r"\bpool\b",
    "journal": r"\b(seq|subject)\b",
    "operations": r"\b(id|until)\b",
    "fence_floors": r"\btenant\b",
    "tallies": r"\b(pool|account)\b",
}
"""What a look into an index must name, besides the lane."""
WHOLE: Final = {
    "count_pools": "asked only where a bound is set",
    "latest_slot": "asked by health checks",
    "count_live_holds": "asked only where a bound is set",
    "count_unended_holds": "asked only where a bound is set",
    "count_consumed_holds": "asked only where a bound is set",
    "make_room": "asked only where a bound is set",
    "find_idle_pools": "the partial index holds nothing else",
    "find_fed_lines": "the partial index holds only pools with a line",
    "read_tenants": "goes from tenant to tenant by the primary key, one row of each",
    "is_used": "stops at the first row",
    "read_firsts": "stops at the first entry of each lane",
    "first_referred": "asked once by a run of the archive",
    "latest_stamp": "a repair, which reads everything anyway",
    "rescan_pools": "a repair, which reads everything anyway",
    "drop_floors": "a repair, which reads everything anyway",
    "drop_tallies": "a repair, which reads everything anyway",
}
"""Statements that may walk an index without a condition on it, and why."""
ONE_POOL: Final = "array[1], array[''], array['pool-1']"
IN_LINE: Final = (
    "load_lines",
    "lock_lines",
    "find_fed_lines",
    "count_ahead",
    "read_line",
    "read_pool",
    "read_pools",
    "read_pools_by_id",
)
"""Statements that look at the front of a line: whatever else is outstanding on its pool."""

FILL: Final = """
insert into holdkit.pools (lane, tenant, id, total, held, consumed, fence, slot, version, on_demand, over, idle, stamp,
                           due_after, label, closes, holder, entity, resting)
select n % 4, '', 'pool-' || n, 1000, 10, 0, 1, 1, 1, false, false, false, 1, 1, 'label-' || n,
       case when n % 4 = 0 then n end, null, case when n % 4 = 1 then 'entity-' || n end, case when n % 4 = 2 then n end
from generate_series(%FIRST%, least(%LAST%, %POOLS%)) n;
insert into holdkit.holds (lane, tenant, id, state, deadline, open, legs, pools, pool_lanes, owner_hash, fence, held_at,
                           ended_at, entity, version)
select n % 4, '', lpad(to_hex(n), 32, '0')::uuid, case when n % 2 = 0 then 'held' else 'confirmed' end, 1000000 + n,
       n % 2 = 0, '[]', array['pool-' || 1 + n % %POOLS%], array[n % 4], '', 1, n, case when n % 2 = 1 then n end,
       'entity-' || n, 1
from generate_series(%FIRST%, %LAST%) n;
insert into holdkit.legs (lane, tenant, pool, deadline, hold, units)
select n % 4, '', 'pool-' || 1 + n % %POOLS%, 1000000 + n, lpad(to_hex(n), 32, '0')::uuid, 1
from generate_series(%FIRST%, %LAST%) n;
insert into holdkit.journal (lane, seq, tenant, subject, body, crc)
select n % 4, n, '', 'hold-' || n, '{}', 0 from generate_series(%FIRST%, %LAST%) n;
insert into holdkit.operations (lane, tenant, id, fingerprint, until, outcome, crc)
select n % 4, '', 'op-' || n, '', n, '{}', 0 from generate_series(%FIRST%, %LAST%) n;
insert into holdkit.fence_floors (lane, tenant, floor)
select n % 4, 'tenant-' || n, n from generate_series(%FIRST%, least(%LAST%, %POOLS%)) n;
insert into holdkit.tallies (lane, tenant, pool, account, used, loose)
select n % 4, '', 'pool-' || 1 + n % %POOLS%, 'account-' || n, 1, 0 from generate_series(%FIRST%, %LAST%) n;
insert into holdkit.legs (lane, tenant, pool, deadline, hold, units, waiting, number)
select 1, '', 'pool-1', 2000000 + n, lpad(to_hex(n), 32, '1')::uuid, 0, 1, n
from generate_series(%FIRST%, least(%LAST%, %WAITERS%)) n;
update holdkit.pools set waiting = least(%LAST%, %WAITERS%) where id = 'pool-1';
"""


def filling(first: int, last: int) -> str:
    """So many rows more in each of the big tables."""
    return (
        FILL.replace("%POOLS%", str(POOLS))
        .replace("%WAITERS%", str(WAITERS))
        .replace("%FIRST%", str(first))
        .replace("%LAST%", str(last))
    )


def planned() -> dict[str, Sql]:
    """The statements that have a plan and touch a big table, for many rows and for one."""
    words = ("select", "insert", "update", "delete", "with")
    forms = {**load(), **{each.one.sql.name: each.one.sql for each in load().values() if each.one is not None}}
    return {
        name: sql
        for name, sql in forms.items()
        if sql.text.startswith(words) and any(f"holdkit.{table}" in sql.text for table in BIG)
        and not name.startswith("audit_")
    }  # fmt: skip


def prepare(connection: psycopg.Connection[Any]) -> None:
    """As the engine does: its settings, its types."""
    connection.execute(settings_text(Limits()).encode())
    for name, sql in planned().items():
        types = f" ({', '.join(sql.types)})" if sql.types else ""
        connection.execute(f"prepare {name}{types} as {sql.text}".encode())


def explain(connection: psycopg.Connection[Any], name: str, sql: Sql) -> Any:
    nulls = f"({', '.join(['null'] * len(sql.types))})" if sql.types else ""
    row = connection.execute(f"explain (format json) execute {name}{nulls}".encode()).fetchone()
    assert row is not None
    return row[0][0]["Plan"] if not isinstance(row[0], str) else json.loads(row[0])[0]["Plan"]


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def faults(name: str, plan: Any) -> list[str]:
    """Scans of a big table that grow with it."""
    name = name.removesuffix("_one")
    found = [
        f"{name}: {node['Node Type']} on {node['Relation Name']}"
        for node in nodes(plan)
        if node.get("Relation Name") in BIG
        and "Scan" in node["Node Type"]
        and not re.search(KEYS[node["Relation Name"]], node.get("Index Cond", node.get("Recheck Cond", "")))
    ]
    if name in IN_LINE and "legs_line" not in {node.get("Index Name") for node in nodes(plan)}:
        found.append(f"{name}: does not go by the line")
    return [fault for fault in found if name not in WHOLE or "line" in fault.partition(": ")[2]]


def all_faults(connection: psycopg.Connection[Any]) -> list[str]:
    return [fault for name, sql in planned().items() for fault in faults(name, explain(connection, name, sql))]


@pytest.mark.slow
def test_every_keyed_statement_goes_by_an_index_at_any_size(postgres_url: str) -> None:
    """Prepared while the tables were empty, small, and large; explained at once, and when they are large."""
    with ExitStack() as opened:
        connections: list[psycopg.Connection[Any]] = []
        filler = opened.enter_context(closing(psycopg.connect(postgres_url, autocommit=True)))
        for rows in ("", filling(1, 5_000) + "analyze", filling(5_001, ROWS) + "analyze"):
            filler.execute(rows.encode())
            connections.append(opened.enter_context(closing(psycopg.connect(postgres_url, autocommit=True))))
            prepare(connections[-1])
            assert all_faults(connections[-1]) == []
        for connection in connections:
            assert all_faults(connection) == []
            assert pages(connection, "load_due", f"{ONE_POOL}, null, 1001") < 60
            assert pages(connection, "load_lines", f"{ONE_POOL}, array[251], array[1000]") < 60
            assert pages(connection, "lock_lines", f"{ONE_POOL}, array[251], array[1000], 4") < 1_100
            assert pages(connection, "load_due_one", "1, '', 'pool-1', null, 1001") < 60
            assert pages(connection, "count_ahead", "1, 1, '', 'pool-1', 10000, 1000") < 100
            assert pages(connection, "read_line", "1, 1, '', 'pool-1', 10, 1000") < 100
        expect_canaries_found(connections[-1])


@pytest.mark.xfail(reason="a table that was analyzed with a handful of rows is walked, until it is analyzed again")
def test_also_if_tables_were_analyzed_when_they_had_a_few_rows(postgres_url: str) -> None:
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(filling(1, 5).encode())
        connection.execute("analyze")
        prepare(connection)
        assert all_faults(connection) == []


def pages(connection: psycopg.Connection[Any], name: str, parameters: str) -> int:
    """How many it touches, among hundreds of thousands of rows."""
    row = connection.execute(
        f"explain (analyze, buffers, format json) execute {name}({parameters})".encode()
    ).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def expect_canaries_found(connection: psycopg.Connection[Any]) -> None:
    """What must be found: keys that cannot be looked up, and a planner left to guess."""
    by_text = Sql(
        "by_text", "select from holdkit.holds h where h.lane = $1::int and h.id::text = $2::text", ("int", "text")
    )
    without_key = Sql("without_key", "select from holdkit.legs l where l.hold = $1::uuid", ("uuid",))
    for name, sql in (("by_text", by_text), ("without_key", without_key)):
        connection.execute(f"prepare {name} ({', '.join(sql.types)}) as {sql.text}".encode())
        plan = explain(connection, name, sql)
        assert faults(name, plan) or plan["Total Cost"] > 1_000, plan
