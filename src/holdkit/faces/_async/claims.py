"""`hk.claims`: keys that only one holder can have. Reserve, confirm for an entity, release; the deadline frees what
is forgotten.

Each key is a pool of one unit, created when it is first reserved. Each time the key is claimed, a new hold takes that unit:
the time of that hold, from its grant to its end, is called a *life* of the key. Decides nothing: a refusal is explained by
the hold that has the key. `claim_reads` reads claims.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Unpack

from msgspec.structs import replace

from ...core.codec import is_ticket, same_owner
from ...core.commands import AnyCommand, ConfirmHold, ExtendHold, PlaceHold, ReleaseHold, ReturnToPool, ReturnUnits, Ttl
from ...core.keyed import CLAIMS, claim_id
from ...core.ladders.finding import missing
from ...core.model import DAY, SECOND, Pool, Slot, State, StoredHold
from ...core.outcomes import Reason, Receipt, Refusal
from ...core.reading import FindHold
from ...core.validation import invalid, text
from ...errors import (
    AlreadyClaimed,
    HoldNotFound,
    HoldRetired,
    InsufficientCapacity,
    NotConfirmed,
    Overloaded,
    PartOfHold,
    QuantityExceedsConsumed,
    QuantityExceedsHold,
    Refused,
)
from ...kernel.answers import capacity_of, refusal_of
from ...kernel.context import Call, one_call
from ...kernel.normalise import datetime_of, reference, span
from ..claim import Claim, state_of
from ..keys import claim, claim_pool, key_of
from .claim_reads import ATTEMPTS, AsyncClaimReads

SHORTEST: Final = SECOND
LONGEST: Final = DAY


@one_call
class AsyncClaims(AsyncClaimReads):
    """The keys of one tenant: takes and frees them."""

    async def reserve(
        self,
        type: str,
        value: str,
        *,
        ttl: Ttl,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Claim:
        """Claim `type:value` for one second to 24 hours (five minutes suit most sign-ups).

        With a `token` of your own the call can be repeated: while the claim is held, the same owner gets the same
        claim, not extended. Any other caller gets `AlreadyClaimed`, with the claim's id and its remaining time.
        """
        name = key_of(type, value)
        slots = _checked(span(ttl))
        command = PlaceHold(legs=(claim(type, value),), ttl_slots=slots, token=token, metadata=metadata,
                            **self._call_fields(call))  # fmt: skip
        tx = call.get("tx")
        for _ in range(ATTEMPTS):
            try:
                done = await self._executor.execute(command, tx, faces=True)
            except InsufficientCapacity as refusal:
                blocking = await self._blocking_claim(name, refusal, token, tx, recorded=command.op is not None)
                if blocking.token is not None:
                    return blocking
                if blocking.state in (State.HELD, State.CONFIRMED) or command.op is not None:
                    raise self._already_claimed(blocking, refusal) from None
            else:
                return self._granted(name, done, token)
        raise Overloaded(f"{name!r} changed hands at each attempt; this call did nothing: retry later")

    async def confirm(
        self, claim: Claim | str, *, entity: str, token: str | None = None, **call: Unpack[Call]
    ) -> Claim:
        """The key belongs to the entity from now on. Takes a claim, its ticket, or its id with `token=`."""
        text(entity, "entity", 256)
        id, token, name = await self._resolve(claim, token, call.get("tx"))
        return await self._change(ConfirmHold(id=id, token=token, entity=entity, **self._call_fields(call)), name, call)

    async def release(self, claim: Claim | str, *, token: str | None = None, **call: Unpack[Call]) -> Claim:
        """The key becomes free at once."""
        id, token, name = await self._resolve(claim, token, call.get("tx"))
        return await self._change(ReleaseHold(id=id, token=token, **self._call_fields(call)), name, call)

    async def extend(
        self, claim: Claim | str, *, by: Ttl | None = None, ttl: Ttl | None = None, token: str | None = None,
        **call: Unpack[Call],
    ) -> Claim:  # fmt: skip
        """A later deadline: `by` counts from the present one, `ttl` from now. Never shortens."""
        id, token, name = await self._resolve(claim, token, call.get("tx"))
        command = ExtendHold(id=id, token=token, by_slots=None if by is None else _checked(span(by, "by"), "by"),
                             ttl_slots=None if ttl is None else _checked(span(ttl)), **self._call_fields(call))  # fmt: skip
        return await self._change(command, name, call)

    async def forget(
        self, claim: Claim | str, *, token: str | None = None, force: bool = False, **call: Unpack[Call]
    ) -> Claim:
        """Free a confirmed key: its account was closed, say. Raises `NotConfirmed` if it is not confirmed, or no longer.

        Needs the token as long as the hold is kept, or `force=True` with a reason; after that there is nobody left to
        ask, and a reason is enough.
        """
        tx = call.get("tx")
        fields = self._call_fields(call)
        found = (
            None
            if is_ticket(claim)
            else await self._read_key(claim_pool(claim.id if isinstance(claim, Claim) else claim), tx)
        )
        named = (
            self._claim_from(*found)
            if found is not None and not isinstance(claim, Claim) and found[0].holder
            else claim
        )
        id, token, name = await self._resolve(named, token, tx)
        name = claim if isinstance(named, Claim) and isinstance(claim, str) else name
        given, pool_id = ReturnUnits(id=id, token=token, force=force, **fields), claim_pool(name)
        try:
            if found is not None and found[0].holder == id and found[1] is None and state_of(*found) is State.CONFIRMED:
                return await self._change(_from_pool(pool_id, fields), name, call, given)
            try:
                return await self._change(given, name, call)
            except (HoldRetired, HoldNotFound):  # perhaps it was retired after we read it
                return await self._free_unheld(given, name, call)
        except (NotConfirmed, QuantityExceedsHold, QuantityExceedsConsumed) as refusal:
            raise await self._not_confirmed(pool_id, tx, replayed=refusal.replayed) from None

    # Helpers

    def _granted(self, name: str, done: Receipt, token: str | None) -> Claim:
        hold = done.hold
        assert hold is not None
        pool = Pool(hold.tenant, CLAIMS + claim_id(name), 1, held=1, fence=hold.fence, slot=hold.began, on_demand=True,
                    label=name, holder=hold.id)  # fmt: skip
        token = token if done.token is None else done.token
        return self._claim_from(pool, hold, token, replayed=done.replayed, durability=done.durability)

    async def _blocking_claim(
        self, name: str, refusal: InsufficientCapacity, token: str | None, tx: Any, *, recorded: bool
    ) -> Claim:
        """The life of the key that a refusal, perhaps a recorded one, was about; with its token if it is `token`'s
        and was held then. Who has the key by now does not matter."""
        (short,) = refusal.shortfalls
        assert short.holder is not None, "a refusal of a labelled pool names its holder"
        row = await self._executor.read(FindHold((self._tenant, short.holder)), tx, durable=True)
        pool = Pool(self._tenant, short.pool, 1, consumed=int(short.spent), label=name, holder=short.holder,
                    entity=None if row is None else row.entity)  # fmt: skip
        mine = row is not None and not short.spent and same_owner(token, row.owner_hash)
        survives = self._executor.durability if mine and tx is None else None
        claim = self._claim_from(pool, row, token if mine else None, replayed=True, durability=survives)
        if mine and not recorded and claim.state is not State.HELD:
            return self._claim_from(pool, row)  # it ended between two steps of this call, which tries again
        return claim

    async def _change(self, command: AnyCommand, name: str, call: Call, original: AnyCommand | None = None) -> Claim:
        """Execute a change. The operation id stands for the claim's id and the owner's token, so a retry is the same
        operation however the claim is named, and in a later life."""
        tx = call.get("tx")
        original = replace(original or command, id=name)
        # Read before the commit: a read after it that fails would hide that the command is done.
        before = await self._find_pool(claim_pool(name), tx)
        label = None if before is None else before.label
        done = await self._executor.execute(command, tx, faces=True, original=original)
        if done.hold is None:
            assert done.pool is not None
            return self._claim_from(done.pool, None, replayed=done.replayed, durability=done.durability)
        return self._ended(done, done.hold, label, getattr(command, "token", None))

    async def _free_unheld(self, original: ReturnUnits, name: str, call: Call) -> Claim:
        """Free a key whose hold is missing, unless the key was granted again since. The refusal that said that it is
        missing is recorded under the operation id, so this has an id of its own: a retry takes the same two steps
        with the same result."""
        pool = await self._find_pool(claim_pool(name), call.get("tx"), durable=True)
        if pool is None or pool.holder != original.id:
            raise await self._not_confirmed(claim_pool(name), call.get("tx"))
        op = (
            None
            if original.op is None
            else f"~forget/{hashlib.blake2b(original.op.encode(), digest_size=16).hexdigest()}"
        )
        command = _from_pool(pool.id, {**self._call_fields(call), "op": op})
        return await self._change(command, name, call, replace(original, op=op))

    async def _not_confirmed(self, pool_id: str, tx: Any, *, replayed: bool = False) -> NotConfirmed:
        pool = await self._find_pool(pool_id, tx)
        name = pool_id.removeprefix(CLAIMS) if pool is None or pool.label is None else pool.label
        return NotConfirmed(
            f"{name!r} is not confirmed, so there is nothing to forget", replayed=replayed, subject=name
        )

    def _ended(self, done: Receipt, hold: StoredHold, label: str | None, token: str | None) -> Claim:
        """The claim after a change, as that change left it; who has the key by now does not matter."""
        pool = Pool(hold.tenant, hold.legs[0].pool, 1, fence=hold.fence, slot=done.slot, label=label, holder=hold.id,
                    entity=hold.entity)  # fmt: skip
        return self._claim_from(pool, hold, token, replayed=done.replayed, durability=done.durability)

    async def _resolve(self, claim: Claim | str, token: str | None, tx: Any) -> tuple[str, str | None, str]:
        """Hold id, token and claim id of whatever names a claim; `PartOfHold` if its hold has other legs too. A
        refusal is an answer, so what it rests on is read again, durably."""
        try:
            return await self._resolve_once(claim, token, tx)
        except Refused:
            return await self._resolve_once(claim, token, tx, durable=True)

    async def _resolve_once(
        self, claim: Claim | str, token: str | None, tx: Any, *, durable: bool = False
    ) -> tuple[str, str | None, str]:
        if isinstance(claim, Claim):
            if claim.combined:
                raise part_of_hold(claim.key, claim.hold_id or "")
            return claim.hold_id or "", claim.token if token is None else token, claim.id
        if is_ticket(claim):
            id, token = reference(claim, token)
            hold = await self._executor.read(FindHold((self._tenant, id)), tx, durable=durable)
            if hold is None:
                raise refusal_of(missing(id, self._executor.limits, self._executor.now()))
            if len(hold.legs) > 1 or not hold.legs[0].pool.startswith(CLAIMS):
                raise part_of_hold(id, id)
            return id, token, hold.legs[0].pool.removeprefix(CLAIMS)
        found = await self._read_key(claim_pool(claim), tx, durable=durable)
        if found is None or found[0].holder is None:
            raise refusal_of(Refusal(Reason.HOLD_NOT_FOUND, claim))
        id, token, _ = await self._resolve_once(self._claim_from(*found), token, tx)
        return id, token, claim  # as the caller names it: a retry does the same

    def _already_claimed(self, claim: Claim, refusal: InsufficientCapacity) -> AlreadyClaimed:
        confirmed, remaining = claim.state is State.CONFIRMED, self.remaining_ttl(claim)
        deadline = None if confirmed else claim.deadline
        duration = (
            "for good"
            if confirmed
            else "and its hold has no deadline"
            if remaining is None
            else f"for {remaining:g} s more"
        )
        message = f"{claim.key!r} is taken, {duration}"
        if remaining == 0:
            message = (
                f"{claim.key!r} was taken when this operation id was first used: to try again, use a new operation id"
            )
        return AlreadyClaimed(message, replayed=refusal.replayed, subject=claim.key, claim=claim.id, state=str(claim.state),
                              remaining=remaining, deadline=deadline, deadline_at=datetime_of(deadline),
                              **capacity_of(refusal))  # fmt: skip


def _from_pool(pool_id: str, fields: Any) -> ReturnToPool:
    """Free a key whose hold was retired."""
    if fields["reason"] is None:
        raise invalid(
            "reason",
            "reason_required",
            "the hold of this key is no longer stored, so nobody can prove to own it: give a reason for freeing the key",
        )
    return ReturnToPool(id=pool_id, quantity=1, force=True, **fields)


def part_of_hold(subject: str, hold: str) -> PartOfHold:
    """It is a leg of a hold that has other legs too."""
    return PartOfHold(
        f"{subject!r} ends with hold {hold}: confirm or release that hold instead", subject=subject, hold=hold
    )


def _checked(slots: Slot, field: str = "ttl") -> Slot:
    if slots < SHORTEST:
        raise invalid(field, f"{field}_too_short", "must be at least 1 s")
    if slots > LONGEST:
        raise invalid(field, f"{field}_too_long", "must be at most 24 h")
    return slots
