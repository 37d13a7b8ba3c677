"""What `hk.claims` reads: frozen claims. They have no token: what was taken ends through its hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from ..core.keyed import CLAIMS
from ..core.model import SECOND, Pool, State, StoredHold
from ..engines.clocks import Reading
from ..kernel.one_line import MAX_NAMES, line, moment_text, shortened
from ..kernel.results import Hold
from ..kernel.times import datetime_of, text_of


class StoredClaim(NamedTuple):
    """The rows of a claim."""

    pool: Pool
    hold: StoredHold | None
    """The hold of this life; None if it ended longer ago than the retention."""


class Claim:
    """A key in its present or last life, as it was when this answer was given. Immutable; read it again with `get`."""

    __slots__ = ("_reading", "raw")

    raw: StoredClaim
    """The rows as they are stored; times are slots."""
    _reading: Reading | None
    """The engine's clock when this answer was given; None in another process."""

    def __init__(self, pool: Pool, hold: StoredHold | None, reading: Reading | None = None) -> None:
        object.__setattr__(self, "raw", StoredClaim(pool, hold))
        object.__setattr__(self, "_reading", reading)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Claim is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Claim is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Claim, (*self.raw, None if self._reading is None else Reading(self._reading.now(), None))

    @property
    def id(self) -> str:
        """`res_` and 32 hex digits, derived from the key, so equal for equal keys. After an erasure: `erased_` and others."""
        return self.raw.pool.id.removeprefix(CLAIMS)

    @property
    def key(self) -> str:
        """`type:value`."""
        return self.raw.pool.label or ""

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
        return self.raw.pool.tenant

    @property
    def hold(self) -> str | None:
        """The id of the hold of this life."""
        return self.raw.pool.holder

    @property
    def state(self) -> State:
        """held, confirmed, released or expired."""
        return state_of(*self.raw)

    @property
    def taken(self) -> bool:
        """Whether the key is held or confirmed, so that no other caller can hold it."""
        return self.state in (State.HELD, State.CONFIRMED)

    @property
    def deadline(self) -> datetime | None:
        """When it expires, unless it is confirmed before."""
        return None if self.raw.hold is None else datetime_of(self.raw.hold.deadline)

    @property
    def remaining(self) -> float | None:
        """Seconds until its deadline, by the engine's clock and the time since this answer; 0 if the key is free. None if there is
        no end: a confirmed key is taken for good, and a saga after its point of no return holds without a deadline."""
        if not self.taken:
            return 0
        deadline = None if self.raw.hold is None else self.raw.hold.deadline
        if self.state is State.CONFIRMED or deadline is None or self._reading is None:
            return None
        return max(0, deadline - self._reading.now()) / SECOND

    @property
    def entity(self) -> str | None:
        """The entity it was confirmed for."""
        return self.raw.pool.entity if self.state is State.CONFIRMED else None

    @property
    def fence(self) -> int:
        """Grows with every life of the key, so that another system can refuse a stale holder."""
        return self.raw.pool.fence if self.raw.hold is None else self.raw.hold.fence

    @property
    def held_at(self) -> datetime | None:
        """When this life began; None if that was longer ago than the retention."""
        return None if self.raw.hold is None else datetime_of(self.raw.hold.held_at)

    @property
    def ended_at(self) -> datetime | None:
        """When it was confirmed, released, or expired."""
        return None if self.raw.hold is None else datetime_of(self.raw.hold.ended_at)

    @property
    def combined(self) -> bool:
        """Whether it is a leg of a hold that has other legs too, and ends with that hold."""
        return self.raw.hold is not None and len(self.raw.hold.legs) > 1

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        names = ("id", "key", "type", "value", "tenant", "hold", "taken", "entity", "fence", "combined")
        hold = self.raw.hold
        times = {
            "deadline": None if hold is None else hold.deadline,
            "held_at": None if hold is None else hold.held_at,
            "ended_at": None if hold is None else hold.ended_at,
        }
        shown_times = {name: text_of(slot) for name, slot in times.items()}
        return {**{name: getattr(self, name) for name in names}, **shown_times, "state": str(self.state)}

    def __repr__(self) -> str:
        detail = ""
        if self.state is State.HELD and self.deadline is not None:
            detail = f"until {moment_text(self.deadline)}"
        elif self.entity is not None:
            detail = f"for {self.entity}"
        return line("Claim", shortened(self.key or self.id, MAX_NAMES), str(self.state), detail)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claim) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.tenant, self.id, self.fence))


class FreedClaim(NamedTuple):
    """A key that was freed."""

    claim: Claim
    replayed: bool


def claim_of(hold: Hold, key: str) -> Claim:
    """Return the claim whose only hold this is, as the answer left it; the present holder does not matter."""
    row = hold.raw
    return Claim(
        Pool(row.tenant, row.legs[0].pool, 1, fence=row.fence, label=key, holder=row.id, entity=row.entity), row
    )


def state_of(pool: Pool, hold: StoredHold | None) -> State:
    """Return the state of a labelled pool of one unit in its present or last life. After the retention only the pool tells it."""
    if hold is None:
        return State.RELEASED if pool.available else State.CONFIRMED
    for leg in hold.legs:
        if leg.pool == pool.id:
            if leg.confirmed > leg.returned:
                return State.CONFIRMED
            if leg.held:
                return State.HELD
    return State.EXPIRED if hold.state is State.EXPIRED else State.RELEASED
