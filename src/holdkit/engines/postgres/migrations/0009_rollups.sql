-- Roll-ups: statistics by interval, written by servers beside the data. No rule reads them, and `verify` leaves them alone.

create table holdkit.rollups (
    step   bigint  not null,                  -- the length of the interval, in seconds
    tenant text collate "C" not null,
    series text collate "C" not null,  -- a pool's id, or a name that begins with ~
    at     bigint  not null,                  -- the slot at which the interval begins
    source text collate "C" not null,  -- who counted: empty for what comes from the journal, else a server process
    body   text    not null,                  -- JSON
    primary key (step, tenant, series, at, source)
);

create index rollups_age on holdkit.rollups (step, at);

-- How far the journal is counted, in the same transaction as the rows.
create table holdkit.rollup_position (
    id      bigint  primary key check (id = 1),
    version bigint  not null,
    body    text    not null
);
