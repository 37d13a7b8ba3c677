-- Statistics have one length of interval, and only what the journal says. Rows of before are dropped.

drop table holdkit.rollups;
drop table holdkit.rollup_position;

create table holdkit.rollups (
    tenant text collate "C" not null,
    series text collate "C" not null,  -- a pool's id, or a name that begins with ~
    at     bigint  not null,                  -- the slot at which the interval begins
    body   text    not null,                  -- JSON
    primary key (tenant, series, at)
);

create index rollups_interval on holdkit.rollups (at, tenant);

-- The cursor up to which the journal is counted, in the same transaction as the rows.
create table holdkit.rollup_position (
    id      bigint  primary key check (id = 1),
    version bigint  not null,
    cursor  text    not null
);
