-- Waiting in line, limits per account, trees of pools. (Pools whose ids contain // without being children are refused before this.)

alter table holdkit_pools add column waiting integer not null default 0 check (waiting >= 0);    -- holds in its line
alter table holdkit_pools add column last_number integer not null default 0;                     -- of the last hold that joined it
alter table holdkit_pools add column children integer not null default 0 check (children >= 0);  -- pools directly below it
alter table holdkit_pools add column per_account integer;                                        -- the limit of each account
alter table holdkit_pools add column line text check (line = 'skip');                            -- null: strict

create index holdkit_pools_waiting on holdkit_pools (tenant, id) where waiting > 0;
-- a pool with children is not swept away, so it must not be among the first that a sweep finds
drop index holdkit_pools_empty;
create index holdkit_pools_empty on holdkit_pools (tenant, id)
where on_demand and held = 0 and consumed = 0 and label is null and closes is null and not archived and children = 0;

-- A hold that waits has no units yet, and was never granted any: both tables are copied, because a check cannot be changed.

create table holdkit_holds_new (
    tenant         text    not null,
    id             text    not null,
    state          text    not null,
    deadline       integer,                   -- while it waits, the end of waiting
    open           integer not null,          -- whether any unit is outstanding, or it waits
    legs           text    not null,          -- JSON: what was granted, is outstanding, confirmed, returned, per pool
    owner_hash     text    not null,
    fence          integer not null,
    held_at        integer,                   -- null until it has units
    ended_at       integer,
    entity         text,
    reason         text,
    actor          text,
    correlation_id text,
    metadata       text,
    last_op        text,
    version        integer not null,
    returned_at    integer,
    closes         integer,                   -- the end of its last window; null where a pool has none
    kept           integer,                   -- once it has ended: the rule, see core/ladders/retiring.py
    kept_from      integer,                   -- and from when that counts
    account        text,                      -- in whose tallies its units are counted
    above          text,                      -- JSON: what is outstanding on the pools above those of its legs; null if there are none
    joined_at      integer,                   -- null if it never waited
    number         integer,                   -- in the line
    offer_ttl      integer,
    primary key (tenant, id),
    -- spelled out: `in (...)` builds a table anew for every row, a third of an insert's cost
    check (state = 'held' or state = 'confirmed' or state = 'released' or state = 'expired' or state = 'waiting'),
    check (held_at is not null or number is not null)
) strict, without rowid;

insert into holdkit_holds_new
       (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, ended_at, entity, reason, actor, correlation_id,
        metadata, last_op, version, returned_at, closes, kept, kept_from)
select tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, ended_at, entity, reason, actor, correlation_id,
       metadata, last_op, version, returned_at, closes, kept, kept_from
from holdkit_holds;
drop table holdkit_holds;
alter table holdkit_holds_new rename to holdkit_holds;

create index holdkit_holds_due on holdkit_holds (deadline, id) where open and deadline is not null;   -- the sweep
create index holdkit_holds_kept on holdkit_holds (kept, kept_from, id) where kept is not null;        -- retention
create index holdkit_holds_entity on holdkit_holds (tenant, entity, id) where entity is not null;

-- Outstanding legs, also on the pools above them, and places in lines: a pool's `held` is the sum of the units, its `waiting` the
-- number of rows with a number.
create table holdkit_legs_new (
    tenant   text    not null,
    pool     text    not null,
    deadline integer not null,                -- 2^63-1 where the hold has none
    hold     text    not null,
    units    integer not null,                -- 0 while it waits
    waiting  integer not null default 0,      -- units waited for
    number   integer not null default 0,      -- its number in the line while it waits, else 0
    account  text,                            -- in whose tally it is counted
    primary key (tenant, pool, deadline, hold),
    check (units > 0 or (units = 0 and waiting > 0 and number > 0))
) strict, without rowid;

insert into holdkit_legs_new (tenant, pool, deadline, hold, units)
select tenant, pool, deadline, hold, units from holdkit_legs;
drop table holdkit_legs;
alter table holdkit_legs_new rename to holdkit_legs;

create index holdkit_legs_line on holdkit_legs (tenant, pool, number, waiting) where number > 0;

-- What each account uses of each pool; gone at 0.
create table holdkit_tallies (
    tenant  text    not null,
    pool    text    not null,
    account text    not null,
    used    integer not null check (used > 0),
    loose   integer not null check (loose >= 0),   -- consumed on this very pool, and its hold dropped
    primary key (tenant, pool, account)
) strict, without rowid;

create index holdkit_tallies_account on holdkit_tallies (tenant, account, pool);

-- a limit that is stored with the data, with its default
insert or ignore into holdkit_settings (name, value, crc) values ('limit.max_line', '100000', 2554632250);
