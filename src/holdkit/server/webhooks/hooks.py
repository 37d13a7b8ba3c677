"""Hooks as they are kept: records of the tenant, whose kinds begin with ~, so that no caller reads their secrets."""

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
from ...kernel._async.named_follower import CURSORS
from ...kernel.results import JournalEntry
from .requests import check_url, event_id, hook_of, new_secret, position_of

HOOKS: Final = "~webhook"
PARKED: Final = "~parked"
LEASES: Final = "~webhook.lease"
"""Who delivers each, and until when."""
TENANTS: Final = "~webhooks"
"""In the default tenant: which tenants have hooks."""
MAX_HOOKS: Final = 50
MAX_PARKED: Final = 1_000
PLACES: Final = "webhook:"
"""What the names begin with under which hooks keep their places in the journal."""
UNKEPT: Final = "null"
"""Stands for an event that is too large for a record: the journal has it still."""


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hook."""

    id: str
    url: str
    secret: str
    actions: tuple[str, ...] = ()
    """What is delivered; all, if none is named."""
    after: str = ""
    """Where it began."""
    state: Literal["active", "stopped"] = "active"
    why: str | None = None
    """Why it was stopped."""

    def __repr__(self) -> str:
        return f"<Hook {self.id} {self.state}>"


class Parked(Struct, frozen=True, kw_only=True):
    """A delivery that was given up: the event as it was sent, or `UNKEPT`."""

    id: str
    body: str
    why: str


def place_of(id: str) -> str:
    """The name under which a hook's place in the journal is kept."""
    return f"{PLACES}{id}"


_hook: Final = msgspec.json.Decoder(Hook)
_parked: Final = msgspec.json.Decoder(Parked)


async def tenants_with_hooks(executor: AsyncExecutor) -> list[str]:
    """Every tenant that ever made one."""
    found: list[str] = []
    after = ""
    while True:
        rows = await executor.read(ListRecords("", TENANTS, after, 1_000))
        found += [row.id[1:] for row in rows]
        if len(rows) < 1_000:
            return found
        after = rows[-1].id


class Hooks:
    """The hooks of one tenant."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self.tenant = executor, tenant

    async def make(self, url: object, actions: list[str], after: str) -> Hook:
        """A new one; its secret is shown this one time."""
        known = list(Action)
        for action in actions:
            if action not in known:
                raise invalid("actions", "action_unknown", f"must be among {', '.join(known)}")
        checked = check_url(url)
        if len(await self.listed()) >= MAX_HOOKS:
            raise invalid("url", "webhooks_too_many", f"at most {MAX_HOOKS} are kept")
        hook = Hook(
            id=os.urandom(8).hex(), url=checked, secret=new_secret(os.urandom(32)), actions=tuple(actions), after=after
        )
        directory = PutRecord(kind=TENANTS, id=f"={self.tenant}", body="{}")
        await self._executor.execute(
            directory, faces=True
        )  # first: a server that looks there finds nothing, which is no harm
        await self._put(HOOKS, hook.id, hook, 0)
        return hook

    async def listed(self) -> list[Hook]:
        """All, in order of id."""
        rows = await self._executor.read(ListRecords(self.tenant, HOOKS, "", MAX_HOOKS + 1))
        return [_hook.decode(row.body) for row in rows]

    async def find(self, id: str, *, durable: bool = False) -> Hook | None:
        """One, or None. `durable`: an answer will rest on it."""
        row = await self._executor.read(FindRecord((self.tenant, HOOKS, text(id, "id", 64))), durable=durable)
        return None if row is None else _hook.decode(row.body)

    async def remove(self, id: str) -> None:
        """It, what it has parked, its place in the journal and its lease."""
        for parked in await self.parked(id):
            await self._put(PARKED, parked.id, None, None)
        await self._put(CURSORS, place_of(id), None, None)
        await self._put(LEASES, id, None, None)
        await self._put(HOOKS, id, None, None)

    async def set_state(self, hook: Hook, state: Literal["active", "stopped"], why: str | None) -> None:
        """Stop it, or let it go on."""
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
        """Keep a delivery that was given up; an event that is too large by name only."""
        fits = len(msgspec.json.encode(parked)) <= MAX_BODY
        await self._put(PARKED, parked.id, parked if fits else replace(parked, body=UNKEPT), None)

    async def unpark(self, id: str) -> None:
        """It was delivered after all."""
        await self._put(PARKED, id, None, None)

    async def entry(self, event: str) -> JournalEntry | None:
        """What an event tells of, if the journal has it still."""
        rows = await self._executor.read(FindEntries((position_of(event),)))
        generation = await self._executor.read(ReadGeneration())
        found = [JournalEntry(row, {}, generation=generation) for row in rows]
        same = [entry for entry in found if event_id(hook_of(event), entry) == event]
        return same[0] if same and same[0].entry.tenant == self.tenant else None

    async def parked(self, hook: str) -> list[Parked]:
        """What a hook could not deliver, in order of id."""
        rows = await self._executor.read(ListRecords(self.tenant, PARKED, f"{hook}.", MAX_PARKED))
        return [_parked.decode(row.body) for row in rows if row.id.startswith(f"{hook}.")]

    async def _put(self, kind: str, id: str, value: Hook | Parked | None, version: int | None) -> None:
        body = None if value is None else msgspec.json.encode(value).decode()
        command = PutRecord(tenant=self.tenant, kind=kind, id=id, body=body, if_version=version)
        await self._executor.execute(command, faces=True)
