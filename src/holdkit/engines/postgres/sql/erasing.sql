-- What an erasure searches, locks and rewrites.

-- name: count_rewrite
-- First in every transaction that rewrites entries: one at a time.
update holdkit.settings s set value = (s.value::bigint + 1)::text where s.name = 'rewrites'

-- name: read_rewrites
-- How many transactions have rewritten entries.
select s.value::bigint from holdkit.settings s where s.name = 'rewrites'

-- name: lock_rewrites
-- How many transactions have rewritten entries; none can until this transaction ends. One row.
select s.value::bigint from holdkit.settings s where s.name = 'rewrites' for share

-- name: read_erasures
-- Those that have begun and not ended.
select s.name, s.value from holdkit.settings s where starts_with(s.name, 'erasing:') order by s.name

-- name: drop_setting
-- One of them has ended.
delete from holdkit.settings s where s.name = $1::text

-- name: analyze_again
-- The statistics of columns have values of rows, among them what was erased. Tables that were never analyzed have none, and stay so.
do $$
declare
    analyzed regclass;
begin
    for analyzed in
        select c.oid
        from pg_catalog.pg_class p join pg_catalog.pg_namespace n on n.oid = p.relnamespace
        join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relkind = 'r'
        where p.oid = 'holdkit.pools'::regclass
          and exists (select from pg_catalog.pg_stats s where s.schemaname = n.nspname and s.tablename = c.relname)
    loop
        execute format('analyze %s', analyzed);
    end loop;
end $$

-- name: find_pool_users
-- The other transactions that have locked pools, or tried to: as a text that no later transaction has.
select l.virtualtransaction
from pg_locks l
where l.locktype = 'relation' and l.relation = 'holdkit.pools'::regclass and l.mode in ('RowShareLock', 'RowExclusiveLock')
  and l.database = (select d.oid from pg_database d where d.datname = current_database()) and l.pid <> pg_backend_pid()

-- name: check_erased_claims
-- Behind the insert of these claims' pools: no claim that was erased is taken under the key of one of them.
select 1 / (count(*) = $4::int or not $5::bool)::int, count(*)
from unnest($1::int[], $2::text[], $3::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
where p.held + p.consumed > 0

-- name: find_texts
-- A tenant's entries in a span of a lane that contain any of these texts; of compact ones a column may have the value.
select {entry}
from holdkit.journal j
where j.lane = $1::int and j.seq > $2::bigint and j.seq <= $3::bigint and j.tenant = $4::text
  and (j.entity = any($6::text[]) or exists (select from unnest($5::text[]) t(value) where strpos(j.body, t.value) > 0))
order by j.seq

-- name: find_holds_of_entity
-- A page of holds with an entity, by the index holds_by_entity.
select {hold}
from holdkit.holds h
where h.tenant = $1::text and h.entity = $2::text and h.id > $3::uuid /* distributed: and h.lane = $lane */
order by h.id limit $4::int

-- name: find_holds_of_account
-- A page of holds with an account, by the index holds_by_account.
select {hold}
from holdkit.holds h
where h.tenant = $1::text and h.account = $2::text and h.id > $3::uuid /* distributed: and h.lane = $lane */
order by h.id limit $4::int

-- name: find_holds_of_actor
-- A page of holds with an actor: walks the primary key, each page from where the last one ended.
select {hold}
from holdkit.holds h
where (h.lane, h.tenant, h.id) > ($5::int, $1::text, $3::uuid) and h.tenant = $1 and h.actor = $2::text /* distributed: and h.lane = $lane */
order by h.lane, h.tenant, h.id limit $4::int

-- name: read_entries_about
-- Every entry about these subjects, in whatever lane; or those that contain a text.
select {entry}
from unnest($2::text[]) k(subject) cross join lateral (
    select * from holdkit.journal i where i.subject = k.subject and i.tenant = $1::text /* distributed: and i.lane = $lane */ offset 0
) j
where $3::text is null or strpos(j.body, $3) > 0

-- name: find_unnumbered_about
-- The lanes in which entries about these subjects have no number yet.
select distinct u.lane
from unnest($2::text[]) k(subject)
join holdkit.unnumbered u on u.subject = k.subject and u.tenant = $1::text /* distributed: and u.lane = $lane */

-- name: lock_whole_operations
-- A page of recorded answers that do not refer to an entry.
select o.tenant, o.id, o.fingerprint, o.until, o.outcome
from holdkit.operations o
where (o.lane, o.tenant, o.id) > ($2::int, $1::text, $3::text) and o.tenant = $1 and o.outcome is not null /* distributed: and o.lane = $lane */
order by o.lane, o.tenant, o.id limit $4::int
for no key update of o

-- name: rewrite_entries
-- Entries without what was erased, compact or whole.
with changed as (
    update holdkit.journal j
    set subject = k.subject, body = k.body, crc = k.crc, units = k.units, slot = k.slot, total = k.total, held = k.held, consumed = k.consumed,
        loose = k.loose, floor = k.floor, last_number = k.last_number, fence = k.fence, version = k.version, deadline = k.deadline,
        revision = k.revision, pool = k.pool, entity = k.entity, correlation_id = k.correlation_id
    from unnest($1::int[], $2::bigint[], $3::text[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
                $16::bigint[], $17::text[], $18::text[], $19::text[], $20::text[])
         k(lane, seq, body, crc, units, slot, total, held, consumed, loose, floor, last_number, fence, version, deadline, revision,
           pool, entity, correlation_id, subject)
    where j.lane = k.lane and j.seq = k.seq
    returning 1
)
select 1 / (count(*) = $21::int or not $22::bool)::int, count(*) from changed

-- name: rewrite_holds
-- Holds without what was erased.
update holdkit.holds h
set {erased_hold}
from {erased_hold_rows}
where h.lane = k.lane and h.tenant = k.tenant and h.id = k.id

-- name: rewrite_pools
-- Pools without what was erased.
update holdkit.pools p
set label = k.label, entity = k.entity
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[]) k(lane, tenant, id, label, entity)
where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id

-- name: rewrite_legs
-- The outstanding legs of an account under its stub.
update holdkit.legs l
set account = k.account
from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::text[]) k(lane, tenant, pool, deadline, hold, account)
where l.lane = k.lane and l.tenant = k.tenant and l.pool = k.pool and l.deadline = k.deadline and l.hold = k.hold

-- name: rename_pools
-- Pools under other ids, in the same lanes.
update holdkit.pools p
set id = k.new, label = k.label, entity = k.entity
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) k(lane, tenant, id, new, label, entity)
where p.lane = k.lane and p.tenant = k.tenant and p.id = k.id

-- name: rename_legs
-- Their outstanding legs.
update holdkit.legs l
set pool = k.new
from unnest($1::int[], $2::text[], $3::text[], $4::text[]) k(lane, tenant, pool, new)
where l.lane = k.lane and l.tenant = k.tenant and l.pool = k.pool

-- name: rewrite_operations
-- Recorded answers without what was erased.
update holdkit.operations o
set outcome = k.outcome, crc = k.crc
from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::int[]) k(lane, tenant, id, outcome, crc)
where o.lane = k.lane and o.tenant = k.tenant and o.id = k.id

-- name: find_seals_over
-- The seals of the runs that these entries belong to. After the entries are rewritten, so that no seal is added meanwhile.
select distinct s.lane, s.first, s.last, s.slot, s.generation, s.previous, s.digest, s.salts, s.signature, s.key_id
from unnest($1::int[], $2::bigint[]) k(lane, seq) cross join lateral (
    select * from holdkit.seals i where i.lane = k.lane and i.first <= k.seq order by i.first desc limit 1
) s
where s.last >= k.seq

-- name: rewrite_salts
-- What is left of the salts of runs.
update holdkit.seals s
set salts = k.salts
from unnest($1::int[], $2::bigint[], $3::text[]) k(lane, first, salts)
where s.lane = k.lane and s.first = k.first
