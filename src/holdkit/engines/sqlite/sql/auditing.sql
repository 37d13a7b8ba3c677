-- What `verify` reads.

-- name: audit_journal
-- a page of entries with their columns and checksum
select seq, tenant, subject, body, crc from holdkit_journal where seq > ? order by seq limit ?

-- name: audit_pools
-- every pool, and the column that is derived
select {pool}, over
from holdkit_pools p order by tenant, id

-- name: audit_holds
-- every hold, and the column that is derived
select {hold}, open, kept, kept_from
from holdkit_holds h order by tenant, id

-- name: audit_legs
-- every outstanding leg, and every place in a line
select tenant, pool, deadline, hold, units, waiting, number, account from holdkit_legs order by tenant, pool, deadline, hold

-- name: audit_operations
-- every remembered answer with its checksum
select tenant, id, fingerprint, until, outcome, seq, crc from holdkit_operations order by tenant, id

-- name: audit_records
-- every record
select tenant, kind, id, body, version, slot from holdkit_records order by tenant, kind, id

-- name: audit_tallies
-- every tally
select tenant, pool, account, used, loose from holdkit_tallies order by tenant, pool, account

-- name: audit_floors
-- every tenant's fence floor
select tenant, floor from holdkit_fence_floors order by tenant

-- name: audit_settings
-- every setting with its checksum
select name, value, crc from holdkit_settings order by name

-- name: audit_migrations
-- which migrations say that they were applied
select version, name from holdkit_migrations order by version

-- name: find_setting
-- one setting's value
select value from holdkit_settings where name = ?
