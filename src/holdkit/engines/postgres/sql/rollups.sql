-- Statistics by interval (see engines/rollups.py). Not where the tables are distributed.

-- name: load_rollup_position
select version, cursor from holdkit.rollup_position where id = 1

-- name: insert_rollup_position
-- The first time; no row: another process was faster.
insert into holdkit.rollup_position (id, version, cursor) values (1, 1, $1::text) on conflict do nothing returning version

-- name: move_rollup_position
-- In place of the version that was seen; no row: another process has moved it.
update holdkit.rollup_position set version = version + 1, cursor = $2::text where id = 1 and version = $1::bigint returning version

-- name: store_rollups
-- A row of the same interval is replaced.
insert into holdkit.rollups (tenant, series, at, body)
select r.tenant, r.series, r.at, r.body
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) r(tenant, series, at, body)
on conflict (tenant, series, at) do update set body = excluded.body

-- name: load_rollups
-- One series, the newest first.
select tenant, series, at, body from holdkit.rollups
where tenant = $1::text and series = $2::text and at >= $3::bigint and at < $4::bigint order by at desc limit $5::bigint

-- name: load_rollup_interval
select tenant, series, at, body from holdkit.rollups where tenant = $1::text and at = $2::bigint

-- name: prune_rollups
-- What is older than the newest intervals in which a server was recording, the oldest first.
delete from holdkit.rollups where (tenant, series, at) in (
    select tenant, series, at from holdkit.rollups where at < (
        select at from holdkit.rollups where tenant = '' and series = '~server' order by at desc limit 1 offset $1::bigint
    ) order by at limit $2::bigint
)
returning 1

-- name: drop_rollups
-- Of a tenant that is deleted.
delete from holdkit.rollups where tenant = $1::text returning 1
