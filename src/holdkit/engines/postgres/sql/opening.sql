-- What opening a database reads, and what a migration records.

-- name: server_settings
-- What durability and our statements rest on.
select current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync'),
       current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery(),
       current_setting('transaction_read_only')

-- name: server_identity
-- Which running server this is, and which of its databases: two connections that read the same lead to one. And the session's process.
select extract(epoch from pg_postmaster_start_time())::text,
       (select d.oid::bigint from pg_database d where d.datname = current_database()), pg_backend_pid()

-- name: local_data_directory
-- Where the server's files are, if we are on the same machine; no row if not, or if our role may not know.
select s.setting from pg_catalog.pg_settings s
where s.name = 'data_directory' and (inet_server_addr() is null or inet_server_addr() = inet_client_addr())

-- name: database_size
-- The bytes of everything in the database.
select pg_catalog.pg_database_size(pg_catalog.current_database())

-- name: read_durability
-- What a done answer survives, as this connection has it.
select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names')

-- name: read_standbys
-- Who receives the server's log, and who should (a slot without its standby); neither backups nor logical replication. A role
-- without pg_read_all_stats sees the rows, but not their states.
select r.application_name, r.sync_state, false
from pg_stat_replication r
where coalesce(r.state, '') not in ('startup', 'backup')
  and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
union all
select s.slot_name, null, true
from pg_replication_slots s where s.slot_type = 'physical' and s.active_pid is null
order by 1

-- name: has_schema
-- Whether a schema of this name exists, and whether it has our tables.
select (select count(*) from pg_catalog.pg_namespace where nspname = $1::text), to_regclass('holdkit.migrations') is not null

-- name: has_citus
-- Whether tables can be distributed here.
select count(*) > 0 from pg_catalog.pg_extension where extname = 'citus'

-- name: is_distributed
-- Whether ours are; no row otherwise.
select 1 from holdkit.settings s where s.name = 'distributed' and s.value = 'true'

-- name: create_version_table
-- Which migrations were applied, and when.
create table holdkit.migrations (
    version integer primary key,
    name    text        not null,
    at      timestamptz not null default now()
)

-- name: lock_versions
-- One migration at a time.
lock table holdkit.migrations in access exclusive mode

-- name: schema_version
-- The newest migration that was applied.
select coalesce(max(version), 0) from holdkit.migrations

-- name: record_version
-- In the migration's own transaction: the schema is old or new, never half.
insert into holdkit.migrations (version, name) values ($1::int, $2::text)

-- name: put_setting
-- A setting that is fixed when the tables are created.
insert into holdkit.settings (name, value) values ($1::text, $2::text)

-- name: load_settings
-- The number of lanes, and the limits that change meaning.
select name, value from holdkit.settings order by name

-- name: create_heads
-- One row per lane, for ever.
insert into holdkit.heads (lane) select generate_series(0, $1::int - 1)

-- name: check_transaction
-- Raises unless a call can join this transaction ($2: only to read): what follows in the same round trip must run nowhere else. Every
-- function and operator is named with its schema, and types by SQL's own keywords, which no search path can replace.
select 1 operator(pg_catalog./) (
    s.value operator(pg_catalog.=) $1::varchar and not pg_catalog.pg_is_in_recovery()
    and coalesce(pg_catalog.array_position(pg_catalog.current_schemas(false), 'pg_catalog'), 1) operator(pg_catalog.=) 1
    and ($2::boolean or pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) 'read committed'
                        and pg_catalog.current_setting('transaction_read_only') operator(pg_catalog.=) 'off'))::int
from holdkit.settings s where s.name operator(pg_catalog.=) 'identity'

-- name: read_transaction
-- Why it was refused: the transaction's properties, and whether the search path puts anything before pg_catalog.
select pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('transaction_read_only'),
       pg_catalog.pg_is_in_recovery(),
       coalesce(pg_catalog.array_position(pg_catalog.current_schemas(false), 'pg_catalog'), 1)

-- name: make_savepoint
-- Each call in a caller's transaction has its own.
savepoint holdkit

-- name: release_savepoint
-- What was done counts with the caller's transaction.
release savepoint holdkit

-- name: roll_back_to_savepoint
-- Undo this call; the caller's transaction continues.
rollback to savepoint holdkit
