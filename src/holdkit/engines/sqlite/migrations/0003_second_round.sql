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
