"""Pools, as calls return them: frozen."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NoReturn

from msgspec import Struct

from ..core.entries import Effect
from ..core.keyed import leg_name
from ..core.model import Line
from ..core.model import Pool as StoredPool
from .one_line import MAX_LENGTH, MAX_NAMES, line, plain, shortened
from .times import datetime_of, for_json

MIN_NAME_LENGTH = 20
"""The characters that a repr leaves of a long id, however long its numbers are."""


class Pool:
    """A bounded amount of something scarce, and how much of it is in use, as it was when this answer was given. Immutable; ask again
    with `pool` for the present."""

    __slots__ = ("raw",)

    raw: StoredPool
    """What is stored, with times as slots."""

    def __init__(self, raw: StoredPool) -> None:
        object.__setattr__(self, "raw", raw)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Pool is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Pool is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, (self.raw,)

    @property
    def id(self) -> str:
        """Its name, which is unique in its tenant."""
        return self.raw.id

    @property
    def tenant(self) -> str:
        """The tenant it belongs to; empty for the default tenant."""
        return self.raw.tenant

    @property
    def total(self) -> int:
        """The units that there are, used or not."""
        return self.raw.total

    @property
    def held(self) -> int:
        """The units that holds have until their deadlines."""
        return self.raw.held

    @property
    def consumed(self) -> int:
        """The units that were confirmed and not returned."""
        return self.raw.consumed

    @property
    def available(self) -> int:
        """The units that another hold could take now."""
        return self.raw.available

    @property
    def bookable(self) -> int:
        """The units that a plain hold could take now: none while a hold waits in line, and no more than the pools above leave. (In
        the answer of a command the pools above it are not known; read the pool.)"""
        return self.raw.bookable

    @property
    def over(self) -> bool:
        """Whether the application lowered the capacity below what is in use."""
        return self.raw.over

    @property
    def waiting(self) -> int:
        """The holds that wait in its line."""
        return self.raw.waiting

    @property
    def children(self) -> int:
        """The pools directly below it: as long as there are any, it cannot be removed."""
        return self.raw.children

    @property
    def per_account(self) -> int | None:
        """The most units that one account may wait for, hold and have confirmed together; None: no limit."""
        return self.raw.per_account

    @property
    def line(self) -> Line:
        """How its line is served: `strict`, in order, or `skip`: holds that fit pass a first one that asks for too much."""
        return self.raw.line

    @property
    def archived(self) -> bool:
        """Whether nothing more is granted on it; what is held or consumed is not affected."""
        return self.raw.archived

    @property
    def closes(self) -> datetime | None:
        """When its window ends: after that nothing is granted, and a sweep removes it as soon as nothing is held. None: it has no
        window."""
        return datetime_of(self.raw.closes)

    @property
    def version(self) -> int:
        """Grows with every change. 0 for a pool that is not stored yet."""
        return self.raw.version

    @property
    def replayed(self) -> bool:
        """Whether this answer was recorded earlier under the same operation id."""
        return self.raw.replayed

    def to_dict(self) -> dict[str, Any]:
        """Return the pool, ready for JSON: without what is true of one answer only."""
        return for_json({name: getattr(self, name) for name in _SHOWN})

    def __repr__(self) -> str:
        raw = self.raw
        facts = [
            f"total={raw.total} held={raw.held} consumed={raw.consumed} available={raw.available}",
            "" if raw.bookable == raw.available else f"bookable={raw.bookable}",
            f"waiting={raw.waiting}",
            "" if raw.per_account is None else f"per_account={raw.per_account}",
            "archived" if raw.archived else "",
        ]
        shown = " ".join([fact for fact in facts if fact])
        room = max(MIN_NAME_LENGTH, MAX_LENGTH - len(f"<Pool  {shown}>"))
        return line("Pool", shortened(plain(leg_name(raw.id, raw.label)), room), shown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pool) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((self.raw.tenant, self.raw.id, self.raw.version))


_SHOWN: Final = (
    "id", "tenant", "total", "held", "consumed", "available", "bookable", "over", "waiting", "children", "per_account", "line",
    "archived", "closes", "version",
)  # fmt: skip


class PoolChange(Struct, frozen=True, gc=False):
    """A pool after an entry of the journal, and by how much the entry moved its counters."""

    pool: Pool
    total: int = 0
    held: int = 0
    consumed: int = 0
    waiting: int = 0
    children: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the change, ready for JSON."""
        return {"pool": self.pool.to_dict(), **self._moves()}

    def __repr__(self) -> str:
        moves = [f"{name}={amount:+d}" for name, amount in self._moves().items() if amount]
        return line("PoolChange", shortened(leg_name(self.pool.id, self.pool.raw.label), MAX_NAMES), *moves)

    def _moves(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _COUNTERS}


_COUNTERS: Final = PoolChange.__struct_fields__[1:]


def change_of(effect: Effect) -> PoolChange:
    """Return the change of a pool by an entry, as users see it."""
    return PoolChange(Pool(effect.pool), *[getattr(effect, name) for name in _COUNTERS])
