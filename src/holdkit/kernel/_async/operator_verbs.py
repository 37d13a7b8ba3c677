"""The commands of `hk.admin`: pools, and holds by id, without their tokens. Each builds one command.

Every verb that passes a token or a limit per account requires a `reason`, and is journaled as forced.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from ...core.command_kinds import PoolCommand
from ...core.commands import (
    ArchivePool,
    ConfirmHold,
    Consume,
    ExpireHold,
    ExtendHold,
    LimitPool,
    Overage,
    PlaceHold,
    ReassignHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Ttl,
    UnarchivePool,
)
from ...core.model import Slot
from ..answers import pool_of
from ..arguments import (
    Call,
    CallFields,
    CallWithoutReason,
    Part,
    What,
    amounts_of,
    forced_fields,
    hold_id,
    legs_of,
    reference,
    span,
)
from ..pool import Pool
from ..results import Hold, hold_of, requested_legs
from ..times import moment
from .executor import AsyncExecutorPort


class AsyncOperatorVerbs:
    """The changes that an operator makes, over an executor in this process or behind a server."""

    if TYPE_CHECKING:  # attributes of the classes that have the verbs

        @property
        def _executor(self) -> AsyncExecutorPort: ...

        _tenant: str
        _call_fields: CallFields

    async def resize_pool(self, id: str, total: int, *, if_version: int | None = None, **call: Unpack[Call]) -> Pool:
        """Change a pool's total. Raises `BelowInUse` if less than what is held and consumed, and `VersionConflict` if anything
        about the pool changed since `if_version`."""
        command = ResizePool(id=id, total=total, if_version=if_version, **self._call_fields(call))
        return await self._change_pool(command, call.get("tx"))

    async def limit_pool(
        self, id: str, per_account: int | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Pool:
        """Change the most that one account may have of a pool; None: no limit. Accounts that have more keep it. Raises
        `VersionConflict` as `resize_pool` does."""
        command = LimitPool(id=id, per_account=per_account, if_version=if_version, **self._call_fields(call))
        return await self._change_pool(command, call.get("tx"))

    async def archive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Grant nothing more on a pool (`PoolArchived`), and omit it from lists. Its holds are not affected: extend, confirm, release
        and return work. Nothing is offered to its line, and nothing granted below it. If it is archived already, nothing changes."""
        return await self._change_pool(ArchivePool(id=id, **self._call_fields(call)), call.get("tx"))

    async def unarchive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Let an archived pool grant again. If it is not archived, nothing changes."""
        return await self._change_pool(UnarchivePool(id=id, **self._call_fields(call)), call.get("tx"))

    async def remove_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Remove a pool for good, and return it as it was. Raises `PoolInUse` if any of its units are held or consumed,
        if a hold waits in its line, or if there are pools below it."""
        return await self._change_pool(RemovePool(id=id, **self._call_fields(call)), call.get("tx"))

    async def free(
        self, pool: str, quantity: int, *, reason: str, account: str | None = None, **call: Unpack[CallWithoutReason]
    ) -> Pool:
        """Make consumed units of a pool available whose holds are no longer kept: with `account=` those of that account, without it
        those of no account. Raises `QuantityExceedsConsumed`, whose `loose` is how many these are."""
        fields = forced_fields(reason, call, self._call_fields)
        command = ReturnToPool(id=pool, quantity=quantity, account=account, **fields)
        return await self._change_pool(command, call.get("tx"))

    async def _change_pool(self, command: PoolCommand, tx: Any) -> Pool:
        pool = pool_of(await self._executor.execute(command, tx))
        assert pool is not None
        return pool

    async def hold(
        self,
        what: What,
        quantity: int | None = None,
        *,
        reason: str,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Take every leg until the deadline, or nothing at all, past limits per account. Raises `InsufficientCapacity`, and `LineAhead`
        if others wait in line for one of the pools."""
        command = PlaceHold(
            legs=legs_of(what, quantity),
            ttl_slots=None if ttl is None else span(ttl),
            deadline=None if deadline is None else moment(deadline),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            account=account,
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token, command.legs)

    async def consume(
        self,
        what: What,
        quantity: int | None = None,
        *,
        reason: str,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Hold and confirm in one step, past limits per account."""
        command = Consume(
            legs=legs_of(what, quantity),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            account=account,
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), token, command.legs)

    async def confirm(
        self,
        hold: Hold | str | UUID,
        *,
        reason: str,
        entity: str | None = None,
        quantity: Part = None,
        keep_rest: bool = False,
        overage: Overage = "reject",
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Consume held units, without the token of the hold. Less than is held: the rest is released, or kept with
        `keep_rest=True`."""
        command = ConfirmHold(
            id=reference(hold, None)[0],
            entity=entity,
            quantity=amounts_of(quantity),
            keep_rest=keep_rest,
            overage=overage,
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))

    async def release(
        self,
        hold: Hold | str | UUID,
        *,
        reason: str,
        quantity: Part = None,
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Make held units available, without the token of the hold; a hold that waits leaves its line."""
        command = ReleaseHold(
            id=reference(hold, None)[0],
            quantity=amounts_of(quantity),
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))

    async def extend(
        self,
        hold: Hold | str | UUID,
        *,
        reason: str,
        by: Ttl | None = None,
        ttl: Ttl | None = None,
        until: Slot | datetime | None = None,
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Move the deadline of a hold to a later time, without its token: `by` counts from the present deadline, `ttl` from now,
        `until` is absolute. For a hold that waits, it is the end of waiting."""
        command = ExtendHold(
            id=reference(hold, None)[0],
            by_slots=None if by is None else span(by, "by"),
            ttl_slots=None if ttl is None else span(ttl),
            until=None if until is None else moment(until, "until"),
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))

    async def return_units(
        self,
        hold: Hold | str | UUID,
        *,
        reason: str,
        quantity: Part = None,
        **call: Unpack[CallWithoutReason],
    ) -> Hold:
        """Make consumed units available again, without the token of the hold. (`free` does so for units whose holds are no longer
        kept.)"""
        command = ReturnUnits(
            id=reference(hold, None)[0],
            quantity=amounts_of(quantity),
            **forced_fields(reason, call, self._call_fields),
        )
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))

    async def reassign(
        self, hold: Hold | str | UUID, *, account: str | None, reason: str, **call: Unpack[CallWithoutReason]
    ) -> Hold:
        """Move a held hold to another account, or with None to none, without its token and past limits per account."""
        fields = forced_fields(reason, call, self._call_fields)
        command = ReassignHold(id=reference(hold, None)[0], account=account, **fields)
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))

    async def expire(self, hold: Hold | str | UUID, **call: Unpack[Call]) -> Hold:
        """Record that a hold has expired. This is optional: its units are free at the deadline in any case. Raises `NotDue`."""
        command = ExpireHold(id=reference(hold, None)[0], **self._call_fields(call))
        return hold_of(await self._executor.execute(command, call.get("tx")), None, requested_legs(hold))
