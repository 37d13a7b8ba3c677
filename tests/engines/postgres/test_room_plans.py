"""Room for holds is made once, whatever plan the server chooses for it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

import holdkit
from holdkit.engines.postgres.statements import load


@pytest.mark.parametrize(
    "off",
    [
        "hashjoin, mergejoin, material, indexscan, bitmapscan, indexonlyscan",
        "nestloop, mergejoin",
        "nestloop, hashjoin",
    ],
)
def test_no_more_ended_holds_go_than_must(migrated: Callable[..., str], off: str) -> None:
    url = migrated()
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 9)
        hk.release(hk.hold("p", 1, ttl=60))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("analyze holdkit.holds")  # it looks smaller than it is
        for _ in range(5):
            hk.release(hk.hold("p", 1, ttl=60))
    with psycopg.connect(url) as connection:
        for name in off.split(", "):
            connection.execute(f"set local enable_{name} = off")
        connection.execute(load()["make_room"].text.replace("$1::bigint", "4"))
        left = connection.execute("select id::text from holdkit.holds order by kept_from, id").fetchall()
    assert len(left) == 4
