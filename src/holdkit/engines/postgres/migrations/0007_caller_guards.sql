-- Entries of callers' transactions may be compact too, as in the journal (0006).

alter table holdkit.unnumbered
    add column units          bigint,
    add column slot           bigint,
    add column total          bigint,
    add column held           bigint,
    add column consumed       bigint,
    add column loose          bigint,
    add column floor          bigint,
    add column last_number    bigint,
    add column fence          bigint,
    add column version        bigint,
    add column deadline       bigint,
    add column revision       bigint,
    add column pool           text collate "C",
    add column entity         text,
    add column correlation_id text;

-- Calls in a caller's transaction, decided by a guard (core/guards.py; guarded_calls.py has the theory of operation). Every statement of
-- a function sees what was committed before it began, as statements do that are sent one by one: what is read after a lock is current.
-- A miss has written nothing. Columns are written with their table; every other name is a parameter or a variable. The cached plans
-- must not scan a table because it was small when they were made.

create function holdkit.guard_place(
    identity text, limits_version text, clock_slot bigint, retry_window bigint, batch bigint,
    lane integer, tenant text, pool text, hold uuid, units bigint, ttl bigint, legs text, owner_hash text, entity text, actor text,
    correlation_id text, metadata text, body text, crc integer, op_lane integer, op text, fingerprint text, token text, op_crc integer,
    out miss text, out clock bigint, out slot bigint, out fence bigint
) language plpgsql set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    p record;
    deadline bigint;
    stamp bigint;
begin
    if pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>) 'read committed'
       or pg_catalog.current_setting('transaction_read_only') operator(pg_catalog.<>) 'off'
       or pg_catalog.array_position(pg_catalog.current_schemas(false), 'pg_catalog') operator(pg_catalog.<>) 1
       or 2 operator(pg_catalog.<>) (select pg_catalog.count(*) from holdkit.settings s
               where (s.name operator(pg_catalog.=) 'identity' and s.value operator(pg_catalog.=) identity)
                  or (s.name operator(pg_catalog.=) 'limits_version' and s.value operator(pg_catalog.=) limits_version)) then
        miss := 'transaction';
        return;
    end if;
    select q.total, q.held, q.consumed, q.loose, q.floor, q.last_number, q.fence, q.version, q.slot, q.stamp, q.due_after, q.waiting,
           q.label is not null or q.closes is not null or q.per_account is not null or q.on_demand or q.archived or q.over
           or q.children > 0 or q.line <> 'strict' as special
    into p from holdkit.pools q where q.lane = lane and q.tenant = tenant and q.id = pool for no key update;
    if not found then
        miss := 'pool';
        return;
    end if;
    clock := coalesce(clock_slot, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    slot := greatest(p.slot, clock);
    miss := case when p.special then 'special' when p.waiting > 0 then 'line'
                 when units > p.total - p.held - p.consumed then 'capacity'
                 when exists (
        select from holdkit.legs g
        where g.lane = lane and g.tenant = tenant and g.pool = pool and g.deadline > p.due_after and g.deadline <= slot
    ) then 'due' end;
    if miss is not null then
        return;
    end if;
    deadline := slot + ttl;
    stamp := greatest(p.stamp + 1, clock);
    fence := p.fence + 1;
    update holdkit.pools q
    set held = p.held + units, fence = fence, version = p.version + 1, slot = slot, stamp = stamp, due_after = greatest(p.due_after, clock)
    where q.lane = lane and q.tenant = tenant and q.id = pool;
    insert into holdkit.holds (lane, tenant, id, legs, pools, pool_lanes, owner_hash, held_at, fence, deadline, state, open,
                               entity, actor, correlation_id, metadata, version)
    values (lane, tenant, hold, legs, array[pool], array[lane], owner_hash, slot, fence, deadline, 'held', true,
            entity, actor, correlation_id, metadata, 1);
    insert into holdkit.legs (lane, tenant, pool, deadline, hold, units)
    values (lane, tenant, pool, coalesce(deadline, 9223372036854775807), hold, units);
    if op is not null then
        insert into holdkit.operations (lane, tenant, id, fingerprint, until, slot, hold, token, crc)
        values (op_lane, tenant, op, fingerprint, least(clock, 9223372036854775807 - retry_window) + retry_window, slot, hold, token, op_crc);
    end if;
    insert into holdkit.unnumbered (lane, stamp, batch, n, tenant, subject, body, crc, units, slot, total, held, consumed, loose,
                                    floor, last_number, fence, version, deadline, pool)
    values (lane, coalesce((select max(u.stamp) + 1 from holdkit.unnumbered u where u.lane = lane and u.stamp >= stamp), stamp), batch, 1,
            tenant, replace(hold::text, '-', ''), body, crc, units, slot, p.total, p.held + units, p.consumed, nullif(p.loose, 0),
            nullif(p.floor, 0), nullif(p.last_number, 0), fence, p.version + 1, deadline, pool);
end
$$;

create function holdkit.guard_end(
    identity text, limits_version text, clock_slot bigint, retry_window bigint, batch bigint,
    lane integer, tenant text, hold uuid, confirmed boolean, owner_hash text, given_entity text, reason text, last_op text,
    body text, crc integer, op_lane integer, op text, fingerprint text, op_crc integer,
    out miss text, out clock bigint, out slot bigint, out fence bigint, out pool text, out units bigint, out held_at bigint,
    out deadline bigint, out entity text, out actor text, out correlation_id text, out metadata text, out version bigint
) language plpgsql set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    p record;
    stem text;
    stamp bigint;
    spent bigint;
begin
    if pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>) 'read committed'
       or pg_catalog.current_setting('transaction_read_only') operator(pg_catalog.<>) 'off'
       or pg_catalog.array_position(pg_catalog.current_schemas(false), 'pg_catalog') operator(pg_catalog.<>) 1
       or 2 operator(pg_catalog.<>) (select pg_catalog.count(*) from holdkit.settings s
               where (s.name operator(pg_catalog.=) 'identity' and s.value operator(pg_catalog.=) identity)
                  or (s.name operator(pg_catalog.=) 'limits_version' and s.value operator(pg_catalog.=) limits_version)) then
        miss := 'transaction';
        return;
    end if;
    select h.pools[1] into pool from holdkit.holds h
    where h.lane = lane and h.tenant = tenant and h.id = hold and h.state = 'held' and cardinality(h.pools) = 1
      and h.pool_lanes[1] = h.lane;
    if not found then
        miss := 'hold';
        return;
    end if;
    select q.total, q.held, q.consumed, q.loose, q.floor, q.last_number, q.fence, q.version, q.slot, q.stamp, q.due_after, q.waiting,
           q.label is not null or q.closes is not null or q.per_account is not null or q.on_demand or q.archived or q.over
           or q.children > 0 or q.line <> 'strict' as special
    into p from holdkit.pools q where q.lane = lane and q.tenant = tenant and q.id = pool for no key update;
    if not found then
        miss := 'pool';
        return;
    end if;
    clock := coalesce(clock_slot, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    slot := greatest(p.slot, clock);
    miss := case when p.special then 'special' when p.waiting > 0 then 'line'
                 when exists (
        select from holdkit.legs g
        where g.lane = lane and g.tenant = tenant and g.pool = pool and g.deadline > p.due_after and g.deadline <= slot
    ) then 'due' end;
    if miss is not null then
        return;
    end if;
    select g.units, h.fence, h.held_at, h.deadline, h.entity, h.actor, h.correlation_id, h.metadata, h.version,
           left(h.legs, -length(',"held":' || g.units || '}]'))
    into units, fence, held_at, deadline, entity, actor, correlation_id, metadata, version, stem
    from holdkit.holds h
    join holdkit.legs g on g.lane = h.lane and g.tenant = h.tenant and g.pool = pool
                       and g.deadline = coalesce(h.deadline, 9223372036854775807) and g.hold = h.id
    where h.lane = lane and h.tenant = tenant and h.id = hold and h.state = 'held' and h.owner_hash = owner_hash
      and cardinality(h.pools) = 1 and h.account is null and h.above is null and h.number is null and h.closes is null
      and h.reason is null and h.last_op is null and h.returned_at is null and h.fence > p.floor
      and (h.deadline is null or h.deadline > slot) and h.legs like '%,"quantity":' || g.units || ',"held":' || g.units || '}]';
    if not found then
        miss := 'hold';
        return;
    end if;
    stamp := greatest(p.stamp + 1, clock);
    spent := case when confirmed then units else 0 end;
    update holdkit.pools q
    set held = p.held - units, consumed = p.consumed + spent, version = p.version + 1, slot = slot, stamp = stamp,
        due_after = greatest(p.due_after, clock)
    where q.lane = lane and q.tenant = tenant and q.id = pool;
    update holdkit.holds h
    set state = case when confirmed then 'confirmed' else 'released' end, open = false,
        legs = stem || case when confirmed then ',"confirmed":' || units || '}]' else '}]' end, ended_at = slot,
        entity = coalesce(given_entity, entity), reason = reason, last_op = last_op, version = version + 1,
        kept = case when confirmed then 2 else 0 end, kept_from = slot
    where h.lane = lane and h.tenant = tenant and h.id = hold;
    delete from holdkit.legs g
    where g.lane = lane and g.tenant = tenant and g.pool = pool and g.deadline = coalesce(deadline, 9223372036854775807)
      and g.hold = hold;
    if op is not null then
        insert into holdkit.operations (lane, tenant, id, fingerprint, until, slot, hold, token, crc)
        values (op_lane, tenant, op, fingerprint, least(clock, 9223372036854775807 - retry_window) + retry_window, slot, hold, null, op_crc);
    end if;
    insert into holdkit.unnumbered (lane, stamp, batch, n, tenant, subject, body, crc, units, slot, total, held, consumed, loose,
                                    floor, last_number, fence, version, deadline, revision, pool, entity)
    values (lane, coalesce((select max(u.stamp) + 1 from holdkit.unnumbered u where u.lane = lane and u.stamp >= stamp), stamp), batch, 1,
            tenant, replace(hold::text, '-', ''), body, crc, units, slot, p.total, p.held - units, p.consumed + spent, nullif(p.loose, 0),
            nullif(p.floor, 0), nullif(p.last_number, 0), p.fence, p.version + 1, deadline, version + 1, pool,
            coalesce(given_entity, entity));
end
$$;
