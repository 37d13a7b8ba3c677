"""Asks the application for a resource's capacity, inside the transaction that decides, for threads and for tasks.

The pool's row is locked (or, on engines with one writer at a time, the transaction has begun) before the application
is asked. So the answer is still true when the command is decided, and two first holders ask one after the other. On
engines without SQL there is nothing to lock while an `async def` answer is awaited: then the resources of one kernel
wait for one another.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, MutableMapping
from typing import Any, Generic
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ..core.commands import Consume, CreatePool, Group, PlaceHold, PutRecord
from ..core.face_legs import FaceLeg
from ..core.ladders.placing import total_of
from ..core.model import MAX_QUANTITY, SECOND, Leg, Pool
from ..core.outcomes import Reply
from ..core.validation import invalid, whole
from ..engines.port import Engine
from ..errors import Overloaded
from ..kernel._async.executor import AsyncExecutor
from ..kernel._sync.executor import Executor
from ..kernel.context import inside, refuse_inside
from ..kernel.own_transaction import ask_inside, asked, asked_async, decide_inside, lender_of
from .resource_keys import Key, Name, Window
from .resources import Resource, asynchronous, closing_slot, overrides

LONG_NAMES = "~resource"
"""The kind of the records that store keys and windows too long for a pool id."""


class CapacityQuery(Generic[Key, Window]):
    """One command whose capacity the application still has to answer."""

    def __init__(
        self,
        resource: Resource[Key, Window],
        key: Key,
        window: Window,
        name: Name,
        command: PlaceHold | Consume,
        checked: int,
        *,
        minted: bool,
    ) -> None:
        self._resource, self._key, self._window, self._name = resource, key, window, name
        self._counted = overrides(resource, "held")
        self._command, self._checked = command, checked
        self.minted = minted
        self.group = self._with(command)
        self.lock = Group((CreatePool(id=name.pool, total=0, exist_ok=True, on_demand=True, tenant=command.tenant),))
        """Creates the pool's row if it is missing, and locks it, so that two first holders ask one after the other."""

    @property
    def pool(self) -> tuple[str, str]:
        """The pool it is about."""
        return self._command.tenant, self._name.pool

    def ask(self, tx: Any) -> Group:
        """Ask the application; returns the group to decide."""
        capacity = self._resource.capacity(tx, self._key, self._window)
        held = self._resource.held(tx, self._key, self._window) if self._counted else None
        return self.answered(capacity, held)

    async def ask_async(self, tx: Any) -> Group:
        """Ask the application as `ask` does, and await what it answers."""
        capacity = self._resource.capacity(tx, self._key, self._window)
        if isinstance(capacity, Awaitable):
            capacity = await capacity
        held: Any = self._resource.held(tx, self._key, self._window) if self._counted else None
        if isinstance(held, Awaitable):
            held = await held
        return self.answered(capacity, held)

    def answered(self, capacity: Any, held: Any) -> Group:
        """Return the command with the answer on its leg."""
        for value in (capacity, held):
            if inspect.iscoroutine(value):
                value.close()  # refused below, and never awaited
        total = whole(capacity, "capacity", 0, MAX_QUANTITY)
        in_use = whole(held, "held", 0, MAX_QUANTITY) if self._counted else None
        closes = closing_slot(self._resource.closes(self._key, self._window))
        opens = None if closes is None else 0
        leg = self._command.legs[0]
        leg = FaceLeg(leg.pool, leg.quantity, total=total, in_use=in_use, opens=opens, closes=closes)
        return self._with(replace(self._command, legs=(leg,)))

    def _with(self, command: PlaceHold | Consume) -> Group:
        if not self._name.hashed:
            return Group((command,), checked=self._checked)
        body = f"[{','.join(self._name.full)}]"
        kept = PutRecord(kind=LONG_NAMES, id=self._name.pool, body=body, if_version=0, tenant=command.tenant)
        return Group((command, kept), checked=self._checked)


def unused_pool(name: Name, answered: Group, tenant: str) -> Pool:
    """Return the pool as the first hold would find it: with the capacity that was answered, and nothing held."""
    command = answered.commands[0]
    assert isinstance(command, PlaceHold | Consume)
    leg = command.legs[0]
    assert isinstance(leg, FaceLeg), "the capacity is on it"
    return Pool(tenant, name.pool, total_of(leg, 0), version=0, on_demand=True, closes=leg.closes)


def one_leg(name: Name, quantity: int) -> tuple[Leg, ...]:
    """Return what a call takes, before the capacity is known."""
    return (Leg(name.pool, quantity),)


class _KindRegistry:
    """What all resources of one kernel share: the class of each kind, and the lock where the engine has none."""

    def __init__(self) -> None:
        self.kinds: dict[str, type[Any]] = {}
        self.lock = asyncio.Lock()

    def enter(self, kind: str, cls: type[Any]) -> None:
        """Claim a kind for a class. The same class, loaded again, may claim it again."""
        there = self.kinds.setdefault(kind, cls)
        if (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
            raise invalid("kind", "kind_taken", f"{kind!r} is already the kind of {there.__qualname__}: choose another")


_registries: MutableMapping[Engine, _KindRegistry] = WeakKeyDictionary()


def _registry(engine: Engine) -> _KindRegistry:
    return _registries.setdefault(engine, _KindRegistry())


class CapacityReader:
    """Asks from threads."""

    def __init__(self, executor: Executor, resource: Resource[Any, Any], kind: str) -> None:
        if asynchronous(resource):
            name = type(resource).__name__
            raise invalid("capacity", "capacity_async", f"{name} answers with async def: use holdkit.connect_async")
        self._executor, self._engine = executor, executor.engine
        _registry(executor.engine).enter(kind, type(resource))

    def in_own_transaction(self, query: CapacityQuery[Any, Any]) -> list[Reply]:
        """Ask and decide in a transaction of the engine's own."""
        return self._executor.borrow(lambda engine: _decide(engine, query))

    def in_caller_transaction(self, tx: Any, query: CapacityQuery[Any, Any]) -> list[Reply]:
        """Ask and decide in the caller's own transaction."""
        refuse_inside(self._engine)
        if lender_of(self._engine).serial:
            self._executor.lock(tx, [query.pool])
        else:
            self._executor.submit(query.lock, tx)
        with inside(self._engine):
            group = asked(self._engine, tx, query.ask)
        return self._executor.submit(group, tx)

    def read(self, tx: Any, query: CapacityQuery[Any, Any]) -> Group:
        """Only ask, in a transaction of the engine's own or in the caller's; write nothing."""
        refuse_inside(self._engine)
        if tx is None:
            return self._executor.borrow(lambda engine: ask_inside(engine, query.ask))
        with inside(self._engine):
            return asked(self._engine, tx, query.ask)


class AsyncCapacityReader:
    """Asks from tasks."""

    def __init__(self, executor: AsyncExecutor, resource: Resource[Any, Any], kind: str) -> None:
        self._executor, self._engine = executor, executor.engine
        self._asynchronous = asynchronous(resource)
        self._registry = _registry(executor.engine)
        self._registry.enter(kind, type(resource))

    async def in_own_transaction(self, query: CapacityQuery[Any, Any]) -> list[Reply]:
        """Ask and decide in a transaction of the engine's own. Its connection is sync, so a plain function is called
        on a thread."""
        refuse_inside(self._engine)
        if not self._asynchronous:
            return await self._executor.borrow(lambda engine: _decide(engine, query))
        self._refuse_without_tx()
        await self._acquire_lock()
        try:
            with inside(self._engine):
                group = await query.ask_async(None)
            return await self._executor.borrow(lambda engine: _decide(engine, query, group))
        finally:
            self._registry.lock.release()

    async def read(self, tx: Any, query: CapacityQuery[Any, Any]) -> Group:
        """Only ask, in a transaction of the engine's own or in the caller's; write nothing."""
        refuse_inside(self._engine)
        if tx is None and not self._asynchronous:
            return await self._executor.borrow(lambda engine: ask_inside(engine, query.ask))
        if tx is None:
            self._refuse_without_tx()
        with inside(self._engine):
            return await (query.ask_async(None) if tx is None else asked_async(self._engine, tx, query.ask_async))

    def _refuse_without_tx(self) -> None:
        if lender_of(self._engine).sql:
            raise invalid(
                "capacity",
                "capacity_needs_tx",
                "an async def capacity needs your own async transaction: pass tx=, or write it as a plain def, which is then "
                "called on a thread with a sync connection",
            )

    async def _acquire_lock(self) -> None:
        """Acquire the lock that the resources of this kernel share: the engine has none to hold while the answer is awaited."""
        seconds = self._engine.limits.lock_timeout / SECOND
        try:
            async with asyncio.timeout(seconds):
                await self._registry.lock.acquire()
        except TimeoutError:
            raise Overloaded(f"another task's capacity took longer than {seconds:g} s", retry_after=1.0) from None

    async def in_caller_transaction(self, tx: Any, query: CapacityQuery[Any, Any]) -> list[Reply]:
        """Ask and decide in the caller's own transaction."""
        refuse_inside(self._engine)
        if not self._asynchronous and inspect.iscoroutinefunction(getattr(tx, "execute", None)):
            raise invalid("capacity", "capacity_not_async", "must be async def: tx is an async connection")
        if lender_of(self._engine).serial:
            await self._executor.lock(tx, [query.pool])
        else:
            await self._executor.submit(query.lock, tx)
        with inside(self._engine):
            group = await asked_async(self._engine, tx, query.ask_async)
        return await self._executor.submit(group, tx)


def _decide(engine: Engine, query: CapacityQuery[Any, Any], answered: Any = None) -> list[Reply]:
    ask = query.ask if answered is None else lambda _: answered
    return decide_inside(engine, query.group, minted=query.minted, ask=ask, lock=query.lock)
