-- What an erasure searches and rewrites.

-- name: find_texts
-- a tenant's entries in a span of numbers that contain any of these texts
select j.seq, j.body from holdkit_journal j
where j.seq > ?1 and j.seq <= ?2 and j.tenant = ?3
  and exists (select 1 from json_each(?4) t where instr(j.body, t.value))
order by j.seq

-- name: find_marked_holds
-- a page of holds with an entity, an account or an actor
select {hold}
from holdkit_holds h
where h.tenant = ?1 and case ?2 when 'entity' then h.entity when 'account' then h.account else h.actor end = ?3 and h.id > ?4
order by h.id limit ?5

-- name: load_entries_about
-- every entry about these subjects
select j.seq, j.body from json_each(?2) k cross join holdkit_journal j on j.tenant = ?1 and j.subject = k.value order by j.seq

-- name: load_entries_at
-- entries by their numbers
select j.seq, j.body from json_each(?) k cross join holdkit_journal j on j.seq = k.value order by j.seq

-- name: load_whole_operations
-- a page of recorded answers that are stored whole
select tenant, id, fingerprint, until, outcome, seq, null from holdkit_operations
where tenant = ? and id > ? and substr(outcome, 1, 1) = '{' order by id limit ?

-- name: rewrite_entries
-- an entry without what was erased
update holdkit_journal set subject = ?, body = ?, crc = ? where seq = ?

-- name: rewrite_holds
-- a hold without what was erased
update holdkit_holds set {erased_hold} where tenant = ? and id = ?

-- name: rewrite_pools
-- a pool without what was erased
update holdkit_pools set label = ?, entity = ? where tenant = ? and id = ?

-- name: rename_pools
-- a pool under another id
update holdkit_pools set id = ?3, label = ?4, entity = ?5 where tenant = ?1 and id = ?2

-- name: rename_legs
-- its outstanding legs
update holdkit_legs set pool = ?3 where tenant = ?1 and pool = ?2

-- name: rewrite_operations
-- a recorded answer without what was erased
update holdkit_operations set outcome = ?, crc = ? where tenant = ? and id = ?

-- name: rename_account_of_legs
-- the outstanding legs of an account under its stub
update holdkit_legs set account = ?3 where tenant = ?1 and account = ?2

-- name: merge_tallies
-- the tallies of an account, added to those under its stub
insert into holdkit_tallies (tenant, pool, account, used, loose)
select tenant, pool, ?3, used, loose from holdkit_tallies where tenant = ?1 and account = ?2
on conflict (tenant, pool, account) do update set used = used + excluded.used, loose = loose + excluded.loose

-- name: find_account_tally
-- one of an account's tallies
select pool from holdkit_tallies where tenant = ? and account = ? limit 1

-- name: drop_account_tallies
-- the tallies under its name
delete from holdkit_tallies where tenant = ? and account = ?

-- name: find_seal_over
-- the seal of the run that an entry belongs to
select lane, first, last, slot, generation, previous, digest, salts, signature, key_id from holdkit_seals
where lane = 0 and first <= ?1 and last >= ?1

-- name: rewrite_salts
-- what is left of a run's salts
update holdkit_seals set salts = ? where lane = ? and first = ?
