"""Durability: what a done answer survives, in one word for programs and one sentence for people.

It tells what is in force, not what should be: each engine declares it, and one whose settings can change while it is open
reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from ..core.outcomes import Survives

LEVELS: Final[tuple[Survives, ...]] = get_args(Survives)


class Standby(Struct, frozen=True):
    """One that receives the store's log, or did."""

    name: str
    state: Literal["synchronous", "asynchronous", "away", "unknown"]
    """`synchronous`: commits wait for it, alone or with others. `away`: it is expected, and not connected. `unknown`: this role
    may not see it."""


class Durability(Struct, frozen=True):
    """What a done answer survives, as the store is set."""

    level: Survives
    says: str
    """The same as a sentence."""
    advice: str = ""
    """What to set, where that would make it better."""
    standbys: tuple[Standby, ...] = ()
    settings: Mapping[str, str] = {}
    """The settings that it follows from, as they are in force."""

    @property
    def safe(self) -> bool:
        """Whether a done answer survives all that this store can be made to survive by its settings."""
        return self.level not in ("asynchronous_standby", "unsafe")


IN_MEMORY: Final = Durability("process", "nothing survives the process")
ON_DISK: Final = Durability("local", "a done answer is on this machine's disk: synced before it is given")
