-- What archiving reads and writes, and what readers of an archived journal need. On one server only.

-- name: read_archived
-- How far each lane is archived; and whether commits wait for standbys.
select a.lane, a.through, a.slot, a.digest, a.place, a.edition, a.crc, {commit_waits} from holdkit.archived a order by a.lane

-- name: read_archivable
-- Every lane: its last number.
select h.lane, h.seq from holdkit.heads h order by h.lane

-- name: first_referred
-- The earliest slot of an entry that a kept operation record refers to. (Scans the records: a window's worth of them.)
select min(coalesce(o.slot, (o.outcome::json ->> 'slot')::bigint)) from holdkit.operations o

-- name: take_archive
-- One run at a time, for as long as the session lives.
select pg_try_advisory_lock('holdkit.archived'::regclass::oid::bigint)

-- name: release_archive
-- The run has ended.
select pg_advisory_unlock('holdkit.archived'::regclass::oid::bigint)

-- name: lock_archived
-- The row of a lane, so that it is compared and moved in one transaction.
select a.lane, a.through, a.slot, a.digest, a.place, a.edition from holdkit.archived a where a.lane = $1::int for update

-- name: put_archived
-- How far a lane is archived now.
insert into holdkit.archived (lane, through, slot, digest, place, edition, crc)
values ($1::int, $2::bigint, $3::bigint, $4::text, $5::text, $6::int, $7::bigint)
on conflict (lane) do update set through = excluded.through, slot = excluded.slot, digest = excluded.digest,
    place = excluded.place, edition = excluded.edition, crc = excluded.crc

-- name: delete_entries
-- Entries that are in a file.
delete from holdkit.journal j where j.lane = $1::int and j.seq > $2::bigint and j.seq <= $3::bigint

-- name: load_baseline
-- The rows with these keys.
select b.kind, b.tenant, b.id, b.part, b.body, b.crc
from unnest($2::text[], $3::text[], $4::text[], $5::text[]) k(kind, tenant, id, part)
join holdkit.baseline b on b.lane = $1::int and b.kind = k.kind and b.tenant = k.tenant and b.id = k.id and b.part = k.part

-- name: find_stored_holds
-- Those of these holds of a lane that are stored. (A scalar subquery is looked up by key; `exists` may become a join over all.)
select k.tenant, k.id from unnest($2::text[], $3::text[]) k(tenant, id)
where (select 1 from holdkit.holds h where h.lane = $1::int and h.tenant = k.tenant and h.id = k.id::uuid limit 1) is not null

-- name: find_told_holds
-- Those of these holds of a lane that an entry behind a number tells of, numbered or not. Asked after the other: a hold that is not stored
-- gets no entry any more.
select k.tenant, k.id from unnest($2::text[], $3::text[]) k(tenant, id)
where (
    select 1 from holdkit.journal j
    where j.subject = k.id and j.tenant = k.tenant and j.lane = $1::int and j.seq > $4::bigint limit 1
) is not null
   or (select 1 from holdkit.unnumbered u where u.lane = $1 and u.tenant = k.tenant and u.subject = k.id limit 1) is not null

-- name: put_baseline
-- Rows of the baseline as they are now.
insert into holdkit.baseline (lane, kind, tenant, id, part, body, crc)
select $1::int, k.kind, k.tenant, k.id, k.part, k.body, k.crc
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[]) k(kind, tenant, id, part, body, crc)
on conflict (lane, kind, tenant, id, part) do update set body = excluded.body, crc = excluded.crc

-- name: delete_baseline
-- Rows that an entry has removed, or that nothing needs.
delete from holdkit.baseline b using unnest($2::text[], $3::text[], $4::text[], $5::text[]) k(kind, tenant, id, part)
where b.lane = $1::int and b.kind = k.kind and b.tenant = k.tenant and b.id = k.id and b.part = k.part

-- name: page_baseline
-- Rows of one kind behind a key, of one tenant or of all; of a tally with the body of its pool.
select b.kind, b.tenant, b.id, b.part, b.body, p.body, b.crc
from holdkit.baseline b
left join holdkit.baseline p
    on b.kind = 'tally' and p.lane = b.lane and p.kind = 'pool' and p.tenant = b.tenant and p.id = b.id and p.part = ''
where b.lane = $1::int and b.kind = $2::text and (b.tenant, b.id, b.part) > ($3::text, $4::text, $5::text)
  and ($6::text is null or b.tenant = $6)
order by b.tenant, b.id, b.part
limit $7::int

-- name: measure_baseline
-- How many rows of a lane a total counts, and the sum of their checksums.
select count(*), coalesce(sum(b.crc), 0)::bigint from holdkit.baseline b where b.lane = $1::int and b.kind not in ('entry', 'total')

-- name: load_archived_holds
-- Holds whose first entries are archived, in the place of the entry that created them: for answers that refer to their entry.
select k.n, 0::bigint, json_build_object('slot', 0, 'action', 'journal.baseline', 'subject', b.id, 'tenant', b.tenant, 'hold', b.body::json)::text,
       b.lane, b.tenant, b.id, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint,
       null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::text, null::text, null::text
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[]) k(lane, tenant, subject, op, slot, n)
join holdkit.baseline b on b.lane = k.lane and b.kind = 'hold' and b.tenant = k.tenant and b.id = k.subject and b.part = ''
order by k.n
