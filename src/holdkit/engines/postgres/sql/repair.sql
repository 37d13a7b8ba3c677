-- What `repair` and `import` need besides the statements of a batch: on one server only, in one transaction, while every writer waits.

-- name: set_repair_timeouts
-- Everything is read in one transaction, which may take long.
select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '0', true)

-- name: renew_generation
-- After an import the journal is another one.
update holdkit.settings s set value = $1::text where s.name = 'generation'

-- name: lock_tables
-- Stops all writers; readers continue.
lock table holdkit.pools, holdkit.holds, holdkit.legs, holdkit.records, holdkit.journal, holdkit.unnumbered, holdkit.heads,
           holdkit.fence_floors, holdkit.tallies
in share row exclusive mode

-- name: latest_stamp
-- Later than every transaction before.
select coalesce(max(p.stamp), 0) from holdkit.pools p

-- name: drop_pools
-- In whatever lane a row was found.
delete from holdkit.pools p using unnest($1::text[], $2::text[]) k(tenant, id) where p.tenant = k.tenant and p.id = k.id

-- name: drop_holds
-- In whatever lane a row was found.
delete from holdkit.holds h using unnest($1::text[], $2::uuid[]) k(tenant, id) where h.tenant = k.tenant and h.id = k.id

-- name: drop_legs
-- In whatever lane a row was found.
delete from holdkit.legs l using unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) k(tenant, pool, deadline, hold)
where l.tenant = k.tenant and l.pool = k.pool and l.deadline = k.deadline and l.hold = k.hold

-- name: drop_tallies
-- In whatever lane a row was found.
delete from holdkit.tallies t using unnest($1::text[], $2::text[], $3::text[]) k(tenant, pool, account)
where t.tenant = k.tenant and t.pool = k.pool and t.account = k.account

-- name: drop_records
-- In whatever lane a row was found.
delete from holdkit.records r using unnest($1::text[], $2::text[], $3::text[]) k(tenant, kind, id)
where r.tenant = k.tenant and r.kind = k.kind and r.id = k.id

-- name: rescan_pools
-- Legs of pools that were written from a journal may be due already: the next scan starts from the beginning.
update holdkit.pools p set due_after = -9223372036854775808 where p.lane = any($1::int[])

-- name: drop_floors
-- In whatever lane a row was found.
delete from holdkit.fence_floors f using unnest($1::text[]) k(tenant) where f.tenant = k.tenant

-- name: is_used
-- Only an empty database can take another's journal.
select exists (select from holdkit.journal j), exists (select from holdkit.pools p), exists (select from holdkit.unnumbered u)
