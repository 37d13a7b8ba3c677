-- Each tenant has its own fence floor, so that no tenant learns from its fences what another one has removed.

create table holdkit_fence_floors (
    tenant text    primary key,
    floor  integer not null                   -- the highest fence of any pool of this tenant that was removed
) strict, without rowid;

insert into holdkit_fence_floors (tenant, floor)
select tenant, max(fence) from (
    select j.tenant as tenant, json_extract(e.value, '$.pool.fence') as fence
    from holdkit_journal j, json_each(j.body, '$.effects') e
    where json_extract(j.body, '$.removed')
) where fence > 0 group by tenant;

delete from holdkit_settings where name = 'fence_floor';
