-- Each tenant has its own fence floor, so that no tenant learns from its fences what another one has removed.

-- One row per lane and tenant that has removed pools there. A row is written under the lock of its lane's head.
create table holdkit.fence_floors (
    lane   integer not null,
    tenant text collate "C" not null,
    floor  bigint  not null,                   -- the highest fence of any pool of this lane and tenant that was removed
    primary key (lane, tenant)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_threshold = 10000);

insert into holdkit.fence_floors (lane, tenant, floor)
select j.lane, j.tenant, max((e.value -> 'pool' ->> 'fence')::bigint)
from holdkit.journal j cross join lateral json_array_elements(j.body::json -> 'effects') e(value)
where (j.body::json ->> 'removed')::boolean and (e.value -> 'pool' ->> 'fence')::bigint > 0
group by j.lane, j.tenant;

alter table holdkit.heads drop column fence_floor;
