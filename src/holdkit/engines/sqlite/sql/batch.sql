-- What a batch loads, writes and prunes. No rule lives here: core.decide decides.

-- name: load_head
-- where the journal ends, whether anything is old enough to prune, and the version of the limits: four seeks
select (select max(seq) from holdkit_journal),
       (select min(until) from holdkit_operations),
       (select min(kept_from) from holdkit_holds where kept = 0),
       (select version from holdkit_records where tenant = '' and kind = '~limits' and id = 'limits')

-- part: loaded_pool
-- a pool, and its earliest deadline, which says whether due legs must be asked for at all
{pool},
       case when p.held or p.waiting
            then (select min(l.deadline) from holdkit_legs l where l.tenant = p.tenant and l.pool = p.id) end

-- name: load_pool
-- one pool
select {loaded_pool}
from holdkit_pools p
where tenant = ? and id = ?

-- name: load_pools
-- the same for many: one statement, whatever their number
select {loaded_pool}
from json_each(?2) k cross join holdkit_pools p on p.tenant = ?1 and p.id = k.value

-- name: load_hold
-- one hold, or none: for a new one this is the check that its id is free
select {hold}
from holdkit_holds h
where tenant = ? and id = ?

-- name: load_holds
-- the same for many
select {hold}
from json_each(?2) k cross join holdkit_holds h on h.tenant = ?1 and h.id = k.value

-- name: load_operation
-- the answer given before to an operation id, and the entry that it refers to, if it does
select o.tenant, o.id, o.fingerprint, o.until, o.outcome, o.seq, j.body
from holdkit_operations o left join holdkit_journal j on substr(o.outcome, 1, 1) = '"' and j.seq = o.seq
where o.tenant = ? and o.id = ?

-- name: load_operations
-- the same for many
select o.tenant, o.id, o.fingerprint, o.until, o.outcome, o.seq, j.body
from json_each(?2) k cross join holdkit_operations o on o.tenant = ?1 and o.id = k.value
left join holdkit_journal j on substr(o.outcome, 1, 1) = '"' and j.seq = o.seq

-- name: load_record
-- one record
select tenant, kind, id, body, version, slot from holdkit_records where tenant = ? and kind = ? and id = ?

-- name: load_floor
-- where the fences of a tenant's new pools begin: asked only where a batch may create one
select tenant, floor from holdkit_fence_floors where tenant = ?

-- name: load_due
-- the due legs of one pool, earliest first, straight off the primary key
select deadline, hold from holdkit_legs
where tenant = ? and pool = ? and deadline > ? and deadline <= ?
order by deadline, hold
limit ?

-- name: load_line
-- those in front of one pool's line who ask for no more than so much, straight off holdkit_legs_line
select hold from holdkit_legs
where tenant = ? and pool = ? and number > 0 and waiting <= ?
order by number
limit ?

-- name: load_tallies
-- what accounts use of pools: asked only where a command or a loaded hold names an account
select t.tenant, t.pool, t.account, t.used, t.loose
from json_each(?2) k cross join holdkit_tallies t on t.tenant = ?1 and t.pool = k.value ->> 0 and t.account = k.value ->> 1

-- name: load_waiting_pools
-- pools whose line could be fed: whoever is in front of it and not due (of some lines, one of the first so many) asks for no more
-- than is available. The others would fill the list of every sweep
select {pool}, null
from holdkit_pools p
where waiting > 0 and not archived and total > held + consumed
  and total - held - consumed >=
      case line when 'skip' then
          (select min(f.waiting) from (select l.waiting from holdkit_legs l
                                       where l.tenant = p.tenant and l.pool = p.id and l.number > 0 and l.waiting <= p.total
                                         and l.deadline > max(p.slot, ?1)
                                       order by l.number limit ?2) f)
      else
          (select l.waiting from holdkit_legs l
           where l.tenant = p.tenant and l.pool = p.id and l.number > 0 and l.waiting <= p.total
             and l.deadline > max(p.slot, ?1)
           order by l.number limit 1)
      end
order by tenant, id
limit ?3

-- name: load_sweep
-- the holds with due legs anywhere, earliest deadline first, straight off holdkit_holds_due
select {hold}
from holdkit_holds h
where open and deadline is not null and deadline <= ?
order by deadline, id
limit ?

-- name: load_retiring
-- ended holds whose units are consumed, kept under a rule since a slot or longer, straight off holdkit_holds_kept
select {hold}, kept_from
from holdkit_holds h
where kept = ? and kept_from <= ?
order by kept_from, id
limit ?

-- name: load_empty_pools
-- on-demand pools that are empty, straight off holdkit_pools_empty
select {pool}, null
from holdkit_pools p
where on_demand and held = 0 and consumed = 0 and label is null and closes is null and not archived and children = 0
order by tenant, id
limit ?

-- name: load_rested_pools
-- labelled ones that have been empty since a slot or longer, straight off holdkit_pools_resting
select {pool}, null
from holdkit_pools p
where label is not null and closes is null and on_demand and held = 0 and consumed = 0 and not archived and slot <= ?
order by slot, tenant, id
limit ?

-- name: load_closed_pools
-- those whose window is over, straight off holdkit_pools_closing
select {pool}, null
from holdkit_pools p
where closes is not null and not archived and closes <= ? and held = 0
order by closes, tenant, id
limit ?

-- name: count_pools
-- asked only where max_pools is set
select count(*) from holdkit_pools

-- name: count_live_holds
-- asked only where max_holds is set
select count(*) from holdkit_holds where (state = 'held' or state = 'waiting') and (deadline is null or deadline > ?)

-- name: count_unended_holds
-- asked only where a bound is set: what only a sweep, a confirm or a release can end. (Those who wait are open)
select count(*) from holdkit_holds where state = 'held' or open

-- name: count_consumed_holds
-- asked only where max_holds is set: the ended ones that are not pruned, but dropped with an entry
select count(*) from holdkit_holds where kept > 0

-- name: count_operations
-- asked only where max_operations is set
select count(*) from holdkit_operations where until > ?

-- name: count_holds
-- asked only where max_holds is set: how many rows must make room
select count(*) from holdkit_holds

-- name: insert_pools
-- a pool is born
insert into holdkit_pools (total, held, consumed, fence, slot, version, over, on_demand, loose, tenant, id, label, closes,
                           holder, entity, archived, floor, waiting, last_number, children, per_account, line)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_pools
-- a pool moved
update holdkit_pools set total = ?, held = ?, consumed = ?, fence = ?, slot = ?, version = ?, over = ?, on_demand = ?,
                         loose = ?
where tenant = ? and id = ?

-- name: update_labelled_pools
-- the same, and who had it last, for what; its label stays
update holdkit_pools set total = ?, held = ?, consumed = ?, fence = ?, slot = ?, version = ?, over = ?, on_demand = ?,
                         loose = ?, holder = ?, entity = ?
where tenant = ? and id = ?

-- name: update_pool_terms
-- what changes on few pools, or seldom: the end of its window, whether it grants at all, its line, the pools below it
update holdkit_pools set closes = ?, archived = ?, waiting = ?, last_number = ?, children = ?, per_account = ?
where tenant = ? and id = ?

-- name: delete_pools
-- a pool is removed, or swept away
delete from holdkit_pools where tenant = ? and id = ?

-- name: insert_plain_holds
-- a hold is born and alive, and nobody said more about it: by far the most
insert into holdkit_holds (tenant, id, legs, owner_hash, held_at, fence, deadline, open, version, state)
values (?, ?, ?, ?, ?, ?, ?, 1, 1, 'held')

-- name: insert_holds
-- a hold is born and alive. '' stands for null: binding a None costs sqlite3 six times a text
insert into holdkit_holds
       (tenant, id, legs, owner_hash, held_at, fence, deadline, open, version, closes, state, actor, correlation_id, metadata,
        entity)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), 'held', nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, ''))

-- name: insert_whole_holds
-- a hold is born; its id was free
insert into holdkit_holds ({new_hold})
values ({new_hold_values})

-- name: replace_holds
-- a hold is born under the id of one that has retired
insert or replace into holdkit_holds ({new_hold})
values ({new_hold_values})

-- name: update_holds
-- a hold went on or ended: what never changes is not written again
update holdkit_holds
set {changed_hold}
where tenant = ? and id = ?

-- name: update_whole_holds
-- the same for one that has an account, a number in a line, or units on pools above those of its legs
update holdkit_holds
set {whole_changed_hold}
where tenant = ? and id = ?

-- name: delete_holds
-- one whose units are consumed is dropped, with its entry; or a repair puts the row back as the journal has it
delete from holdkit_holds where tenant = ? and id = ?

-- name: insert_legs
-- the legs of a hold just born
insert into holdkit_legs (tenant, pool, deadline, hold, units) values (?, ?, ?, ?, ?)

-- name: put_legs
-- the number of outstanding units changed, or their deadline
insert or replace into holdkit_legs (tenant, pool, deadline, hold, units) values (?, ?, ?, ?, ?)

-- name: put_whole_legs
-- a place in a line, or units that are counted in an account's tally
insert or replace into holdkit_legs (tenant, pool, deadline, hold, units, waiting, number, account)
values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_legs
-- nothing is outstanding any more, or under another deadline
delete from holdkit_legs where tenant = ? and pool = ? and deadline = ? and hold = ?

-- name: put_tallies
-- what an account uses of a pool
insert or replace into holdkit_tallies (tenant, pool, account, used, loose) values (?, ?, ?, ?, ?)

-- name: delete_tallies
-- an account uses nothing of a pool any more
delete from holdkit_tallies where tenant = ? and pool = ? and account = ?

-- name: insert_journal
-- every change of state appends its entry in the same transaction
insert into holdkit_journal (seq, tenant, subject, body, crc) values (?, ?, ?, ?, ?)

-- name: put_operations
-- the answer, for the retry; an id whose window is over may be used anew
insert or replace into holdkit_operations (tenant, id, fingerprint, until, outcome, seq, crc)
values (?, ?, ?, ?, ?, ?, ?)

-- name: put_records
-- written or replaced
insert or replace into holdkit_records (tenant, kind, id, body, version, slot) values (?, ?, ?, ?, ?, ?)

-- name: delete_records
-- removed
delete from holdkit_records where tenant = ? and kind = ? and id = ?

-- name: raise_floor
-- pools of this tenant were removed: none of its later pools may grant a fence that was seen
insert into holdkit_fence_floors as f (tenant, floor) values (?, ?)
on conflict (tenant) do update set floor = max(f.floor, excluded.floor)

-- name: delete_floor
-- a repair puts the row back as the journal has it
delete from holdkit_fence_floors where tenant = ?

-- name: put_setting
-- a setting and its checksum
insert or replace into holdkit_settings (name, value, crc) values (?, ?, ?)

-- name: prune_operations
-- past the retry window they are gone for every reader already
delete from holdkit_operations where rowid in
       (select rowid from holdkit_operations where until <= ? order by until limit ?)

-- name: prune_holds
-- past the retention they are gone for every reader already
delete from holdkit_holds where (tenant, id) in
       (select tenant, id from holdkit_holds
        where kept = 0 and kept_from <= ? order by kept_from, id limit ?)

-- name: make_room
-- max_holds is reached: ended holds of which nothing is consumed leave, oldest first; their history stays in the journal
delete from holdkit_holds where (tenant, id) in
       (select tenant, id from holdkit_holds where kept = 0 order by kept_from, id limit ?)
