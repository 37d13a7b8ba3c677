"""Pruning and making space delete exactly the rows they may, whatever plan the server chooses."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
import pytest

import holdkit
from holdkit.engines.postgres.statements import load

PLANS = pytest.mark.parametrize(
    "off",
    [
        "hashjoin, mergejoin, material, indexscan, bitmapscan, indexonlyscan",
        "nestloop, mergejoin",
        "nestloop, hashjoin",
    ],
)
LEAVING = {
    "make_room": ("holds", "order by kept_from, id", {"$1::bigint": "4"}),
    "prune_holds": ("holds", "order by kept_from, id", {"$1::bigint": "9223372036854775807", "$2::int": "2"}),
    "prune_operations": ("operations", "order by until", {"$1::bigint": "9223372036854775807", "$2::int": "2"}),
}
"""By statement: where rows leave, in which order, and what is said so that two of six must."""


@PLANS
@pytest.mark.parametrize("name", LEAVING)
def test_no_more_rows_leave_than_must(migrated: Callable[..., str], name: str, off: str) -> None:
    table, order, given = LEAVING[name]
    url = migrated()
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 9)
        end_one(hk, 0)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"analyze holdkit.{table}")  # it looks smaller than it is
        for n in range(1, 6):
            end_one(hk, n)
    with psycopg.connect(url) as connection:
        for setting in off.split(", "):
            connection.execute(f"set local enable_{setting} = off")
        there = connection.execute(f"select id::text from holdkit.{table} {order}").fetchall()
        text = load()[name].text
        for parameter, value in given.items():
            text = text.replace(parameter, value)
        connection.execute(text)
        left = connection.execute(f"select id::text from holdkit.{table} {order}").fetchall()
    assert len(there) == 6
    assert left == there[2:]


def end_one(hk: holdkit.Kernel, n: int) -> None:
    """One operation, and one hold that ends with nothing consumed."""
    hk.release(hk.hold("p", 1, ttl=60, op=f"op-{n}"))


def test_every_list_of_rows_that_leave_is_made_once() -> None:
    """Inside a nested loop a limited list that locks would be made anew for every row: there is none but materialized ones."""
    locking = {
        name: sql.text
        for name, sql in load().items()
        if re.search(r"\blimit\b[^;]*\bfor [a-z ]*update", sql.text)
        and "delete from" in sql.text
        and name != "guard_moves"  # it locks heads, unlimited
    }
    assert set(locking) == set(LEAVING)
    for text in locking.values():
        assert text.startswith("with old as materialized (")
