"""What a hold adds to each pool besides its legs: units on the pools above, rows in the index of outstanding legs, and the usage of
its account."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from .fields import Personal

TallyKey: TypeAlias = tuple[str, str, str]
"""(tenant, pool, account)."""


class Level(Struct, frozen=True, gc=False):
    """A hold's outstanding units on a pool above those of its legs, on behalf of the legs below."""

    pool: str
    held: int


class OpenLeg(Struct, frozen=True, gc=False, omit_defaults=True):
    """The outstanding units of a hold on one pool, named by a leg or above one: the row that engines index by deadline and number."""

    units: int
    """Held; 0 while it waits."""
    waiting: int = 0
    """Units waited for."""
    number: int = 0
    """Its number in the pool's line, while it waits."""
    account: str | None = None
    """The account in whose tally it is counted."""


class Tally(Struct, frozen=True, gc=False, omit_defaults=True):
    """The usage of one pool by an account. Part of the pool: it moves with the account's legs, and is removed at 0."""

    account: Personal[str]
    used: int
    """Units waited for, held, or confirmed and not returned; on a pool with children, of those below it too."""
    loose: int = 0
    """Those of them that were confirmed on this very pool, and whose holds have been dropped."""


def tallied(pool: str, account: str | None) -> str | None:
    """Return the account whose tally a leg on this pool moves: none on the pools of faces."""
    return account if account is None or pool[0] != "~" else None
