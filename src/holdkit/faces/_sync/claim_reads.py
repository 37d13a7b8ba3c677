# Generated from ../_async/claim_reads.py by tools/gen_sync.py: do not edit.
"""Reads claims: a key in its present or last life, found by what names it. Changes nothing."""

from __future__ import annotations

from typing import Any, Final

from ...core.keyed import CLAIMS, claim_id
from ...core.model import SECOND, Pool, State, StoredHold
from ...core.outcomes import Survives
from ...core.pages import Page, hold_bytes
from ...core.reading import FindHold, FindPool, ListPools
from ...core.validation import invalid, text, whole
from ...errors import Overloaded
from ...kernel._sync.executor import Executor
from ...kernel.context import CallFields, one_call
from ..claim import Claim, state_of
from ..keys import claim_pool, key_of, split_key

ATTEMPTS: Final = 20
"""How often a key is read or reserved again because it changed hands meanwhile."""


@one_call
class ClaimReads:
    """The keys of one tenant, as they are."""

    def __init__(self, executor: Executor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant

    def find(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        type: str | None = None,
        value: str | None = None,
        entity: str | None = None,
        active_only: bool = False,
        tx: Any = None,
    ) -> Claim | None:
        """A key in its present or last life, by one of: its id, its key, its type and value, or its entity (the
        first key, if the entity has several). None if it was never claimed, or ended longer ago than the retention."""
        if entity is not None and (id, key, type, value) == (None, None, None, None):
            linked = self.linked(entity, limit=1, tx=tx)
            return linked[0] if linked and not active_only else None
        found = self._read_key(_pool_of(id, key, type, value, entity), tx)
        if found is None:
            return None
        claim = self._claim_from(*found)
        return claim if not active_only or self.is_active(claim) else None

    def linked(self, entity: str, *, after: str = "", limit: int = 100, tx: Any = None) -> Page[Claim]:
        """The keys that were confirmed for an entity, in order of id; for the next page pass the last id as `after`."""
        whole(limit, "limit", 1, 1_000)
        start = claim_pool(after) if after != "" else ""
        text(entity, "entity", 256)
        found: Page[Claim] = Page()
        while True:
            pools = self._executor.read(ListPools(self._tenant, CLAIMS, start, limit, entity), tx)
            self._add(found, pools, limit, tx, confirmed=True)  # others have been freed since
            if found.more or len(pools) < limit:
                return found
            start = pools[-1].id

    def listed(self, *, after: str = "", limit: int = 100, tx: Any = None) -> Page[Claim]:
        """Every key that is stored, in its present or last life, in order of id; for the next page pass the last id
        as `after`."""
        whole(limit, "limit", 1, 1_000)
        start = claim_pool(after) if after != "" else ""
        found: Page[Claim] = Page()
        self._add(found, self._executor.read(ListPools(self._tenant, CLAIMS, start, limit), tx), limit, tx)
        return found

    def _add(self, found: Page[Claim], pools: list[Pool], limit: int, tx: Any, *, confirmed: bool = False) -> None:
        """Add the claims of these pools to a page, as many as fit. Claims of one hold may each have all of its legs."""
        most = self._executor.page_bytes
        for pool in pools:
            hold = self._hold_of(pool, tx)
            claim = self._claim_from(pool, hold)
            if confirmed and claim.state is not State.CONFIRMED:
                continue
            found.size += 500 if hold is None else hold_bytes(hold)
            found.more = bool(found) and most is not None and found.size > most
            if found.more:
                return
            found.append(claim)
            found.more = len(found) == limit
            if found.more:
                return

    def is_reserved(self, type: str, value: str, *, tx: Any = None) -> bool:
        """Whether somebody has this key now: claimed and alive, or confirmed."""
        pool = self._find_pool(CLAIMS + claim_id(key_of(type, value)), tx)
        return pool is not None and not pool.available

    def is_active(self, claim: Claim) -> bool:
        """Whether a claim, as it was read, is still held: its deadline has not passed."""
        return claim.state is State.HELD and claim.left(self._executor.now()) != 0

    def remaining_ttl(self, claim: Claim) -> float | None:
        """Seconds until its deadline; 0 if it was released or has expired, None if it was confirmed."""
        left = claim.left(self._executor.now())
        return None if left is None else left / SECOND

    # Helpers

    def _claim_from(
        self,
        pool: Pool,
        hold: StoredHold | None,
        token: str | None = None,
        *,
        replayed: bool = False,
        durability: Survives | None = None,
    ) -> Claim:
        """A claim from rows that were just read or written, with the time at which that was."""
        granted = 0 if hold is None else hold.began
        as_of = self._executor.reading(pool.slot, granted)
        return Claim(pool, hold, token, replayed=replayed, as_of=as_of, durability=durability)

    def _hold_of(self, pool: Pool, tx: Any, *, durable: bool = False) -> StoredHold | None:
        if pool.holder is None:
            return None
        return self._executor.read(FindHold((pool.tenant, pool.holder)), tx, durable=durable)

    def _find_pool(self, id: str, tx: Any, *, durable: bool = False) -> Pool | None:
        """The pool of a key; if the key was erased while it was taken, and still is taken or has not been claimed since, the pool that it has
        been since then. First the one, then the other: an erasure between the two is seen."""
        pool = self._executor.read(FindPool((self._tenant, id)), tx, durable=durable)
        if pool is not None and not pool.available:
            return pool
        names = self._executor.erased_names(tx)
        erased = None if names is None else names.claim(self._tenant, id)
        if erased is None:
            return pool
        other = self._executor.read(FindPool((self._tenant, erased)), tx, durable=durable)
        return other if pool is None or (other is not None and not other.available) else pool

    def _read_key(self, pool_id: str, tx: Any, *, durable: bool = False) -> tuple[Pool, StoredHold | None] | None:
        """A key's pool and the hold of its present or last life, both of the same moment."""
        for _ in range(ATTEMPTS):
            pool = self._find_pool(pool_id, tx, durable=durable)
            if pool is None:
                return None
            hold = self._hold_of(pool, tx, durable=durable)
            if bool(pool.available) != (state_of(pool, hold) in (State.HELD, State.CONFIRMED)):
                return pool, hold
        raise Overloaded(f"{pool_id!r} changed hands each time it was read; try again")


def _pool_of(id: str | None, key: str | None, type: str | None, value: str | None, entity: str | None) -> str:
    """The pool that exactly one of these arguments names."""
    pair = type is not None or value is not None
    if [id is not None, key is not None, pair, entity is not None].count(True) != 1:
        raise invalid("id", "id_required", "give exactly one of id, key, type with value, or entity")
    if id is not None:
        return claim_pool(id)
    name = ":".join(split_key(key)) if key is not None else key_of(type, value)
    return CLAIMS + claim_id(name)
