"""What a good engineer writes by hand on SQLite: the baseline for Holdkit.

One connection and a lock, one transaction per hold, the same rows, columns and indexes as Holdkit's own tables, just as
durable (WAL, ``synchronous=FULL``). Nothing is slowed down on purpose: statements come from sqlite3's cache, capacity
is checked inside the UPDATE that takes it, JSON is written by msgspec. It supports one pool per hold and no other operations.
Never imports holdkit.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

SCHEMA: Final = """
create table if not exists pools (
    tenant text not null, id text not null,
    total integer not null check (total >= 0), held integer not null check (held >= 0),
    consumed integer not null check (consumed >= 0),
    fence integer not null, slot integer not null, version integer not null, on_demand integer not null, over integer not null,
    label text, closes integer, holder text, entity text, archived integer not null default 0,
    loose integer not null default 0 check (loose >= 0), floor integer not null default 0,
    waiting integer not null default 0 check (waiting >= 0), last_number integer not null default 0,
    children integer not null default 0 check (children >= 0), per_account integer, line text check (line = 'skip'),
    primary key (tenant, id), check (held + consumed <= total or over)
) strict, without rowid;
create index if not exists pools_entity on pools (tenant, entity, id) where entity is not null;
create index if not exists pools_resting on pools (slot, tenant, id)
where label is not null and closes is null and on_demand and held = 0 and consumed = 0 and not archived;
create index if not exists pools_closing on pools (closes, tenant, id) where closes is not null and not archived;
create index if not exists pools_waiting on pools (tenant, id) where waiting > 0;
create index if not exists pools_empty on pools (tenant, id) where on_demand and held = 0 and consumed = 0;

create table if not exists holds (
    tenant text not null, id text not null,
    state text not null,
    deadline integer, open integer not null, legs text not null, owner_hash text not null, fence integer not null,
    held_at integer, ended_at integer, entity text, reason text, actor text, correlation_id text, metadata text,
    last_op text, version integer not null, returned_at integer, closes integer, kept integer, kept_from integer,
    account text, above text, joined_at integer, number integer, offer_ttl integer,
    primary key (tenant, id),
    check (state = 'held' or state = 'confirmed' or state = 'released' or state = 'expired' or state = 'waiting')
) strict, without rowid;
create index if not exists holds_due on holds (deadline, id) where open and deadline is not null;
create index if not exists holds_kept on holds (kept, kept_from, id) where kept is not null;
create index if not exists holds_entity on holds (tenant, entity, id) where entity is not null;
create index if not exists holds_account on holds (tenant, account, id) where account is not null;
create index if not exists holds_chosen on holds (tenant, id)
where substr(id, 13, 1) <> '7' or instr('89ab', substr(id, 17, 1)) = 0;

create table if not exists legs (
    tenant text not null, pool text not null, deadline integer not null, hold text not null,
    units integer not null check (units > 0), waiting integer not null default 0, number integer not null default 0,
    account text,
    primary key (tenant, pool, deadline, hold)
) strict, without rowid;
create index if not exists legs_line on legs (tenant, pool, number, waiting) where number > 0;

create table if not exists journal (
    seq integer primary key, tenant text not null, subject text not null, body text not null, crc integer not null
) strict;
create index if not exists journal_subject on journal (tenant, subject);

create table if not exists operations (
    tenant text not null, id text not null, fingerprint text not null, until integer not null, outcome text not null,
    seq integer not null, crc integer not null
) strict;
create unique index if not exists operations_key on operations (tenant, id);
create index if not exists operations_end on operations (until);
"""

TAKE: Final = """
update pools set held = held + ?1, fence = fence + 1, slot = max(slot, ?2), version = version + 1
where tenant = ?3 and id = ?4 and total - held - consumed >= ?1
returning total, held, consumed, fence, slot, version
"""
GIVE: Final = """
update pools set held = held - ?1, slot = max(slot, ?2), version = version + 1 where tenant = ?3 and id = ?4
returning total, held, consumed, fence, slot, version
"""
ADD_POOL: Final = """
insert into pools (tenant, id, total, held, consumed, fence, slot, version, on_demand, over)
values (?, ?, ?, 0, 0, 0, ?, 1, 0, 0)
"""
ADD_HOLD: Final = """
insert into holds (tenant, id, state, deadline, open, legs, owner_hash, fence, held_at, version)
values (?, ?, 'held', ?, 1, ?, ?, ?, ?, 1)
"""
END_HOLD: Final = """
update holds set state = ?1, open = 0, legs = ?2, ended_at = ?3, kept = 0, kept_from = ?3, version = version + 1
where tenant = ?4 and id = ?5 and state = 'held'
"""
DUE: Final = """
select deadline, hold, units from legs where tenant = ? and pool = ? and deadline <= ? order by deadline, hold limit 1000
"""

_json: Final = msgspec.json.Encoder()


class Held(NamedTuple):
    """What the caller gets."""

    id: str
    token: str
    deadline: int
    fence: int
    pool: str
    quantity: int


class NotGranted(Exception):
    """The hold cannot be placed or ended."""


class ByHand:
    """One connection and a lock."""

    def __init__(self, path: Path, tenant: str = "") -> None:
        self.tenant = tenant
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.executescript(SCHEMA)

    def create_pool(self, pool: str, total: int) -> None:
        """A pool with nothing held."""
        now = time.time_ns() // 1000
        with self._lock:
            self._db.execute("begin immediate")
            try:
                self._db.execute(ADD_POOL, (self.tenant, pool, total, now))
                self._note(pool, {"slot": now, "action": "pool.created", "subject": pool, "total": total})
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise

    def hold(self, pool: str, quantity: int, ttl: float, op: str | None = None) -> Held:
        """Take units until a deadline, or raise."""
        token = secrets.token_urlsafe(24)
        owner_hash = hashlib.blake2b(token.encode(), digest_size=16).hexdigest()
        with self._lock:
            now = time.time_ns() // 1000
            self._db.execute("begin immediate")
            try:
                held = None if op is None else self._recall(op, pool, quantity, ttl, now)
                if held is None:
                    self._return_due(pool, now)
                    held = self._take(pool, quantity, token, owner_hash, now, now + int(ttl * 1_000_000))
                    if op is not None:
                        self._remember(op, pool, quantity, ttl, held, now)
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise
        return held

    def release(self, held: Held) -> None:
        """Release the units, if the hold is alive and the owner matches."""
        owner_hash = hashlib.blake2b(held.token.encode(), digest_size=16).hexdigest()
        with self._lock:
            now = time.time_ns() // 1000
            self._db.execute("begin immediate")
            try:
                self._return_due(held.pool, now)
                deadline = self._deadline_if_ours(held.id, owner_hash)
                self._end(held.pool, held.id, held.quantity, deadline, "released", now, now)
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _take(self, pool: str, quantity: int, token: str, owner_hash: str, now: int, deadline: int) -> Held:
        execute, tenant = self._db.execute, self.tenant
        row = execute(TAKE, (quantity, now, tenant, pool)).fetchone()
        if row is None:
            raise NotGranted(pool)
        total, in_use, consumed, fence, slot, version = row
        hold_id = time_ordered_id(now)
        legs = [{"pool": pool, "quantity": quantity, "held": quantity}]
        execute(ADD_HOLD, (tenant, hold_id, deadline, _json.encode(legs).decode(), owner_hash, fence, now))
        execute(
            "insert into legs (tenant, pool, deadline, hold, units) values (?, ?, ?, ?, ?)",
            (tenant, pool, deadline, hold_id, quantity),
        )
        after = {"tenant": tenant, "id": pool, "total": total, "held": in_use, "consumed": consumed, "fence": fence,
                 "slot": slot, "version": version}  # fmt: skip
        hold = {"tenant": tenant, "id": hold_id, "legs": legs, "owner_hash": owner_hash, "held_at": now, "fence": fence,
                "deadline": deadline}  # fmt: skip
        effects = [{"pool": after, "held": quantity}]
        self._note(hold_id, {"slot": now, "action": "hold.held", "subject": hold_id, "effects": effects, "hold": hold})
        return Held(hold_id, token, deadline, fence, pool, quantity)

    def _deadline_if_ours(self, hold_id: str, owner_hash: str) -> int:
        row = self._db.execute(
            "select state, owner_hash, deadline from holds where tenant = ? and id = ?", (self.tenant, hold_id)
        ).fetchone()
        if row is None or row[0] != "held" or not secrets.compare_digest(row[1], owner_hash):
            raise NotGranted(hold_id)
        return int(row[2])

    def _return_due(self, pool: str, now: int) -> None:
        for deadline, hold_id, units in self._db.execute(DUE, (self.tenant, pool, now)).fetchall():
            self._end(pool, hold_id, units, deadline, "expired", deadline, now)

    def _end(self, pool: str, hold_id: str, units: int, deadline: int, state: str, ended_at: int, now: int) -> None:
        execute, tenant = self._db.execute, self.tenant
        execute(
            "delete from legs where tenant = ? and pool = ? and deadline = ? and hold = ?",
            (tenant, pool, deadline, hold_id),
        )
        total, in_use, consumed, fence, slot, version = execute(GIVE, (units, now, tenant, pool)).fetchone()
        legs = [{"pool": pool, "quantity": units}]
        execute(END_HOLD, (state, _json.encode(legs).decode(), ended_at, tenant, hold_id))
        after = {"tenant": tenant, "id": pool, "total": total, "held": in_use, "consumed": consumed, "fence": fence,
                 "slot": slot, "version": version}  # fmt: skip
        change = {"state": state, "was": "held", "legs": legs, "deadline": deadline, "ended_at": ended_at}
        effects = [{"pool": after, "held": -units}]
        entry = {"slot": now, "action": f"hold.{state}", "subject": hold_id, "effects": effects, "change": change}
        self._note(hold_id, entry)

    def _note(self, subject: str, entry: dict[str, Any]) -> None:
        body = _json.encode(entry)
        self._db.execute(
            "insert into journal (tenant, subject, body, crc) values (?, ?, ?, ?)",
            (self.tenant, subject, body.decode(), zlib.crc32(body)),
        )

    def _recall(self, op: str, pool: str, quantity: int, ttl: float, now: int) -> Held | None:
        row = self._db.execute(
            "select fingerprint, outcome from operations where tenant = ? and id = ? and until > ?",
            (self.tenant, op, now),
        ).fetchone()
        if row is None:
            return None
        if row[0] != fingerprint(pool, quantity, ttl):
            raise NotGranted(op)
        return msgspec.json.decode(row[1], type=Held)

    def _remember(self, op: str, pool: str, quantity: int, ttl: float, held: Held, now: int) -> None:
        outcome, until = _json.encode(held), now + 86_400_000_000
        self._db.execute(
            "insert or replace into operations values (?, ?, ?, ?, ?, last_insert_rowid(), ?)",
            (self.tenant, op, fingerprint(pool, quantity, ttl), until, outcome.decode(), zlib.crc32(outcome)),
        )


class AsyncByHand:
    """The same for asyncio, in the usual way: each call on a thread of the default executor."""

    def __init__(self, path: Path, tenant: str = "") -> None:
        self._sync = ByHand(path, tenant)

    async def create_pool(self, pool: str, total: int) -> None:
        """A pool with nothing held."""
        await asyncio.to_thread(self._sync.create_pool, pool, total)

    async def hold(self, pool: str, quantity: int, ttl: float, op: str | None = None) -> Held:
        """Take units until a deadline, or raise."""
        return await asyncio.to_thread(self._sync.hold, pool, quantity, ttl, op)

    async def release(self, held: Held) -> None:
        """Release the units."""
        await asyncio.to_thread(self._sync.release, held)

    async def close(self) -> None:
        """Close the file."""
        await asyncio.to_thread(self._sync.close)


def time_ordered_id(now: int) -> str:
    """A UUIDv7 as hex: new rows go to the end of their B-tree."""
    value = (now // 1000 << 80) | int.from_bytes(os.urandom(10), "big")
    return f"{value & ~(0xF << 76) & ~(0b11 << 62) | (7 << 76) | (0b10 << 62):032x}"


def fingerprint(pool: str, quantity: int, ttl: float) -> str:
    """Distinguishes payloads under the same operation id."""
    return hashlib.blake2b(_json.encode((pool, quantity, ttl)), digest_size=16).hexdigest()
