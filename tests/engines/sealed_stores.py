"""Stores whose journal and seals a test changes behind the engine's back, with every checksum of the rows computed anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import psycopg
from msgspec import structs

from holdkit.core.codec import decode_entry
from holdkit.core.entries import Entry
from holdkit.core.seals import Seal, seal_of, seal_row
from holdkit.engines.port import Engine
from holdkit.engines.postgres.encoding import checksum
from holdkit.engines.sqlite.rows import entry_checksum
from holdkit.kernel.opening import open_engine

Entries: TypeAlias = list[tuple[int, Entry]]
NAMES = "lane, first, last, slot, generation, previous, digest, salts, signature, key_id"


class SqliteStore:
    """A file."""

    lane = 0

    def __init__(self, path: Path) -> None:
        self.path = path / "holds.db"
        self.url = f"sqlite:///{self.path}"

    def entries(self) -> Entries:
        with closing(sqlite3.connect(self.path)) as db:
            rows = db.execute("select seq, body from holdkit_journal order by seq").fetchall()
        return [(seq, decode_entry(body)) for seq, body in rows]

    def write(self, entries: Entries, seals: list[Seal]) -> None:
        """Replace the journal and its seals."""
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("delete from holdkit_journal")
            db.execute("delete from holdkit_seals")
            for seq, entry in entries:
                body = msgspec.json.encode(entry).decode()
                row = (seq, entry.tenant, entry.subject, body, entry_checksum(seq, body.encode()))
                db.execute("insert into holdkit_journal (seq, tenant, subject, body, crc) values (?, ?, ?, ?, ?)", row)
            db.executemany(
                f"insert into holdkit_seals ({NAMES}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(seal_row, seals)
            )

    def seals(self) -> list[Seal]:
        with closing(sqlite3.connect(self.path)) as db:
            return [seal_of(row) for row in db.execute(f"select {NAMES} from holdkit_seals order by first")]


class PostgresStore:
    """A schema with four lanes, of which one is changed."""

    lane = 1

    def __init__(self, url: str) -> None:
        self.url = url

    def entries(self) -> Entries:
        with closing(open_engine(self.url)) as engine:
            assert engine.capabilities.seals is not None
            rows = engine.capabilities.seals.read_run(self.lane, 0, 1_000)
        return [(row.seq, decode_entry(row.text)) for row in rows]

    def write(self, entries: Entries, seals: list[Seal]) -> None:
        """Replace the lane and its seals."""
        with psycopg.connect(self.url) as db:
            db.execute("delete from holdkit.journal where lane = %s", (self.lane,))
            db.execute("delete from holdkit.seals where lane = %s", (self.lane,))
            for seq, entry in entries:
                body = msgspec.json.encode(entry).decode()
                row = (self.lane, seq, entry.tenant, entry.subject, body, checksum(body.encode()))
                insert = "insert into holdkit.journal (lane, seq, tenant, subject, body, crc) values (%s, %s, %s, %s, %s, %s)"
                db.execute(insert, row)
            for seal in seals:
                marks = ", ".join(["%s"] * 10)
                db.execute(f"insert into holdkit.seals ({NAMES}) values ({marks})", seal_row(seal))

    def seals(self) -> list[Seal]:
        with psycopg.connect(self.url) as db:
            query: Any = f"select {NAMES} from holdkit.seals where lane = {self.lane} order by first"
            return [seal_of(row) for row in db.execute(query)]


SealedStore: TypeAlias = SqliteStore | PostgresStore


def with_engine(store: SealedStore, work: Callable[[Engine], Any]) -> Any:
    """Open the engine for one call."""
    with closing(open_engine(store.url)) as engine:
        return work(engine)


def changed(entries: Entries, seq: int, **fields: Any) -> Entries:
    """The entries with one of them changed."""
    return [(n, structs.replace(entry, **fields) if n == seq else entry) for n, entry in entries]
