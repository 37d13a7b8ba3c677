-- What `repair` does beside the statements of a batch: on one server only, in one transaction, while every writer waits.

-- name: set_repair_timeouts
-- a long look at everything, in one transaction
select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '0', true)

-- name: renew_generation
-- what was imported is the journal's another life
update holdkit.settings s set value = $1::text where s.name = 'generation'

-- name: lock_tables
-- nobody writes meanwhile; readers go on
lock table holdkit.pools, holdkit.holds, holdkit.legs, holdkit.records, holdkit.journal, holdkit.unnumbered, holdkit.heads
in share row exclusive mode

-- name: latest_stamp
-- behind every transaction there was
select coalesce(max(p.stamp), 0) from holdkit.pools p

-- name: drop_pools
-- in whatever lane a row was found
delete from holdkit.pools p using unnest($1::text[], $2::text[]) k(tenant, id) where p.tenant = k.tenant and p.id = k.id

-- name: drop_holds
-- in whatever lane a row was found
delete from holdkit.holds h using unnest($1::text[], $2::uuid[]) k(tenant, id) where h.tenant = k.tenant and h.id = k.id

-- name: drop_legs
-- in whatever lane a row was found
delete from holdkit.legs l using unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) k(tenant, pool, deadline, hold)
where l.tenant = k.tenant and l.pool = k.pool and l.deadline = k.deadline and l.hold = k.hold

-- name: drop_records
-- in whatever lane a row was found
delete from holdkit.records r using unnest($1::text[], $2::text[], $3::text[]) k(tenant, kind, id)
where r.tenant = k.tenant and r.kind = k.kind and r.id = k.id

-- name: rescan_pools
-- legs of pools written from a journal may be due already: the next scan begins at the beginning
update holdkit.pools p set due_after = -9223372036854775808 where p.lane = any($1::int[])

-- name: set_fence_floors
-- no later pool may grant a fence that was seen
update holdkit.heads h set fence_floor = $1::bigint

-- name: is_used
-- only an empty database can become another's copy
select exists (select from holdkit.journal j), exists (select from holdkit.pools p), exists (select from holdkit.unnumbered u)
