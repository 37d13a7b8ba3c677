-- Finding holds. Both indexes leave out what most holds are: without an account, and with an id that Holdkit minted, which carries its
-- time (a UUID of version 7). So a plain hold has no row in them.

create index holds_by_account on holdkit.holds (tenant, account, id) where account is not null;
create index holds_chosen on holdkit.holds (tenant, id)
where get_byte(uuid_send(id), 6) >> 4 <> 7 or get_byte(uuid_send(id), 8) >> 6 <> 2;
