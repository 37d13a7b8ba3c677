-- Finding holds. Both indexes leave out what most holds are: without an account, and with an id that Holdkit minted, which carries its
-- time (a UUID of version 7). So a plain hold has no row in them.

create index holdkit_holds_account on holdkit_holds (tenant, account, id) where account is not null;
create index holdkit_holds_chosen on holdkit_holds (tenant, id)
where substr(id, 13, 1) <> '7' or instr('89ab', substr(id, 17, 1)) = 0;
