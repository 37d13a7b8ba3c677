-- Waiting in line, limits per account, trees of pools.

alter table holdkit.pools
    add column waiting     bigint not null default 0 check (waiting >= 0),       -- holds in its line
    add column last_number bigint not null default 0,                            -- of the last hold that joined its line
    add column children    bigint not null default 0 check (children >= 0),      -- pools directly below it
    add column per_account bigint,                                               -- the most that one account may use
    add column line        text   not null default 'strict' check (line in ('strict', 'skip'));

-- Of pools without a line `waiting` never changes: their updates stay heap-only.
create index pools_waiting on holdkit.pools (lane, tenant, id) where waiting > 0;

-- A waiter is a hold that has no units yet. `pools` now has the pools above those of its legs too: all that its units move.
alter table holdkit.holds
    alter column held_at drop not null,        -- null while it waits
    drop constraint holds_state_check,
    add constraint holds_state_check check (state in ('waiting', 'held', 'confirmed', 'released', 'expired')),
    add column account   text collate "C",     -- in whose tallies its units are counted
    add column above     text,                 -- JSON: what is outstanding on the pools above those of its legs; null: there are none
    add column joined_at bigint,
    add column number    bigint,               -- in the line that it joined
    add column offer_ttl bigint;

-- A leg's row while its hold waits has no units yet, but a number in the line.
alter table holdkit.legs
    drop constraint legs_units_check,
    add column waiting bigint not null default 0,  -- units waited for
    add column number  bigint not null default 0,
    add column account text collate "C",           -- in whose tally it is counted
    add constraint legs_units_check check (units >= 0 and waiting >= 0 and units + waiting > 0);

create index legs_line on holdkit.legs (lane, tenant, pool, number) where number > 0;

-- What an account uses of a pool: part of the pool, in its lane, written only under its lock. A row at 0 is deleted.
create table holdkit.tallies (
    lane    integer not null,                  -- the pool's
    tenant  text collate "C" not null,
    pool    text collate "C" not null,
    account text collate "C" not null,
    used    bigint  not null check (used > 0), -- waited for, held, or confirmed and not returned
    loose   bigint  not null check (loose >= 0),
    primary key (lane, tenant, pool, account)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_threshold = 10000);

create index tallies_by_account on holdkit.tallies (tenant, account, pool);

create or replace view holdkit.pools_readable as
select tenant, id, total, held, consumed, greatest(0, total - held - consumed) as available, over, on_demand, fence,
       to_timestamp(slot / 1e6) as changed_at, lane, version, label, to_timestamp(closes / 1e6) as closes, holder, entity,
       archived, loose, waiting, per_account, line, children
from holdkit.pools;

create or replace view holdkit.holds_readable as
select tenant, replace(id::text, '-', '') as id, state, to_timestamp(held_at / 1e6) as held_at,
       to_timestamp(deadline / 1e6) as deadline, to_timestamp(ended_at / 1e6) as ended_at, pools, legs::json as legs,
       entity, reason, actor, correlation_id, fence, lane, version, account, to_timestamp(joined_at / 1e6) as joined_at, number
from holdkit.holds;
