-- Seals of the journal.

-- name: last_seals
-- the last seal of each lane
select s.lane, s.first, s.last, s.slot, s.generation, s.previous, s.digest, s.salts, s.signature, s.key_id
from (select lane, max(first) as first from holdkit_seals group by lane) k
join holdkit_seals s on s.lane = k.lane and s.first = k.first

-- name: read_seals
-- a page of seals
select lane, first, last, slot, generation, previous, digest, salts, signature, key_id
from holdkit_seals where lane = ? and first > ? order by first limit ?

-- name: add_seal
-- of several sealers, the first one's counts
insert or ignore into holdkit_seals (lane, first, last, slot, generation, previous, digest, salts, signature, key_id)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: find_seal
-- whose it was
select digest from holdkit_seals where lane = ? and first = ?
