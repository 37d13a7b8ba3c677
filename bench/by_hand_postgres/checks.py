"""After a run: nothing oversold, and every hold there once, whole. Reads the tables only."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import psycopg
from msgspec import Struct

from ..rows import BenchFailed

COUNT: Final = """
select (select coalesce(sum(held), 0)::bigint from pools),
       (select count(*) from holds), (select count(*) from legs),
       (select count(*) from journal), (select count(*) from operations),
       (select count(*) from pools where held + consumed > total),
       (select count(*) from pools p
        left join (select tenant, pool, sum(units) units from legs group by tenant, pool) l
               on (l.tenant, l.pool) = (p.tenant, p.id)
        where p.held <> coalesce(l.units, 0))
"""


class Tally(Struct, frozen=True):
    """What is there."""

    held: int
    holds: int
    legs: int
    journal: int
    operations: int
    oversold: int
    """Pools with more out than they have."""
    wrong: int
    """Pools whose counter is not the sum of their holds."""


def tally(dsn: str) -> Tally:
    """Count."""
    with closing(psycopg.connect(dsn)) as connection:
        row = connection.execute(COUNT).fetchone()
    assert row is not None
    return Tally(*row)


def expect_sound(side: str, found: Tally, holds: int) -> None:
    """Units of one, so as many are held as there are holds."""
    expected = Tally(holds, holds, holds, holds, holds, 0, 0)
    if found != expected:
        raise BenchFailed(f"{side}: expected {expected}, found {found}")
