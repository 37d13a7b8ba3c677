-- Statistics have one length of interval, and only what the journal says. Rows of before are dropped.

drop table holdkit_rollups;
drop table holdkit_rollup_position;

create table holdkit_rollups (
    tenant text    not null,
    series text    not null,                  -- a pool's id, or a name that begins with ~
    at     integer not null,                  -- the slot at which the interval begins
    body   text    not null,                  -- JSON
    primary key (tenant, series, at)
) strict, without rowid;

create index holdkit_rollups_interval on holdkit_rollups (at, tenant);

-- The cursor up to which the journal is counted, in the same transaction as the rows.
create table holdkit_rollup_position (
    id      integer primary key check (id = 1),
    version integer not null,
    cursor  text    not null
) strict;
