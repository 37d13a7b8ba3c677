-- What opening a file asks and records.

-- name: list_our_tables
-- what bears our prefix, whoever made it
select name from sqlite_schema where name like 'holdkit\_%' escape '\' and type in ('table', 'view') order by name

-- name: has_version_table
-- the first migration makes it in its own transaction
select count(*) from sqlite_schema where name = 'holdkit_migrations'

-- name: create_version_table
-- which migrations were applied, and when
create table holdkit_migrations (
    version integer primary key,
    name    text    not null,
    slot    integer not null
) strict

-- name: schema_version
-- the newest migration applied
select max(version) from holdkit_migrations

-- name: record_version
-- in the migration's own transaction: old or new, never half
insert into holdkit_migrations (version, name, slot) values (?, ?, ?)

-- name: find_path
-- a pool whose id makes it a child of another one
select id from holdkit_pools where instr(id, '//') > 0 and substr(id, 1, 1) <> '~' order by tenant, id limit 1

-- name: load_settings
-- the limits that were fixed when the file was created
select name, value from holdkit_settings order by name

-- name: find_journal_row
-- whether a commit whose answer was lost took place
select seq, tenant, subject, body, crc from holdkit_journal where seq = ?

-- name: find_operation_row
-- the same for a batch that changed nothing but remembered its answers
select tenant, id, fingerprint, until, outcome, seq, crc from holdkit_operations where tenant = ? and id = ?

-- name: claim_write_lock
-- writes nothing, yet takes the write lock: tells whether a caller's transaction can write
delete from holdkit_settings where 0
