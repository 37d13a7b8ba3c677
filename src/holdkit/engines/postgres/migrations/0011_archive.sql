-- Old entries leave the journal for files. What they have led to stays: how far each lane is archived, and the state behind that.
-- Not distributed: archiving is refused where the tables are.

create table holdkit.archived (
    lane    integer primary key,
    through bigint  not null,                  -- the number of the last entry that has left
    slot    bigint  not null,                  -- the latest slot of those entries
    digest  text    not null,                  -- of that last entry: cursors that stand there go on
    place   text    not null,                  -- where the files are
    edition integer not null,                  -- grows whenever the baseline changes although no further entry is archived
    crc     bigint  not null
);

create table holdkit.baseline (
    lane   integer not null,
    kind   text collate "C" not null,          -- floor, pool, tally, hold, record
    tenant text collate "C" not null,
    id     text collate "C" not null,
    part   text collate "C" not null,          -- of a tally the account, of a record its kind; else empty
    body   text    not null,                   -- JSON
    crc    bigint  not null,
    primary key (lane, kind, tenant, id, part)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_threshold = 10000);

-- Archived entries are deleted from the journal: it is vacuumed before they are a fifth of it.
alter table holdkit.journal set (autovacuum_vacuum_scale_factor = 0.05);
