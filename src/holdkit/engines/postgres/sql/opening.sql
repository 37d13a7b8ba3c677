-- What opening a database asks, and what a migration records.

-- name: server_settings
-- what durability and our statements rest on
select current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync'),
       current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery(),
       current_setting('transaction_read_only')

-- name: read_durability
-- what a done answer survives, as this connection has it
select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names')

-- name: read_standbys
-- who receives the server's log, and who should (a slot without its standby); neither backups nor logical replication. A role
-- without pg_read_all_stats sees the rows, not their states
select r.application_name, r.sync_state, false
from pg_stat_replication r
where coalesce(r.state, '') not in ('startup', 'backup')
  and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
union all
select s.slot_name, null, true
from pg_replication_slots s where s.slot_type = 'physical' and s.active_pid is null
order by 1

-- name: has_schema
-- whether there is anything of that name, whoever made it
select (select count(*) from pg_catalog.pg_namespace where nspname = $1::text), to_regclass('holdkit.migrations') is not null

-- name: has_citus
-- whether tables can be distributed here
select count(*) > 0 from pg_catalog.pg_extension where extname = 'citus'

-- name: is_distributed
-- whether ours are; no row otherwise
select 1 from holdkit.settings s where s.name = 'distributed' and s.value = 'true'

-- name: create_version_table
-- which migrations were applied, and when
create table holdkit.migrations (
    version integer primary key,
    name    text        not null,
    at      timestamptz not null default now()
)

-- name: lock_versions
-- one migration at a time
lock table holdkit.migrations in access exclusive mode

-- name: schema_version
-- the newest migration applied
select coalesce(max(version), 0) from holdkit.migrations

-- name: record_version
-- in the migration's own transaction: old or new, never half
insert into holdkit.migrations (version, name) values ($1::int, $2::text)

-- name: put_setting
-- a setting that is fixed when the tables are made
insert into holdkit.settings (name, value) values ($1::text, $2::text)

-- name: load_settings
-- the number of lanes, and the limits that change meaning
select name, value from holdkit.settings order by name

-- name: create_heads
-- one row per lane, for ever
insert into holdkit.heads (lane) select generate_series(0, $1::int - 1)

-- name: ping
-- whether a connection that has lain idle is good still
select 1

-- name: read_transaction
-- what a caller's transaction is, and where it looks for functions: before we know, each is named with its schema
select pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('transaction_read_only'),
       pg_catalog.pg_is_in_recovery(), pg_catalog.array_to_string(pg_catalog.current_schemas(true), e'\x1f')

-- name: find_identity
-- whether it is our own database
select s.value from holdkit.settings s where s.name = 'identity'

-- name: make_savepoint
-- each call inside a caller's transaction has its own
savepoint holdkit

-- name: release_savepoint
-- what was done counts with the caller's transaction
release savepoint holdkit

-- name: roll_back_to_savepoint
-- this call never happened; the caller's transaction goes on
rollback to savepoint holdkit
