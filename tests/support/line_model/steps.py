"""The steps of a history: what callers ask and what the clock does, as plain values that print as the code that makes them.

Holds have short names, pools are those of `state.POOLS`, and times are slots. A step says nothing about its answer.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Overage: TypeAlias = Literal["reject", "if_available", "up_to_available"]


class Place(Struct, frozen=True, omit_defaults=True):
    """A hold, of one leg or several. With `wait` it joins the line instead of being refused for want of units."""

    id: str
    legs: dict[str, int]
    ttl: int
    account: str | None = None
    force: bool = False
    wait: int | None = None
    offer_ttl: int = 0


class Consume(Struct, frozen=True, omit_defaults=True):
    """Hold and confirm in one step."""

    id: str
    legs: dict[str, int]
    account: str | None = None
    force: bool = False


class Join(Struct, frozen=True, omit_defaults=True):
    """Wait in a pool's line, for `ttl`; an offer then stands for `offer_ttl`."""

    id: str
    pool: str
    quantity: int
    ttl: int
    offer_ttl: int
    account: str | None = None
    force: bool = False


class Confirm(Struct, frozen=True, omit_defaults=True):
    """All that is held; or an amount of the first leg by name, and nothing of the others."""

    id: str
    quantity: int | None = None
    overage: Overage = "reject"
    keep_rest: bool = False


class Release(Struct, frozen=True, omit_defaults=True):
    """All that is held; or an amount of the first leg by name."""

    id: str
    quantity: int | None = None


class ReleaseInTransaction(Struct, frozen=True, omit_defaults=True):
    """A release in the caller's own transaction, which commits only after a delay."""

    id: str
    delay: int


class Leave(Struct, frozen=True, omit_defaults=True):
    """Stop waiting; a hold that has units keeps them."""

    id: str


class Extend(Struct, frozen=True, omit_defaults=True):
    """A later deadline."""

    id: str
    by: int


class Expire(Struct, frozen=True, omit_defaults=True):
    """Mark a hold as expired, if its deadline has come."""

    id: str


class Return(Struct, frozen=True, omit_defaults=True):
    """Confirmed units of the first leg by name come back through their hold."""

    id: str
    quantity: int


class ReturnLoose(Struct, frozen=True, omit_defaults=True):
    """Confirmed units come back through their pool."""

    pool: str
    quantity: int
    account: str | None = None
    bought_by: str = ""
    """The hold that was confirmed for the tickets which come back: no command says so, but the world knows."""


class Resize(Struct, frozen=True, omit_defaults=True):
    """Another total."""

    pool: str
    total: int


class Limit(Struct, frozen=True, omit_defaults=True):
    """Another limit per account, or none."""

    pool: str
    per_account: int | None


class Archive(Struct, frozen=True, omit_defaults=True):
    """Nothing more is granted."""

    pool: str


class Unarchive(Struct, frozen=True, omit_defaults=True):
    """Granted again."""

    pool: str


class Sweep(Struct, frozen=True, omit_defaults=True):
    """Sweep until nothing is left to do."""


class Advance(Struct, frozen=True, omit_defaults=True):
    """Time passes."""

    slots: int


HoldStep: TypeAlias = Confirm | Release | ReleaseInTransaction | Leave | Extend | Expire | Return
PoolStep: TypeAlias = ReturnLoose | Resize | Limit | Archive | Unarchive
CommandStep: TypeAlias = Place | Consume | Join | HoldStep | PoolStep


class Together(Struct, frozen=True):
    """An atomic batch: all of its steps are done, or none."""

    steps: tuple[CommandStep, ...]


Step: TypeAlias = CommandStep | Together | Sweep | Advance
History: TypeAlias = tuple[Step, ...]
