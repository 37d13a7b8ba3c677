-- The first schema. Times are slots: whole microseconds since 1970, UTC. JSON is canonical text, exactly as it was hashed.
-- `lane` is the first column of every key, so that tables can be distributed by it. Keys compare by bytes on every server.
-- Tables are not analyzed before they have 10,000 rows: plans made for a handful of rows would scan the whole table when it is large.

create table holdkit.settings (
    name  text collate "C" primary key,
    value text not null                        -- JSON
);

-- One row per lane: its last journal number. A transaction takes its numbers here, last of all, under this row's lock.
create table holdkit.heads (
    lane        integer primary key,
    seq         bigint  not null default 0,
    fence_floor bigint  not null default 0     -- the highest fence of any pool of this lane that was removed
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table holdkit.pools (
    lane      integer not null,
    tenant    text collate "C" not null,
    id        text collate "C" not null,
    total     bigint  not null check (total >= 0),
    held      bigint  not null check (held >= 0),
    consumed  bigint  not null check (consumed >= 0),
    fence     bigint  not null,
    slot      bigint  not null,                -- the last slot decided here: time never moves backwards along a pool
    version   bigint  not null,                -- every write checks that nobody else has changed the row since it was loaded
    on_demand boolean not null,                -- created by a leg; swept away when empty
    over      boolean not null,                -- the application lowered the total below what is in use
    idle      boolean not null,                -- on demand and empty. A column of its own: an index on `held` would forbid
                                               -- cheap (heap-only) updates of the hottest rows there are
    stamp     bigint  not null,                -- orders entries that have no number yet: grows with every transaction here
    due_after bigint  not null,                -- all legs with a deadline up to here are returned: the scan for due legs begins here
    primary key (lane, tenant, id),
    check (held + consumed <= total or over)   -- a second check; the first is core.decide
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_threshold = 10000);

create index pools_idle on holdkit.pools (lane, tenant, id) where idle;

create table holdkit.holds (
    lane           integer not null,           -- the hold's home lane: the low 16 bits of its id
    tenant         text collate "C" not null,
    id             uuid    not null,
    state          text    not null check (state in ('held', 'confirmed', 'released', 'expired')),
    deadline       bigint,
    open           boolean not null,           -- whether any unit is outstanding
    legs           text    not null,           -- JSON: what was granted, is outstanding, confirmed, returned, per pool
    pools          text[]  not null,           -- the pools of these legs, so that they can be locked
    pool_lanes     integer[] not null,
    owner_hash     text    not null,
    fence          bigint  not null,
    held_at        bigint  not null,
    ended_at       bigint,
    entity         text collate "C",
    reason         text,
    actor          text,
    correlation_id text,
    metadata       text,
    last_op        text,
    version        bigint  not null,
    primary key (lane, tenant, id)
) with (autovacuum_analyze_threshold = 10000);

create index holds_due on holdkit.holds (deadline, id) where open and deadline is not null;                -- the sweep
create index holds_ended on holdkit.holds (ended_at, id) where not open and ended_at is not null;          -- retention
create index holds_by_entity on holdkit.holds (tenant, entity, id) where entity is not null;

-- Outstanding legs only: a pool's `held` is always the sum of its rows here.
create table holdkit.legs (
    lane     integer not null,                 -- the pool's
    tenant   text collate "C" not null,
    pool     text collate "C" not null,
    deadline bigint  not null,                 -- 2^63-1 where the hold has none
    hold     uuid    not null,
    units    bigint  not null check (units > 0),
    primary key (lane, tenant, pool, deadline, hold)
) with (autovacuum_analyze_threshold = 10000);

create table holdkit.journal (
    lane    integer not null,
    seq     bigint  not null,
    tenant  text collate "C" not null,
    subject text collate "C" not null,
    body    text    not null,                  -- JSON: the entry without its number
    crc     integer not null,                  -- of the body
    primary key (lane, seq)
) with (autovacuum_analyze_threshold = 10000);

create index journal_by_subject on holdkit.journal (lane, tenant, subject);

-- Entries of callers' transactions. The next transaction in the lane gives them their numbers, so that a caller's open transaction
-- never holds up a lane.
create table holdkit.unnumbered (
    lane    integer not null,
    stamp   bigint  not null,
    batch   bigint  not null,                  -- random: two transactions may have the same stamp
    n       integer not null,
    tenant  text collate "C" not null,
    subject text collate "C" not null,
    body    text    not null,
    crc     integer not null,
    primary key (lane, stamp, batch, n)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table holdkit.operations (
    lane        integer not null,              -- the operation id's own lane, whatever its pools
    tenant      text collate "C" not null,
    id          text collate "C" not null,
    fingerprint text    not null,
    slot        bigint  not null,
    outcome     text    not null,              -- JSON: the answer, with the owner token for the retry
    crc         integer not null,              -- of all the columns before it
    primary key (lane, tenant, id)
) with (autovacuum_analyze_threshold = 10000);

create index operations_age on holdkit.operations (slot);

create table holdkit.records (
    lane    integer not null,
    tenant  text collate "C" not null,
    kind    text collate "C" not null,
    id      text collate "C" not null,
    body    text    not null,
    version bigint  not null,
    slot    bigint  not null,
    primary key (lane, tenant, kind, id)
) with (autovacuum_analyze_threshold = 10000);

-- Views for people. Nothing of ours reads them.

create view holdkit.pools_readable as
select tenant, id, total, held, consumed, greatest(0, total - held - consumed) as available, over, on_demand, fence,
       to_timestamp(slot / 1e6) as changed_at, lane, version
from holdkit.pools;

create view holdkit.holds_readable as
select tenant, replace(id::text, '-', '') as id, state, to_timestamp(held_at / 1e6) as held_at,
       to_timestamp(deadline / 1e6) as deadline, to_timestamp(ended_at / 1e6) as ended_at, pools, legs::json as legs,
       entity, reason, actor, correlation_id, fence, lane, version
from holdkit.holds;

create view holdkit.journal_readable as
select lane, seq, to_timestamp((body::json ->> 'slot')::bigint / 1e6) as at, body::json ->> 'action' as action, tenant,
       subject, body::json ->> 'actor' as actor, body::json ->> 'reason' as reason, body::json as entry
from holdkit.journal;
