"""The limit of the server: the very same rows from prepared arrays, without any decision.

Everything is encoded before the clock starts, each batch is one prepared statement and one transaction, and the client does
nothing but send and wait. What is left is the server's own work: five tables, their indexes, the WAL and its sync.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus
from psycopg.types.numeric import Int4, Int8

from ..rows import BenchFailed
from .drafts import TENANT, draft, finish

TTL: Final = 300
TOTAL: Final = 10**9

PUT: Final = b"""
with placed as (
    insert into holds (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version)
    select $1, u.id, 'held', u.deadline, true, u.legs, u.owner_hash, u.fence, u.held_at, 1
    from unnest($4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[])
         u (id, deadline, legs, owner_hash, fence, held_at)
), leg as (
    insert into legs select $1, $2, u.deadline, u.id, 1 from unnest($4::text[], $5::bigint[]) u (id, deadline)
), noted as (
    insert into journal (lane, tenant, subject, body)
    select 0, $1, u.id, u.body from unnest($4::text[], $10::text[]) u (id, body)
), remembered as (
    insert into operations
    select $1, u.op, u.fingerprint, u.held_at, u.outcome
    from unnest($11::text[], $12::text[], $9::bigint[], $13::text[]) u (op, fingerprint, held_at, outcome)
)
update pools set held = held + $3, fence = fence + $3, slot = ($9::bigint[])[$3], version = version + $3
where tenant = $1 and id = $2
"""
COLUMNS: Final = ("id", "deadline", "legs", "owner_hash", "fence", "now", "body", "op", "fingerprint", "outcome")


class LimitRun(Struct, frozen=True):
    """One batch size."""

    batch: int
    holds: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Holds per second."""
        return self.holds / self.seconds


def limit(dsn: str, pool: str, batch: int, batches: int) -> LimitRun:
    """One connection, one batch after the other."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        encoder = Transformer(connection)
        ready = [encoded(encoder, pool, batch, number) for number in range(batches)]
        formats = list(encoder.formats or ())
        pgconn = connection.pgconn
        prepared = pgconn.prepare(b"put", PUT, list(encoder.types or ()))
        if prepared.status != ExecStatus.COMMAND_OK:
            raise BenchFailed(f"limit: {prepared.error_message.decode()}")
        begin = time.perf_counter()
        for parameters in ready:
            result = pgconn.exec_prepared(b"put", parameters, formats)
            if result.status != ExecStatus.COMMAND_OK:
                raise BenchFailed(f"limit: {result.error_message.decode()}")
        return LimitRun(batch, batch * batches, time.perf_counter() - begin)


def encoded(encoder: Any, pool: str, batch: int, number: int) -> list[Any]:
    """One batch, encoded for the wire."""
    rows: list[dict[str, Any]] = []
    for turn in range(batch):
        one = draft(pool, 1, TTL, f"limit-{pool}-{batch}-{number}-{turn}")
        count = number * batch + turn + 1
        after = {"tenant": TENANT, "id": pool, "total": TOTAL, "held": count, "consumed": 0, "fence": count,
                 "slot": one["now"], "version": count + 1}  # fmt: skip
        rows.append(finish(one, after))
    columns = [[same_size(row[name]) for row in rows] for name in COLUMNS]
    values = [TENANT, pool, Int4(batch), *columns]
    return list(encoder.dump_sequence(values, [PyFormat.BINARY] * len(values)))


def same_size(value: Any) -> Any:
    """psycopg would send small numbers as smaller types, and the statement is prepared for one."""
    return Int8(value) if isinstance(value, int) else value
