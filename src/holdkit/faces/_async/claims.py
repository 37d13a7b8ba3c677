"""`hk.claims`: keys that only one holder can have. Hold one, confirm its hold for an entity or release it; the deadline frees
what is forgotten.

Each key is a pool of one unit, created when it is first held. Each time the key is claimed, a new hold takes that unit:
the time of that hold, from its grant to its end, is called a *life* of the key. Decides nothing: a refusal is explained by
the hold that has the key. `claim_reads` reads claims.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Unpack

from msgspec.structs import replace

from ...core.codec import same_owner
from ...core.commands import AnyCommand, PlaceHold, ReturnToPool, ReturnUnits, Ttl
from ...core.keyed import CLAIMS, claim_id
from ...core.model import SECOND, Pool, Slot, State, StoredHold
from ...core.reading import FindHold
from ...core.validation import invalid
from ...errors import (
    AlreadyClaimed,
    HoldNotFound,
    HoldRetired,
    InsufficientCapacity,
    NotConfirmed,
    Overloaded,
    QuantityExceedsConsumed,
    QuantityExceedsHold,
)
from ...kernel.answers import capacity_of
from ...kernel.arguments import Call, CallWithoutReason, check_reason, span
from ...kernel.context import one_call
from ...kernel.results import Hold, hold_of
from ...kernel.times import datetime_of
from ..claim import Claim, FreedClaim
from ..keys import claim, claim_pool, key_of, part_of_hold
from .claim_reads import ATTEMPTS, AsyncClaimReads
from .taking import repeated

SHORTEST: Final = SECOND


@one_call
class AsyncClaims(AsyncClaimReads):
    """Take and free the keys of one tenant."""

    async def hold(
        self,
        type: str,
        value: str,
        *,
        ttl: Ttl,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the key `type:value`, for one second to `max_claim_ttl` (five minutes suit most sign-ups). Its hold ends as any
        other: `hk.confirm(hold, entity=…)` gives the key to the entity, `hk.release(hold)` frees it.

        With a `token` of your own the call can be repeated: while the key is held, the same token gets the same hold, not
        extended. Any other caller gets `AlreadyClaimed`, with the claim's id and its remaining time.
        """
        name = key_of(type, value)
        slots = _checked(span(ttl))
        command = PlaceHold(legs=(claim(type, value),), ttl_slots=slots, token=token, metadata=metadata,
                            **self._call_fields(call))  # fmt: skip
        tx = call.get("tx")
        for _ in range(ATTEMPTS):
            try:
                return hold_of(await self._executor.execute(command, tx, faces=True), token, command.legs)
            except InsufficientCapacity as refusal:
                pool, row = await self._blocking_rows(name, refusal, tx)
                blocking = self._claim_from(pool, row)
                if row is not None and not pool.consumed and same_owner(token, row.owner_hash):
                    if command.op is not None or blocking.state is State.HELD:
                        return repeated(row, command, token or "", self._executor, tx)
                    continue  # it ended between two steps of this call, which tries again
                if blocking.taken or command.op is not None:
                    raise _already_claimed(blocking, refusal) from None
        raise Overloaded(f"{name!r} changed hands at each attempt; this call did nothing: retry later")

    async def free(self, type: str, value: str, *, reason: str, **call: Unpack[CallWithoutReason]) -> Claim:
        """Free a confirmed key, by its name: its account was closed, say. Needs no token, and is journaled as forced. Raises
        `NotConfirmed` if the key is not confirmed, or no longer, and `PartOfHold` if its hold has other legs: return that hold's
        units instead."""
        check_reason(reason)
        return (await self._free(claim_id(key_of(type, value)), {**call, "reason": reason})).claim

    # Helpers

    async def _free(self, id: str, call: Call) -> FreedClaim:
        """Free a confirmed key, by its claim's id."""
        pool_id, tx, fields = claim_pool(id), call.get("tx"), self._call_fields(call)
        rows = await self._read_key(pool_id, tx)
        if rows is None or rows[0].holder is None or _is_combined(rows[1]):  # a refusal rests on what is read durably
            rows = await self._read_key(pool_id, tx, durable=True)
        if rows is None or rows[0].holder is None:
            raise await self._not_confirmed(pool_id, tx)
        pool, row = rows
        if row is not None and _is_combined(row):
            raise part_of_hold(pool.label or pool_id.removeprefix(CLAIMS), row.id)
        command = ReturnUnits(id=rows[0].holder, force=True, **fields)
        try:
            if row is None and not pool.available:
                return await self._change(_from_pool(pool.id, fields), pool_id, pool, tx, command)
            try:
                return await self._change(command, pool_id, pool, tx)
            except (HoldRetired, HoldNotFound):  # perhaps it was retired after we read it
                return await self._free_unheld(command, pool_id, call)
        except (NotConfirmed, QuantityExceedsHold, QuantityExceedsConsumed) as refusal:
            raise await self._not_confirmed(pool_id, tx, replayed=refusal.replayed) from None

    async def _blocking_rows(self, name: str, refusal: InsufficientCapacity, tx: Any) -> tuple[Pool, StoredHold | None]:
        """Return the life of the key that a refusal, perhaps a recorded one, was about. The present holder does not matter."""
        (short,) = refusal.shortfalls
        assert short.holder is not None, "a refusal of a labelled pool names its holder"
        row = await self._executor.read(FindHold((self._tenant, short.holder)), tx, durable=True)
        pool = Pool(self._tenant, short.pool, 1, consumed=int(short.confirmed), label=name, holder=short.holder,
                    entity=None if row is None else row.entity)  # fmt: skip
        return pool, row

    async def _change(
        self, command: AnyCommand, pool_id: str, pool: Pool, tx: Any, original: AnyCommand | None = None
    ) -> FreedClaim:
        """Execute a change. The operation id stands for the key, so a retry is the same operation in a later life too. `pool` was
        read before the commit: a read after it that fails would hide that the command is done."""
        original = replace(original or command, id=pool_id)
        receipt = await self._executor.execute(command, tx, faces=True, original=original)
        hold = receipt.hold
        if hold is None:
            assert receipt.pool is not None
            return FreedClaim(self._claim_from(receipt.pool, None), receipt.replayed)
        freed = Pool(hold.tenant, hold.legs[0].pool, 1, fence=hold.fence, slot=receipt.slot, label=pool.label, holder=hold.id,
                     entity=hold.entity)  # fmt: skip
        return FreedClaim(self._claim_from(freed, hold), receipt.replayed)

    async def _free_unheld(self, original: ReturnUnits, pool_id: str, call: Call) -> FreedClaim:
        """Free a key whose hold is missing, unless the key was granted again since. The first refusal is recorded under the operation id,
        so this step has an id of its own: a retry takes the same two steps with the same result."""
        tx = call.get("tx")
        pool = await self._find_pool(pool_id, tx, durable=True)
        if pool is None or pool.holder != original.id:
            raise await self._not_confirmed(pool_id, tx)
        op = (
            None
            if original.op is None
            else f"~forget/{hashlib.blake2b(original.op.encode(), digest_size=16).hexdigest()}"
        )
        command = _from_pool(pool.id, {**self._call_fields(call), "op": op})
        return await self._change(command, pool_id, pool, tx, replace(original, op=op))

    async def _not_confirmed(self, pool_id: str, tx: Any, *, replayed: bool = False) -> NotConfirmed:
        pool = await self._find_pool(pool_id, tx)
        name = pool_id.removeprefix(CLAIMS) if pool is None or pool.label is None else pool.label
        return NotConfirmed(f"{name!r} is not confirmed, so there is nothing to free", replayed=replayed, subject=name)


def _already_claimed(blocking: Claim, refusal: InsufficientCapacity) -> AlreadyClaimed:
    confirmed, remaining = blocking.state is State.CONFIRMED, blocking.remaining
    deadline = None if confirmed or blocking.raw.hold is None else blocking.raw.hold.deadline
    duration = (
        " for good"
        if confirmed
        else ", and its hold has no deadline"
        if remaining is None
        else f" for another {remaining:g} s"
    )
    message = f"{blocking.key!r} is taken{duration}"
    if remaining == 0:
        message = (
            f"{blocking.key!r} was taken when this operation id was first used: to try again, use a new operation id"
        )
    return AlreadyClaimed(message, replayed=refusal.replayed, subject=blocking.key, claim=blocking.id, state=str(blocking.state),
                          remaining=remaining, deadline=datetime_of(deadline),
                          **capacity_of(refusal))  # fmt: skip


def _is_combined(row: StoredHold | None) -> bool:
    """Return whether the hold of a key has other legs too."""
    return row is not None and len(row.legs) > 1


def _from_pool(pool_id: str, fields: Any) -> ReturnToPool:
    """Return the command that frees a key whose hold was retired."""
    return ReturnToPool(id=pool_id, quantity=1, force=True, **fields)


def _checked(slots: Slot) -> Slot:
    if slots < SHORTEST:
        raise invalid("ttl", "ttl_too_short", "must be at least 1 s")
    return slots
