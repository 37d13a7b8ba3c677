-- An archived pool grants nothing more, and is not swept away.

alter table holdkit.pools add column archived boolean not null default false;

-- Consumption outlives retention: units that a pool counts without a hold, and how long each ended hold is kept.

alter table holdkit.pools
    add column loose bigint not null default 0 check (loose >= 0),  -- units consumed by holds that were dropped
    add column floor bigint not null default 0;                     -- the fence that it was created with

alter table holdkit.holds
    add column returned_at bigint,
    add column closes      bigint,             -- the end of its last window; null where a pool has none
    add column kept        integer,            -- once it has ended: the rule, see core/ladders/retiring.py
    add column kept_from   bigint;             -- and from when the rule counts

drop index holdkit.holds_ended;
create index holds_kept on holdkit.holds (kept, kept_from, id) where kept is not null;

create or replace view holdkit.pools_readable as
select tenant, id, total, held, consumed, greatest(0, total - held - consumed) as available, over, on_demand, fence,
       to_timestamp(slot / 1e6) as changed_at, lane, version, label, to_timestamp(closes / 1e6) as closes, holder, entity,
       archived, loose
from holdkit.pools;

-- An operation record stores the end of the retry window that it was written under.

alter table holdkit.operations rename column slot to until;
alter index holdkit.operations_age rename to operations_end;
