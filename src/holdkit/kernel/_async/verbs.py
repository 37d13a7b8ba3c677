"""The verbs of the API: each builds one command. `what` is a pool id with a quantity, a mapping of pool to quantity, or a list
of legs. A hold is given as a `Hold`, a ticket, or an id with `owner=`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, overload
from uuid import UUID

from ...core.commands import (
    Amounts,
    ArchivePool,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    Overage,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    Ttl,
    UnarchivePool,
)
from ...core.model import Pool, Record, Slot
from ...core.validation import invalid
from ..answers import hold_of, pool_of, record_of, report_of
from ..context import Call, call_fields
from ..normalise import What, amounts_of, hold_id, legs_of, moment, reference, span
from ..results import Hold, SweepReport
from .executor import AsyncExecutorPort


class AsyncVerbs:
    """Everything that changes something, over an executor in this process or behind a server."""

    if TYPE_CHECKING:  # attributes of the classes that have the verbs

        @property
        def _executor(self) -> AsyncExecutorPort: ...

        _tenant: str

    async def create_pool(self, id: str, total: int, *, exist_ok: bool = False, **call: Unpack[Call]) -> Pool:
        """Create a pool with nothing held. Raises `PoolExists`; with `exist_ok` it returns the existing pool as it is, with its own
        total."""
        command = CreatePool(id=id, total=total, exist_ok=exist_ok, **call_fields(call, self._tenant))
        pool = pool_of(await self._executor.execute(command, call.get("tx")))
        assert pool is not None
        return pool

    async def resize_pool(self, id: str, total: int, *, if_version: int | None = None, **call: Unpack[Call]) -> Pool:
        """Change a pool's total. Raises `BelowInUse` if less than what is held and consumed, and `VersionConflict` if anything
        about the pool changed since `if_version`."""
        command = ResizePool(id=id, total=total, if_version=if_version, **call_fields(call, self._tenant))
        pool = pool_of(await self._executor.execute(command, call.get("tx")))
        assert pool is not None
        return pool

    async def remove_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Remove a pool for good, and return it as it was. Raises `PoolInUse` if any of its units are held or consumed."""
        pool = pool_of(
            await self._executor.execute(RemovePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool

    async def archive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Grant nothing more on a pool (`PoolArchived`), and omit it from lists. Its holds are not affected: extend, confirm, release
        and return work. If it is archived already, nothing changes."""
        pool = pool_of(
            await self._executor.execute(ArchivePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool

    async def unarchive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Let an archived pool grant again. If it is not archived, nothing changes."""
        pool = pool_of(
            await self._executor.execute(UnarchivePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool

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
        command = self._placing(what, quantity, ttl, deadline, id, owner, entity, metadata, call)
        return hold_of(await self._executor.execute(command, call.get("tx")), owner)

    def _placing(
        self,
        what: What,
        quantity: int | None,
        ttl: Ttl | None,
        deadline: Slot | datetime | None,
        id: str | UUID | None,
        owner: str | None,
        entity: str | None,
        metadata: dict[str, Any] | None,
        call: Call,
    ) -> PlaceHold:
        return PlaceHold(
            legs=legs_of(what, quantity),
            ttl_slots=None if ttl is None else span(ttl),
            deadline=None if deadline is None else moment(deadline),
            id=None if id is None else hold_id(id),
            owner=owner,
            entity=entity,
            metadata=metadata,
            **call_fields(call, self._tenant),
        )

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
        """Hold and confirm in one step: for a payment that came too late, and for whatever needs no second step."""
        command = Consume(
            legs=legs_of(what, quantity),
            id=None if id is None else hold_id(id),
            owner=owner,
            entity=entity,
            metadata=metadata,
            **call_fields(call, self._tenant),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), owner)

    async def confirm(
        self,
        hold: Hold | str | UUID,
        *,
        owner: str | None = None,
        entity: str | None = None,
        quantity: Amounts = None,
        keep_rest: bool = False,
        overage: Overage = "reject",
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold:
        """Held units become consumed. Less than is held: the rest is released, or kept with `keep_rest=True`. `force=True` with
        a reason needs no token, and is journaled as forced."""
        id, token = reference(hold, owner)
        command = ConfirmHold(
            id=id,
            owner=token,
            entity=entity,
            quantity=amounts_of(quantity),
            keep_rest=keep_rest,
            overage=overage,
            force=force,
            **call_fields(call, self._tenant),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token)

    async def release(
        self,
        hold: Hold | str | UUID,
        *,
        owner: str | None = None,
        quantity: Amounts = None,
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold:
        """Held units become available. `force=True` with a reason needs no token, and is journaled as forced."""
        id, token = reference(hold, owner)
        command = ReleaseHold(
            id=id, owner=token, quantity=amounts_of(quantity), force=force, **call_fields(call, self._tenant)
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token)

    async def extend(
        self,
        hold: Hold | str | UUID,
        *,
        by: Ttl | None = None,
        ttl: Ttl | None = None,
        until: Slot | datetime | None = None,
        owner: str | None = None,
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold:
        """A later deadline: `by` counts from the present one, `ttl` from now, `until` is absolute. Never shortens.
        `force=True` with a reason needs no token, and is journaled as forced."""
        id, token = reference(hold, owner)
        command = ExtendHold(
            id=id,
            owner=token,
            by_slots=None if by is None else span(by, "by"),
            ttl_slots=None if ttl is None else span(ttl),
            until=None if until is None else moment(until, "until"),
            force=force,
            **call_fields(call, self._tenant),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token)

    async def expire(self, hold: Hold | str | UUID, **call: Unpack[Call]) -> Hold:
        """Record that a hold has expired. Nobody has to: its units are free at the deadline in any case. Raises `NotDue`."""
        id, _ = reference(hold, None)
        return hold_of(
            await self._executor.execute(ExpireHold(id=id, **call_fields(call, self._tenant)), call.get("tx")), None
        )

    @overload
    async def return_units(
        self,
        hold: Hold | str | UUID,
        *,
        owner: str | None = None,
        quantity: Amounts = None,
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold: ...

    @overload
    async def return_units(self, *, pool: str, quantity: int, force: bool, **call: Unpack[Call]) -> Pool: ...

    async def return_units(
        self,
        hold: Hold | str | UUID | None = None,
        *,
        pool: str | None = None,
        owner: str | None = None,
        quantity: Any = None,
        force: bool = False,
        **call: Unpack[Call],
    ) -> Hold | Pool:
        """Consumed units become available again: an order cancelled after it was paid. `force=True` with a reason needs no
        token, and is journaled as forced.

        With `pool=`, which is always forced, units come back whose hold is no longer kept: the pool's `loose`. Raises
        `QuantityExceedsConsumed`."""
        if (hold is None) == (pool is None) or (pool is not None and owner is not None):
            raise invalid(
                "hold", "hold_required", "give a hold, or a pool whose holds are kept no longer, and not both"
            )
        if pool is not None:
            by_pool = ReturnToPool(id=pool, quantity=quantity, force=force, **call_fields(call, self._tenant))
            found = pool_of(await self._executor.execute(by_pool, call.get("tx")))
            assert found is not None
            return found
        id, token = reference(hold, owner)
        command = ReturnUnits(
            id=id, owner=token, quantity=amounts_of(quantity), force=force, **call_fields(call, self._tenant)
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token)

    async def put_record(
        self, kind: str, id: str, body: str | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Record | None:
        """Write a small JSON document, or remove it with body None. Raises `VersionConflict`."""
        command = PutRecord(kind=kind, id=id, body=body, if_version=if_version, **call_fields(call, self._tenant))
        return record_of(await self._executor.execute(command, call.get("tx")))

    async def sweep(self, limit: int = 500) -> SweepReport:
        """Return the due legs of up to `limit` holds of all tenants, earliest deadline first, and prune a little.

        It works for all tenants; the report of a kernel that is bound to one names only holds of that tenant."""
        return report_of(await self._executor.execute(Sweep(limit=limit, **call_fields({}, self._tenant))))
