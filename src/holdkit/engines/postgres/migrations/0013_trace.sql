-- Entries may have the trace context of the call that asked. It is part of the body, of whole and of compact entries. The view for
-- people shows it; and an earlier release, which would read compact entries without it, is refused by this version of the schema.

create or replace view holdkit.journal_readable as
select j.lane, j.seq, to_timestamp(coalesce(j.slot, (b.body ->> 'slot')::bigint) / 1e6) as at, b.action,
       j.tenant, j.subject, case when j.pool is not null and b.action = 'hold.expired' then 'system' else b.body ->> 'actor' end as actor,
       b.body ->> 'reason' as reason,
       case when j.pool is null then b.body else json_strip_nulls(json_build_object(
           'slot', j.slot, 'action', b.action, 'subject', j.subject, 'tenant', j.tenant,
           'effects', json_build_array(json_build_object(
               'pool', json_build_object(
                   'tenant', j.tenant, 'id', j.pool, 'total', j.total, 'held', j.held, 'consumed', j.consumed,
                   'fence', j.fence, 'slot', j.slot, 'version', j.version, 'loose', j.loose, 'floor', j.floor,
                   'last_number', j.last_number),
               'held', case when j.revision is null then j.units else -j.units end,
               'consumed', case when b.action = 'hold.confirmed' then j.units end)),
           'hold', case when j.revision is null then json_build_object(
               'tenant', j.tenant, 'id', j.subject,
               'legs', json_build_array(json_build_object('pool', j.pool, 'quantity', j.units, 'held', j.units)),
               'owner_hash', b.body -> 'owner_hash', 'held_at', j.slot, 'fence', j.fence, 'deadline', j.deadline,
               'entity', b.body -> 'entity', 'actor', b.body -> 'actor', 'correlation_id', b.body -> 'correlation_id',
               'metadata', b.body -> 'metadata') end,
           'change', case when j.revision is not null then json_build_object(
               'state', substr(b.action, 6), 'was', 'held', 'version', j.revision,
               'legs', json_build_array(json_build_object(
                   'pool', j.pool, 'quantity', j.units,
                   'confirmed', case when b.action = 'hold.confirmed' then j.units end)),
               'deadline', j.deadline, 'was_deadline', j.deadline, 'entity', j.entity,
               'ended_at', case when b.action = 'hold.expired' then j.deadline else j.slot end,
               'reason', b.body -> 'reason',
               'last_op', case when b.body ->> 'fingerprint' is not null then (b.body ->> 'fingerprint') || (b.body ->> 'op') end) end,
           'actor', case when b.action = 'hold.expired' then to_json('system'::text) else b.body -> 'actor' end,
           'correlation_id', coalesce(to_json(j.correlation_id), b.body -> 'correlation_id'),
           'reason', b.body -> 'reason', 'op', b.body -> 'op', 'forced', b.body -> 'forced',
           'client_id', b.body -> 'client_id', 'trace', b.body -> 'trace')) end as entry
from holdkit.journal j cross join lateral (
    select j.body::json as body, coalesce(j.body::json ->> 'action', 'hold.held') as action  -- the commonest is left out
) b;
