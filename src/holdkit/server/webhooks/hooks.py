"""The store of webhooks: records of the tenant, whose kinds begin with ~, so that no caller can read their secrets."""

from __future__ import annotations

import os
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.commands import PutRecord
from ...core.entries import Action
from ...core.reading import FindEntries, FindRecord, ListRecords, ReadGeneration
from ...core.validation import invalid, text
from ...core.values import MAX_BODY
from ...errors import VersionConflict
from ...kernel._async.executor import AsyncExecutor
from ...kernel.follower_state import CURSORS
from ...kernel.results import JournalEntry
from .requests import check_url, event_id, hook_of, new_secret, position_of

HOOKS: Final = "~webhook"
PARKED: Final = "~parked"
LEASES: Final = "~webhook.lease"
"""The leases: which server delivers each webhook."""
TENANTS: Final = "~webhooks"
"""In the default tenant: the tenants that have webhooks."""
MAX_HOOKS: Final = 50
MAX_PARKED: Final = 1_000
FOLLOWER_PREFIX: Final = "webhook:"
"""The prefix of the follower names of webhooks."""
TOO_LARGE: Final = "null"
"""The body of a parked event that is too large for a record: the journal still has it."""


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One webhook."""

    id: str
    url: str
    secret: str
    actions: tuple[str, ...] = ()
    """The actions to deliver; empty: all."""
    after: str = ""
    """The cursor where it started."""
    state: Literal["active", "stopped"] = "active"
    why: str | None = None
    """The reason it was stopped."""

    def __repr__(self) -> str:
        return f"<Hook {self.id} {self.state}>"


class Parked(Struct, frozen=True, kw_only=True):
    """A delivery that failed after all attempts: the event as it was sent, or `TOO_LARGE`."""

    id: str
    body: str
    why: str


def follower_name(id: str) -> str:
    """The follower name under which a webhook's cursor is stored."""
    return f"{FOLLOWER_PREFIX}{id}"


_hook: Final = msgspec.json.Decoder(Hook)
_parked: Final = msgspec.json.Decoder(Parked)


async def tenants_with_hooks(executor: AsyncExecutor) -> list[str]:
    """All tenants that ever created a webhook."""
    found: list[str] = []
    after = ""
    while True:
        rows = await executor.read(ListRecords("", TENANTS, after, 1_000))
        found += [row.id[1:] for row in rows]
        if len(rows) < 1_000:
            return found
        after = rows[-1].id


class Hooks:
    """The webhooks of one tenant."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self.tenant = executor, tenant

    async def make(self, url: object, actions: list[str], after: str) -> Hook:
        """Create a webhook; its secret is returned only here."""
        known = list(Action)
        for action in actions:
            if action not in known:
                raise invalid("actions", "action_unknown", f"must be one of {', '.join(known)}")
        checked = check_url(url)
        if len(await self.listed()) >= MAX_HOOKS:
            raise invalid(
                "url",
                "webhooks_too_many",
                f"the tenant already has {MAX_HOOKS} webhooks, the maximum: remove one first",
            )
        hook = Hook(
            id=os.urandom(8).hex(), url=checked, secret=new_secret(os.urandom(32)), actions=tuple(actions), after=after
        )
        directory = PutRecord(kind=TENANTS, id=f"={self.tenant}", body="{}")
        await self._executor.execute(
            directory, faces=True
        )  # first: until the webhook itself is stored, a server finds none there
        await self._put(HOOKS, hook.id, hook, 0)
        return hook

    async def listed(self) -> list[Hook]:
        """All webhooks in order of id."""
        rows = await self._executor.read(ListRecords(self.tenant, HOOKS, "", MAX_HOOKS + 1))
        return [_hook.decode(row.body) for row in rows]

    async def find(self, id: str, *, durable: bool = False) -> Hook | None:
        """One webhook, or None. `durable`: the caller reports what it read."""
        row = await self._executor.read(FindRecord((self.tenant, HOOKS, text(id, "id", 64))), durable=durable)
        return None if row is None else _hook.decode(row.body)

    async def remove(self, id: str) -> None:
        """Remove a webhook, its parked deliveries, its cursor and its lease."""
        for parked in await self.parked(id):
            await self._put(PARKED, parked.id, None, None)
        await self._put(CURSORS, follower_name(id), None, None)
        await self._put(LEASES, id, None, None)
        await self._put(HOOKS, id, None, None)

    async def set_state(self, hook: Hook, state: Literal["active", "stopped"], why: str | None) -> None:
        """Stop a webhook, or resume it."""
        while True:
            row = await self._executor.read(FindRecord((self.tenant, HOOKS, hook.id)))
            if row is None:
                return
            try:
                await self._put(HOOKS, hook.id, replace(_hook.decode(row.body), state=state, why=why), row.version)
            except VersionConflict:
                continue
            return

    async def park(self, parked: Parked) -> None:
        """Store a failed delivery; of an event that is too large only the id."""
        fits = len(msgspec.json.encode(parked)) <= MAX_BODY
        await self._put(PARKED, parked.id, parked if fits else replace(parked, body=TOO_LARGE), None)

    async def unpark(self, id: str) -> None:
        """Remove a parked delivery that was delivered."""
        await self._put(PARKED, id, None, None)

    async def entry(self, event: str) -> JournalEntry | None:
        """The entry of an event, if the journal still has it."""
        rows = await self._executor.read(FindEntries((position_of(event),)))
        generation = await self._executor.read(ReadGeneration())
        found = [JournalEntry(row, {}, generation=generation) for row in rows]
        same = [entry for entry in found if event_id(hook_of(event), entry) == event]
        return same[0] if same and same[0].entry.tenant == self.tenant else None

    async def parked(self, hook: str) -> list[Parked]:
        """The parked deliveries of a webhook, in order of id."""
        rows = await self._executor.read(ListRecords(self.tenant, PARKED, f"{hook}.", MAX_PARKED))
        return [_parked.decode(row.body) for row in rows if row.id.startswith(f"{hook}.")]

    async def _put(self, kind: str, id: str, value: Hook | Parked | None, version: int | None) -> None:
        body = None if value is None else msgspec.json.encode(value).decode()
        command = PutRecord(tenant=self.tenant, kind=kind, id=id, body=body, if_version=version)
        await self._executor.execute(command, faces=True)
