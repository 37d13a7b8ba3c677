"""Read claims: find a key in its present or last life by its name, hold or id. Changes nothing."""

from __future__ import annotations

from typing import Any, Final, overload

from ...core.keyed import CLAIMS, claim_id
from ...core.model import Pool, State, StoredHold
from ...core.pages import hold_bytes
from ...core.reading import FindHold, FindPool, ListPools
from ...core.validation import invalid, text, whole
from ...errors import Overloaded
from ...kernel._async.executor import AsyncExecutor
from ...kernel.arguments import CallFields
from ...kernel.context import one_call
from ...kernel.results import Page
from ..claim import Claim, state_of
from ..keys import claim_pool, key_of

ATTEMPTS: Final = 20
"""How often a key is read or held again because it changed hands meanwhile."""


@one_call
class AsyncClaimReads:
    """The keys of one tenant, as they are."""

    def __init__(self, executor: AsyncExecutor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant

    @overload
    async def get(self, type: str, value: str, *, tx: Any = None) -> Claim | None: ...
    @overload
    async def get(self, *, id: str, tx: Any = None) -> Claim | None: ...
    async def get(
        self, type: str | None = None, value: str | None = None, *, id: str | None = None, tx: Any = None
    ) -> Claim | None:
        """Return the claim of a key, by type and value or by the claim's id, in its present or last life. None if the key was
        never claimed, or its last life ended longer ago than the retention."""
        rows = await self._read_key(_pool_of(type, value, id), tx)
        return None if rows is None else self._claim_from(*rows)

    async def is_taken(self, type: str, value: str, *, tx: Any = None) -> bool:
        """Return whether the key is held or confirmed, so that no other caller can hold it now."""
        pool = await self._find_pool(_pool_of(type, value, None), tx)
        return pool is not None and not pool.available

    # Helpers

    def _claim_from(self, pool: Pool, hold: StoredHold | None) -> Claim:
        """Return a claim made of rows that were just read or written, with the time at which that was."""
        return Claim(pool, hold, self._executor.reading(pool.slot, 0 if hold is None else hold.began))

    async def _hold_of(self, pool: Pool, tx: Any, *, durable: bool = False) -> StoredHold | None:
        if pool.holder is None:
            return None
        return await self._executor.read(FindHold((pool.tenant, pool.holder)), tx, durable=durable)

    async def _find_pool(self, id: str, tx: Any, *, durable: bool = False) -> Pool | None:
        """Return the pool of a key. If the key was erased while it was taken, and still is taken or has not been claimed since, return
        the pool that it has been since then. Reads the first pool before the second, so that it sees an erasure between the two."""
        pool = await self._executor.read(FindPool((self._tenant, id)), tx, durable=durable)
        if pool is not None and not pool.available:
            return pool
        names = await self._executor.erased_names(tx)
        erased = None if names is None else names.claim(self._tenant, id)
        if erased is None:
            return pool
        other = await self._executor.read(FindPool((self._tenant, erased)), tx, durable=durable)
        return other if pool is None or (other is not None and not other.available) else pool

    async def _read_key(self, pool_id: str, tx: Any, *, durable: bool = False) -> tuple[Pool, StoredHold | None] | None:
        """Return a key's pool and the hold of its present or last life, both of the same moment."""
        for _ in range(ATTEMPTS):
            pool = await self._find_pool(pool_id, tx, durable=durable)
            if pool is None:
                return None
            hold = await self._hold_of(pool, tx, durable=durable)
            if bool(pool.available) != (state_of(pool, hold) in (State.HELD, State.CONFIRMED)):
                return pool, hold
        raise Overloaded(f"{pool_id!r} changed hands each time it was read; try again")

    async def _add_claims(self, page: Page[Claim], pools: list[Pool], entity: str | None, tx: Any) -> bool:
        """Add the claims of these pools to a page; return whether all of them fit. Claims of one hold may each have all of its
        legs."""
        most = self._executor.page_bytes
        size = sum(claim_bytes(claim.raw.hold) for claim in page)
        for pool in pools:
            hold = await self._hold_of(pool, tx)
            claim = self._claim_from(pool, hold)
            size += claim_bytes(hold)
            if page and most is not None and size > most:
                return False
            if entity is None or claim.state is State.CONFIRMED:  # others have been freed since
                page.append(claim)
            page.next = claim.id
        return True

    async def list(
        self, *, entity: str | None = None, after: str | None = None, limit: int = 100, tx: Any = None
    ) -> Page[Claim]:
        """Return every claim that is stored, in its present or last life, or the confirmed ones of an entity, in order of id.
        A key that was confirmed without an entity is not among those of any entity."""
        whole(limit, "limit", 1, 1_000)
        if entity is not None:
            text(entity, "entity", 256)
        start, page, more = claim_pool(after) if after else "", Page[Claim](), True
        while more and len(page) < limit:
            room = limit - len(page)
            pools = await self._executor.read(ListPools(self._tenant, CLAIMS, start, room + 1, entity), tx)
            more = len(pools) > room
            if not await self._add_claims(page, pools[:room], entity, tx):
                return page
            start = pools[room - 1].id if more else start
        page.next = page.next if more else None
        return page


def claim_bytes(hold: StoredHold | None) -> int:
    """Return about how many bytes a claim with this hold takes in an answer."""
    return 500 if hold is None else 500 + hold_bytes(hold)


def _pool_of(type: str | None, value: str | None, id: str | None) -> str:
    """Return the pool that a type and a value, or a claim's id, name."""
    if (id is None) == (type is None and value is None):
        raise invalid("id", "id_required", "give a type and a value, or id=")
    return claim_pool(id) if id is not None else CLAIMS + claim_id(key_of(type, value))
