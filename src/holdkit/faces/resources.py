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

from ..core.model import Pool, Slot
from ..core.validation import invalid
from ..kernel.normalise import moment
from ..kernel.results import Hold
from .resource_keys import Key, Window


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
