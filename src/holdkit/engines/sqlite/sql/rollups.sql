-- Statistics by interval (see engines/rollups.py).

-- name: load_rollup_position
-- up to where the journal was counted
select version, cursor from holdkit_rollup_position where id = 1

-- name: store_rollup_position
-- together with the rows of what was counted
insert or replace into holdkit_rollup_position (id, version, cursor) values (1, ?, ?)

-- name: store_rollups
-- a row with what was added to it, in place of the one before
insert or replace into holdkit_rollups (tenant, series, at, body) values (?, ?, ?, ?)

-- name: load_rollups
-- one series, the newest first
select tenant, series, at, body from holdkit_rollups
where tenant = ? and series = ? and at >= ? and at < ? order by at desc limit ?

-- name: load_rollup_interval
-- every row to which late entries of the interval are added
select tenant, series, at, body from holdkit_rollups where tenant = ? and at = ?

-- name: prune_rollups
-- what is older than the newest intervals in which a server was recording, the oldest first
delete from holdkit_rollups where (tenant, series, at) in (
    select tenant, series, at from holdkit_rollups where at < (
        select at from holdkit_rollups where tenant = '' and series = '~server' order by at desc limit 1 offset ?
    ) order by at limit ?
)
returning 1

-- name: drop_rollups
-- of a tenant that is deleted
delete from holdkit_rollups where tenant = ? returning 1
