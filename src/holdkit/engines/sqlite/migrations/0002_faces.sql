-- What faces keep of a pool: what they call it, when its window ends, who had it last and for what.

alter table holdkit_pools add column label text;
alter table holdkit_pools add column closes integer;      -- from here on it goes as soon as nothing is held
alter table holdkit_pools add column holder text;         -- of a labelled one: the last hold granted on it
alter table holdkit_pools add column entity text;         -- of a labelled one: what its last confirm linked

-- Which may be swept away: the empty at once, the labelled among them when they have rested, windows when they are over.
drop index holdkit_pools_empty;
create index holdkit_pools_empty on holdkit_pools (tenant, id)
where on_demand and held = 0 and consumed = 0 and label is null and closes is null;
create index holdkit_pools_resting on holdkit_pools (slot, tenant, id)
where label is not null and closes is null and on_demand and held = 0 and consumed = 0;
create index holdkit_pools_closing on holdkit_pools (closes, tenant, id) where closes is not null;

create index holdkit_pools_entity on holdkit_pools (tenant, entity, id) where entity is not null;
