-- The guarded batch: lock, then decide and write in one statement, for commands whose outcome is the same in every state that passes the
-- guard (core/guards.py). This is a second text of a few rules, and a property test compares it with core.decide.
-- The order of the parts comes from data flow alone: each reads a count over the one before. Pools, then holds and legs, then operations,
-- then the head of the lane, as everywhere. Counters are added to, never set. If nothing passed, COMMIT waits neither for the disk nor for
-- standbys: there is nothing to lose, and no other batch should wait for the pool meanwhile. The ordinary path then proves its answers.

-- name: guard_lock
-- The pool that a batch of places names. Notes whether it was found, because a pool that is created after this statement has looked is seen
-- by the next one, which then must not touch it. Waits no longer than $4.
with patience as materialized (
    select set_config('lock_timeout', $4::text, true)
)
select set_config('holdkit.locked', count(*)::text, true)
from (
    select from patience, holdkit.pools p where p.lane = $1::int and p.tenant = $2::text and p.id = $3::text
    for no key update of p
) l

-- name: guard_places
-- New holds of one leg each, all on one pool. `upto` is the sum of the units of a place and of those before it.
with pool as materialized (
    select p.total, p.held, p.consumed, p.loose, p.floor, p.last_number, p.fence, p.version, c.slot as clock,
           greatest(p.slot, c.slot) as now,
           case when p.label is not null or p.closes is not null or p.per_account is not null or p.on_demand or p.archived
                  or p.over or p.children > 0 or p.line <> 'strict' then 'special'
                when p.waiting > 0 then 'line'
                when (select s.value from holdkit.settings s where s.name = 'limits_version') <> $4::text then 'limits'
                when (select 1 from holdkit.unnumbered u where u.lane = $1::int limit 1) is not null then 'unnumbered'
                when (select 1 from holdkit.legs g
                      where g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id and g.deadline > p.due_after
                        and g.deadline <= greatest(p.slot, c.slot) limit 1) is not null then 'due' end as miss
    from (select coalesce($5::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as slot offset 0) c
    cross join holdkit.pools p
    where p.lane = $1 and p.tenant = $2::text and p.id = $3::text and current_setting('holdkit.locked', true) = '1'
), passed as materialized (
    select x.*, x.subject::uuid as hold, p.now + x.ttl as deadline
    from pool p
    cross join unnest($7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[],
                      $15::text[], $16::text[], $17::text[], $18::int[], $19::int[], $20::text[], $21::text[], $22::text[],
                      $23::int[]) with ordinality
         x(subject, upto, units, ttl, legs, owner_hash, entity, actor, correlation_id, metadata, body, crc, op_lane, op,
           fingerprint, token, op_crc, n)
    where p.miss is null and x.upto <= p.total - p.held - p.consumed
), total as materialized (
    select count(*) as n, max(x.upto) as units from passed x
), moved as (
    update holdkit.pools p
    set held = p.held + t.units, fence = p.fence + t.n, version = p.version + t.n, slot = k.now,
        stamp = greatest(p.stamp + 1, k.clock), due_after = greatest(p.due_after, k.clock)
    from pool k cross join total t
    where p.lane = $1 and p.tenant = $2 and p.id = $3 and t.n > 0
    returning 1
), born as (
    insert into holdkit.holds (lane, tenant, id, legs, pools, pool_lanes, owner_hash, held_at, fence, deadline, state, open,
                               entity, actor, correlation_id, metadata, version)
    select $1, $2, x.hold, x.legs, array[$3], array[$1], x.owner_hash, p.now, p.fence + x.n, x.deadline, 'held', true, x.entity,
           x.actor, x.correlation_id, x.metadata, 1
    from pool p cross join passed x
    order by x.hold
    returning 1
), owed as (
    insert into holdkit.legs (lane, tenant, pool, deadline, hold, units)
    select $1, $2, $3, coalesce(x.deadline, 9223372036854775807), x.hold, x.units from passed x
    returning 1
), stored as materialized (
    select (select count(*) from moved) as pools, (select count(*) from born) as holds, (select count(*) from owed) as legs
), kept as (
    insert into holdkit.operations (lane, tenant, id, fingerprint, until, slot, hold, token, crc)
    select x.op_lane, $2, x.op, x.fingerprint, least(p.clock, 9223372036854775807 - $6::bigint) + $6, p.now, x.hold, x.token,
           x.op_crc
    from pool p cross join stored s cross join passed x
    where x.op is not null and s.holds > 0
    order by x.op_lane, x.op
    returning 1
), head as (
    update holdkit.heads h
    set seq = h.seq + t.n
    from total t cross join (select count(*) as n from kept) k
    where h.lane = $1 and t.n > 0 and k.n >= 0
    returning h.seq - t.n as before
), written as (
    insert into holdkit.journal (lane, seq, tenant, subject, body, crc, units, slot, total, held, consumed, loose, floor,
                                 last_number, fence, version, deadline, pool)
    select $1, h.before + x.n, $2, x.subject, x.body, x.crc, x.units, p.now, p.total, p.held + x.upto, p.consumed,
           nullif(p.loose, 0), nullif(p.floor, 0), nullif(p.last_number, 0), p.fence + x.n, p.version + x.n, x.deadline, $3
    from head h cross join pool p cross join passed x
    returning 1
)
select 1 / (t.n = 0 or (s.pools = 1 and s.holds = t.n and s.legs = t.n and (select count(*) from written) = t.n))::int,
       case when p.now is null then 'pool' else p.miss end, t.n, p.clock, p.now, p.fence, (select h.before from head h),
       case when t.n = 0 then set_config('synchronous_commit', 'off', true) end
from total t cross join stored s left join pool p on true

-- name: guard_lock_pools
-- The pools that places name, and those of the holds that are to end. (The pools of a hold never change.) Notes which were found, as above.
with patience as materialized (
    select set_config('lock_timeout', $7::text, true)
), wanted as materialized (
    select k.lane, k.tenant, k.id from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
    union
    select h.lane, h.tenant, h.pools[1]
    from unnest($4::int[], $5::text[], $6::uuid[]) k(lane, tenant, id)
    join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id
    where h.state = 'held' and cardinality(h.pools) = 1 and h.pool_lanes[1] = h.lane
)
select set_config('holdkit.locked', coalesce(string_agg(concat_ws(e'\x1f', l.lane, l.tenant, l.id), e'\x1e'), ''), true)
from (
    select p.lane, p.tenant, p.id
    from patience, wanted w join holdkit.pools p on p.lane = w.lane and p.tenant = w.tenant and p.id = w.id
    order by p.lane, p.tenant, p.id
    for no key update of p
) l

-- name: guard_moves
-- New holds of one leg each, and holds of one leg that are confirmed (kind 1) or released (kind 2), on any number of pools. First of all
-- the due legs of these pools are returned, at most $4 of each. `upto` is the sum of the units of a place and of those before it on its
-- pool; what the batch releases meanwhile is left for the next. Of each command that passed a row; before them one about all.
with clock as materialized (
    select coalesce($2::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as slot
), pool as materialized (
    select p.lane, p.tenant, p.id, p.total, p.held, p.consumed, p.loose, p.floor, p.last_number, p.fence, p.version, p.due_after,
           c.slot as clock, greatest(p.slot, c.slot) as now,
           case when p.label is not null or p.closes is not null or p.per_account is not null or p.on_demand or p.archived
                  or p.over or p.children > 0 or p.line <> 'strict' then 'special'
                when p.waiting > 0 then 'line'
                when (select s.value from holdkit.settings s where s.name = 'limits_version') <> $1::text then 'limits'
                when (select 1 from holdkit.unnumbered u where u.lane = p.lane limit 1) is not null then 'unnumbered' end as miss
    from clock c
    cross join unnest(string_to_array(nullif(current_setting('holdkit.locked', true), ''), e'\x1e')) k(key)
    join holdkit.pools p on p.lane = split_part(k.key, e'\x1f', 1)::int and p.tenant = split_part(k.key, e'\x1f', 2)
                        and p.id = split_part(k.key, e'\x1f', 3)
), due as materialized (
    select p.lane, p.tenant, p.id as pool, g.deadline, g.hold, g.units, h.version, h.entity, h.correlation_id, h.stem,
           row_number() over (order by g.deadline, g.hold) as n
    from pool p
    cross join lateral (
        select g.deadline, g.hold, g.units from holdkit.legs g
        where g.lane = p.lane and g.tenant = p.tenant and g.pool = p.id and g.deadline > p.due_after and g.deadline <= p.now
        order by g.deadline, g.hold limit $4::int + 1
    ) g
    left join lateral (
        select h.version, h.entity, h.correlation_id, left(h.legs, -length(',"held":' || g.units || '}]')) as stem
        from holdkit.holds h
        where h.lane = p.lane and h.tenant = p.tenant and h.id = g.hold and h.state = 'held' and cardinality(h.pools) = 1
          and h.account is null and h.above is null and h.number is null and h.closes is null and h.reason is null
          and h.last_op is null and h.returned_at is null and h.fence > p.floor
          and h.legs like '%,"quantity":' || g.units || ',"held":' || g.units || '}]'
        offset 0
    ) h on true
    where p.miss is null
), ready as materialized (
    select p.*, coalesce(d.units, 0) as returned,
           coalesce(p.miss, case when d.n > $4 or not d.plain then 'due' end) as missed
    from pool p left join (
        select d.lane, d.tenant, d.pool, sum(d.units)::bigint as units, count(*) as n, bool_and(d.stem is not null) as plain
        from due d group by d.lane, d.tenant, d.pool
    ) d on d.lane = p.lane and d.tenant = p.tenant and d.pool = p.id
), asked as (
    select 1 as rank, x.n, x.kind, x.subject, x.subject::uuid as hold, coalesce(h.units, x.units) as units,
           case when x.kind = 0 then p.now + x.ttl else h.deadline end as deadline, x.legs, x.owner_hash,
           coalesce(x.entity, h.entity) as entity, coalesce(x.actor, h.actor) as actor,
           coalesce(x.correlation_id, h.correlation_id) as correlation_id, coalesce(x.metadata, h.metadata) as metadata, x.reason,
           x.last_op, x.body, x.crc, x.op_lane, x.op, x.fingerprint, x.token, x.op_crc, h.fence, h.held_at, h.version, h.stem, p.lane,
           p.tenant, p.id as pool, p.now, p.clock, p.total, p.held, p.consumed, p.loose, p.floor, p.last_number,
           p.fence as pool_fence, p.version as pool_version
    from unnest($5::int[], $6::int[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::text[], $13::text[],
                $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::int[], $22::int[],
                $23::text[], $24::text[], $25::text[], $26::int[], $29::bigint[]) with ordinality
         x(kind, lane, tenant, pool, subject, units, ttl, legs, owner_hash, entity, actor, correlation_id, metadata, reason,
           last_op, body, crc, op_lane, op, fingerprint, token, op_crc, upto, n)
    left join lateral (
        select h.*, g.units, left(h.legs, -length(',"held":' || g.units || '}]')) as stem
        from (
            select h.id, h.pools[1] as pool, h.deadline, h.fence, h.held_at, h.version, h.entity, h.actor, h.correlation_id, h.metadata,
                   h.legs
            from holdkit.holds h
            where x.kind > 0 and h.lane = x.lane and h.tenant = x.tenant and h.id = x.subject::uuid and h.state = 'held'
              and h.owner_hash = x.owner_hash and cardinality(h.pools) = 1 and h.pool_lanes[1] = h.lane and h.account is null
              and h.above is null and h.number is null and h.closes is null and h.reason is null and h.last_op is null
              and h.returned_at is null
            offset 0
        ) h
        cross join lateral (
            select g.units from holdkit.legs g
            where g.lane = x.lane and g.tenant = x.tenant and g.pool = h.pool
              and g.deadline = coalesce(h.deadline, 9223372036854775807) and g.hold = h.id
            offset 0
        ) g
        where h.legs like '%,"quantity":' || g.units || ',"held":' || g.units || '}]'
        offset 0
    ) h on true
    join ready p on p.lane = x.lane and p.tenant = x.tenant and p.id = case when x.kind = 0 then x.pool else h.pool end
    where p.missed is null
      and case when x.kind = 0 then x.upto <= p.total + p.returned - p.held - p.consumed
               else (h.deadline is null or h.deadline > p.now) and h.fence > p.floor end
), passed as materialized (
    select e.rank, e.n, e.kind, e.subject, e.hold, e.units, e.deadline, e.legs, e.owner_hash, e.entity, e.actor, e.correlation_id,
           e.metadata, e.reason, e.last_op, e.body, e.crc, e.op_lane, e.op, e.fingerprint, e.token, e.op_crc, e.fence, e.held_at,
           e.version, e.stem, e.lane, e.tenant, e.pool, e.now, e.clock, e.total, e.loose, e.floor, e.last_number,
           e.held + sum(case e.kind when 0 then e.units else -e.units end) over upto as held,
           e.consumed + sum(case e.kind when 1 then e.units else 0 end) over upto as consumed,
           e.pool_version + count(*) over upto as pool_version,
           e.pool_fence + count(*) filter (where e.kind = 0) over upto as pool_fence,
           row_number() over (partition by e.lane order by e.tenant, e.pool, e.rank, e.n) as number
    from (
        select * from asked
        union all
        select 0, d.n, 3, replace(d.hold::text, '-', ''), d.hold, d.units, d.deadline, null, null, d.entity, null, d.correlation_id,
               null, null, null, $27::text, $28::int, null, null, null, null, null, null, null, d.version, d.stem, p.lane, p.tenant,
               p.id, p.now, p.clock, p.total, p.held, p.consumed, p.loose, p.floor, p.last_number, p.fence, p.version
        from due d join ready p on p.lane = d.lane and p.tenant = d.tenant and p.id = d.pool and p.missed is null
    ) e
    window upto as (partition by e.lane, e.tenant, e.pool order by e.rank, e.n rows unbounded preceding)
), total as materialized (
    select x.lane, x.tenant, x.pool, x.now, x.clock, count(*) as n, count(*) filter (where x.kind = 0) as places, count(x.op) as ops,
           sum(case x.kind when 0 then x.units else -x.units end)::bigint as held,
           sum(case x.kind when 1 then x.units else 0 end)::bigint as consumed
    from passed x group by x.lane, x.tenant, x.pool, x.now, x.clock
), sums as materialized (
    select count(*) as pools, coalesce(sum(t.n), 0) as n, coalesce(sum(t.places), 0) as places, coalesce(sum(t.ops), 0) as ops
    from total t
), moved as (
    update holdkit.pools p
    set held = p.held + t.held, consumed = p.consumed + t.consumed, fence = p.fence + t.places, version = p.version + t.n,
        slot = t.now, stamp = greatest(p.stamp + 1, t.clock), due_after = greatest(p.due_after, t.clock)
    from total t
    where p.lane = t.lane and p.tenant = t.tenant and p.id = t.pool
    returning 1
), ended as (
    update holdkit.holds h
    set state = case x.kind when 1 then 'confirmed' when 2 then 'released' else 'expired' end, open = false,
        legs = x.stem || case x.kind when 1 then ',"confirmed":' || x.units || '}]' else '}]' end,
        ended_at = case x.kind when 3 then x.deadline else x.now end, entity = x.entity, reason = x.reason, last_op = x.last_op,
        version = h.version + 1, kept = case x.kind when 1 then 2 else 0 end,
        kept_from = case x.kind when 3 then x.deadline else x.now end
    from passed x
    where x.kind > 0 and h.lane = x.lane and h.tenant = x.tenant and h.id = x.hold and h.version = x.version
    returning 1
), freed as (
    delete from holdkit.legs g using passed x
    where x.kind > 0 and g.lane = x.lane and g.tenant = x.tenant and g.pool = x.pool
      and g.deadline = coalesce(x.deadline, 9223372036854775807) and g.hold = x.hold
    returning 1
), born as (
    insert into holdkit.holds (lane, tenant, id, legs, pools, pool_lanes, owner_hash, held_at, fence, deadline, state, open,
                               entity, actor, correlation_id, metadata, version)
    select x.lane, x.tenant, x.hold, x.legs, array[x.pool], array[x.lane], x.owner_hash, x.now, x.pool_fence, x.deadline, 'held', true,
           x.entity, x.actor, x.correlation_id, x.metadata, 1
    from passed x where x.kind = 0
    order by x.lane, x.tenant, x.hold
    returning 1
), owed as (
    insert into holdkit.legs (lane, tenant, pool, deadline, hold, units)
    select x.lane, x.tenant, x.pool, coalesce(x.deadline, 9223372036854775807), x.hold, x.units from passed x where x.kind = 0
    returning 1
), stored as materialized (
    select (select count(*) from moved) as pools, (select count(*) from ended) as ended, (select count(*) from freed) as freed,
           (select count(*) from born) as born, (select count(*) from owed) as owed
), kept as (
    insert into holdkit.operations (lane, tenant, id, fingerprint, until, slot, hold, token, crc)
    select x.op_lane, x.tenant, x.op, x.fingerprint, least(x.clock, 9223372036854775807 - $3::bigint) + $3, x.now, x.hold, x.token,
           x.op_crc
    from stored s cross join passed x
    where x.op is not null and s.pools > 0
    order by x.op_lane, x.tenant, x.op
    returning 1
), lanes as materialized (
    select h.lane
    from (select count(*) as n from kept) k cross join holdkit.heads h
    where k.n >= 0 and h.lane = any(array(select t.lane from total t))
    order by h.lane
    for no key update of h
), head as (
    update holdkit.heads h
    set seq = h.seq + t.n
    from (select count(*) as n from lanes) l cross join (select t.lane, sum(t.n)::bigint as n from total t group by t.lane) t
    where h.lane = t.lane and l.n > 0
    returning h.lane, h.seq - t.n as before
), written as (
    insert into holdkit.journal (lane, seq, tenant, subject, body, crc, units, slot, total, held, consumed, loose, floor,
                                 last_number, fence, version, deadline, revision, pool, entity, correlation_id)
    select x.lane, h.before + x.number, x.tenant, x.subject, x.body, x.crc, x.units, x.now, x.total, x.held, x.consumed,
           nullif(x.loose, 0), nullif(x.floor, 0), nullif(x.last_number, 0), x.pool_fence, x.pool_version, x.deadline, x.version + 1,
           x.pool, case when x.kind > 0 then x.entity end, case when x.kind = 3 then x.correlation_id end
    from head h join passed x on x.lane = h.lane
    returning 1
)
select 1 / (s.pools = t.pools and s.ended = t.n - t.places and s.freed = t.n - t.places and s.born = t.places and s.owed = t.places
            and (select count(*) from kept) = t.ops and (select count(*) from written) = t.n)::int,
       0, (select min(p.clock) from pool p), null, null, null, null, null, null, (select count(*) from passed x where x.rank = 0),
       (select string_agg(concat_ws(e'\x1f', r.tenant, r.id, r.missed), e'\x1e') from ready r where r.missed is not null), null, null,
       null, case when t.n = 0 then set_config('synchronous_commit', 'off', true) end
from stored s cross join sums t
union all
select 1, x.n, x.now, h.before + x.number, x.kind, coalesce(x.fence, x.pool_fence), x.units, x.held_at, x.deadline, x.version, x.pool,
       x.entity, x.actor, x.correlation_id, x.metadata
from passed x join head h on h.lane = x.lane
where x.rank = 1

-- name: guard_call_place
-- Places one hold in a caller's transaction: a function of the schema (migration 0007), whose plans the server keeps.
select f.miss, f.clock, f.slot, f.fence
from holdkit.guard_place($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::int, $7::text, $8::text, $9::uuid, $10::bigint,
                         $11::bigint, $12::text, $13::text, $14::text, $15::text, $16::text, $17::text, $18::text, $19::int, $20::int,
                         $21::text, $22::text, $23::text, $24::int) f

-- name: guard_call_end
-- Confirms or releases one hold in a caller's transaction.
select f.miss, f.clock, f.slot, f.fence, f.units, f.held_at, f.deadline, f.version, f.pool, f.entity, f.actor, f.correlation_id, f.metadata
from holdkit.guard_end($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::int, $7::text, $8::uuid, $9::boolean, $10::text,
                       $11::text, $12::text, $13::text, $14::text, $15::int, $16::int, $17::text, $18::text, $19::int) f
