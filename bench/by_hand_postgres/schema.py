"""The tables: the columns of Holdkit's own, and the indexes that a sensible schema needs to find, expire and retire."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final

import psycopg

from .statements import ORDERS

SCHEMA: Final = """
create table pools (
    tenant text not null, id text not null,
    total bigint not null check (total >= 0), held bigint not null check (held >= 0),
    consumed bigint not null check (consumed >= 0),
    fence bigint not null, slot bigint not null, version bigint not null,
    on_demand boolean not null, over boolean not null,
    primary key (tenant, id), check (held + consumed <= total or over)
) with (fillfactor = 50);  -- room for the next version of a busy row on the same page

create table holds (
    tenant text not null, id text not null,
    state text not null check (state in ('held', 'confirmed', 'released', 'expired')),
    deadline bigint, open boolean not null, legs text not null, owner_hash text not null, fence bigint not null,
    held_at bigint not null, ended_at bigint, entity text, reason text, actor text, correlation_id text, metadata text,
    last_op text, version bigint not null,
    primary key (tenant, id)
);
create index holds_due on holds (deadline, id) where open and deadline is not null;
create index holds_ended on holds (ended_at, id) where ended_at is not null and not open;
create index holds_entity on holds (tenant, entity, id) where entity is not null;

create table legs (
    tenant text not null, pool text not null, deadline bigint not null, hold text not null,
    units bigint not null check (units > 0),
    primary key (tenant, pool, deadline, hold)
);

create table journal (
    lane smallint not null, seq bigint generated always as identity,
    tenant text not null, subject text not null, body text not null,
    primary key (lane, seq)
);
create index journal_subject on journal (tenant, subject);

create table operations (
    tenant text not null, id text not null, fingerprint text not null, slot bigint not null, outcome text not null,
    primary key (tenant, id)
);
create index operations_age on operations (slot);
"""


def install(dsn: str) -> None:
    """Create the tables in an empty database."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute(SCHEMA)
        connection.execute(ORDERS)


def create_pools(dsn: str, pools: Iterable[str], total: int) -> None:
    """Pools with nothing held. Their creation is not measured, so it writes no journal rows."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute(
            "insert into pools select '', id, %s, 0, 0, 0, 0, 1, false, false from unnest(%s::text[]) id",
            (total, list(pools)),
        )
        connection.execute("analyze pools")
