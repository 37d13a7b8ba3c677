-- Pools end: an archived one grants nothing more, and is not swept away.

alter table holdkit.pools add column archived boolean not null default false;

create or replace view holdkit.pools_readable as
select tenant, id, total, held, consumed, greatest(0, total - held - consumed) as available, over, on_demand, fence,
       to_timestamp(slot / 1e6) as changed_at, lane, version, label, to_timestamp(closes / 1e6) as closes, holder, entity,
       archived
from holdkit.pools;
