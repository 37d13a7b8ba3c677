-- The first schema. Times are slots: whole microseconds since 1970, UTC. JSON is canonical text.

create table settings (
    name  text primary key,
    value text not null
) strict, without rowid;

create table pools (
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

create index pools_empty on pools (tenant, id) where on_demand and held = 0 and consumed = 0;

create table holds (
    tenant         text    not null,
    id             text    not null,
    state          text    not null check (state in ('held', 'confirmed', 'released', 'expired')),
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
    primary key (tenant, id)
) strict, without rowid;

create index holds_due on holds (deadline) where open and deadline is not null;  -- the sweep, earliest first
create index holds_ended on holds (ended_at) where ended_at is not null and not open;  -- retention
create index holds_entity on holds (tenant, entity) where entity is not null;

-- Outstanding legs only: a pool's `held` is always the sum of its rows here.
create table legs (
    tenant   text    not null,
    pool     text    not null,
    deadline integer not null,                -- 2^63-1 where the hold has none
    hold     text    not null,
    units    integer not null check (units > 0),
    primary key (tenant, pool, deadline, hold)
) strict, without rowid;

create table journal (
    seq     integer primary key,
    tenant  text    not null,
    subject text    not null,
    body    text    not null,                 -- JSON: the whole entry
    crc     integer not null                  -- of the body, so that `verify` can name a row changed by hand
) strict;

create index journal_subject on journal (tenant, subject);

create table operations (
    tenant      text    not null,
    id          text    not null,
    fingerprint text    not null,
    slot        integer not null,
    outcome     text    not null,             -- JSON: the answer, with the owner token for the retry
    crc         integer not null,
    primary key (tenant, id)
) strict, without rowid;

create index operations_age on operations (slot);

create table records (
    tenant  text    not null,
    kind    text    not null,
    id      text    not null,
    body    text    not null,
    version integer not null,
    slot    integer not null,
    primary key (tenant, kind, id)
) strict, without rowid;
