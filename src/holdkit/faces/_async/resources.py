"""The kernel of one resource: hold and consume, and who holds what. Its holds end through the kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Final, Generic, Unpack
from uuid import UUID

from ...core.commands import Consume, PlaceHold, Ttl
from ...core.model import Leg, Slot, State
from ...core.outcomes import Invalid, Receipt
from ...core.reading import FindRecord
from ...core.validation import invalid, whole
from ...errors import InvalidRequest, PoolNotFound
from ...kernel._async.executor import AsyncExecutor
from ...kernel._async.kernel import AsyncHolds
from ...kernel.answers import refusal_of
from ...kernel.arguments import Call, CallFields, hold_id
from ...kernel.one_line import line
from ...kernel.pages import Page
from ...kernel.pool import Pool
from ...kernel.results import Hold, hold_of
from ..capacity import LONG_NAMES, AsyncCapacityReader, CapacityQuery, one_leg, unused_pool
from ..resource_keys import Key, Name, Names, Window
from ..resources import Resource, ResourceHold, ResourcePool, check_resource

_ANY: Final[Any] = object()  # None is a key like any other
_POSITION: Final = "@"
"""Between the id of a hold and that of its pool, where a page of holds ends."""


class AsyncResourceKernel(Generic[Key, Window]):
    """What `hk.resource(Seats())` returns. Safe to share, like the kernel."""

    def __init__(
        self,
        kernel: AsyncHolds,
        executor: AsyncExecutor,
        placing: Callable[..., PlaceHold],
        call_fields: CallFields,
        resource: Resource[Key, Window],
    ) -> None:
        check_resource(resource)
        self._kernel, self._executor, self._resource = kernel, executor, resource
        self._placing, self._call_fields = placing, call_fields
        self._names: Names[Key, Window] = Names(type(resource), Resource)
        self._capacity = AsyncCapacityReader(executor, resource, self._names.kind)

    @property
    def kind(self) -> str:
        """The resource's kind."""
        return self._names.kind

    async def hold(
        self,
        key: Key,
        window: Window = None,  # type: ignore[assignment]  # right for those that have no window
        quantity: int = 1,
        *,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold units until the deadline. The capacity is asked for while no other caller can take any, and the hold
        is decided on that answer, in one transaction. Raises `InsufficientCapacity`, and whatever your `capacity`
        raises."""
        if ttl is None and deadline is None:
            raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
        name = self._names.name(key, window)
        legs = one_leg(name, quantity)
        command = self._placing(
            legs, None, call, ttl=ttl, deadline=deadline, id=id, token=token, entity=entity, metadata=metadata
        )
        return hold_of(await self._ask(command, key, window, name, call.get("tx")), token)

    async def consume(
        self,
        key: Key,
        window: Window = None,  # type: ignore[assignment]
        quantity: int = 1,
        *,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step."""
        name = self._names.name(key, window)
        command = Consume(
            legs=one_leg(name, quantity),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            **self._call_fields(call),
        )
        return hold_of(await self._ask(command, key, window, name, call.get("tx")), token)

    async def _ask(self, command: PlaceHold | Consume, key: Key, window: Window, name: Name, tx: Any) -> Receipt:
        checked = await self._executor.check(command, faces=True)
        prepared = self._executor.mint.prepare(command)
        assert isinstance(prepared, PlaceHold | Consume)
        query = CapacityQuery(self._resource, key, window, name, prepared, checked, minted=command.id is None)
        tx = self._executor.ambient() if tx is None else tx
        outcome = (
            await self._capacity.in_own_transaction(query)
            if tx is None
            else await self._capacity.in_caller_transaction(tx, query)
        )[0]
        if isinstance(outcome, Receipt):
            return outcome
        if isinstance(outcome, Invalid):
            raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
        raise refusal_of(outcome)

    async def pool(self, key: Key, window: Window = None, *, tx: Any = None) -> Pool:  # type: ignore[assignment]
        """Return the counters, with the capacity as last answered. If nothing was held yet, or the pool was removed, your `capacity` is
        asked; nothing is held or written (`version` is 0)."""
        name = self._names.name(key, window)
        tx = self._executor.ambient() if tx is None else tx
        try:
            return await self._kernel.pool(name.pool, tx=tx)
        except PoolNotFound:
            command = Consume(legs=one_leg(name, 1), **self._call_fields({}))
            query = CapacityQuery(
                self._resource, key, window, name, command, self._executor.limits.version, minted=True
            )
            return Pool(unused_pool(name, await self._capacity.read(tx, query), command.tenant))

    async def pools(
        self, key: Key = _ANY, *, after: str | None = None, limit: int = 100
    ) -> Page[ResourcePool[Key, Window]]:
        """Return the counters of all keys and windows, or of one key."""
        prefix = self._names.prefix(None if key is _ANY else self._names.key_text(key))
        pools = await self._kernel.pools(prefix, after=after, limit=limit)
        page = [ResourcePool(*await self.named(pool.id), pool) for pool in pools]
        return Page(page, next=pools.next)

    async def holds(
        self,
        key: Key = _ANY,
        window: Window = _ANY,
        *,
        state: State | str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[ResourceHold[Key, Window]]:
        """Return who holds what: of one key and window in order of hold id; else pool by pool."""
        whole(limit, "limit", 1, 1_000)
        last, _, start = (after or "").partition(_POSITION)
        listed: list[ResourceHold[Key, Window]] = []
        async for pool in self._each_pool(key, window, start):
            begin = last if pool == start else ""
            page = await self._kernel.holds(pool=pool, state=state, after=begin, limit=limit - len(listed))
            if page:
                values = await self.named(pool)
                listed += [ResourceHold(*values, hold) for hold in page]
            if page.next is not None or len(listed) == limit:
                reached = page.next or (page[-1].id if page else begin)
                return Page(listed, next=f"{reached}{_POSITION}{pool}")
        return Page(listed)

    async def _each_pool(self, key: Key, window: Window, start: str) -> AsyncIterator[str]:
        """Yield pool ids in order, beginning with `start`."""
        if key is not _ANY and window is not _ANY:
            yield self._names.name(key, window).pool
            return
        if start:
            yield start
        prefix = self._names.prefix(None if key is _ANY else self._names.key_text(key))
        suffix = "" if window is _ANY else self._names.window_suffix(window)
        while True:
            page = await self._kernel.pools(prefix, after=start, limit=1_000)
            for pool in page:
                if pool.id.endswith(suffix):
                    yield pool.id
            if len(page) < 1_000:
                return
            start = page[-1].id

    async def named(self, what: Hold | Leg | str) -> tuple[Key, Window]:
        """Return key and window of a hold, or of a pool's id."""
        pool = what if isinstance(what, str) else what.pool if isinstance(what, Leg) else what.legs[0].pool
        if not pool.startswith(self._names.prefix()):
            raise invalid("hold", "hold_foreign", f"is not of the resource {self.kind!r}")
        texts = self._names.texts(pool)
        if texts is not None:
            return self._names.values(texts)
        record = await self._executor.read(FindRecord((self._call_fields({})["tenant"], LONG_NAMES, pool)))
        if record is None:
            raise invalid("hold", "hold_foreign", "was not placed through a resource")
        return self._names.values_of(record.body)

    def __repr__(self) -> str:
        return line(type(self).__name__, self.kind, f"of {self._kernel!r}")
