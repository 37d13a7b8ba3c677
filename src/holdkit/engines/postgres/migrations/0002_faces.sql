-- What faces store with a pool: its label, when its window ends, and its last hold and entity.

alter table holdkit.pools
    add column label   text,
    add column closes  bigint,                 -- from then on it is removed as soon as nothing is held
    add column holder  text,                   -- of a labelled pool: the last hold granted on it
    add column entity  text collate "C",       -- of a labelled pool: what its last confirm linked
    add column resting bigint;                 -- of a labelled on-demand pool that is empty: its last slot

-- A window's end never changes, and the other columns only where there is a label: updates of plain pools stay heap-only.
create index pools_resting on holdkit.pools (resting, tenant, id) where resting is not null;
create index pools_closing on holdkit.pools (closes, tenant, id) where closes is not null;
create index pools_by_entity on holdkit.pools (tenant, entity, id) where entity is not null;

create or replace view holdkit.pools_readable as
select tenant, id, total, held, consumed, greatest(0, total - held - consumed) as available, over, on_demand, fence,
       to_timestamp(slot / 1e6) as changed_at, lane, version, label, to_timestamp(closes / 1e6) as closes, holder, entity
from holdkit.pools;
