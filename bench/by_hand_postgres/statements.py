"""The SQL of the three variants."""

from __future__ import annotations

from typing import Final

RECALL: Final = "select fingerprint, outcome from operations where tenant = %(tenant)s and id = %(op)s"
READ: Final = """
select p.total, p.held, p.consumed, p.fence, p.slot, p.version, o.fingerprint, o.outcome
from pools p left join operations o on o.tenant = %(tenant)s and o.id = %(op)s
where p.tenant = %(tenant)s and p.id = %(pool)s
"""
LOCK: Final = (
    READ + "for no key update of p"
)  # read before the wait: a concurrent duplicate fails on the primary key below

# One statement writes everything: one plan instead of five, in one round trip.
WRITE: Final = """
with placed as (
    insert into holds (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version)
    values (%(tenant)s, %(id)s, 'held', %(deadline)s, true, %(legs)s, %(owner_hash)s, %(fence)s, %(now)s, 1)
), leg as (
    insert into legs values (%(tenant)s, %(pool)s, %(deadline)s, %(id)s, %(quantity)s)
), noted as (
    insert into journal (lane, tenant, subject, body) values (0, %(tenant)s, %(id)s, %(body)s)
), remembered as (
    insert into operations values (%(tenant)s, %(op)s, %(fingerprint)s, %(now)s, %(outcome)s)
)
update pools set held = %(held)s, fence = %(fence)s, slot = %(slot)s, version = version + 1
where tenant = %(tenant)s and id = %(pool)s
"""

# The same with the check inside. Of two concurrent calls with one operation id, the second fails on the primary key and retries.
TAKE: Final = """
with took as (
    update pools set held = held + %(quantity)s, fence = fence + 1, slot = greatest(slot, %(now)s), version = version + 1
    where tenant = %(tenant)s and id = %(pool)s and total - held - consumed >= %(quantity)s
      and not exists (select from operations where tenant = %(tenant)s and id = %(op)s)
    returning total, held, consumed, fence, slot, version
), placed as (
    insert into holds (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version)
    select %(tenant)s, %(id)s, 'held', %(deadline)s, true, %(legs)s, %(owner_hash)s, fence, %(now)s, 1 from took
), leg as (
    insert into legs select %(tenant)s, %(pool)s, %(deadline)s, %(id)s, %(quantity)s from took
), noted as (
    insert into journal (lane, tenant, subject, body)
    select 0, %(tenant)s, %(id)s, json_build_object(
        'slot', %(now)s, 'action', 'hold.held', 'subject', %(id)s::text,
        'effects', json_build_array(json_build_object('pool', json_build_object(
            'tenant', %(tenant)s::text, 'id', %(pool)s::text, 'total', total, 'held', held, 'consumed', consumed,
            'fence', fence, 'slot', slot, 'version', version), 'held', %(quantity)s)),
        'hold', json_build_object(
            'tenant', %(tenant)s::text, 'id', %(id)s::text, 'legs', %(legs)s::json, 'owner_hash', %(owner_hash)s::text,
            'held_at', %(now)s, 'fence', fence, 'deadline', %(deadline)s))::text
    from took
), remembered as (
    insert into operations
    select %(tenant)s, %(op)s, %(fingerprint)s, %(now)s, json_build_array(
        %(id)s::text, %(token)s::text, %(deadline)s, fence, %(pool)s::text, %(quantity)s)::text
    from took
)
select fence from took
"""

# The end of a hold: nobody else may have ended it, and the caller must be its owner.
CONFIRM: Final = """
with ended as (
    update holds set state = 'confirmed', open = false, ended_at = %(now)s, entity = %(entity)s, last_op = %(op)s,
           version = version + 1
    where tenant = %(tenant)s and id = %(id)s and owner_hash = %(owner_hash)s and state = 'held' and deadline > %(now)s
      and not exists (select from operations where tenant = %(tenant)s and id = %(op)s)
    returning legs, fence, held_at, deadline, version
), gone as (
    delete from legs using ended
    where legs.tenant = %(tenant)s and legs.pool = %(pool)s and legs.deadline = ended.deadline and legs.hold = %(id)s
), moved as (
    update pools set held = held - %(quantity)s, consumed = consumed + %(quantity)s, slot = greatest(slot, %(now)s),
           version = pools.version + 1
    from ended where tenant = %(tenant)s and id = %(pool)s
    returning total, held, consumed, pools.fence, slot, pools.version
), noted as (
    insert into journal (lane, tenant, subject, body)
    select 0, %(tenant)s, %(id)s, json_build_object(
        'slot', %(now)s, 'action', 'hold.confirmed', 'subject', %(id)s::text,
        'effects', json_build_array(json_build_object('pool', json_build_object(
            'tenant', %(tenant)s::text, 'id', %(pool)s::text, 'total', total, 'held', held, 'consumed', consumed,
            'fence', moved.fence, 'slot', slot, 'version', moved.version),
            'held', -%(quantity)s, 'consumed', %(quantity)s)),
        'hold', json_build_object(
            'tenant', %(tenant)s::text, 'id', %(id)s::text, 'legs', legs::json, 'owner_hash', %(owner_hash)s::text,
            'held_at', held_at, 'fence', ended.fence, 'deadline', deadline, 'state', 'confirmed', 'ended_at', %(now)s,
            'entity', %(entity)s::text))::text
    from ended, moved
), remembered as (
    insert into operations
    select %(tenant)s, %(op)s, %(fingerprint)s, %(now)s, json_build_array(
        %(id)s::text, %(token)s::text, deadline, fence, %(pool)s::text, %(quantity)s)::text
    from ended
)
select version from ended
"""
ORDERS: Final = "create table if not exists orders (id text primary key, hold text)"
ORDER: Final = "insert into orders values (%s, %s)"
