-- Seals: a chain of digests over runs of each lane's entries. Written by the sealer, never by a batch.

create table holdkit.seals (
    lane       integer not null,
    first      bigint  not null,                -- the numbers of the run's entries
    last       bigint  not null,
    slot       bigint  not null,                -- when it was sealed
    generation text    not null,
    previous   text    not null,                -- the digest of the seal before it
    digest     text    not null,
    salts      text    not null,                -- JSON
    signature  text,
    key_id     text,
    primary key (lane, first)
);
