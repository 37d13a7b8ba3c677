"""The kernel at a distance: the same verbs, the same answers, the same exceptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack
from uuid import UUID

import httpx
import msgspec

from ...core.commands import Amounts, AnyCommand, Overage, Ttl
from ...core.model import Pool, Slot, State
from ...core.validation import hold_id as check_hold_id
from ...core.validation import invalid, text
from ...errors import InvalidRequest
from ...kernel._async.calls import Call
from ...kernel.answers import Answer
from ...kernel.context import actor_text, current
from ...kernel.spelling import What, amounts_of, legs_of, reference
from ...kernel.spelling import hold_id as spelled
from ...kernel.surface import Hold, SweepReport
from ..addresses import path_of
from ..retrying import Policy
from ..wire import (
    EntryPage,
    HoldPage,
    PoolPage,
    RemoteEntry,
    WireBatch,
    WireHold,
    WirePool,
    command_json,
    hold_from,
    instant,
    legs_json,
    pool_from,
    refusal_from,
    seconds,
    slot_of,
)
from .transport import AsyncTransport, new_op

MAX_LEGS: Final = 1_000


class AsyncRemoteKernel:
    """A server's kernel, for the tenant of the key. Safe to share; close it when done."""

    def __init__(self, url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        chosen = policy or Policy()
        if http is None:
            http = httpx.AsyncClient(timeout=httpx.Timeout(10.0, read=chosen.seconds), follow_redirects=False)
        http.base_url = url
        http.headers.update(headers)
        self._transport = AsyncTransport(http, chosen)
        self.url = url

    def _frame(self, call: Call) -> dict[str, Any]:
        """What every change says beside itself, from the call or from the context."""
        unknown = set(call) - {"op", "actor", "correlation_id", "reason", "tx"}
        if unknown:
            raise invalid(min(unknown), "argument_unknown", "is not an argument of this call")
        if call.get("tx") is not None:
            raise invalid("tx", "tx_unsupported", "a server cannot join a transaction of yours")
        around = current()
        said = {
            "actor": around.actor if call.get("actor") is None else actor_text(call.get("actor")),
            "correlation_id": call.get("correlation_id") or around.correlation_id,
            "reason": call.get("reason") or around.reason,
        }
        return {name: value for name, value in said.items() if value is not None}

    async def _change(self, path: str, body: dict[str, Any], call: Call, owner: str | None) -> Hold:
        sent = {name: value for name, value in body.items() if value is not None} | self._frame(call)
        answer = await self._transport.ask("POST", path, sent, op=call.get("op") or new_op())
        return hold_from(msgspec.json.decode(answer.content, type=WireHold), owner)

    async def create_pool(self, id: str, total: int, *, exist_ok: bool = False, **call: Unpack[Call]) -> Pool:
        """Make a pool with nothing held. Raises `PoolExists`, unless `exist_ok`."""
        body = {"id": id, "total": total, "exist_ok": exist_ok} | self._frame(call)
        answer = await self._transport.ask("POST", "/v1/pools", body, op=call.get("op") or new_op())
        return _pool(answer)

    async def resize_pool(self, id: str, total: int, *, if_version: int | None = None, **call: Unpack[Call]) -> Pool:
        """Change a pool's total. Raises `BelowInUse`, and `VersionConflict` if the pool is not at `if_version`."""
        headers = {} if if_version is None else {"If-Match": f'"{if_version}.0"'}
        body = {"total": total} | self._frame(call)
        op = call.get("op") or new_op()
        return _pool(await self._transport.ask("PUT", path_of("pools", id), body, op=op, headers=headers))

    async def hold(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        id: str | UUID | None = None,
        owner: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Take every leg until the deadline, or nothing at all. Raises `InsufficientCapacity` naming every shortfall."""
        body = {
            "legs": legs_json(legs_of(what, quantity, MAX_LEGS)),
            "ttl": seconds(ttl),
            "deadline": instant(deadline, "deadline"),
            "id": None if id is None else spelled(id),
            "owner": owner,
            "entity": entity,
            "metadata": metadata,
        }
        return await self._change("/v1/holds", body, call, owner)

    async def consume(
        self,
        what: What,
        quantity: int | None = None,
        *,
        id: str | UUID | None = None,
        owner: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step."""
        body = {
            "legs": legs_json(legs_of(what, quantity, MAX_LEGS)),
            "id": None if id is None else spelled(id),
            "owner": owner,
            "entity": entity,
            "metadata": metadata,
        }
        return await self._change("/v1/consume", body, call, owner)

    async def confirm(
        self,
        hold: Hold | str | UUID,
        *,
        owner: str | None = None,
        entity: str | None = None,
        quantity: Amounts = None,
        keep_rest: bool = False,
        overage: Overage = "reject",
        **call: Unpack[Call],
    ) -> Hold:
        """Held units become consumed. Less than is held: the rest is released, or kept with `keep_rest=True`."""
        id, token = reference(hold, owner)
        body = {"owner": token, "entity": entity, "quantity": amounts_of(quantity), "keep_rest": keep_rest or None,
                "overage": None if overage == "reject" else overage}  # fmt: skip
        return await self._change(path_of("holds", id, "confirm"), body, call, token)

    async def release(
        self,
        hold: Hold | str | UUID,
        *,
        owner: str | None = None,
        quantity: Amounts = None,
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold:
        """Held units become available. `force=True` with a reason needs no token, but an admin's key."""
        id, token = reference(hold, owner)
        body = {"owner": token, "quantity": amounts_of(quantity), "force": force or None}
        return await self._change(path_of("holds", id, "release"), body, call, token)

    async def extend(
        self,
        hold: Hold | str | UUID,
        *,
        by: Ttl | None = None,
        ttl: Ttl | None = None,
        until: Slot | datetime | None = None,
        owner: str | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """A later deadline: `by` counts from the present one, `ttl` from now, `until` is absolute. Never shortens."""
        id, token = reference(hold, owner)
        body = {"owner": token, "by": seconds(by, "by"), "ttl": seconds(ttl), "until": instant(until, "until")}
        return await self._change(path_of("holds", id, "extend"), body, call, token)

    async def expire(self, hold: Hold | str | UUID, **call: Unpack[Call]) -> Hold:
        """Say that a hold's deadline has come. Raises `NotDue`."""
        id, _ = reference(hold, None)
        return await self._change(path_of("holds", id, "expire"), {}, call, None)

    async def return_units(
        self, hold: Hold | str | UUID, *, owner: str | None = None, quantity: Amounts = None, **call: Unpack[Call]
    ) -> Hold:
        """Consumed units become available again."""
        id, token = reference(hold, owner)
        body = {"owner": token, "quantity": amounts_of(quantity)}
        return await self._change(path_of("holds", id, "return"), body, call, token)

    async def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None
    ) -> list[Answer]:
        """Decide several commands in one transaction, in order; outcomes as values. `op` stands for all of them."""
        listed = list(commands)
        if not listed:
            return []
        body = {"commands": [command_json(command) for command in listed], "atomic": atomic}
        answer = await self._transport.ask("POST", "/v1/batch", body, op=op or new_op())
        wires = msgspec.json.decode(answer.content, type=WireBatch).answers
        found: list[Answer] = []
        for command, wire in zip(listed, wires, strict=True):
            if wire.hold is not None:
                found.append(hold_from(wire.hold, getattr(command, "owner", None)))
            elif wire.pool is not None:
                found.append(pool_from(wire.pool, wire.replayed))
            else:
                refusal = refusal_from(wire.reason, wire.detail, wire.facts, wire.replayed)
                field, code = str(wire.facts.get("field", "commands")), str(wire.facts.get("code", wire.reason))
                found.append(refusal or InvalidRequest(wire.detail, field=field, code=code))
        return found

    async def pool(self, id: str) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        return _pool(await self._transport.ask("GET", path_of("pools", text(id, "id", 512))))

    async def pools(self, prefix: str = "", *, after: str = "", limit: int = 100) -> list[Pool]:
        """Pools in order of id; give the last id as `after` for the next page."""
        query = {"prefix": prefix, "after": after, "limit": limit}
        answer = await self._transport.ask("GET", "/v1/pools", params=query)
        return [pool_from(wire) for wire in msgspec.json.decode(answer.content, type=PoolPage).items]

    async def get(self, hold: Hold | str | UUID) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        answer = await self._transport.ask("GET", path_of("holds", check_hold_id(id)))
        return hold_from(msgspec.json.decode(answer.content, type=WireHold), None)

    async def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Hold]:
        """Holds in order of id; give the last id as `after`."""
        said = {"pool": pool, "state": state, "entity": entity, "after": after, "limit": limit}
        query = {name: str(value) for name, value in said.items() if value is not None}
        answer = await self._transport.ask("GET", "/v1/holds", params=query)
        return [hold_from(wire, None) for wire in msgspec.json.decode(answer.content, type=HoldPage).items]

    async def history(self, subject: Hold | str | UUID) -> list[RemoteEntry]:
        """All that happened to a hold (or to a pool, by its id), in journal order."""
        named = subject if isinstance(subject, str) and not subject.startswith("hk1.") else reference(subject, None)[0]
        try:
            path = path_of("holds", check_hold_id(spelled(named)), "history")
        except InvalidRequest:
            path = path_of("pools", text(named, "subject", 512), "history")
        return _entries(await self._transport.ask("GET", path))

    async def journal(self, *, after: str | None = None, limit: int = 1_000) -> list[RemoteEntry]:
        """Up to `limit` entries in order, behind a cursor. Raises `CursorLost`."""
        query = {"limit": str(limit)} if after is None else {"limit": str(limit), "after": after}
        return _entries(await self._transport.ask("GET", "/v1/journal", params=query))

    async def follow(self, *, after: str | None = None) -> AsyncIterator[RemoteEntry]:
        """Entries as they happen, none skipped and none twice, behind a cursor or from now on; goes on after a broken
        connection. Raises `CursorLost` if the journal was cut back."""
        seen: dict[int, int] = {}
        while True:
            async for line in self._transport.lines("/v1/events", after):
                if line.startswith("id: "):
                    after = line[4:]
                elif line.startswith('data: {"position"'):
                    entry = msgspec.json.decode(line[6:], type=RemoteEntry)
                    lane, seq = entry.position.lane, entry.position.seq
                    if seq > seen.get(lane, 0):
                        seen[lane] = seq
                        yield entry
            await self.ready()

    async def ready(self) -> None:
        """Returns when the server answers; raises when it does not for too long."""
        await self._transport.ask("GET", "/readyz")

    async def sweep(self, limit: int = 500) -> SweepReport:
        """Return what is due, of all tenants: for admins of the default tenant."""
        answer = await self._transport.ask("POST", "/v1/sweep", {"limit": limit})
        told = msgspec.json.decode(answer.content, type=dict[str, Any])
        return SweepReport(told["expired"], slot_of(datetime.fromisoformat(told["server_time"])), told["more"])

    async def stats(self) -> dict[str, Any]:
        """The server's numbers since it started."""
        answer = await self._transport.ask("GET", "/v1/stats")
        return msgspec.json.decode(answer.content, type=dict[str, Any])

    async def aclose(self) -> None:
        """Give back every connection."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"


def _pool(answer: httpx.Response) -> Pool:
    replayed = "idempotency-replayed" in answer.headers
    return pool_from(msgspec.json.decode(answer.content, type=WirePool), replayed)


def _entries(answer: httpx.Response) -> list[RemoteEntry]:
    return msgspec.json.decode(answer.content, type=EntryPage).items
