-- Seals: a chain of digests over runs of the journal's entries. Written by the sealer, never by a batch.

create table holdkit_seals (
    lane       integer not null,
    first      integer not null,                -- the numbers of the run's entries
    last       integer not null,
    slot       integer not null,                -- when it was sealed
    generation text    not null,
    previous   text    not null,                -- the digest of the seal before it
    digest     text    not null,
    salts      text    not null,                -- JSON
    signature  text,
    key_id     text,
    primary key (lane, first)
) strict, without rowid;
