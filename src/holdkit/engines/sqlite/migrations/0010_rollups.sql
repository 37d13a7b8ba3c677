-- Roll-ups: statistics by interval, written by servers beside the data. No rule reads them, and `verify` leaves them alone.

create table holdkit_rollups (
    step   integer not null,                  -- the length of the interval, in seconds
    tenant text    not null,
    series text    not null,                  -- a pool's id, or a name that begins with ~
    at     integer not null,                  -- the slot at which the interval begins
    source text    not null,                  -- who counted: empty for what comes from the journal, else a server process
    body   text    not null,                  -- JSON
    primary key (step, tenant, series, at, source)
) strict, without rowid;

create index holdkit_rollups_age on holdkit_rollups (step, at);

-- How far the journal is counted, in the same transaction as the rows.
create table holdkit_rollup_position (
    id      integer primary key check (id = 1),
    version integer not null,
    body    text    not null
) strict;
