-- The first schema. Times are slots: whole microseconds since 1970, UTC. JSON is canonical text.
-- Every name begins with holdkit_, so that our tables can live in an application's own file.

create table holdkit_settings (
    name  text    primary key,
    value text    not null,                   -- JSON
    crc   integer not null                    -- of name and value, so that `verify` can name a row changed by hand
) strict, without rowid;

create table holdkit_pools (
    tenant    text    not null,
    id        text    not null,
    total     integer not null check (total >= 0),
    held      integer not null check (held >= 0),
    consumed  integer not null check (consumed >= 0),
    fence     integer not null,
    slot      integer not null,               -- last slot decided here: time never moves backwards along a pool
    version   integer not null,
    on_demand integer not null,               -- born by a leg; swept away when empty
    over      integer not null,               -- the application lowered the capacity under what is in use
    primary key (tenant, id),
    check (held + consumed <= total or over)  -- the second lock on the door; the first is core.decide
) strict, without rowid;

create index holdkit_pools_empty on holdkit_pools (tenant, id) where on_demand and held = 0 and consumed = 0;

create table holdkit_holds (
    tenant         text    not null,
    id             text    not null,
    state          text    not null,
    deadline       integer,
    open           integer not null,          -- whether any unit is outstanding
    legs           text    not null,          -- JSON: what was granted, is outstanding, confirmed, returned, per pool
    owner_hash     text    not null,
    fence          integer not null,
    held_at        integer not null,
    ended_at       integer,
    entity         text,
    reason         text,
    actor          text,
    correlation_id text,
    metadata       text,
    last_op        text,
    version        integer not null,
    primary key (tenant, id),
    -- spelled out: `in (...)` builds a table anew for every row, a third of an insert's cost
    check (state = 'held' or state = 'confirmed' or state = 'released' or state = 'expired')
) strict, without rowid;

create index holdkit_holds_due on holdkit_holds (deadline, id) where open and deadline is not null;   -- the sweep
create index holdkit_holds_ended on holdkit_holds (ended_at, id) where not open and ended_at is not null;  -- retention
create index holdkit_holds_entity on holdkit_holds (tenant, entity, id) where entity is not null;

-- Outstanding legs only: a pool's `held` is always the sum of its rows here.
create table holdkit_legs (
    tenant   text    not null,
    pool     text    not null,
    deadline integer not null,                -- 2^63-1 where the hold has none
    hold     text    not null,
    units    integer not null check (units > 0),
    primary key (tenant, pool, deadline, hold)
) strict, without rowid;

create table holdkit_journal (
    seq     integer primary key,
    tenant  text    not null,
    subject text    not null,
    body    text    not null,                 -- JSON: the whole entry
    crc     integer not null                  -- of the body
) strict;

create index holdkit_journal_subject on holdkit_journal (tenant, subject);

create table holdkit_operations (
    tenant      text    not null,
    id          text    not null,
    fingerprint text    not null,
    slot        integer not null,
    outcome     text    not null,             -- JSON: the answer, with the owner token for the retry
    crc         integer not null,             -- of all the columns before it
    primary key (tenant, id)
) strict, without rowid;

create index holdkit_operations_age on holdkit_operations (slot);

create table holdkit_records (
    tenant  text    not null,
    kind    text    not null,
    id      text    not null,
    body    text    not null,
    version integer not null,
    slot    integer not null,
    primary key (tenant, kind, id)
) strict, without rowid;
