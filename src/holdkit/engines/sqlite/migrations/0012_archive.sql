-- Old entries leave the journal for files. What they have led to stays: how far the journal is archived, and the state behind that.

create table holdkit_archived (
    lane    integer primary key,
    through integer not null,                 -- the number of the last entry that has left
    slot    integer not null,                 -- the latest slot of those entries
    digest  text    not null,                 -- of that last entry: cursors that stand there go on
    place   text    not null,                 -- where the files are
    edition integer not null,                 -- grows whenever the baseline changes although no further entry is archived
    crc     integer not null
) strict;

create table holdkit_baseline (
    lane   integer not null,
    kind   text    not null,                  -- floor, pool, tally, hold, record
    tenant text    not null,
    id     text    not null,
    part   text    not null,                  -- of a tally the account, of a record its kind; else empty
    body   text    not null,                  -- JSON
    crc    integer not null,
    primary key (lane, kind, tenant, id, part)
) strict, without rowid;
