-- A recorded answer tells where in the journal its entry is: the number is beside it, not in it.

alter table holdkit_operations add column seq integer not null default 0;   -- 0: it wrote no entry
