-- Seals of the journal.

-- name: last_seals
-- The last seal of each lane.
select distinct on (s.lane) s.lane, s.first, s.last, s.slot, s.generation, s.previous, s.digest, s.salts, s.signature, s.key_id
from holdkit.seals s order by s.lane, s.first desc

-- name: read_seals
-- A page of a lane's seals.
select s.lane, s.first, s.last, s.slot, s.generation, s.previous, s.digest, s.salts, s.signature, s.key_id
from holdkit.seals s where s.lane = $1::int and s.first > $2::bigint order by s.first limit $3::int

-- name: add_seal
-- Of several sealers, the first one's counts.
insert into holdkit.seals (lane, first, last, slot, generation, previous, digest, salts, signature, key_id)
select own.lane, k.first, k.last, k.slot, k.generation, k.previous, k.digest, k.salts, k.signature, k.key_id
from holdkit.heads own cross join (
    select $2::bigint as first, $3::bigint as last, $4::bigint as slot, $5::text as generation, $6::text as previous,
           $7::text as digest, $8::text as salts, $9::text as signature, $10::text as key_id
) k
where own.lane = $1::int
on conflict do nothing
returning first
