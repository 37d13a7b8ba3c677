"""The part of a saga that an application writes: what to hold, what to check, what to do, what to undo.

The driver calls it; it calls nothing. Its methods may be plain functions and, in the async kernel, coroutine
functions.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from msgspec import Struct

from ..core.bounds import Limits
from ..core.commands import PlaceHold, Ttl
from ..core.model import Leg, Slot
from ..core.validation import check
from ..core.values import invalid, text, whole
from ..kernel.arguments import span
from ..kernel.results import Hold

MAX_NAME = 100
MAX_FAILURES = 1_000
LEASES = (1_000, 86_400_000_000)
"""The shortest and the longest lease, in slots."""


class SagaStep(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Which saga, attempt and driver a method is called for."""

    id: str
    name: str
    attempt: int
    epoch: int
    """Grows with every driver: a system that remembers the highest epoch it has seen can refuse a driver that was
    paused."""
    op: str
    """An operation id for what the effect calls: the same however often the effect of this attempt runs."""
    hold: Hold | None = None
    """The units held; None in `reserve`, and in `undo` if there are none. It has no token: the saga ends it."""


class Saga:
    """Subclass it, give it a `name`, and write `reserve` and `effect`; then `hk.sagas.register` it."""

    name: ClassVar[str] = ""
    ttl: ClassVar[Ttl] = "5m"
    """How long units are held before the point of no return. After it they are held until the saga has ended."""
    lease: ClassVar[Ttl] = "30s"
    """How long a driver that has stopped keeps others away. The driver renews it while the methods below run."""
    max_attempts: ClassVar[int] = 10
    """The number of failures after which the saga is parked."""

    def reserve(self, intent: Any, step: SagaStep) -> Any:
        """Return what to hold: a pool id, a mapping, or a list of legs. An exception aborts the saga."""
        raise NotImplementedError

    def validate(self, intent: Any, step: SagaStep) -> Any:
        """Check once more while the units are held. An exception aborts the saga."""

    def effect(self, intent: Any, step: SagaStep) -> Any:
        """Do it, after the point of no return. Runs at least once, and perhaps twice at the same time if a driver was
        paused. The saga stores what it returns."""
        raise NotImplementedError

    def effect_in(self, tx: Any, intent: Any, step: SagaStep) -> Any:
        """Do the effect in the transaction that confirms, instead of `effect`, so that both happen exactly once or not at all. A plain
        function in both kernels; write through `tx`, a `sqlite3.Connection` or `psycopg.Connection`. (On engines without SQL `tx` is
        None, and this is the same as `effect`.)"""
        raise NotImplementedError

    def undo(self, intent: Any, step: SagaStep) -> Any:
        """Take back what `reserve` and `validate` have done elsewhere, before the abort is written. Runs at least
        once."""


class SagaOptions(Struct, frozen=True):
    """The checked settings of a registered saga."""

    saga: Any
    name: str
    ttl: Slot
    lease: Slot
    max_attempts: int
    inside: bool
    """The effect runs in the transaction that confirms."""


def saga_options(saga: Any, limits: Limits, *, coroutines: bool) -> SagaOptions:
    """Check a saga that is registered; of a class, make an object."""
    made = saga() if isinstance(saga, type) else saga
    for method in ("reserve", "validate", "effect", "effect_in", "undo"):
        found = getattr(made, method, None)
        if not callable(found):
            raise invalid("saga", "saga_malformed", f"must have a method {method}: subclass holdkit.Saga")
        if inspect.iscoroutinefunction(found) and not (coroutines and method != "effect_in"):
            raise invalid("saga", "saga_async", f"its method {method} cannot be a coroutine in this kernel")
    said = {method for method in ("reserve", "effect", "effect_in") if _own(made, method)}
    if "reserve" not in said or len(said) != 2:
        raise invalid("saga", "saga_malformed", "must define reserve, and either effect or effect_in")
    ttl, lease = span(made.ttl), span(made.lease, "lease")
    check(PlaceHold(legs=(Leg("x"),), ttl_slots=ttl), limits)
    if not LEASES[0] <= lease <= LEASES[1]:
        raise invalid("lease", "lease_out_of_range", "must lie between 1 ms and a day")
    most = whole(made.max_attempts, "max_attempts", 1, MAX_FAILURES)
    return SagaOptions(made, text(made.name, "name", MAX_NAME), ttl, lease, most, inside="effect_in" in said)


def _own(saga: Any, method: str) -> bool:
    return getattr(type(saga), method, None) is not getattr(Saga, method)
