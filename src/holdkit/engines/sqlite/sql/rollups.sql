-- Statistics by interval (see engines/rollups.py).

-- name: load_rollup_position
-- how far the journal is counted
select version, body from holdkit_rollup_position where id = 1

-- name: store_rollup_position
-- the first time, or in place of the version that was seen
insert into holdkit_rollup_position (id, version, body) values (1, ?, ?)
on conflict (id) do update set version = excluded.version, body = excluded.body

-- name: store_rollups
-- a row of the same interval is replaced
insert or replace into holdkit_rollups (step, tenant, series, at, source, body) values (?, ?, ?, ?, ?, ?)

-- name: load_rollups
-- one series, by time
select step, tenant, series, at, source, body from holdkit_rollups
where step = ? and tenant = ? and series = ? and at >= ? and at < ? order by at, source limit ?

-- name: load_last_rollup
-- the last interval of a series that has a row of the journal's, before some time
select step, tenant, series, at, source, body from holdkit_rollups
where step = ? and tenant = ? and series = ? and at < ? and source = '' order by at desc limit 1

-- name: prune_rollups
-- the oldest first
delete from holdkit_rollups where (step, tenant, series, at, source) in (
    select step, tenant, series, at, source from holdkit_rollups where step = ? and at < ? order by at limit ?
)
returning 1

-- name: drop_rollups
-- of a tenant that is deleted
delete from holdkit_rollups where tenant = ? and step in (10, 300, 3600) returning 1
