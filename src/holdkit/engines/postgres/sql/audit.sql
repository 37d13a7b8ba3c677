-- What `verify` reads, in one snapshot.

-- name: begin_snapshot
-- Everything below sees the same moment; it only reads.
begin isolation level repeatable read read only

-- name: disable_timeouts
-- Reading everything takes long.
select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)

-- name: audit_size
-- About how many rows there are to compare.
select count(*) from holdkit.holds

-- name: audit_journal
-- A page of a lane's entries, with their columns and checksum.
select j.seq, j.tenant, j.subject, j.body, j.crc,
       j.units, j.slot, j.total, j.held, j.consumed, j.loose, j.floor, j.last_number, j.fence, j.version, j.deadline,
       j.revision, j.pool, j.entity, j.correlation_id
from holdkit.journal j
where j.lane = $1::int and j.seq > $2::bigint order by j.seq limit $3::int

-- name: audit_unnumbered
-- A page of a lane's entries that have no number yet.
select 0, u.tenant, u.subject, u.body, u.crc,
       u.units, u.slot, u.total, u.held, u.consumed, u.loose, u.floor, u.last_number, u.fence, u.version, u.deadline,
       u.revision, u.pool, u.entity, u.correlation_id, u.stamp, u.batch, u.n
from holdkit.unnumbered u
where u.lane = $1::int and (u.stamp, u.batch, u.n) > ($2::bigint, $3::bigint, $4::int)
order by u.stamp, u.batch, u.n limit $5::int

-- name: audit_heads
-- Every lane's last number.
select h.lane, h.seq from holdkit.heads h order by h.lane

-- name: audit_floors
-- Every tenant's highest fence floor: that of a lane is lower where the tenant has removed no pool with a higher fence.
declare audit_floors no scroll cursor for
select tenant, max(floor) from holdkit.fence_floors group by tenant order by tenant

-- name: audit_pools
-- Every pool, with the columns that are derived from others.
declare audit_pools no scroll cursor for
select tenant, id, total, held, consumed, fence, slot, version, on_demand, label, closes, holder, entity, archived,
       loose, floor, waiting, last_number, children, per_account, line, over, idle, lane, due_after, resting
from holdkit.pools order by tenant, id, lane

-- name: audit_holds
-- Every hold, with the columns that are derived from others.
declare audit_holds no scroll cursor for
select {hold}, open, lane, array_to_string(pools, e'\x1f'), array_to_string(pool_lanes, ','), kept, kept_from
from holdkit.holds h order by tenant, id, lane

-- name: audit_legs
-- Every outstanding leg.
declare audit_legs no scroll cursor for
select tenant, pool, deadline, replace(hold::text, '-', ''), units, waiting, number, account, lane from holdkit.legs
order by tenant, pool, deadline, hold, lane

-- name: audit_tallies
-- What every account uses of every pool.
declare audit_tallies no scroll cursor for
select tenant, pool, account, used, loose, lane from holdkit.tallies order by tenant, pool, account, lane

-- name: audit_operations
-- Every remembered answer with its checksum.
declare audit_operations no scroll cursor for
select tenant, id, fingerprint, until, outcome, slot, replace(hold::text, '-', ''), token, crc, lane
from holdkit.operations order by tenant, id, lane

-- name: audit_records
-- Every record.
declare audit_records no scroll cursor for
select tenant, kind, id, body, version, slot, lane from holdkit.records order by tenant, kind, id, lane
