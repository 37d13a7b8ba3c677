-- Statistics by interval (see engines/rollups.py). Not where the tables are distributed.

-- name: load_rollup_position
-- How far the journal is counted.
select version, body from holdkit.rollup_position where id = 1

-- name: insert_rollup_position
-- The first time; no row: another process was faster.
insert into holdkit.rollup_position (id, version, body) values (1, 1, $1::text) on conflict do nothing returning version

-- name: move_rollup_position
-- In place of the version that was seen; no row: another process has moved it.
update holdkit.rollup_position set version = version + 1, body = $2::text where id = 1 and version = $1::bigint returning version

-- name: store_rollups
-- A row of the same interval is replaced.
insert into holdkit.rollups (step, tenant, series, at, source, body)
select r.step, r.tenant, r.series, r.at, r.source, r.body
from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[]) r(step, tenant, series, at, source, body)
on conflict (step, tenant, series, at, source) do update set body = excluded.body

-- name: load_rollups
-- One series, by time.
select step, tenant, series, at, source, body from holdkit.rollups
where step = $1::bigint and tenant = $2::text and series = $3::text and at >= $4::bigint and at < $5::bigint
order by at, source limit $6::bigint

-- name: load_last_rollup
-- The last interval of a series that has a row of the journal's, before some time.
select step, tenant, series, at, source, body from holdkit.rollups
where step = $1::bigint and tenant = $2::text and series = $3::text and at < $4::bigint and source = ''
order by at desc limit 1

-- name: prune_rollups
-- The oldest first.
delete from holdkit.rollups where (step, tenant, series, at, source) in (
    select step, tenant, series, at, source from holdkit.rollups where step = $1::bigint and at < $2::bigint order by at limit $3::bigint
)
returning 1

-- name: drop_rollups
-- Of a tenant that is deleted.
delete from holdkit.rollups where tenant = $1::text returning 1
