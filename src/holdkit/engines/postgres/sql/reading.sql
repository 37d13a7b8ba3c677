-- Reads. Due legs count as returned at max(clock, the pool's last slot). Nothing is written or locked.
-- A page ends at its bytes too (null: no bound): rows are left out whose predecessors exceed them, so one more comes than fits, and the
-- reader sees that there are more. octet_length reads the length of a long text from its pointer, not the text.
-- The first parameter is the slot of an injected clock, or null for the server's clock.

-- part: now
-- The time: that of an injected clock, or the server's.
(select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint))

-- part: shown_pool
-- What is read of a pool, with `due_on_pool` beside it; and whether anybody waits who could be served.
p.tenant, p.id, p.total, p.held, p.consumed, p.fence, p.slot, p.version, p.on_demand, p.label,
       p.closes, p.holder, p.entity, p.archived, p.loose, p.floor, p.waiting, p.last_number, p.children, p.per_account,
       p.line, d.units, d.waiting,
       case when p.waiting > 0 then coalesce((
           select true from holdkit.legs w
           where w.lane = p.lane and w.tenant = p.tenant and w.pool = p.id and w.number > 0 and w.waiting <= p.total
             and w.deadline > greatest(p.slot, {now})
           order by w.number limit 1), false) else false end

-- part: due_on_pool
-- The units that are due on a pool, and how many in its line whose time is over.
cross join lateral (
    select sum(l.units) as units, count(*) filter (where l.waiting > 0) as waiting from holdkit.legs l
    where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.deadline > p.due_after
      and l.deadline <= greatest(p.slot, {now})
) d

-- part: shown_hold
-- What is read of a hold: its row, the latest slot of its pools, and the version of the limits.
{hold},
       greatest({now},
                (select max(s.slot) from unnest(h.pool_lanes, h.pools) o(lane, id) cross join lateral (
                     select p.slot from holdkit.pools p where p.lane = o.lane and p.tenant = h.tenant and p.id = o.id limit 1
                 ) s)),
       (select v.value::bigint from holdkit.settings v where v.name = 'limits_version')

-- part: entry
-- What is read of an entry: its text, and the columns of a compact one (compact_entries.py).
j.seq, j.body, j.lane, j.tenant, j.subject, j.units, j.slot, j.total, j.held, j.consumed, j.loose, j.floor, j.last_number, j.fence,
       j.version, j.deadline, j.revision, j.pool, j.entity, j.correlation_id

-- name: read_pool
-- One pool; the units that are due on it, and how many in its line whose time is over; whether anybody waits who could be served.
select {shown_pool}
from holdkit.pools p
{due_on_pool}
where p.lane = $2::int and p.tenant = $3::text and p.id = $4::text

-- name: read_pools
-- A page of pools by id, lane by lane; reserved pools only if the prefix asks for them.
select {shown_pool}
from holdkit.heads h cross join lateral (
    select * from holdkit.pools o
    where o.lane = h.lane and o.tenant = $2::text and o.id > $3::text and o.id >= $4::text
      and ($5::text is null or o.id < $5) and ($6::bool or left(o.id, 1) <> '~') and ($8::bool or not o.archived)
    order by o.id limit $7::int
) p
{due_on_pool} /* distributed: where h.lane = $lane */
order by p.id
limit $7

-- name: read_tenants
-- A page of tenants that have pools, lane by lane: from one tenant to the next by the primary key, however many pools each has.
with recursive t(lane, n, tenant) as (
    select h.lane, 1, (select p.tenant from holdkit.pools p where p.lane = h.lane and p.tenant > $1::text
                       order by p.tenant limit 1)
    from holdkit.heads h /* distributed: where h.lane = $lane */
    union all
    select t.lane, t.n + 1, (select p.tenant from holdkit.pools p where p.lane = t.lane and p.tenant > t.tenant
                             order by p.tenant limit 1)
    from t where t.tenant is not null and t.n < $2::int
)
select distinct t.tenant from t where t.tenant is not null
order by t.tenant
limit $2

-- name: read_pools_by_id
-- These pools, each with its due units and the state of its line.
select {shown_pool}
from unnest($2::int[], $3::text[], $4::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
{due_on_pool}

-- name: read_available
-- The ids of those of these pools that have a unit left.
select p.id
from unnest($2::int[], $3::text[], $4::text[]) k(lane, tenant, id)
join holdkit.pools p on p.lane = k.lane and p.tenant = k.tenant and p.id = k.id
where not p.archived and p.total > p.consumed + p.held - case when p.held = 0 then 0 else coalesce(
    (select sum(l.units) from holdkit.legs l
     where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.deadline > p.due_after
       and l.deadline <= greatest(p.slot, {now})), 0) end

-- name: read_pools_of_entity
-- A page of the pools that are linked to an entity, by the index pools_by_entity.
select {shown_pool}
from holdkit.pools p
{due_on_pool}
where p.tenant = $2::text and p.entity = $3::text and p.id > $4::text and p.id >= $5::text
  and ($6::text is null or p.id < $6) and ($7::bool or left(p.id, 1) <> '~') and ($9::bool or not p.archived) /* distributed: and p.lane = $lane */
order by p.id
limit $8::int

-- name: read_heads
-- Every lane's last number: tells which lanes have new entries.
select h.lane, h.seq from holdkit.heads h order by h.lane

-- name: read_hold
-- One hold, the latest slot of its pools, and the version of the limits.
select {shown_hold}
from holdkit.holds h
where h.lane = $2::int and h.tenant = $3::text and h.id = $4::uuid

-- name: read_holds_by_id
-- These holds, each with the latest slot of its pools, and the version of the limits.
select {shown_hold}
from unnest($2::int[], $3::text[], $4::uuid[]) k(lane, tenant, id)
join holdkit.holds h on h.lane = k.lane and h.tenant = k.tenant and h.id = k.id

-- name: read_limits_version
-- Whether the limits are still those that we know.
select s.value::bigint from holdkit.settings s where s.name = 'limits_version'

-- part: fitting_hold
-- Whether the columns of a hold fit a query; on the hold as it shows the reader decides again. What has not ended may have expired.
(($4::text is null or i.state = $4 or ($4 = 'expired' and i.state in ('held', 'waiting')))
            and ($5::text is null or i.entity = $5) and ($6::text is null or i.actor = $6)
            and ($7::text is null or i.account = $7) and ($8::text is null or i.pools @> array[$8])
            and ($10::text[] is null or exists (select 1 from unnest(i.pools) n where n ^@ any ($10))))

-- name: walk_holds
-- A span of holds by id, lane by lane: those that may fit, and the last one that was read.
select replace(o.id::text, '-', ''), o.fits, o.last
from holdkit.heads d cross join lateral (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id) = $9::int as last
    from holdkit.holds i
    where i.lane = d.lane and i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid
    order by i.id limit $9
) o
where (o.fits or o.last) /* distributed: and d.lane = $lane */
order by o.id

-- name: walk_holds_back
-- A span of holds by id, newest first.
select replace(o.id::text, '-', ''), o.fits, o.last
from holdkit.heads d cross join lateral (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id desc) = $9::int as last
    from holdkit.holds i
    where i.lane = d.lane and i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid
    order by i.id desc limit $9
) o
where (o.fits or o.last) /* distributed: and d.lane = $lane */
order by o.id desc

-- name: walk_holds_of_entity
-- A span of an entity's holds, by the index holds_by_entity.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid and i.entity = $5 /* distributed: and i.lane = $lane */
    order by i.id limit $9
) o
where o.fits or o.last
order by o.id

-- name: walk_holds_of_entity_back
-- A span of an entity's holds, newest first.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id desc) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid and i.entity = $5 /* distributed: and i.lane = $lane */
    order by i.id desc limit $9
) o
where o.fits or o.last
order by o.id desc

-- name: walk_holds_of_account
-- A span of an account's holds, by the index holds_by_account.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid and i.account = $7 /* distributed: and i.lane = $lane */
    order by i.id limit $9
) o
where o.fits or o.last
order by o.id

-- name: walk_holds_of_account_back
-- A span of an account's holds, newest first.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id desc) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid and i.account = $7 /* distributed: and i.lane = $lane */
    order by i.id desc limit $9
) o
where o.fits or o.last
order by o.id desc

-- name: walk_chosen_holds
-- A span of the holds whose ids carry no time, by the index holds_chosen.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid
      and (get_byte(uuid_send(i.id), 6) >> 4 <> 7 or get_byte(uuid_send(i.id), 8) >> 6 <> 2) /* distributed: and i.lane = $lane */
    order by i.id limit $9
) o
where o.fits or o.last
order by o.id

-- name: walk_chosen_holds_back
-- A span of the holds whose ids carry no time, in descending order.
select replace(o.id::text, '-', ''), o.fits, o.last
from (
    select i.id, {fitting_hold} as fits, row_number() over (order by i.id desc) = $9::int as last
    from holdkit.holds i
    where i.tenant = $1::text and i.id >= $2::uuid and i.id <= $3::uuid
      and (get_byte(uuid_send(i.id), 6) >> 4 <> 7 or get_byte(uuid_send(i.id), 8) >> 6 <> 2) /* distributed: and i.lane = $lane */
    order by i.id desc limit $9
) o
where o.fits or o.last
order by o.id desc

-- name: read_legs_of_pool
-- The holds with anything outstanding on a pool, up to a number.
select replace(l.hold::text, '-', '') from holdkit.legs l
where l.lane = $1::int and l.tenant = $2::text and l.pool = $3::text limit $4::int

-- name: read_entities
-- A page of the entities of holds: from one to the next by holds_by_entity, however many holds each has.
with recursive e(n, entity) as (
    select 1, (select h.entity from holdkit.holds h
               where h.tenant = $1::text and h.entity is not null and h.entity > $2::text and h.entity >= $3::text
                 and ($4::text is null or h.entity < $4) /* distributed: and h.lane = $lane */
               order by h.entity limit 1)
    union all
    select e.n + 1, (select h.entity from holdkit.holds h
                     where h.tenant = $1 and h.entity is not null and h.entity > e.entity
                       and ($4 is null or h.entity < $4) /* distributed: and h.lane = $lane */
                     order by h.entity limit 1)
    from e where e.entity is not null and e.n < $5::int
)
select e.entity from e where e.entity is not null
order by e.entity

-- name: read_accounts
-- A page of the accounts that use anything: from one to the next by tallies_by_account.
with recursive a(n, account) as (
    select 1, (select t.account from holdkit.tallies t
               where t.tenant = $1::text and t.account > $2::text and t.account >= $3::text
                 and ($4::text is null or t.account < $4) /* distributed: and t.lane = $lane */
               order by t.account limit 1)
    union all
    select a.n + 1, (select t.account from holdkit.tallies t
                     where t.tenant = $1 and t.account > a.account
                       and ($4 is null or t.account < $4) /* distributed: and t.lane = $lane */
                     order by t.account limit 1)
    from a where a.account is not null and a.n < $5::int
)
select a.account from a where a.account is not null
order by a.account

-- name: count_ahead
-- Count the holds before a number in a pool's line whose time is not over, up to a limit.
select count(*)
from holdkit.pools p cross join lateral (
    select from holdkit.legs l
    where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.number > 0 and l.number < $5::bigint
      and l.deadline > greatest(p.slot, {now})
    order by l.number
    limit $6::int
) a
where p.lane = $2::int and p.tenant = $3::text and p.id = $4::text

-- name: read_line
-- The holds behind a number in a pool's line whose time is not over.
select replace(a.hold::text, '-', '')
from holdkit.pools p cross join lateral (
    select l.hold, l.number from holdkit.legs l
    where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.number > 0 and l.number > $5::bigint
      and l.deadline > greatest(p.slot, {now})
    order by l.number
    limit $6::int
) a
where p.lane = $2::int and p.tenant = $3::text and p.id = $4::text
order by a.number

-- name: next_deadline
-- The first deadline of the outstanding legs on a pool.
select l.deadline from holdkit.pools p join holdkit.legs l on l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id
where p.lane = $1::int and p.tenant = $2::text and p.id = $3::text and l.deadline > p.due_after and l.deadline < 9223372036854775807
order by l.deadline
limit 1

-- name: read_usage
-- A page of the pools in some ranges on which an account uses units: the units, those of them that are due, and the limit. At most a
-- page of each range is read.
select t.pool, t.used, p.per_account, d.units
from unnest($6::text[], $7::text[]) r (lower, upper) cross join lateral (
    select * from holdkit.tallies o
    where o.tenant = $2::text and o.account = $3::text and o.pool >= r.lower and (r.upper is null or o.pool < r.upper)
      and o.pool <> $4::text /* distributed: and o.lane = $lane */
    order by o.pool
    limit $5::int
) t
join holdkit.pools p on p.lane = t.lane and p.tenant = t.tenant and p.id = t.pool
cross join lateral (
    select sum(l.units + l.waiting) as units from holdkit.legs l
    where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.deadline > p.due_after and l.account = t.account
      and l.deadline <= greatest(p.slot, {now})
) d
order by t.pool
limit $5

-- name: read_record
-- One record.
select r.tenant, r.kind, r.id, r.body, r.version, r.slot from holdkit.records r
where r.lane = $1::int and r.tenant = $2::text and r.kind = $3::text and r.id = $4::text

-- name: read_records
-- A page of records of one kind by id, lane by lane.
select r.tenant, r.kind, r.id, r.body, r.version, r.slot
from (
    select o.*, sum(octet_length(o.body)) over (order by o.id) - octet_length(o.body) as before
    from holdkit.heads h cross join lateral (
        select * from holdkit.records i
        where i.lane = h.lane and i.tenant = $1::text and i.kind = $2::text and i.id > $3::text
        order by i.id limit $4::int
    ) o /* distributed: where h.lane = $lane */
    order by o.id
    limit $4
) r
where $5::bigint is null or r.before <= $5
order by r.id

-- name: read_journal
-- Entries after a position in each lane, of one tenant or of all; and whether commits wait for standbys. The bytes are shared by the
-- lanes: their first entries, then their second ones, and so on.
select {entry}, {commit_waits}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.n, o.lane) - octet_length(o.body) as before
    from unnest($1::int[], $2::bigint[]) k(lane, seq) cross join lateral (
        select i.*, row_number() over (order by i.seq) as n from holdkit.journal i
        where i.lane = k.lane and i.seq > k.seq and ($3::text is null or i.tenant = $3)
        order by i.seq limit $4::int
    ) o
) j
where $5::bigint is null or j.before <= $5
order by j.lane, j.seq

-- name: read_generation
-- The token that an import renews; the cluster and the table, which are new wherever a dump is restored; the timeline, which is new
-- with every promotion and recovery to a point in time. (Of the log that is being written: the control file lags behind a promotion.)
select s.value, (select c.system_identifier from pg_control_system() c), 'holdkit.settings'::regclass::oid,
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
from holdkit.settings s where s.name = 'generation'

-- name: read_generation_token
-- The token alone: where the tables are distributed, each node has its own cluster and timeline.
select s.value from holdkit.settings s where s.name = 'generation'

-- name: read_last_entries
-- The last entry of every lane. (A plain join, planned while the tables were empty, would scan the whole journal.)
select {entry}
from holdkit.heads h cross join lateral (
    select * from holdkit.journal o where o.lane = h.lane and o.seq = h.seq limit 1
) j
order by j.lane

-- name: read_entries
-- The entries at these positions.
select {entry}
from unnest($1::int[], $2::bigint[]) k(lane, seq) join holdkit.journal j on j.lane = k.lane and j.seq = k.seq
order by j.lane, j.seq

-- name: read_history
-- One subject's entries in its lane after a number, in journal order, followed by those that have no number yet.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.later, o.seq, o.stamp, o.batch, o.n) - octet_length(o.body) as before
    from (
        select i.seq, i.body, i.lane, i.tenant, i.subject, i.units, i.slot, i.total, i.held, i.consumed, i.loose, i.floor, i.last_number,
               i.fence, i.version, i.deadline, i.revision, i.pool, i.entity, i.correlation_id,
               0 as later, 0 as stamp, 0 as batch, 0 as n
        from holdkit.journal i
        where i.lane = $1::int and i.tenant = $2::text and i.subject = $3::text and i.seq > $5::bigint
        union all
        select 0, u.body, u.lane, u.tenant, u.subject, u.units, u.slot, u.total, u.held, u.consumed, u.loose, u.floor, u.last_number,
               u.fence, u.version, u.deadline, u.revision, u.pool, u.entity, u.correlation_id, 1, u.stamp, u.batch, u.n
        from holdkit.unnumbered u
        where u.lane = $1 and u.tenant = $2 and u.subject = $3
    ) o
    order by o.later, o.seq, o.stamp, o.batch, o.n
    limit $4::int
) j
where $6::bigint is null or j.before <= $6
order by j.later, j.seq, j.stamp, j.batch, j.n

-- name: search_entries
-- One tenant's entries in a range of a lane whose text contains another text, and compact ones of this pool.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.seq) - octet_length(o.body) as before
    from holdkit.journal o
    where o.lane = $1::int and o.seq > $2::bigint and o.seq <= $3::bigint and o.tenant = $4::text
      and (o.pool = $8::text or (o.pool is null and strpos(o.body, $5::text) > 0))
    order by o.seq limit $6::int
) j
where $7::bigint is null or j.before <= $7
order by j.seq

-- name: search_lane
-- Entries in a range of a lane that may fit: by their text or, for compact ones, by the values that their columns have or leave out.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.seq) - octet_length(o.body) as before
    from holdkit.journal o
    where o.lane = $1::int and o.seq > $2::bigint and o.seq <= $3::bigint and ($4::text is null or o.tenant = $4)
      and (strpos(o.body, $5::text) > 0 or (o.pool is not null and $9::boolean))
      and (strpos(o.body, $6::text) > 0 or (o.pool is not null and $10::boolean))
      and (strpos(o.body, $7::text) > 0 or (o.pool is not null and o.correlation_id = $11::text))
      and ($8::text is null or o.subject = $8)
    order by o.seq limit $12::int
) j
where $13::bigint is null or j.before <= $13
order by j.seq

-- name: search_subject
-- One subject's entries in a range of a lane, by the index journal_by_subject.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.seq) - octet_length(o.body) as before
    from (select * from holdkit.journal i
          where i.lane = $1::int and i.tenant = $4::text and i.subject = $5::text) o
    where o.seq > $2::bigint and o.seq <= $3::bigint
    order by o.seq limit $6::int
) j
where $7::bigint is null or j.before <= $7
order by j.seq

-- name: search_lane_back
-- Entries in a range of a lane that may fit, newest first.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.seq desc) - octet_length(o.body) as before
    from holdkit.journal o
    where o.lane = $1::int and o.seq > $2::bigint and o.seq <= $3::bigint and ($4::text is null or o.tenant = $4)
      and (strpos(o.body, $5::text) > 0 or (o.pool is not null and $9::boolean))
      and (strpos(o.body, $6::text) > 0 or (o.pool is not null and $10::boolean))
      and (strpos(o.body, $7::text) > 0 or (o.pool is not null and o.correlation_id = $11::text))
      and ($8::text is null or o.subject = $8)
    order by o.seq desc limit $12::int
) j
where $13::bigint is null or j.before <= $13
order by j.seq desc

-- name: search_subject_back
-- One subject's entries in a range of a lane, newest first.
select {entry}
from (
    select o.*, sum(octet_length(o.body)) over (order by o.seq desc) - octet_length(o.body) as before
    from (select * from holdkit.journal i
          where i.lane = $1::int and i.tenant = $4::text and i.subject = $5::text) o
    where o.seq > $2::bigint and o.seq <= $3::bigint
    order by o.seq desc limit $6::int
) j
where $7::bigint is null or j.before <= $7
order by j.seq desc

-- name: read_firsts
-- The number of the first entry of every lane that has any.
select h.lane, j.seq
from holdkit.heads h cross join lateral (
    select o.seq from holdkit.journal o where o.lane = h.lane order by o.seq limit 1
) j
/* distributed: where h.lane = $lane */

-- name: has_unnumbered
-- The lanes in which entries wait for their numbers.
select distinct u.lane from holdkit.unnumbered u order by u.lane

-- name: read_clock
-- The one authority on time.
select coalesce($1::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)

-- name: latest_slot
-- The last slot at which anything was decided, over all lanes: for people.
select max(p.slot) from holdkit.pools p

-- name: oldest_due
-- How far the sweep lags behind, over all lanes: for people.
select min(h.deadline) from holdkit.holds h where h.open and h.deadline is not null and h.deadline <= $1::bigint

-- name: read_kinds
-- A page of the kinds of a tenant's records, lane by lane: from one kind to the next by the primary key.
with recursive t(lane, n, kind) as (
    select h.lane, 1, (select r.kind from holdkit.records r where r.lane = h.lane and r.tenant = $1::text and r.kind > $2::text
                       order by r.kind limit 1)
    from holdkit.heads h /* distributed: where h.lane = $lane */
    union all
    select t.lane, t.n + 1, (select r.kind from holdkit.records r where r.lane = t.lane and r.tenant = $1 and r.kind > t.kind
                             order by r.kind limit 1)
    from t where t.kind is not null and t.n < $3::int
)
select distinct t.kind from t where t.kind is not null
order by t.kind
limit $3

-- name: measure_pools
-- A step of counting a tenant's pools in one lane: rows, bytes of their text, and the last id.
select count(*), coalesce(sum(m.size), 0)::bigint, max(m.id), 0::bigint
from (select o.id, octet_length(o.tenant) + octet_length(o.id) + coalesce(octet_length(o.label), 0) + coalesce(octet_length(o.holder), 0) + coalesce(octet_length(o.entity), 0) as size
      from holdkit.pools o where o.lane = $1::int and o.tenant = $2::text and o.id > $3::text
      order by o.id limit $4::int) m

-- name: measure_holds
-- A step of counting a tenant's holds in one lane.
select count(*), coalesce(sum(m.size), 0)::bigint, max(replace(m.id::text, '-', '')),
       count(*) filter (where m.state in ('held', 'waiting'))
from (select o.id, o.state, octet_length(o.tenant) + octet_length(o.legs) + octet_length(o.owner_hash) + 32 + coalesce(octet_length(o.entity), 0) + coalesce(octet_length(o.reason), 0)
             + coalesce(octet_length(o.actor), 0) + coalesce(octet_length(o.correlation_id), 0)
             + coalesce(octet_length(o.metadata), 0) + coalesce(octet_length(o.last_op), 0)
             + coalesce(octet_length(o.account), 0) + coalesce(octet_length(o.above), 0) as size
      from holdkit.holds o where o.lane = $1::int and o.tenant = $2::text and o.id > $3::uuid
      order by o.id limit $4::int) m

-- name: measure_operations
-- A step of counting a tenant's operations in one lane.
select count(*), coalesce(sum(m.size), 0)::bigint, max(m.id), 0::bigint
from (select o.id, octet_length(o.tenant) + octet_length(o.id) + octet_length(o.fingerprint)
             + coalesce(octet_length(o.outcome), 16) + coalesce(octet_length(o.token), 0) as size
      from holdkit.operations o where o.lane = $1::int and o.tenant = $2::text and o.id > $3::text
      order by o.id limit $4::int) m

-- name: measure_records
-- A step of counting a tenant's records in one lane, in the order of their kinds; the last one as JSON.
select count(*), coalesce(sum(m.size), 0)::bigint, array_to_json(max(array[m.kind, m.id]))::text, 0::bigint
from (select o.kind, o.id, octet_length(o.tenant) + octet_length(o.kind) + octet_length(o.id) + octet_length(o.body) as size
      from holdkit.records o where o.lane = $1::int and o.tenant = $2::text and (o.kind, o.id) > ($3::text, $4::text)
      order by o.kind, o.id limit $5::int) m

-- name: measure_journal
-- The entries of a span of one lane, counted by tenant.
select o.tenant, count(*), sum(octet_length(o.tenant) + octet_length(o.subject) + octet_length(o.body)
       + coalesce(octet_length(o.pool) + octet_length(o.pool), 0) + coalesce(octet_length(o.entity), 0))::bigint
from holdkit.journal o where o.lane = $1::int and o.seq > $2::bigint and o.seq <= $3::bigint
group by o.tenant
