"""Resources: pools whose capacity the application answers, inside the transaction that takes the hold. Neither sync nor async.

`Resource` is what an application subclasses; `Question` is one call's way to it. Decides nothing: the answer is handed to the
core with the leg it belongs to.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, ClassVar, Generic

from msgspec import Struct
from msgspec.structs import replace

from ..core.commands import Consume, CreatePool, Group, PlaceHold, PutRecord
from ..core.ladders.placing import total_of
from ..core.model import MAX_QUANTITY, Leg, Pool, Slot
from ..core.validation import invalid, whole
from ..kernel.normalise import moment
from ..kernel.results import Hold
from .resource_keys import Key, Name, Window

LONG_NAMES = "~resource"
"""The kind of the records that keep keys and windows too long for a pool's id."""


class Resource(Generic[Key, Window]):
    """Something scarce that the application knows the capacity of: subclass it, and open it with `hk.resource(...)`.

    `class Seats(Resource[ShowId, None])`: a key says which one, a window what part of it (an evening, a minute), None if
    there is no such thing. `tx` is a connection inside the very transaction that takes the hold, with the pool locked: a
    `sqlite3.Connection`, a `psycopg.Connection`, the caller's own `tx=`, or None on engines without SQL. The function may be
    run again if the transaction is; read with it, or write what must happen with the hold, and end nothing.
    """

    kind: ClassVar[str]
    """A dotted word of your choice, such as "inventory.unit": one per class, and for ever."""

    def capacity(self, tx: Any, key: Key, window: Window) -> int | Awaitable[int]:
        """How many units there are, in use or not. In an `AsyncKernel` it may be `async def`."""
        raise NotImplementedError(f"{type(self).__name__} must say its capacity(tx, key, window)")

    def held(self, tx: Any, key: Key, window: Window) -> int | Awaitable[int]:
        """How many units are in use. Not overridden, the kernel's own counters answer, and nobody asks here.

        Overridden, it replaces them for the check: available = capacity - held. Whatever holds of this kernel it ought to
        include, it must include itself: that is the application's promise, which nobody can check.
        """
        raise NotImplementedError

    def closes(self, key: Key, window: Window) -> datetime | None:
        """When the window ends, as an aware datetime; None, as it is not overridden: never.

        From then on nothing more is granted in it (`WindowClosed`); extend, confirm, release and return work. Once nothing of
        it is held, it is swept away with what was consumed there, so what is counted per minute or day never fills a table.
        """
        del key, window
        return None


class ResourceHold(Struct, Generic[Key, Window], frozen=True):
    """A hold, and what it is on."""

    key: Key
    window: Window
    hold: Hold


class ResourcePool(Struct, Generic[Key, Window], frozen=True):
    """The counters of one key and window; `pool.total` is the capacity as it was last answered."""

    key: Key
    window: Window
    pool: Pool


def overrides(resource: Resource[Any, Any], method: str) -> bool:
    """Whether the application has its own."""
    return getattr(type(resource), method) is not getattr(Resource, method)


def asynchronous(resource: Resource[Any, Any]) -> bool:
    """Whether any of its answers must be awaited."""
    return any(inspect.iscoroutinefunction(getattr(resource, name)) for name in ("capacity", "held"))


def closing_slot(value: Any) -> Slot | None:
    """What `closes` answered, as a slot."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        if inspect.iscoroutine(value):
            value.close()  # refused below, and never awaited
        raise invalid("closes", "closes_malformed", f"must be an aware datetime or None, not {type(value).__name__}")
    slot: Slot = moment(value, "closes")
    return max(0, slot)


def check_resource(resource: object) -> None:
    """An instance of a subclass that answers."""
    if isinstance(resource, type) and issubclass(resource, Resource):
        raise invalid("resource", "resource_not_made", f"must be an instance: {resource.__name__}()")
    if not isinstance(resource, Resource):
        raise invalid("resource", "resource_malformed", f"must be a holdkit.Resource, not {type(resource).__name__}")
    if not overrides(resource, "capacity"):
        raise invalid(
            "resource", "capacity_missing", f"{type(resource).__name__} must have capacity(self, tx, key, window)"
        )


class Question(Generic[Key, Window]):
    """One command whose capacity is still to be asked for."""

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
        """Makes the pool's row, if it is missing, and locks it: two first holders ask one after the other."""

    @property
    def pool(self) -> tuple[str, str]:
        """The pool it is about."""
        return self._command.tenant, self._name.pool

    def ask(self, tx: Any) -> Group:
        """Ask, and give what is to be decided."""
        capacity = self._resource.capacity(tx, self._key, self._window)
        held = self._resource.held(tx, self._key, self._window) if self._counted else None
        return self.answered(capacity, held)

    async def ask_async(self, tx: Any) -> Group:
        """The same, awaiting what must be."""
        capacity = self._resource.capacity(tx, self._key, self._window)
        if isinstance(capacity, Awaitable):
            capacity = await capacity
        held: Any = self._resource.held(tx, self._key, self._window) if self._counted else None
        if isinstance(held, Awaitable):
            held = await held
        return self.answered(capacity, held)

    def answered(self, capacity: Any, held: Any) -> Group:
        """The command with the answer on its leg."""
        for value in (capacity, held):
            if inspect.iscoroutine(value):
                value.close()  # refused below, and never awaited
        total = whole(capacity, "capacity", 0, MAX_QUANTITY)
        in_use = whole(held, "held", 0, MAX_QUANTITY) if self._counted else None
        closes = closing_slot(self._resource.closes(self._key, self._window))
        opens = None if closes is None else 0
        leg = replace(self._command.legs[0], total=total, in_use=in_use, opens=opens, closes=closes)
        return self._with(replace(self._command, legs=(leg,)))

    def _with(self, command: PlaceHold | Consume) -> Group:
        if not self._name.hashed:
            return Group((command,), checked=self._checked)
        body = f"[{','.join(self._name.full)}]"
        kept = PutRecord(kind=LONG_NAMES, id=self._name.pool, body=body, if_version=0, tenant=command.tenant)
        return Group((command, kept), checked=self._checked)


def unused_pool(name: Name, answered: Group, tenant: str) -> Pool:
    """The pool as the first hold would find it: the capacity that was answered, and nothing held."""
    command = answered.commands[0]
    assert isinstance(command, PlaceHold | Consume)
    leg = command.legs[0]
    return Pool(tenant, name.pool, total_of(leg, 0), version=0, on_demand=True, closes=leg.closes)


def one_leg(name: Name, quantity: int) -> tuple[Leg, ...]:
    """What a call takes, before the answer is known."""
    return (Leg(name.pool, quantity),)
