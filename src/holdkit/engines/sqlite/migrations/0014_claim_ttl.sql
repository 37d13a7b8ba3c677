-- The longest ttl of a key is stored with the data. Files that were made before have the default of that time, 24 hours.
insert or ignore into holdkit_settings (name, value, crc) values ('limit.max_claim_ttl', '86400000000', 1255497692);
