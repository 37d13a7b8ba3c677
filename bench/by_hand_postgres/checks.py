"""Checks after a run: nothing is oversold, and every hold exists once, complete. Reads only the tables."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import psycopg
from msgspec import Struct

from ..rows import BenchFailed

COUNT: Final = """
select (select coalesce(sum(held), 0)::bigint from pools), (select coalesce(sum(consumed), 0)::bigint from pools),
       (select count(*) from holds), (select count(*) from legs),
       (select count(*) from journal), (select count(*) from operations),
       (select count(*) from pools where held + consumed > total),
       (select count(*) from pools p
        left join (select tenant, pool, sum(units) units from legs group by tenant, pool) l
               on (l.tenant, l.pool) = (p.tenant, p.id)
        where p.held <> coalesce(l.units, 0))
"""


class RowCounts(Struct, frozen=True):
    """The rows of each kind, and the pools' counters."""

    held: int
    consumed: int
    holds: int
    legs: int
    journal: int
    operations: int
    oversold: int
    """Pools with more out than they have."""
    wrong: int
    """Pools whose counter is not the sum of their holds."""


def count_rows(dsn: str) -> RowCounts:
    """Count the rows."""
    with closing(psycopg.connect(dsn)) as connection:
        row = connection.execute(COUNT).fetchone()
    assert row is not None
    return RowCounts(*row)


def expect_sound(variant: str, found: RowCounts, holds: int, *, confirmed: bool = False) -> None:
    """Each hold has one unit, so as many units are held, or consumed, as there are holds."""
    expected = RowCounts(holds, 0, holds, holds, holds, holds, 0, 0)
    if confirmed:
        expected = RowCounts(0, holds, holds, 0, 2 * holds, 2 * holds, 0, 0)
    if found != expected:
        raise BenchFailed(f"{variant}: expected {expected}, found {found}")
