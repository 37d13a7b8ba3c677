-- Statements for tables that are distributed by lane. They are written for several lanes, like all others; statements.py makes the form
-- that names one lane. There, an insert cannot be part of another statement, and a part of a statement that changes rows cannot call a
-- volatile function.

-- name: propagate_settings
-- What this transaction sets is set on its workers too, with their BEGIN.
set local citus.propagate_set_commands = 'local'

-- name: set_lock_timeout_to
-- How long this transaction waits for a lock, on this node and on its workers. A number replaces the 1.
set local lock_timeout = 1

-- name: pin_lane
-- The first statement in a lane; deletes nothing. From here to the end of the transaction the lane's shard cannot be moved:
-- otherwise a lane that was read before a move would be written where it was. (Citus uses the same connection, if we are connected to a
-- worker.)
delete from holdkit.unnumbered u where u.stamp < 0 /* distributed: and u.lane = $lane */

-- name: read_archived
-- Nothing is archived here, and the table is on the coordinator only, while this may be any node.
select null::int, null::bigint, null::bigint, null::text, null::text, null::int, null::bigint, false where false

-- name: find_pool_users_of_nodes
-- Finds the users of pools on every node: a transaction may have entered through any of them, and locks the tables of shards on workers. Raises if a node
-- does not answer.
select n.nodeid || ':' || u.id
from run_command_on_all_nodes($node$
    select string_agg(distinct l.virtualtransaction, ',')
    from pg_catalog.pg_locks l join pg_catalog.pg_class c on c.oid = l.relation
    join pg_catalog.pg_class p on p.oid = 'holdkit.pools'::regclass and p.relnamespace = c.relnamespace
    where l.locktype = 'relation' and c.relname ~ '^pools(_[0-9]+)?$'
      and l.mode in ('RowShareLock', 'RowExclusiveLock') and l.pid <> pg_backend_pid()
      and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
$node$) n
cross join lateral unnest(string_to_array(nullif(n.result, ''), ',')) u(id)
where 1 / n.success::int = 1

-- name: find_pools_of_holds
-- Before anything is locked. (The pools of a hold never change.)
select h.tenant, p.id
from unnest($1::int[], $2::text[], $3::uuid[]) k(lane, tenant, id)
join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id
cross join unnest(h.pools) p(id)

-- name: lock_lane_heads
-- Last of all, and in order of lane.
select h.lane from holdkit.heads h where h.lane = any($1::int[]) order by h.lane for no key update of h

-- name: take_unnumbered
-- The entries that callers' transactions have left without a number, taken by the transaction that has the head locked.
delete from holdkit.unnumbered u where u.lane = any($1::int[])
returning u.lane, u.stamp, u.batch, u.n, u.tenant, u.subject, u.body, u.crc

-- name: take_numbers
-- As many numbers as there are entries; returns the last number before the batch's own.
with head as (
    update holdkit.heads h
    set seq = h.seq + k.every
    from unnest($1::int[], $2::int[], $3::int[]) k(lane, every, own)
    where h.lane = k.lane
    returning h.lane, h.seq - k.own as before_own
)
select max(lane), max(before_own), 1 / (count(*) = 1)::int from head

-- name: write_entries
-- After `take_numbers`: `back` is how many numbers before the last one an entry is.
insert into holdkit.journal (lane, seq, tenant, subject, body, crc)
select k.lane, own.seq - k.back, k.tenant, k.subject, k.body, k.crc
from unnest($1::int[], $2::int[], $3::text[], $4::text[], $5::text[], $6::int[]) k(lane, back, tenant, subject, body, crc)

-- name: find_due_holds_by
-- The holds with due legs anywhere, earliest deadline first. Without locks.
select h.tenant, replace(h.id::text, '-', ''), h.legs, h.above, h.state
from holdkit.holds h
where h.open and h.deadline is not null and h.deadline <= $1::bigint
order by h.deadline, h.id
limit $2::int

-- name: find_retiring_by
-- Ended holds whose units are consumed, kept under a rule since a slot or longer. Without locks.
select h.tenant, replace(h.id::text, '-', ''), array_to_string(h.pools, e'\x1f'), h.kept_from from holdkit.holds h
where h.kept = $3::int and h.kept_from <= $1::bigint - $2::bigint
order by h.kept_from, h.id
limit $4::int

-- name: find_rested_pools_by
-- Labelled on-demand pools that have been empty since a slot or longer. Without locks.
select p.tenant, p.id, p.resting from holdkit.pools p
where p.resting is not null and p.resting <= $1::bigint - $2::bigint
order by p.resting, p.tenant, p.id
limit $3::int

-- name: find_closed_pools_by
-- Pools whose window is over. Without locks.
select p.tenant, p.id, p.closes from holdkit.pools p
where p.closes is not null and p.held = 0 and not p.archived and p.children = 0 and p.closes <= $1::bigint
order by p.closes, p.tenant, p.id
limit $2::int

-- name: find_fed_lines_by
-- Pools with a line and with units available. ($1 is not needed: the batch of the lane finds the holds that they fit.) Without locks.
select p.tenant, p.id from holdkit.pools p
where p.waiting > 0 and not p.archived and p.held + p.consumed < p.total and $1::int > 0
order by p.lane, p.tenant, p.id
limit $2::int

-- name: find_stale_lanes
-- Lanes with operations past the retry window. Without locks.
select o.lane from holdkit.operations o where o.until <= $1::bigint group by o.lane order by min(o.until), o.lane limit $2::int

-- name: find_retired_lanes
-- Lanes with holds past the retention. Without locks.
select h.lane from holdkit.holds h
where h.kept = 0 and h.kept_from <= $1::bigint
group by h.lane order by min(h.kept_from), h.lane limit $2::int

-- name: count_holds
-- Only where max_holds is set.
select count(*) from holdkit.holds

-- name: find_ended_holds
-- max_holds is reached: the oldest ended holds without consumed units. Without locks.
select h.lane, h.tenant, replace(h.id::text, '-', '') from holdkit.holds h
where h.kept = 0 order by h.kept_from, h.id limit $1::int

-- name: drop_ended_holds
-- Deletes them; their history stays in the journal.
delete from holdkit.holds h
using unnest($1::int[], $2::text[], $3::uuid[]) k(lane, tenant, id)
where h.lane = k.lane and h.tenant = k.tenant and h.id = k.id and h.kept = 0

-- name: read_slots
-- The latest slot of pools in other lanes than their hold.
select max(p.slot)
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id

-- name: find_prepared
-- What workers have prepared and not committed yet, on the nodes of these lanes. It may have been answered with done, and cannot
-- be seen before Citus has finished it.
select x.gid from holdkit.heads h cross join pg_prepared_xact() x where h.lane = any($1::int[]) and x.gid like 'citus\_%'
