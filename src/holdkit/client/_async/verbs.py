"""The verbs at a distance: each call that changes something carries a retry key, and is asked again with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Unpack
from uuid import UUID

import msgspec

from ...core.commands import Amounts, AnyCommand, Overage, Ttl
from ...core.model import Pool, Record, Slot
from ...errors import InvalidRequest
from ...kernel._async.calls import Call
from ...kernel.answers import Answer
from ...kernel.spelling import What, amounts_of, legs_of, reference
from ...kernel.spelling import hold_id as spelled
from ...kernel.surface import Hold
from ..addresses import path_of, record_path
from ..command_wire import command_json, instant, legs_json, seconds
from ..wire import RecordNow, WireBatch, hold_from, pool_answer, pool_from, record_from, refusal_from
from .reading import AsyncRemoteReads
from .transport import new_op

MAX_LEGS: Final = 1_000


class AsyncRemoteVerbs(AsyncRemoteReads):
    """Everything that changes pools and holds."""

    async def create_pool(self, id: str, total: int, *, exist_ok: bool = False, **call: Unpack[Call]) -> Pool:
        """Make a pool with nothing held. Raises `PoolExists`, unless `exist_ok`."""
        body = {"id": id, "total": total, "exist_ok": exist_ok} | self._frame(call)
        answer = await self._transport.ask("POST", "/v1/pools", body, op=call.get("op") or new_op())
        return pool_answer(answer)

    async def resize_pool(self, id: str, total: int, *, if_version: int | None = None, **call: Unpack[Call]) -> Pool:
        """Change a pool's total. Raises `BelowInUse`, and `VersionConflict` if the pool is not at `if_version`."""
        headers = {} if if_version is None else {"If-Match": f'"{if_version}.0"'}
        body = {"total": total} | self._frame(call)
        op = call.get("op") or new_op()
        return pool_answer(await self._transport.ask("PUT", path_of("pools", id), body, op=op, headers=headers))

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

    async def put_record(
        self, kind: str, id: str, body: str | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Record | None:
        """Write (or with body None remove) a small JSON document. Raises `VersionConflict`."""
        said = {"body": body} | ({} if if_version is None else {"if_version": if_version}) | self._frame(call)
        answer = await self._transport.ask("PUT", record_path(kind, id), said, op=call.get("op") or new_op())
        wire = msgspec.json.decode(answer.content, type=RecordNow).record
        return None if wire is None else record_from(wire)

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
