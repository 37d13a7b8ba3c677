-- Operation records as a table in order of arrival, with a small index by key. Callers choose their keys, and most are random: with the
-- rows themselves in that order, each record changed a page of its own. The record of a hold just placed refers to its entry.

create table holdkit_operations_new (
    tenant      text    not null,
    id          text    not null,
    fingerprint text    not null,
    until       integer not null,             -- the end of the window that it was written under
    outcome     text    not null,             -- JSON: the answer, with the owner token for the retry; of a hold just placed the token
                                              -- alone (a string), for the rest is in the entry
    seq         integer not null,             -- the number of its entry; 0: it wrote none
    crc         integer not null              -- of all the columns before it
) strict;

insert into holdkit_operations_new (tenant, id, fingerprint, until, outcome, seq, crc)
select tenant, id, fingerprint, until, outcome, seq, crc from holdkit_operations order by until, tenant, id;
drop table holdkit_operations;
alter table holdkit_operations_new rename to holdkit_operations;

create unique index holdkit_operations_key on holdkit_operations (tenant, id);
create index holdkit_operations_end on holdkit_operations (until);
