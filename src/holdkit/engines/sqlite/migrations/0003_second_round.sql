-- Pools end: an archived one grants nothing more, and is not swept away.

alter table holdkit_pools add column archived integer not null default 0;

drop index holdkit_pools_empty;
create index holdkit_pools_empty on holdkit_pools (tenant, id)
where on_demand and held = 0 and consumed = 0 and label is null and closes is null and not archived;
drop index holdkit_pools_resting;
create index holdkit_pools_resting on holdkit_pools (slot, tenant, id)
where label is not null and closes is null and on_demand and held = 0 and consumed = 0 and not archived;
drop index holdkit_pools_closing;
create index holdkit_pools_closing on holdkit_pools (closes, tenant, id) where closes is not null and not archived;

-- Consumption outlives retention: what a pool counts without a hold, and how long each ended hold is kept.

alter table holdkit_pools add column loose integer not null default 0 check (loose >= 0);   -- consumed, and its hold dropped
alter table holdkit_pools add column floor integer not null default 0;       -- the fence that it was created with

alter table holdkit_holds add column returned_at integer;
alter table holdkit_holds add column closes integer;      -- the end of its last window; null where a pool has none
alter table holdkit_holds add column kept integer;        -- once it has ended: the rule, see core/ladders/retiring.py
alter table holdkit_holds add column kept_from integer;   -- and from when that counts

drop index holdkit_holds_ended;
create index holdkit_holds_kept on holdkit_holds (kept, kept_from, id) where kept is not null;

-- An operation record keeps the end of the window that it was written under.

alter table holdkit_operations rename column slot to until;
drop index holdkit_operations_age;
create index holdkit_operations_end on holdkit_operations (until);
