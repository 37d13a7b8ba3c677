-- Erasure: the secret of keyed names, and how often entries were rewritten. Whoever rewrites entries locks that row first.

insert into holdkit.settings (name, value)
values ('secret', '"' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '') || '"'), ('rewrites', '0');
