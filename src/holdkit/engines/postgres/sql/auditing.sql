-- What `verify` reads, in one snapshot.

-- name: begin_snapshot
-- everything below sees the same moment; it only reads
begin isolation level repeatable read read only

-- name: audit_journal
-- a stretch of a lane's entries, with their columns and checksum
select j.seq, j.tenant, j.subject, j.body, j.crc from holdkit.journal j
where j.lane = $1::int and j.seq > $2::bigint order by j.seq limit $3::int

-- name: audit_unnumbered
-- a lane's entries that have no number yet
select 0, u.tenant, u.subject, u.body, u.crc from holdkit.unnumbered u
where u.lane = $1::int order by u.stamp, u.batch, u.n

-- name: audit_heads
-- every lane's last number and fence floor
select h.lane, h.seq, h.fence_floor from holdkit.heads h order by h.lane

-- name: audit_pools
-- every pool, and the columns that are derived
select tenant, id, total, held, consumed, fence, slot, version, on_demand, label, closes, holder, entity, over, idle,
       lane, due_after, resting
from holdkit.pools order by lane, tenant, id

-- name: audit_holds
-- every hold, and the columns that are derived
select tenant, replace(id::text, '-', ''), legs, owner_hash, held_at, fence, deadline, state, entity, ended_at, reason, actor,
       correlation_id, metadata, last_op, version, open, lane, array_to_string(pools, e'\x1f'),
       array_to_string(pool_lanes, ',')
from holdkit.holds order by lane, tenant, id

-- name: audit_legs
-- every outstanding leg
select tenant, pool, deadline, replace(hold::text, '-', ''), units, lane from holdkit.legs
order by lane, tenant, pool, deadline, hold

-- name: audit_operations
-- every remembered answer with its checksum
select tenant, id, fingerprint, slot, outcome, crc, lane from holdkit.operations order by lane, tenant, id

-- name: audit_records
-- every record
select tenant, kind, id, body, version, slot, lane from holdkit.records order by lane, tenant, kind, id
