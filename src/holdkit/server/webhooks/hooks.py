"""The store of webhooks: records of the tenant, whose kinds begin with ~, so that no caller can read their secrets."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Final, Literal, Self, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.commands import PutRecord
from ...core.entries import Action
from ...core.model import Record, Slot
from ...core.personal import ERASED_DOCUMENT
from ...core.reading import FindEntries, FindRecord, ListRecords, ReadGeneration
from ...core.validation import invalid, text
from ...core.values import MAX_BODY
from ...errors import VersionConflict
from ...kernel._async.executor import AsyncExecutor
from ...kernel.arguments import Call, call_fields
from ...kernel.follower_state import CURSORS
from ...kernel.journal import JournalEntry, journal_entry
from ..positions import PlainPositions
from .events import event_id, new_secret
from .sealing import Sealer
from .status import STATUS, HookStatus

HOOKS: Final = "~webhook"
PARKED: Final = "~parked"
LEASES: Final = "~webhook.lease"
"""The leases: which server delivers each webhook."""
TENANTS: Final = "~webhooks"
"""In the default tenant: one record per tenant that has webhooks. Its version counts the changes of them."""
FOLLOWER_PREFIX: Final = "webhook:"
"""The prefix of the follower names of webhooks."""
TOO_LARGE: Final = "null"
"""The body of a parked event that is too large for a record: the journal still has it."""
ERASED_SINCE: Final = "the stored event was erased; a replay sends what the journal has of it"
_PAGE: Final = 1_000
_AT_ONCE: Final = 100
"""Records that are removed in one transaction."""


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One webhook, as it is stored."""

    id: str
    url: str
    secret: str
    """As the `Sealer` stores it."""
    old_secret: str | None = None
    """The one before the last rotation."""
    old_until: Slot | None = None
    """Until then events are signed with the old one too."""
    event_key: str
    """Keys the ids of its events."""
    actions: tuple[str, ...] = ()
    """The actions to deliver; empty: all."""
    after: str = ""
    """The cursor where it started."""
    state: Literal["active", "stopped"] = "active"
    why: str | None = None
    """The reason it was stopped."""
    since: Slot | None = None
    """When it was stopped."""
    made_under: str | None = None
    """The operation id of the request that created it."""
    rotated_under: str | None = None
    """The operation id of the request that rotated its secret last."""

    def __repr__(self) -> str:
        return f"<Hook {self.id} {self.state}>"


class Parked(Struct, frozen=True, kw_only=True):
    """A delivery that failed after all attempts: the event as it was sent, or `TOO_LARGE`."""

    id: str
    """Of the record: the webhook and the position, so that a replay goes in order."""
    event: str
    """The id of the event."""
    lane: int
    seq: int
    body: str
    why: str
    at: Slot
    """When it was parked."""


def follower_name(id: str) -> str:
    """Return the follower name under which a webhook's cursor is stored."""
    return f"{FOLLOWER_PREFIX}{id}"


_hook: Final = msgspec.json.Decoder(Hook)
_parked: Final = msgspec.json.Decoder(Parked)


def _id_under(op: str) -> str:
    """Return the id of the webhook that is created under an operation id, so that a retry finds it."""
    return hashlib.blake2b(op.encode(), digest_size=8, person=b"webhook").hexdigest()


async def tenants_with_hooks(executor: AsyncExecutor) -> dict[str, int]:
    """Return all tenants that ever created a webhook, each with a number that grows whenever its webhooks change."""
    found: dict[str, int] = {}
    after = ""
    while True:
        rows = await executor.read(ListRecords("", TENANTS, after, _PAGE))
        found |= {row.id[1:]: row.version for row in rows}
        if len(rows) < _PAGE:
            return found
        after = rows[-1].id


class Hooks:
    """The webhooks of one tenant. `positions` says how it sees positions in the journal."""

    def __init__(
        self, executor: AsyncExecutor, tenant: str, sealer: Sealer, positions: PlainPositions, call: Call | None = None
    ) -> None:
        self.executor, self.tenant, self.sealer, self.positions = executor, tenant, sealer, positions
        self._fields = {"tenant": tenant} if call is None else call_fields({**call, "op": None}, tenant)
        """Of every change: an operation id is stored with the webhook instead, since one request makes several."""

    def changed_by(self, **call: Unpack[Call]) -> Self:
        """Return a store of these webhooks that records its changes with this actor and reason."""
        return type(self)(self.executor, self.tenant, self.sealer, self.positions, call)

    async def made_under(self, op: str) -> Hook | None:
        """Return the webhook that was created under an operation id."""
        found = await self.find(_id_under(op), durable=True)
        return None if found is None or found.made_under != op else found

    async def make(
        self, url: str, actions: list[str], after: str, most: int, op: str | None = None
    ) -> tuple[Hook, str]:
        """Create a webhook; its secret is returned only here. `VersionConflict` if one was created under `op`."""
        known = list(Action)
        for action in actions:
            if action not in known:
                raise invalid("actions", "action_unknown", f"must be one of {', '.join(known)}")
        if len(await self.listed()) >= most:
            said = f"the tenant already has {most} webhooks, the maximum: remove one first"
            raise invalid("url", "webhooks_too_many", said)
        id, secret = os.urandom(8).hex() if op is None else _id_under(op), new_secret()
        sealed, key = self.sealer.seal(self.tenant, id, secret), os.urandom(16).hex()
        hook = Hook(id=id, url=url, secret=sealed, event_key=key, actions=tuple(actions), after=after, made_under=op)
        await (
            self._count_change()
        )  # first, so that a server that reads all tenants finds it though the second count fails
        await self.executor.execute_all([self._put(HOOKS, id, hook, 0), self._put(STATUS, id, HookStatus(), 0)])
        await self._count_change()
        return hook, secret

    async def listed(self) -> list[Hook]:
        """Return all webhooks in order of id."""
        rows = await self.executor.read(ListRecords(self.tenant, HOOKS, "", _PAGE))
        return [_hook.decode(row.body) for row in rows]

    async def find(self, id: str, *, durable: bool = False) -> Hook | None:
        """Return one webhook, or None. `durable`: the caller reports what it read."""
        row = await self.executor.read(FindRecord((self.tenant, HOOKS, text(id, "id", 64))), durable=durable)
        return None if row is None else _hook.decode(row.body)

    async def remove(self, id: str) -> None:
        """Remove a webhook, its parked deliveries, its cursor, its status and its leases."""
        while parked := await self.parked(id, limit=_AT_ONCE):
            await self.executor.execute_all([self._put(PARKED, one.id, None, None) for one in parked])
        records = [(CURSORS, follower_name(id)), (LEASES, id), (LEASES, f"{id}.replay"), (STATUS, id), (HOOKS, id)]
        await self.executor.execute_all([self._put(kind, record, None, None) for kind, record in records])
        await self._count_change()

    async def stop(self, id: str, why: str, now: Slot) -> None:
        """Stop a webhook, until it is replayed."""
        await self.change(id, lambda hook: replace(hook, state="stopped", why=why, since=now))

    async def resume(self, id: str) -> None:
        """Deliver again."""
        await self.change(id, lambda hook: replace(hook, state="active", why=None, since=None))

    async def change(self, id: str, change: Callable[[Hook], Hook]) -> Hook | None:
        """Change a webhook; None if it was removed."""
        while True:
            row = await self.executor.read(FindRecord((self.tenant, HOOKS, id)))
            if row is None:
                return None
            changed = change(_hook.decode(row.body))
            try:
                await self.executor.execute(self._put(HOOKS, id, changed, row.version), faces=True)
            except VersionConflict:
                continue
            await self._count_change()
            return changed

    def secrets(self, hook: Hook, now: Slot) -> list[str]:
        """Return the secrets to sign with, the newest first. Raises `SecretUnreadable`."""
        stored = [hook.secret]
        if hook.old_secret is not None and hook.old_until is not None and now < hook.old_until:
            stored.append(hook.old_secret)
        return [self.sealer.open(self.tenant, hook.id, one) for one in stored]

    async def park(self, hook: Hook, entry: JournalEntry, body: bytes, why: str, now: Slot) -> None:
        """Store a failed delivery; for an event that is too large, store only its place in the journal."""
        position = entry.raw.position
        parked = Parked(
            id=f"{hook.id}.{position.lane:04}.{position.seq:020}",
            event=event_id(hook.id, hook.event_key, entry),
            lane=position.lane,
            seq=position.seq,
            body=body.decode(),
            why=why,
            at=now,
        )
        if len(msgspec.json.encode(parked)) > MAX_BODY:
            parked = replace(parked, body=TOO_LARGE)
        await self.executor.execute(self._put(PARKED, parked.id, parked, None), faces=True)

    async def as_it_is_now(self, entry: JournalEntry) -> JournalEntry:
        """Return an entry as the journal has it now: an erasure may have rewritten it since it was read. Return the same object if nothing
        was rewritten, or if the journal no longer has the entry."""
        raw = entry.raw
        rows = await self.executor.read(FindEntries(((raw.row.lane, raw.row.seq),)))
        for row in rows:
            current = journal_entry(row, raw.read_before, raw.as_of, raw.generation)
            if current.raw.digest == raw.digest and current.raw.entry != raw.entry:
                return current
        return entry

    async def unpark(self, id: str) -> None:
        """Remove a parked delivery that was delivered."""
        await self.executor.execute(self._put(PARKED, id, None, None), faces=True)

    async def entry(self, hook: Hook, parked: Parked) -> JournalEntry | None:
        """Return the entry of a parked event, if the journal still has it."""
        entry = await self._entry_at(parked)
        same = entry is not None and event_id(hook.id, hook.event_key, entry) == parked.event
        return entry if same else None

    async def _entry_at(self, parked: Parked) -> JournalEntry | None:
        rows = await self.executor.read(FindEntries(((parked.lane, parked.seq),)))
        generation = await self.executor.read(ReadGeneration())
        entries = [journal_entry(row, {}, generation=generation) for row in rows]
        return next((entry for entry in entries if entry.tenant == self.tenant), None)

    async def parked(self, hook: str, after: str = "", limit: int = _PAGE) -> list[Parked]:
        """Return the parked deliveries of a webhook in order of their positions, after a given one."""
        rows = await self.executor.read(ListRecords(self.tenant, PARKED, after or f"{hook}.", limit))
        return [await self._read_parked(row) for row in rows if row.id.startswith(f"{hook}.")]

    async def _read_parked(self, row: Record) -> Parked:
        """Decode a parked delivery. If an erasure has replaced it, return its place: the journal has the event without the erased data."""
        if row.body != ERASED_DOCUMENT:
            return _parked.decode(row.body)
        hook_id, lane, seq = row.id.rsplit(".", 2)
        parked = Parked(
            id=row.id, event="", lane=int(lane), seq=int(seq), body=TOO_LARGE, why=ERASED_SINCE, at=row.slot
        )
        hook = await self.find(hook_id)
        entry = None if hook is None else await self._entry_at(parked)
        if hook is None or entry is None:
            return parked
        return replace(parked, event=event_id(hook.id, hook.event_key, entry))

    async def count_parked(self, hook: str) -> int:
        """Return how many deliveries of a webhook are parked. The status counts them; this is exact, and reads all of them."""
        count, after = 0, ""
        while page := await self.parked(hook, after, 16):
            count, after = count + len(page), page[-1].id
        return count

    def _put(self, kind: str, id: str, value: Struct | None, version: int | None) -> PutRecord:
        body = None if value is None else msgspec.json.encode(value).decode()
        return PutRecord(kind=kind, id=id, body=body, if_version=version, **self._fields)

    async def _count_change(self) -> None:
        await self.executor.execute(PutRecord(kind=TENANTS, id=f"={self.tenant}", body="{}"), faces=True)
