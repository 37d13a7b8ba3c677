"""Resources: pools whose capacity the application answers, inside the transaction that takes the hold.

`Resource` is what an application subclasses. `capacity` asks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, ClassVar, Generic

from msgspec import Struct

from ..core.model import Slot
from ..core.validation import invalid
from ..kernel.one_line import line
from ..kernel.pool import Pool
from ..kernel.results import Hold
from ..kernel.times import moment
from .resource_keys import Key, Window


class Resource(Generic[Key, Window]):
    """Something scarce whose capacity the application knows: subclass it, and open it with `hk.resource(...)`.

    In `class Seats(Resource[ShowId, None])` the key says which one, and the window which part of it (an evening, a
    minute); None if there is no such part. `tx` is a connection inside the transaction that takes the hold, with the
    pool locked: a `sqlite3.Connection`, a `psycopg.Connection`, the caller's own `tx=`, or None on engines without
    SQL. Read with it, or write what must happen together with the hold; do not commit or roll back. The function is
    called again if the transaction is retried.
    """

    kind: ClassVar[str]
    """A dotted word of your choice, such as "inventory.unit": one per class, never changed."""

    def capacity(self, tx: Any, key: Key, window: Window) -> int | Awaitable[int]:
        """Return how many units there are, used or not. In an `AsyncKernel` it may be `async def`."""
        raise NotImplementedError(f"{type(self).__name__} must define capacity(tx, key, window)")

    def held(self, tx: Any, key: Key, window: Window) -> int | Awaitable[int]:
        """Return how many units are in use. If it is not overridden, the kernel's own counters count.

        If it is overridden, it replaces them: available = capacity - held. It must then include those of this kernel's own holds that
        count; the kernel cannot check that.
        """
        raise NotImplementedError

    def closes(self, key: Key, window: Window) -> datetime | None:
        """Return when the window ends, as an aware datetime; None, the default: never.

        From then on nothing more is granted in it (`WindowClosed`); extend, confirm, release and return still work. Once nothing is held
        in it, a sweep removes it together with what was consumed there, so counting per minute or day never fills a table.
        """
        del key, window
        return None


class ResourceHold(Struct, Generic[Key, Window], frozen=True):
    """A hold, with its key and window."""

    key: Key
    window: Window
    hold: Hold

    def __repr__(self) -> str:
        return line("ResourceHold", str(self.key), str(self.window), str(self.hold.state), self.hold.id)


class ResourcePool(Struct, Generic[Key, Window], frozen=True):
    """The counters of one key and window; `pool.total` is the capacity as last answered."""

    key: Key
    window: Window
    pool: Pool

    def __repr__(self) -> str:
        counters = f"total={self.pool.total} held={self.pool.held} consumed={self.pool.consumed}"
        return line("ResourcePool", str(self.key), str(self.window), counters)


def overrides(resource: Resource[Any, Any], method: str) -> bool:
    """Return whether the application overrides a method."""
    return getattr(type(resource), method) is not getattr(Resource, method)


def asynchronous(resource: Resource[Any, Any]) -> bool:
    """Return whether any answer must be awaited."""
    return any(inspect.iscoroutinefunction(getattr(resource, name)) for name in ("capacity", "held"))


def closing_slot(value: Any) -> Slot | None:
    """Return the answer of `closes`, as a slot."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        if inspect.iscoroutine(value):
            value.close()  # refused below, and never awaited
        raise invalid("closes", "closes_malformed", f"must be an aware datetime or None, not {type(value).__name__}")
    slot: Slot = moment(value, "closes")
    return max(0, slot)


def check_resource(resource: object) -> None:
    """Check that this is an instance of a subclass with a capacity."""
    if isinstance(resource, type) and issubclass(resource, Resource):
        raise invalid("resource", "resource_not_made", f"must be an instance: {resource.__name__}()")
    if not isinstance(resource, Resource):
        raise invalid("resource", "resource_malformed", f"must be a holdkit.Resource, not {type(resource).__name__}")
    if not overrides(resource, "capacity"):
        raise invalid(
            "resource", "capacity_missing", f"{type(resource).__name__} must have capacity(self, tx, key, window)"
        )
