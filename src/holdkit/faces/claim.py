"""What `hk.claims` returns: frozen claims. No repr and no dict made here contains the token or the ticket."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from ..core.codec import ticket
from ..core.keyed import CLAIMS
from ..core.model import Pool, Slot, State, StoredHold
from ..core.outcomes import Survives
from ..engines.clocks import Reading
from ..kernel.normalise import datetime_of, text_of


class Claim:
    """A key in one of its lives, as it was when this answer was given. Immutable; read it again with `find`."""

    __slots__ = ("_hold", "_pool", "as_of", "durability", "replayed", "token")

    _pool: Pool
    _hold: StoredHold | None
    token: str | None
    """The token, if this call created or was given it. Keep it secret; pass it on as `ticket`."""
    replayed: bool
    """This answer was recorded earlier under the same operation id, or the same owner had this claim already."""
    as_of: Reading | None
    """The engine's clock when this answer was given; None in another process."""

    durability: Survives | None
    """What this answer survives, as in `Hold.durability`; None if it was only read, and in your own transaction."""

    def __init__(
        self,
        pool: Pool,
        hold: StoredHold | None,
        token: str | None = None,
        *,
        replayed: bool = False,
        as_of: Reading | None = None,
        durability: Survives | None = None,
    ) -> None:
        given = {"_pool": pool, "_hold": hold, "token": token, "replayed": replayed, "as_of": as_of}
        for name, value in {**given, "durability": durability}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Claim is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Claim is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._pool, self._hold, self.token, self.replayed, self.durability)

    @property
    def id(self) -> str:
        """`res_` and 32 hex digits: always the same for the same key. Of a claim that was erased, `erased_` and others."""
        return self._pool.id.removeprefix(CLAIMS)

    @property
    def key(self) -> str:
        """`type:value`."""
        return self._pool.label or ""

    @property
    def type(self) -> str:
        """The part of the key before the colon."""
        return self.key.partition(":")[0]

    @property
    def value(self) -> str:
        """The part of the key after the colon."""
        return self.key.partition(":")[2]

    @property
    def tenant(self) -> str:
        """The tenant; empty for the default tenant."""
        return self._pool.tenant

    @property
    def hold_id(self) -> str | None:
        """The hold of this life."""
        return self._pool.holder

    @property
    def state(self) -> State:
        """held, confirmed, released or expired."""
        return state_of(self._pool, self._hold)

    @property
    def deadline(self) -> Slot | None:
        """The slot at which it expires, unless it is confirmed before."""
        return None if self._hold is None else self._hold.deadline

    @property
    def deadline_at(self) -> datetime | None:
        """The deadline as an aware datetime."""
        return datetime_of(self.deadline)

    def left(self, now: Slot) -> Slot | None:
        """How long it is still taken, by a clock that says `now`; at least the time since the answer has passed. 0
        if the key is free. None if there is no end: a confirmed key is taken for good, and a saga after its point of
        no return holds without a deadline."""
        if self.state is State.CONFIRMED:
            return None
        if self.state is not State.HELD:
            return 0
        if self.deadline is None:
            return None
        return max(0, self.deadline - (now if self.as_of is None else max(now, self.as_of.now())))

    @property
    def entity(self) -> str | None:
        """The entity it was confirmed for."""
        return self._pool.entity if self.state is State.CONFIRMED else None

    @property
    def fence(self) -> int:
        """Grows with every life of the key, so that another system can refuse a stale holder."""
        return self._pool.fence if self._hold is None else self._hold.fence

    @property
    def held_slot(self) -> Slot | None:
        """The slot at which this life began; None if that was longer ago than the retention."""
        return None if self._hold is None else self._hold.held_at

    @property
    def held_at(self) -> datetime | None:
        """When this life began, as an aware datetime."""
        return datetime_of(self.held_slot)

    @property
    def ended_slot(self) -> Slot | None:
        """The slot at which it was confirmed, released, or expired."""
        return None if self._hold is None else self._hold.ended_at

    @property
    def ended_at(self) -> datetime | None:
        """When it was confirmed, released, or expired, as an aware datetime."""
        return datetime_of(self.ended_slot)

    @property
    def correlation_id(self) -> str | None:
        """The caller's correlation id."""
        return None if self._hold is None else self._hold.correlation_id

    @property
    def version(self) -> int:
        """Grows with every change within one life of the key."""
        return self._pool.version if self._hold is None else self._hold.version

    @property
    def combined(self) -> bool:
        """Whether it is a leg of a hold that has other legs too, and ends with that hold."""
        return self._hold is not None and len(self._hold.legs) > 1

    @property
    def ticket(self) -> str | None:
        """One text with hold id and token, for another process. Secret, like the token."""
        return None if self.token is None or self.hold_id is None else ticket(self.hold_id, self.token)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the secrets, ready for JSON."""
        names = ("id", "key", "type", "value", "tenant", "hold_id", "deadline", "entity", "fence", "held_slot", "ended_slot",
                 "correlation_id", "version")  # fmt: skip
        times = {"deadline_at": self.deadline, "held_at": self.held_slot, "ended_at": self.ended_slot}
        times_text = {name: text_of(slot) for name, slot in times.items()}
        return {**{name: getattr(self, name) for name in names}, **times_text, "state": str(self.state)}

    def __repr__(self) -> str:
        return f"<Claim {self.id} {self.key!r} {self.state} deadline={self.deadline} fence={self.fence}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claim) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.tenant, self.id, self.version))


def _restore(
    pool: Pool, hold: StoredHold | None, token: str | None, replayed: bool, durability: Survives | None
) -> Claim:
    return Claim(pool, hold, token, replayed=replayed, durability=durability)


def state_of(pool: Pool, hold: StoredHold | None) -> State:
    """The state of a labelled pool of one unit in its present or last life. After the retention only the pool is
    left to tell it."""
    if hold is None:
        return State.RELEASED if pool.available else State.CONFIRMED
    for leg in hold.legs:
        if leg.pool == pool.id:
            if leg.confirmed > leg.returned:
                return State.CONFIRMED
            if leg.held:
                return State.HELD
    return State.EXPIRED if hold.state is State.EXPIRED else State.RELEASED
