-- What archiving reads and writes, and what readers of an archived journal need.

-- name: read_archived
-- how far the journal is archived
select lane, through, slot, digest, place, edition, crc from holdkit_archived order by lane

-- name: first_referred
-- the first entry that a kept operation record refers to. (Scans the records: a window's worth of them.)
select min(seq) from holdkit_operations where seq > 0

-- name: put_archived
-- how far the journal is archived now
insert or replace into holdkit_archived (lane, through, slot, digest, place, edition, crc) values (?, ?, ?, ?, ?, ?, ?)

-- name: delete_entries
-- entries that are in a file
delete from holdkit_journal where seq > ? and seq <= ?

-- name: find_baseline
-- one row of the baseline
select kind, tenant, id, part, body from holdkit_baseline where lane = 0 and kind = ? and tenant = ? and id = ? and part = ?

-- name: load_baseline
-- the rows with these keys
select b.kind, b.tenant, b.id, b.part, b.body, b.crc
from json_each(?1) k cross join holdkit_baseline b
on b.lane = 0 and b.kind = k.value ->> 0 and b.tenant = k.value ->> 1 and b.id = k.value ->> 2 and b.part = k.value ->> 3

-- name: find_needed
-- those of these holds that are stored, or that an entry behind a number tells of
select k.value ->> 0, k.value ->> 1
from json_each(?1) k
where exists (select 1 from holdkit_holds h where h.tenant = k.value ->> 0 and h.id = k.value ->> 1)
   or exists (select 1 from holdkit_journal j where j.tenant = k.value ->> 0 and j.subject = k.value ->> 1 and j.seq > ?2)

-- name: put_baseline
-- a row of the baseline as it is now
insert or replace into holdkit_baseline (lane, kind, tenant, id, part, body, crc) values (?, ?, ?, ?, ?, ?, ?)

-- name: delete_baseline
-- a row that an entry has removed, or that nothing needs
delete from holdkit_baseline where lane = ? and kind = ? and tenant = ? and id = ? and part = ?

-- name: page_baseline
-- rows of one kind behind a key; of a tally with the body of its pool
select b.kind, b.tenant, b.id, b.part, b.body,
       (select p.body from holdkit_baseline p
        where b.kind = 'tally' and p.lane = 0 and p.kind = 'pool' and p.tenant = b.tenant and p.id = b.id and p.part = ''),
       b.crc
from holdkit_baseline b
where b.lane = 0 and b.kind = :kind and (b.tenant, b.id, b.part) > (:tenant, :id, :part)
order by b.tenant, b.id, b.part
limit :limit

-- name: page_baseline_of_tenant
-- the same for one tenant
select b.kind, b.tenant, b.id, b.part, b.body,
       (select p.body from holdkit_baseline p
        where b.kind = 'tally' and p.lane = 0 and p.kind = 'pool' and p.tenant = b.tenant and p.id = b.id and p.part = ''),
       b.crc
from holdkit_baseline b
where b.lane = 0 and b.kind = :kind and b.tenant = :tenant and (b.id, b.part) > (:id, :part)
order by b.id, b.part
limit :limit

-- name: page_unneeded
-- holds of the baseline behind a key that are neither stored nor told of by any kept entry
select b.tenant, b.id, b.body,
       exists (select 1 from holdkit_holds h where h.tenant = b.tenant and h.id = b.id)
       or exists (select 1 from holdkit_journal j where j.tenant = b.tenant and j.subject = b.id)
from holdkit_baseline b
where b.lane = 0 and b.kind = 'hold' and (b.tenant, b.id) > (?, ?)
order by b.tenant, b.id
limit ?

-- name: count_baseline
-- how many rows of the baseline are state
select count(*) from holdkit_baseline where lane = 0 and kind in ('floor', 'pool', 'tally', 'hold', 'record')

-- name: measure_baseline
-- how many rows a total counts, and the sum of their checksums
select count(*), coalesce(sum(crc), 0) from holdkit_baseline where lane = 0 and kind not in ('entry', 'total')
