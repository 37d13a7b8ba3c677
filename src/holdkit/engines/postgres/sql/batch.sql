-- What a batch locks, loads and writes. No rule is here: core.decide decides.
-- Every step that locks is a statement of its own, because a statement's snapshot is older than the locks it waits for. Keys come as
-- arrays and are joined by their whole primary key. `skip locked` is left out where a batch waits for locks (statements.py).
-- A write counts its rows and, if the last parameter is true, raises when the count is wrong: COMMIT travels in the same round trip.
-- `/* distributed: … */` is part of the statement where the tables are distributed by lane, and a comment elsewhere (statements.py).

-- part: commit_waits
-- Whether COMMIT waits for standbys, by the settings in force now.
(current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local'))

-- name: set_lock_timeout
-- How long this transaction waits for a lock.
select set_config('lock_timeout', $1::text, true)

-- name: lock_records
-- First in the lock order.
select r.tenant, r.kind, r.id, r.body, r.version, r.slot
from unnest($1::int[], $2::text[], $3::text[], $4::text[]) k(lane, tenant, kind, id)
join holdkit.records r on r.lane = k.lane and r.tenant = k.tenant and r.kind = k.kind and r.id = k.id
order by r.lane, r.tenant, r.kind, r.id
for no key update of r skip locked

-- name: find_records
-- Tells a record that is locked from one that is missing.
select r.tenant, r.kind, r.id
from unnest($1::int[], $2::text[], $3::text[], $4::text[]) k(lane, tenant, kind, id)
join holdkit.records r on r.lane = k.lane and r.tenant = k.tenant and r.kind = k.kind and r.id = k.id

-- name: lock_pools
-- The pools that are named.
select p.tenant, p.id, p.total, p.held, p.consumed, p.fence, p.slot, p.version, p.on_demand, p.label,
       p.closes, p.holder, p.entity, p.archived, p.loose, p.floor, p.waiting, p.last_number, p.children, p.per_account,
       p.line, p.stamp
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
order by p.lane, p.tenant, p.id
for no key update of p skip locked

-- name: lock_pools_of_holds
-- The pools that are named, and the pools of the holds that are named. (The pools of a hold never change.)
with wanted as materialized (
    select k.lane, k.tenant, k.id from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
    union
    select p.lane, h.tenant, p.id
    from unnest($4::int[], $5::text[], $6::uuid[]) k(lane, tenant, id)
    join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id
    cross join unnest(h.pool_lanes, h.pools) p(lane, id)
)
select p.tenant, p.id, p.total, p.held, p.consumed, p.fence, p.slot, p.version, p.on_demand, p.label,
       p.closes, p.holder, p.entity, p.archived, p.loose, p.floor, p.waiting, p.last_number, p.children, p.per_account,
       p.line, p.stamp
from wanted w join holdkit.pools p on p.lane = w.lane and p.tenant = w.tenant and p.id = w.id
order by p.lane, p.tenant, p.id
for no key update of p skip locked

-- name: find_pools
-- Tells a pool that is locked from one that is missing.
select p.tenant, p.id
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id

-- name: load_due
-- Always at least one row: the clock, read after the locks; whether any entries wait for their journal numbers; the version of the
-- limits; whether COMMIT waits for standbys, by the settings in force now. With it, the legs that are due on the named pools by each pool's
-- own time, at most $5 per pool.
select c.slot, c.unnumbered, d.tenant, d.id, d.deadline, replace(d.hold::text, '-', ''), c.version, c.synchronous
from (
    select coalesce($4::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as slot,
           exists (select from holdkit.unnumbered u /* distributed: where u.lane = $lane */) as unnumbered,
           (select s.value::bigint from holdkit.settings s where s.name = 'limits_version') as version,
           {commit_waits} as synchronous
    offset 0
) c left join lateral (
    select p.tenant, p.id, l.deadline, l.hold
    from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
    join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
    cross join lateral (
        select g.deadline, g.hold from holdkit.legs g
        where g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id
          and g.deadline > p.due_after and g.deadline <= greatest(p.slot, c.slot)
        order by g.deadline, g.hold limit $5::int
    ) l
) d on true

-- name: load_due_of_holds
-- Does the work of load_due for the named pools and for the pools of the named holds.
with wanted as materialized (
    select k.lane, k.tenant, k.id from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
    union
    select p.lane, h.tenant, p.id
    from unnest($6::int[], $7::text[], $8::uuid[]) k(lane, tenant, id)
    join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id
    cross join unnest(h.pool_lanes, h.pools) p(lane, id)
)
select c.slot, c.unnumbered, d.tenant, d.id, d.deadline, replace(d.hold::text, '-', ''), c.version, c.synchronous
from (
    select coalesce($4::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as slot,
           exists (select from holdkit.unnumbered u /* distributed: where u.lane = $lane */) as unnumbered,
           (select s.value::bigint from holdkit.settings s where s.name = 'limits_version') as version,
           {commit_waits} as synchronous
    offset 0
) c left join lateral (
    select p.tenant, p.id, l.deadline, l.hold
    from wanted k join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
    cross join lateral (
        select g.deadline, g.hold from holdkit.legs g
        where g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id
          and g.deadline > p.due_after and g.deadline <= greatest(p.slot, c.slot)
        order by g.deadline, g.hold limit $5::int
    ) l
) d on true

-- name: prove_durable
-- Where COMMIT waits for standbys: writes a log record in this transaction, so that its COMMIT waits too. Whatever this
-- transaction could see was committed at an earlier position of the log, so standbys that have this record have all of it.
select case when {commit_waits} then pg_catalog.pg_logical_emit_message(true, 'holdkit:proof', ''::text) end /* distributed: from holdkit.heads h where h.lane = $lane */

-- name: load_later_due
-- Legs that only become due by the later clock of another pool, up to $5: all of them.
select p.tenant, p.id, g.deadline, replace(g.hold::text, '-', '')
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
join holdkit.legs g on g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id
                   and g.deadline > greatest(p.slot, $4::bigint) and g.deadline <= $5::bigint

-- name: load_holds
-- After the locks, so that these are the current rows.
select {hold}
from unnest($1::int[], $2::text[], $3::uuid[]) k(lane, tenant, id)
join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id

-- name: lock_holds
-- Those that are due, and those in front of a line. A due hold may have legs on pools that others have locked: the transaction that locks
-- the hold marks it expired.
select {hold}
from unnest($1::int[], $2::text[], $3::uuid[]) k(lane, tenant, id)
join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id
order by h.lane, h.tenant, h.id
for no key update of h skip locked

-- name: load_lines
-- The first `count` holds in the line of each of these pools that ask for no more than `most` units. After the pools are locked.
select g.tenant, g.pool, g.number, replace(g.hold::text, '-', '')
from unnest($1::int[], $2::text[], $3::text[], $4::int[], $5::bigint[]) k(lane, tenant, pool, count, most)
cross join lateral (
    select l.tenant, l.pool, l.number, l.hold from holdkit.legs l
    where l.lane = k.lane and l.tenant = k.tenant and l.pool = k.pool and l.number > 0 and l.waiting <= k.most
    order by l.number limit k.count
) g

-- name: lock_lines
-- The holds that load_lines returns, found by the same legs: these cannot change while their pools are locked. A hold's lane is in the low bits of its
-- id. (As one array, the keys are looked up one by one, whatever the planner thinks of the size of these tables.)
select {hold}
from unnest(array(
    select k.tenant || g.hold from unnest($1::int[], $2::text[], $3::text[], $4::int[], $5::bigint[]) k(lane, tenant, pool, count, most)
    cross join lateral (
        select l.hold from holdkit.legs l
        where l.lane = k.lane and l.tenant = k.tenant and l.pool = k.pool and l.number > 0 and l.waiting <= k.most
        order by l.number limit k.count
    ) g
)) f(key)
join holdkit.holds h on h.lane = ('x' || right(f.key, 4))::bit(16)::int % $6::int and h.tenant = left(f.key, -36)
                    and h.id = right(f.key, 36)::uuid
order by h.lane, h.tenant, h.id
for no key update of h skip locked

-- name: load_tallies
-- What accounts use of pools. After the pools are locked.
select t.tenant, t.pool, t.account, t.used, t.loose
from unnest($1::int[], $2::text[], $3::text[], $4::text[]) k(lane, tenant, pool, account)
join holdkit.tallies t on t.lane = k.lane and t.tenant = k.tenant and t.pool = k.pool and t.account = k.account

-- name: load_floors
-- The fence floors of the tenants of pools that may be created, in the lanes of these pools.
select f.tenant, f.floor
from unnest($1::int[], $2::text[]) k(lane, tenant)
join holdkit.fence_floors f on f.lane = k.lane and f.tenant = k.tenant

-- name: load_operations
-- The answers given before. They are locked, so that answering from one writes to the log: the replay is then as durable as it
-- claims.
select o.tenant, o.id, o.fingerprint, o.until, o.outcome, o.slot, replace(o.hold::text, '-', ''), o.token
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.operations o on o.lane = k.lane and o.tenant = k.tenant and o.id = k.id
order by o.lane, o.tenant, o.id
for key share of o

-- name: load_answers
-- The entries that make up answers which refer to theirs: the one with this operation id and slot, and those whose action may answer a
-- retry (`Action.answers`). Later changes of the hold do not matter, and of earlier ones the entry has all that counts. Those of callers'
-- transactions that have no number yet come last.
select k.n, {entry}
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[]) k(lane, tenant, subject, op, slot, n)
cross join lateral (
    select i.* from (
        select o.seq, o.body, o.lane, o.tenant, o.subject, o.units, o.slot, o.total, o.held, o.consumed, o.loose, o.floor, o.last_number,
               o.fence, o.version, o.deadline, o.revision, o.pool, o.entity, o.correlation_id, 0 as later, 0 as stamp
        from holdkit.journal o where o.lane = k.lane and o.tenant = k.tenant and o.subject = k.subject
        union all
        select 0, u.body, u.lane, u.tenant, u.subject, u.units, u.slot, u.total, u.held, u.consumed, u.loose, u.floor, u.last_number,
               u.fence, u.version, u.deadline, u.revision, u.pool, u.entity, u.correlation_id, 1, u.stamp
        from holdkit.unnumbered u where u.lane = k.lane and u.tenant = k.tenant and u.subject = k.subject
    ) i
    where (i.pool is not null and i.revision is null)
       or i.body::json ->> 'action' in ({answering})
       or (coalesce(i.slot, (i.body::json ->> 'slot')::bigint) = k.slot and i.body::json ->> 'op' = k.op)
    offset 0
) j
order by k.n, j.later, j.seq, j.stamp

-- name: find_due_holds
-- The holds with due legs anywhere, earliest deadline first. Without locks.
select h.tenant, replace(h.id::text, '-', ''), h.legs, h.above, h.state
from holdkit.holds h
where h.open and h.deadline is not null
  and h.deadline <= (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint))
order by h.deadline, h.id
limit $2::int

-- name: find_retiring
-- Ended holds whose units are consumed, kept under a rule since a slot or longer. Without locks.
select h.tenant, replace(h.id::text, '-', ''), array_to_string(h.pools, e'\x1f'), h.kept_from from holdkit.holds h
where h.kept = $3::int
  and h.kept_from <= (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)) - $2::bigint
order by h.kept_from, h.id
limit $4::int

-- name: find_idle_pools
-- On-demand pools that are empty. Without locks.
select p.tenant, p.id, 0 from holdkit.pools p where p.idle order by p.tenant, p.id limit $1::int

-- name: find_rested_pools
-- Labelled on-demand pools that have been empty since a slot or longer. Without locks.
select p.tenant, p.id, p.resting from holdkit.pools p
where p.resting is not null
  and p.resting <= (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)) - $2::bigint
order by p.resting, p.tenant, p.id
limit $3::int

-- name: find_closed_pools
-- Pools whose window is over. Without locks.
select p.tenant, p.id, p.closes from holdkit.pools p
where p.closes is not null and p.held = 0 and not p.archived and p.children = 0
  and p.closes <= (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint))
order by p.closes, p.tenant, p.id
limit $2::int

-- name: find_fed_lines
-- Pools that have units for the first hold in their line, or for one of the first $1 if the line lets others pass. Without locks.
select p.tenant, p.id from holdkit.pools p
where p.waiting > 0 and not p.archived and p.held + p.consumed < p.total
  and exists (select from (
      select g.waiting from holdkit.legs g
      where g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id and g.number > 0 and g.waiting <= p.total
      order by g.number limit case when p.line = 'skip' then $1::int else 1 end
  ) f where f.waiting <= p.total - p.held - p.consumed)
order by p.lane, p.tenant, p.id
limit $2::int

-- name: count_pools
-- Only where max_pools is set.
select count(*) from holdkit.pools

-- name: count_live_holds
-- Only where max_holds is set.
select count(*) from holdkit.holds
where state in ('held', 'waiting') and (deadline is null or deadline > (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)))

-- name: count_unended_holds
-- Only where a limit is set: what only a sweep, a confirm or a release can end.
select count(*) from holdkit.holds where state in ('held', 'waiting') or open

-- name: count_consumed_holds
-- Only where max_holds is set: ended holds that are not pruned, but dropped with a journal entry.
select count(*) from holdkit.holds where kept > 0

-- name: count_operations
-- Only where max_operations is set.
select count(*) from holdkit.operations
where until > (select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint))

-- name: update_pool_settings
-- What seldom changes: when the window ends, whether the pool is archived, and its limit per account.
with moved as (
    update holdkit.pools p
    set closes = k.closes, archived = k.archived, per_account = k.per_account
    from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bool[], $6::bigint[])
         k(lane, tenant, id, closes, archived, per_account)
    where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
    returning 1
)
select 1 / (count(*) = $7::int or not $8::bool)::int, count(*) from moved

-- name: delete_pools
-- A pool was removed, or swept away.
with gone as (
    delete from holdkit.pools p
    using unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) k(lane, tenant, id, was)
    where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id and p.version = k.was
    returning 1
)
select 1 / (count(*) = $5::int or not $6::bool)::int, count(*) from gone

-- name: insert_pools
-- A pool was created.
with born as (
    insert into holdkit.pools (lane, tenant, id, total, held, consumed, fence, slot, version, on_demand, over, idle, loose,
                               holder, entity, resting, waiting, last_number, children, label, closes, archived, floor,
                               per_account, line, stamp, due_after)
    select k.lane, k.tenant, k.id, k.total, k.held, k.consumed, k.fence, k.slot, k.version, k.on_demand, k.over, k.idle,
           k.loose, k.holder, k.entity, k.resting, k.waiting, k.last_number, k.children, k.label, k.closes, k.archived,
           k.floor, k.per_account, k.line, $26::bigint, k.slot
    from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::bigint[], $10::bool[], $11::bool[], $12::bool[], $13::bigint[], $14::text[], $15::text[], $16::bigint[],
                $17::bigint[], $18::bigint[], $19::bigint[], $20::text[], $21::bigint[], $22::bool[], $23::bigint[],
                $24::bigint[], $25::text[])
         k(lane, tenant, id, total, held, consumed, fence, slot, version, on_demand, over, idle, loose, holder, entity,
           resting, waiting, last_number, children, label, closes, archived, floor, per_account, line)
    order by k.lane, k.tenant, k.id
    on conflict do nothing
    returning 1
)
select 1 / (count(*) = $27::int or not $28::bool)::int, count(*) from born

-- name: check_floors
-- A pool of the same id may have been created and removed since the fence floors were read. Now that ours is inserted, that cannot
-- happen any more.
select 1 / (count(*) = $4::int or not $5::bool)::int, count(*)
from unnest($1::int[], $2::text[], $3::bigint[]) k(lane, tenant, known)
left join holdkit.fence_floors f on f.lane = k.lane and f.tenant = k.tenant
where f.floor is null or f.floor <= k.known

-- name: update_pools
-- Update pools that no other transaction has changed since they were loaded.
with moved as (
    update holdkit.pools p
    set total = k.total, held = k.held, consumed = k.consumed, fence = k.fence, slot = k.slot, version = k.version,
        on_demand = k.on_demand, over = k.over, idle = k.idle, loose = k.loose, holder = k.holder, entity = k.entity,
        resting = k.resting, waiting = k.waiting, last_number = k.last_number, children = k.children, stamp = $20::bigint,
        due_after = greatest(p.due_after, k.due_after)
    from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::bigint[], $10::bool[], $11::bool[], $12::bool[], $13::bigint[], $14::text[], $15::text[], $16::bigint[],
                $17::bigint[], $18::bigint[], $19::bigint[], $21::bigint[], $22::bigint[])
         k(lane, tenant, id, total, held, consumed, fence, slot, version, on_demand, over, idle, loose, holder, entity,
           resting, waiting, last_number, children, was, due_after)
    where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id and p.version = k.was
    returning 1
)
select 1 / (count(*) = $23::int or not $24::bool)::int, count(*) from moved

-- name: place_holds
-- By far the commonest batch in one statement: pools whose counters change, and new holds of one leg each. (The pools are locked
-- already, so nothing here can wait but a hold's id, and the order of the parts does not matter. An id that exists raises: looking for it
-- first, as `on conflict` does, takes a fifth of the time.)
with moved as (
    update holdkit.pools p
    set total = k.total, held = k.held, consumed = k.consumed, fence = k.fence, slot = k.slot, version = k.version,
        on_demand = k.on_demand, over = k.over, idle = k.idle, loose = k.loose, stamp = $14::bigint,
        due_after = greatest(p.due_after, k.due_after)
    from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::bigint[], $10::bool[], $11::bool[], $12::bool[], $13::bigint[], $15::bigint[], $16::bigint[])
         k(lane, tenant, id, total, held, consumed, fence, slot, version, on_demand, over, idle, loose, was, due_after)
    where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id and p.version = k.was
    returning 1
), placed as materialized (
    select * from unnest($17::int[], $18::text[], $19::uuid[], $20::text[], $21::text[], $22::int[], $23::text[],
                         $24::bigint[], $25::bigint[], $26::bigint[], $27::text[], $28::text[], $29::text[], $30::text[],
                         $31::bigint[], $32::bigint[])
         k(lane, tenant, id, legs, pool, pool_lane, owner_hash, held_at, fence, deadline, entity, actor, correlation_id,
           metadata, units, closes)
), legs as (
    insert into holdkit.legs (lane, tenant, pool, deadline, hold, units)
    select k.pool_lane, k.tenant, k.pool, coalesce(k.deadline, 9223372036854775807), k.id, k.units from placed k
), born as (
    insert into holdkit.holds (lane, tenant, id, legs, pools, pool_lanes, owner_hash, held_at, fence, deadline, state, open,
                               entity, actor, correlation_id, metadata, version, closes)
    select k.lane, k.tenant, k.id, k.legs, array[k.pool], array[k.pool_lane], k.owner_hash, k.held_at, k.fence, k.deadline,
           'held', true, k.entity, k.actor, k.correlation_id, k.metadata, 1, k.closes
    from placed k
    order by k.lane, k.tenant, k.id
)
select 1 / (count(*) = $33::int)::int from moved

-- name: stamp_pools
-- In a caller's transaction every entry leaves its stamp on the pools it touched, even where their counters did not change.
update holdkit.pools p
set stamp = $4::bigint
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id

-- name: delete_holds
-- A hold whose units are consumed is dropped, with its journal entry; or the id of a retired hold is used again.
with gone as (
    delete from holdkit.holds h
    using unnest($1::int[], $2::text[], $3::uuid[], $4::bigint[]) k(lane, tenant, id, was)
    where h.lane = k.lane and h.tenant = k.tenant and h.id = k.id and h.version = k.was
    returning 1
)
select 1 / (count(*) = $5::int or not $6::bool)::int, count(*) from gone

-- name: insert_holds
-- A hold was created.
with born as (
    insert into holdkit.holds ({new_hold})
    select {new_hold_values}
    from {new_hold_rows}
    order by k.lane, k.tenant, k.id
    on conflict do nothing
    returning 1
)
select {new_holds_written} from born

-- name: update_holds
-- A hold changed or ended. What never changes is not written again.
with changed as (
    update holdkit.holds h
    set {changed_hold}
    from {changed_hold_rows}
    where h.lane = k.lane and h.tenant = k.tenant and h.id = k.id and h.version = k.was
    returning 1
)
select {changed_holds_written} from changed

-- name: delete_legs
-- Nothing is outstanding any more, or another number of units, or under another deadline.
with gone as (
    delete from holdkit.legs l
    using unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[]) k(lane, tenant, pool, deadline, hold)
    where l.lane = k.lane and l.tenant = k.tenant and l.pool = k.pool and l.deadline = k.deadline and l.hold = k.hold
    returning 1
)
select 1 / (count(*) = $6::int or not $7::bool)::int, count(*) from gone

-- name: insert_legs
-- What is outstanding.
with born as (
    insert into holdkit.legs (lane, tenant, pool, deadline, hold, units, waiting, number, account)
    select k.lane, k.tenant, k.pool, k.deadline, k.hold, k.units, k.waiting, k.number, k.account
    from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::text[])
         k(lane, tenant, pool, deadline, hold, units, waiting, number, account)
    on conflict do nothing
    returning 1
)
select 1 / (count(*) = $10::int or not $11::bool)::int, count(*) from born

-- name: insert_tallies
-- An account begins to use a pool. The pool is locked, so nothing here and in the next two can wait.
with born as (
    insert into holdkit.tallies (lane, tenant, pool, account, used, loose)
    select k.lane, k.tenant, k.pool, k.account, k.used, k.loose
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
         k(lane, tenant, pool, account, used, loose)
    order by k.lane, k.tenant, k.pool, k.account
    on conflict do nothing
    returning 1
)
select 1 / (count(*) = $7::int or not $8::bool)::int, count(*) from born

-- name: update_tallies
-- An account uses more or less of a pool than when its tally was loaded.
with changed as (
    update holdkit.tallies t
    set used = k.used, loose = k.loose
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
         k(lane, tenant, pool, account, used, loose, was_used, was_loose)
    where t.lane = k.lane and t.tenant = k.tenant and t.pool = k.pool and t.account = k.account
      and t.used = k.was_used and t.loose = k.was_loose
    returning 1
)
select 1 / (count(*) = $9::int or not $10::bool)::int, count(*) from changed

-- name: delete_tallies
-- An account uses nothing of a pool any more.
with gone as (
    delete from holdkit.tallies t
    using unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
          k(lane, tenant, pool, account, was_used, was_loose)
    where t.lane = k.lane and t.tenant = k.tenant and t.pool = k.pool and t.account = k.account
      and t.used = k.was_used and t.loose = k.was_loose
    returning 1
)
select 1 / (count(*) = $7::int or not $8::bool)::int, count(*) from gone

-- name: insert_operations
-- The answer, kept for the retry. An id that exists raises, even if its window is over: the batch then looks for it.
insert into holdkit.operations (lane, tenant, id, fingerprint, until, outcome, crc, slot, hold, token)
select k.lane, k.tenant, k.id, k.fingerprint, k.until, k.outcome, k.crc, k.slot, k.hold, k.token
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::int[], $8::bigint[], $9::uuid[],
            $10::text[])
     k(lane, tenant, id, fingerprint, until, outcome, crc, slot, hold, token)
order by k.lane, k.tenant, k.id

-- name: put_operations
-- The answer, where nothing may raise, or where the id is used again: its retry window must be over.
with put as (
    insert into holdkit.operations as o (lane, tenant, id, fingerprint, until, outcome, crc, slot, hold, token)
    select k.lane, k.tenant, k.id, k.fingerprint, k.until, k.outcome, k.crc, k.slot, k.hold, k.token
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::int[], $8::bigint[], $9::uuid[],
                $10::text[])
         k(lane, tenant, id, fingerprint, until, outcome, crc, slot, hold, token)
    order by k.lane, k.tenant, k.id
    on conflict (lane, tenant, id) do update
    set fingerprint = excluded.fingerprint, until = excluded.until, outcome = excluded.outcome, crc = excluded.crc,
        slot = excluded.slot, hold = excluded.hold, token = excluded.token
    where o.until <= $11::bigint /* distributed: or case when o.until > $11 then 1 / (o.until < 0 or not $13::bool)::int = 0 end */
    returning 1
)
select 1 / (count(*) = $12::int or not $13::bool)::int, count(*) from put

-- name: replace_operations
-- Another answer to the same request, whose caller has stopped waiting.
with changed as (
    update holdkit.operations o
    set outcome = k.outcome, crc = k.crc, slot = k.slot, hold = k.hold, token = k.token
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::int[], $8::bigint[], $9::uuid[],
                $10::text[])
         k(lane, tenant, id, fingerprint, until, outcome, crc, slot, hold, token)
    where o.lane = k.lane and o.tenant = k.tenant and o.id = k.id and o.fingerprint = k.fingerprint and o.until = k.until
    returning 1
)
select 1 / (count(*) = $11::int or not $12::bool)::int, count(*) from changed

-- name: insert_records
-- A record was created.
with born as (
    insert into holdkit.records (lane, tenant, kind, id, body, version, slot)
    select k.lane, k.tenant, k.kind, k.id, k.body, k.version, k.slot
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
         k(lane, tenant, kind, id, body, version, slot)
    order by k.lane, k.tenant, k.kind, k.id
    on conflict do nothing
    returning 1
)
select 1 / (count(*) = $8::int or not $9::bool)::int, count(*) from born

-- name: update_records
-- A record was replaced.
with changed as (
    update holdkit.records r
    set body = k.body, version = k.version, slot = k.slot
    from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
         k(lane, tenant, kind, id, body, version, slot, was)
    where r.lane = k.lane and r.tenant = k.tenant and r.kind = k.kind and r.id = k.id and r.version = k.was
    returning 1
)
select 1 / (count(*) = $9::int or not $10::bool)::int, count(*) from changed

-- name: delete_records
-- A record was removed.
with gone as (
    delete from holdkit.records r
    using unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[]) k(lane, tenant, kind, id, was)
    where r.lane = k.lane and r.tenant = k.tenant and r.kind = k.kind and r.id = k.id and r.version = k.was
    returning 1
)
select 1 / (count(*) = $6::int or not $7::bool)::int, count(*) from gone

-- name: put_limits_version
-- Beside the record of the limits: a setting that every transaction reads, whatever its lanes.
update holdkit.settings s set value = $1::text where s.name = 'limits_version'

-- name: lock_heads
-- Last of all, and in order of lane: an update of several rows would lock them in any order. Always waits, because a
-- transaction that has a head locked is about to commit.
with patience as materialized (
    select set_config('lock_timeout', $2::text, true)
)
select h.lane from patience, holdkit.heads h where h.lane = any($1::int[]) order by h.lane for no key update of h

-- name: raise_floors
-- Pools of these lanes and tenants were removed: no later pool of theirs may grant a fence that was seen. Always after the heads of
-- these lanes are locked, so that nothing here can wait.
insert into holdkit.fence_floors as o (lane, tenant, floor)
select k.lane, k.tenant, k.floor
from unnest($1::int[], $2::text[], $3::bigint[]) k(lane, tenant, floor)
order by k.lane, k.tenant
on conflict (lane, tenant) do update set floor = excluded.floor where o.floor < excluded.floor

-- name: write_journal
-- Takes numbers from the heads and inserts the entries, compact or whole. Always waits for the heads, as above.
with patience as materialized (
    select set_config('lock_timeout', $24::text, true)
), head as (
    update holdkit.heads h
    set seq = h.seq + t.own
    from patience, unnest($1::int[], $2::int[]) t(lane, own)
    where h.lane = t.lane
    returning h.lane, h.seq - t.own as before_own
), written as (
    insert into holdkit.journal (lane, seq, tenant, subject, body, crc, units, slot,
                                 total, held, consumed, loose, floor, last_number, fence, version, deadline, revision,
                                 pool, entity, correlation_id)
    select m.lane, e.before_own + m.n, m.tenant, m.subject, m.body, m.crc, m.units, m.slot, m.total, m.held,
           m.consumed, m.loose, m.floor, m.last_number, m.fence, m.version, m.deadline, m.revision, m.pool, m.entity,
           m.correlation_id
    from unnest($3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bigint[],
                $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
                $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::text[], $22::text[],
                $23::text[])
         m(lane, n, tenant, subject, body, crc, units, slot, total, held, consumed, loose, floor, last_number,
           fence, version, deadline, revision, pool, entity, correlation_id)
    join head e on e.lane = m.lane
)
select lane, before_own from head

-- name: write_journal_with_unnumbered
-- Does the work of write_journal, but first moves the entries that callers' transactions have left unnumbered, in order of stamp. Always
-- after `lock_heads`: otherwise two of these could deadlock, one with these rows locked and one with the head.
with left_over as (
    delete from holdkit.unnumbered u where u.lane = any($1::int[])
    returning u.*
), ranked as (
    select *, row_number() over (partition by lane order by stamp, batch, n) as rank from left_over
), mine as (
    select * from unnest($3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bigint[],
                         $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
                         $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::text[],
                         $22::text[], $23::text[])
                  k(lane, n, tenant, subject, body, crc, units, slot, total, held, consumed, loose, floor,
                    last_number, fence, version, deadline, revision, pool, entity, correlation_id)
), head as (
    update holdkit.heads h
    set seq = h.seq + t.own + (select count(*) from ranked r where r.lane = h.lane)
    from unnest($1::int[], $2::int[]) t(lane, own)
    where h.lane = t.lane
    returning h.lane, h.seq - t.own as before_own,
              h.seq - t.own - (select count(*) from ranked r where r.lane = h.lane) as before_all
), numbered as (
    insert into holdkit.journal (lane, seq, tenant, subject, body, crc, units, slot,
                                 total, held, consumed, loose, floor, last_number, fence, version, deadline, revision,
                                 pool, entity, correlation_id)
    select r.lane, e.before_all + r.rank, r.tenant, r.subject, r.body, r.crc, r.units, r.slot, r.total, r.held,
           r.consumed, r.loose, r.floor, r.last_number, r.fence, r.version, r.deadline, r.revision, r.pool, r.entity,
           r.correlation_id
    from ranked r join head e on e.lane = r.lane
), written as (
    insert into holdkit.journal (lane, seq, tenant, subject, body, crc, units, slot,
                                 total, held, consumed, loose, floor, last_number, fence, version, deadline, revision,
                                 pool, entity, correlation_id)
    select m.lane, e.before_own + m.n, m.tenant, m.subject, m.body, m.crc, m.units, m.slot, m.total, m.held,
           m.consumed, m.loose, m.floor, m.last_number, m.fence, m.version, m.deadline, m.revision, m.pool, m.entity,
           m.correlation_id
    from mine m join head e on e.lane = m.lane
)
select lane, before_own from head

-- name: find_positions
-- Where the entries of remembered answers are, which were written before their entries had numbers. (By the slot too: an operation
-- id may be used again after its window, and the new answer need not have an entry. `+ 0`: a plan made while the table is empty would
-- otherwise walk the lane by the primary key.)
select k.n, j.lane, j.seq
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[]) k(lane, tenant, subject, op, slot, n)
cross join lateral (
    select o.lane, o.seq from holdkit.journal o
    where o.lane = k.lane and o.tenant = k.tenant and o.subject = k.subject and o.body::json ->> 'op' = k.op
      and coalesce(o.slot, (o.body::json ->> 'slot')::bigint) = k.slot
    order by o.seq + 0 desc limit 1
) j

-- name: find_unnumbered
-- Which remembered answers have an entry that has no number yet.
select k.n
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[]) k(lane, tenant, subject, op, slot, n)
join holdkit.unnumbered u on u.lane = k.lane and u.tenant = k.tenant and u.subject = k.subject and u.body::json ->> 'op' = k.op
                         and coalesce(u.slot, (u.body::json ->> 'slot')::bigint) = k.slot

-- name: write_unnumbered
-- In a caller's transaction: the numbers come later, in order of stamp. Whatever had locked the rows that we have locked is
-- committed, and its entries are visible: ours get a later stamp, even where no pool's stamp says so (records, holds, a clock that stands
-- still).
insert into holdkit.unnumbered (lane, stamp, batch, n, tenant, subject, body, crc)
select k.lane, coalesce(b.stamp + 1, $1::bigint), $2::bigint, k.n, k.tenant, k.subject, k.body, k.crc
from unnest($3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[]) k(lane, n, tenant, subject, body, crc)
cross join lateral (select max(u.stamp) as stamp from holdkit.unnumbered u where u.lane = k.lane and u.stamp >= $1) b

-- name: prune_operations
-- Past the retry window every reader takes them for gone. Materialized: inside a nested loop the list would be evaluated again for
-- every row, each time without the rows that are deleted already.
with old as materialized (
    select p.lane, p.tenant, p.id from holdkit.operations p
    where p.until <= $1::bigint /* distributed: and p.lane = $lane */ order by p.until limit $2::int
    for update skip locked
)
delete from holdkit.operations o using old
where o.lane = old.lane and o.tenant = old.tenant and o.id = old.id

-- name: prune_holds
-- Past the retention every reader takes them for gone. Materialized, as above.
with old as materialized (
    select p.lane, p.tenant, p.id from holdkit.holds p
    where p.kept = 0 and p.kept_from <= $1::bigint /* distributed: and p.lane = $lane */
    order by p.kept_from, p.id limit $2::int
    for update skip locked
)
delete from holdkit.holds h using old
where h.lane = old.lane and h.tenant = old.tenant and h.id = old.id

-- name: make_room
-- max_holds is reached: delete ended holds without consumed units, oldest first. Their history stays in the journal.
-- Materialized, as above.
with old as materialized (
    select lane, tenant, id from holdkit.holds
    where kept = 0 order by kept_from, id
    limit greatest(0, (select count(*) from holdkit.holds) - $1::bigint)
    for update skip locked
)
delete from holdkit.holds h using old where h.lane = old.lane and h.tenant = old.tenant and h.id = old.id

-- name: notify
-- A wake-up for those who listen on these channels, and nothing more.
select pg_notify(channel, '') from unnest($1::text[]) channel

-- name: notify_followers
-- A wake-up for followers, unless there are none: each holds a lock, which we try to get for ourselves.
select pg_notify($1::text, '') where not pg_try_advisory_xact_lock(hashtextextended($1::text, 0))
