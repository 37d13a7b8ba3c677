-- Reads. Due legs are counted as returned at max(clock, the pool's last slot); nothing is written.

-- part: shown_pool
-- what is read of a pool: its row, how many of its units and of its waiters are due, and whether anybody waits whom it could serve
{pool},
       case when p.held then (select sum(l.units) from holdkit_legs l
                              where l.tenant = p.tenant and l.pool = p.id and l.deadline <= max(p.slot, :now)) end,
       case when p.waiting then (select sum(l.number > 0) from holdkit_legs l
                                 where l.tenant = p.tenant and l.pool = p.id and l.deadline <= max(p.slot, :now)) end,
       case when p.waiting then exists (select 1 from holdkit_legs l indexed by holdkit_legs_line
                                        where l.tenant = p.tenant and l.pool = p.id and l.number > 0
                                          and l.waiting <= p.total and l.deadline > max(p.slot, :now)) end

-- part: shown_hold
-- what is read of a hold: its row, and the latest slot of its pools: of those of its legs, and of those above them
{hold},
       (select max(p.slot) from json_each(h.legs) g
        cross join holdkit_pools p on p.tenant = h.tenant and p.id = g.value ->> 'pool'),
       case when h.above is not null then
           (select max(p.slot) from json_each(h.above) g
            cross join holdkit_pools p on p.tenant = h.tenant and p.id = g.value ->> 'pool') end

-- name: read_pool
-- one pool
select {shown_pool}
from holdkit_pools p
where p.tenant = :tenant and p.id = :id

-- name: read_pools
-- a page of pools, by id; reserved ones only if the prefix asks for them. One bound at each end: of two, SQLite seeks by one
select {shown_pool}
from holdkit_pools p
where p.tenant = :tenant and p.id >= :lower and p.id < :upper and p.id <> :after
  and (:reserved or substr(p.id, 1, 1) <> '~') and (:archived or not p.archived)
order by p.id
limit :limit

-- name: read_tenants
-- a page of tenants that have pools: from one to the next by the primary key, however many pools each has
with recursive t(tenant) as (
    select min(p.tenant) from holdkit_pools p where p.tenant > ?1
    union all
    select (select min(p.tenant) from holdkit_pools p where p.tenant > t.tenant) from t where t.tenant is not null
)
select t.tenant from t where t.tenant is not null
limit ?2

-- name: read_pools_by_id
-- the same for these pools of one tenant
select {shown_pool}
from json_each(:ids) k cross join holdkit_pools p on p.tenant = :tenant and p.id = k.value

-- name: read_available
-- the numbers of those in a list of pools of one tenant that have a unit left. Legs are looked at only if some hold is due at all:
-- of a thousand held seats that takes a third of the time
select k.key
from json_each(?2) k cross join holdkit_pools p on p.tenant = ?1 and p.id = k.value
where not p.archived
  and p.total > p.consumed + p.held - case when p.held and (p.slot > ?3 or exists (
      select 1 from holdkit_holds h where h.open and h.deadline is not null and h.deadline <= ?3)) then coalesce(
      (select sum(l.units) from holdkit_legs l
       where l.tenant = p.tenant and l.pool = p.id and l.deadline <= max(p.slot, ?3)), 0) else 0 end

-- name: read_pools_of_entity
-- a page of the pools that were linked to an entity, straight off holdkit_pools_entity
select {shown_pool}
from holdkit_pools p indexed by holdkit_pools_entity
where p.tenant = :tenant and p.entity = :entity and p.id >= :lower and p.id < :upper and p.id <> :after
  and (:reserved or substr(p.id, 1, 1) <> '~') and (:archived or not p.archived)
order by p.id
limit :limit

-- name: read_hold
-- one hold
select {shown_hold}
from holdkit_holds h
where h.tenant = ? and h.id = ?

-- name: read_holds_by_id
-- the same for these holds of one tenant
select {shown_hold}
from json_each(?2) k cross join holdkit_holds h on h.tenant = ?1 and h.id = k.value

-- part: fitting_hold
-- whether the columns of a hold fit a query; on the hold as it shows the reader decides again. What has not ended may have expired
(:state is null or h.state = :state or (:state = 'expired' and (h.state = 'held' or h.state = 'waiting')))
       and (:entity is null or h.entity = :entity) and (:actor is null or h.actor = :actor)
       and (:account is null or h.account = :account) and (:pool is null or instr(h.legs, :pool) > 0)
       and (:within is null or exists (select 1 from json_each(:within) w where instr(h.legs, w.value) > 0))

-- name: walk_holds
-- a span of holds by id: each id, and whether the hold may fit
select h.id, {fitting_hold}
from holdkit_holds h
where h.tenant = :tenant and h.id >= :lower and h.id < :upper
order by h.id
limit :most

-- name: walk_holds_back
-- the same, newest first
select h.id, {fitting_hold}
from holdkit_holds h
where h.tenant = :tenant and h.id >= :lower and h.id < :upper
order by h.id desc
limit :most

-- name: walk_holds_of_entity
-- the same, straight off holdkit_holds_entity
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_entity
where h.tenant = :tenant and h.entity = :entity and h.id >= :lower and h.id < :upper
order by h.id
limit :most

-- name: walk_holds_of_entity_back
-- the same, newest first
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_entity
where h.tenant = :tenant and h.entity = :entity and h.id >= :lower and h.id < :upper
order by h.id desc
limit :most

-- name: walk_holds_of_account
-- the same, straight off holdkit_holds_account
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_account
where h.tenant = :tenant and h.account = :account and h.id >= :lower and h.id < :upper
order by h.id
limit :most

-- name: walk_holds_of_account_back
-- the same, newest first
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_account
where h.tenant = :tenant and h.account = :account and h.id >= :lower and h.id < :upper
order by h.id desc
limit :most

-- name: walk_chosen_holds
-- the same of the ids that carry no time, straight off holdkit_holds_chosen
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_chosen
where h.tenant = :tenant and (substr(h.id, 13, 1) <> '7' or instr('89ab', substr(h.id, 17, 1)) = 0) and h.id >= :lower and h.id < :upper
order by h.id
limit :most

-- name: walk_chosen_holds_back
-- the same, newest first
select h.id, {fitting_hold}
from holdkit_holds h indexed by holdkit_holds_chosen
where h.tenant = :tenant and (substr(h.id, 13, 1) <> '7' or instr('89ab', substr(h.id, 17, 1)) = 0) and h.id >= :lower and h.id < :upper
order by h.id desc
limit :most

-- name: read_legs_of_pool
-- the holds with anything outstanding on a pool
select hold from holdkit_legs where tenant = ? and pool = ? limit ?

-- name: read_entities
-- entities of holds: from one to the next by holdkit_holds_entity, however many holds each has
with recursive e(entity) as (
    select min(h.entity) from holdkit_holds h indexed by holdkit_holds_entity
    where h.tenant = :tenant and h.entity is not null and h.entity >= :lower and h.entity < :upper and h.entity <> :after
    union all
    select (select min(h.entity) from holdkit_holds h indexed by holdkit_holds_entity
            where h.tenant = :tenant and h.entity is not null and h.entity > e.entity and h.entity < :upper)
    from e where e.entity is not null
)
select e.entity from e where e.entity is not null
limit :limit

-- name: read_accounts
-- accounts that use anything: from one to the next by holdkit_tallies_account
with recursive a(account) as (
    select min(t.account) from holdkit_tallies t indexed by holdkit_tallies_account
    where t.tenant = :tenant and t.account >= :lower and t.account < :upper and t.account <> :after
    union all
    select (select min(t.account) from holdkit_tallies t indexed by holdkit_tallies_account
            where t.tenant = :tenant and t.account > a.account and t.account < :upper)
    from a where a.account is not null
)
select a.account from a where a.account is not null
limit :limit

-- name: count_ahead
-- how many wait in front of a number in a line, as far as their time is not over, straight off holdkit_legs_line
select count(*) from (select 1 from holdkit_legs indexed by holdkit_legs_line
                      where tenant = ? and pool = ? and number > 0 and number < ? and deadline > ? limit ?)

-- name: read_line
-- who waits in a line behind a number, as far as their time is not over, straight off holdkit_legs_line
select hold from holdkit_legs indexed by holdkit_legs_line
where tenant = :tenant and pool = :pool and number > 0 and number > :after
  and deadline > max(:now, (select p.slot from holdkit_pools p where p.tenant = :tenant and p.id = :pool))
order by number
limit :limit

-- name: next_deadline
-- when anything outstanding on a pool is due next
select min(deadline) from holdkit_legs where tenant = ? and pool = ?

-- name: read_usage
-- what an account uses of a range of pools, straight off holdkit_tallies_account; and how much of it is due
select t.pool, t.used, p.per_account,
       (select sum(l.units + l.waiting) from holdkit_legs l
        where l.tenant = p.tenant and l.pool = p.id and l.deadline <= max(p.slot, :now) and l.account = :account)
from holdkit_tallies t indexed by holdkit_tallies_account
cross join holdkit_pools p on p.tenant = t.tenant and p.id = t.pool
where t.tenant = :tenant and t.account = :account and t.pool >= :lower and t.pool < :upper and t.pool <> :after
order by t.pool

-- name: read_records
-- a page of records of one kind, by id
select tenant, kind, id, body, version, slot from holdkit_records
where tenant = ? and kind = ? and id > ?
order by id
limit ?

-- name: read_journal
-- everybody's entries, in order
select seq, body from holdkit_journal where seq > ? order by seq limit ?

-- name: read_journal_of_tenant
-- one tenant's entries, in order
select seq, body from holdkit_journal where tenant = ? and seq > ? order by seq limit ?

-- name: read_history
-- one subject's entries, in journal order, straight off holdkit_journal_subject
select seq, body from holdkit_journal where tenant = ? and subject = ? and seq > ? order by seq limit ?

-- name: read_naming
-- one tenant's entries in a span of the journal whose text has another one in it. (The + keeps it off the index by subject.)
select seq, body from holdkit_journal
where seq > ? and seq <= ? and +tenant = ? and instr(body, ?) > 0
order by seq limit ?

-- name: search_entries
-- entries in a span of the journal whose text has all of these. (The + keeps it off the index by subject.)
select seq, body from holdkit_journal
where seq > :above and seq <= :upto and (:tenant is null or +tenant = :tenant)
  and instr(body, :action) > 0 and instr(body, :actor) > 0 and instr(body, :correlation) > 0
order by seq limit :limit

-- name: search_entries_back
-- the same, newest first
select seq, body from holdkit_journal
where seq > :above and seq <= :upto and (:tenant is null or +tenant = :tenant)
  and instr(body, :action) > 0 and instr(body, :actor) > 0 and instr(body, :correlation) > 0
order by seq desc limit :limit

-- name: search_subject
-- one subject's entries in a span of the journal, straight off holdkit_journal_subject
select seq, body from holdkit_journal
where tenant = :tenant and subject = :subject and seq > :above and seq <= :upto order by seq limit :limit

-- name: search_subject_back
-- the same, newest first
select seq, body from holdkit_journal
where tenant = :tenant and subject = :subject and seq > :above and seq <= :upto order by seq desc limit :limit

-- name: read_first
-- the number of the first entry that is kept
select min(seq) from holdkit_journal

-- name: read_entry
-- one entry
select seq, body from holdkit_journal where seq = ?

-- name: read_end
-- the last entry
select seq, body from holdkit_journal order by seq desc limit 1

-- name: latest_slot
-- the last slot that was decided at: for people
select max(slot) from holdkit_pools

-- name: oldest_due
-- how far the sweep lags behind, straight off holdkit_holds_due
select min(deadline) from holdkit_holds where open and deadline is not null and deadline <= ?

-- name: read_kinds
-- the kinds of a tenant's records: from one to the next by the primary key, however many records each has
with recursive k(kind) as (
    select min(r.kind) from holdkit_records r where r.tenant = ?1 and r.kind > ?2
    union all
    select (select min(r.kind) from holdkit_records r where r.tenant = ?1 and r.kind > k.kind) from k where k.kind is not null
)
select k.kind from k where k.kind is not null
limit ?3

-- name: measure_pools
-- a step of counting a tenant's pools: rows, bytes of their text and of their tallies, and the last id
select count(*), coalesce(sum(size), 0), max(id), 0 from (
    select id, length(cast(tenant as blob)) + length(cast(id as blob)) + coalesce(length(cast(label as blob)), 0) + coalesce(length(cast(holder as blob)), 0) + coalesce(length(cast(entity as blob)), 0)
           + coalesce((select sum(100 + length(cast(t.tenant as blob)) + length(cast(t.pool as blob)) + length(cast(t.account as blob)))
                       from holdkit_tallies t where t.tenant = ?1 and t.pool = p.id), 0) as size
    from holdkit_pools p where tenant = ?1 and id > ?2 order by id limit ?3)

-- name: measure_holds
-- the same for its holds
select count(*), coalesce(sum(size), 0), max(id), coalesce(sum(live), 0) from (
    select id, state = 'held' or state = 'waiting' as live, length(cast(tenant as blob)) + length(cast(id as blob)) + length(cast(legs as blob)) + length(cast(owner_hash as blob))
           + coalesce(length(cast(entity as blob)), 0) + coalesce(length(cast(reason as blob)), 0) + coalesce(length(cast(actor as blob)), 0)
           + coalesce(length(cast(correlation_id as blob)), 0) + coalesce(length(cast(metadata as blob)), 0) + coalesce(length(cast(last_op as blob)), 0)
           + coalesce(length(cast(account as blob)), 0) + coalesce(length(cast(above as blob)), 0) as size
    from holdkit_holds where tenant = ?1 and id > ?2 order by id limit ?3)

-- name: measure_operations
-- the same for its operations
select count(*), coalesce(sum(size), 0), max(id), 0 from (
    select id, length(cast(tenant as blob)) + length(cast(id as blob)) + length(cast(fingerprint as blob)) + length(cast(outcome as blob)) as size
    from holdkit_operations where tenant = ?1 and id > ?2 order by id limit ?3)

-- name: measure_records
-- the same for its records, in the order of their kinds; the last one as JSON
with m as materialized (
    select kind, id, length(cast(tenant as blob)) + length(cast(kind as blob)) + length(cast(id as blob)) + length(cast(body as blob)) as size
    from holdkit_records where tenant = ?1 and (kind, id) > (?2, ?3) order by kind, id limit ?4)
select count(*), coalesce(sum(size), 0), (select json_array(kind, id) from m order by kind desc, id desc limit 1), 0 from m

-- name: measure_journal
-- the entries of a span of the journal, counted by tenant
select tenant, count(*), sum(length(cast(tenant as blob)) + length(cast(subject as blob)) + length(cast(body as blob)))
from holdkit_journal where seq > ? and seq <= ? group by tenant
