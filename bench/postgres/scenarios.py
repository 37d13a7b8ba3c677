"""The kind and number of callers, and of pools. A run lasts a fixed time: with a fixed count, the slowest variant would never end."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["threads", "tasks", "processes"]

PROCESSES: Final = 4
TOTAL: Final = 10**9
TTL: Final = 300.0


class Scenario(Struct, frozen=True):
    """`callers` is the total; if there are several processes, each has an equal part of them, as threads."""

    kind: Kind
    callers: int
    pools: int

    @property
    def name(self) -> str:
        """As the table shows it."""
        kind = self.kind if self.callers > 1 else self.kind[:-1]
        if self.kind == "processes":
            kind = f"threads in {PROCESSES} processes"
        return f"{self.callers} {kind}, " + ("1 pool" if self.pools == 1 else f"{self.pools:,} pools")


class Length(Struct, frozen=True):
    """Seconds: first some that do not count, then those that do."""

    warm_up: float
    measured: float


class Interval(Struct, frozen=True):
    """Begin and end, on the clock that all processes share. A caller that has begun a call finishes it."""

    begin: float
    counted_from: float
    until: float


def pool_names(count: int) -> list[str]:
    """The pools of a scenario."""
    return [f"pool-{number}" for number in range(count)]


def scenarios(callers: tuple[int, ...], pools: tuple[int, ...]) -> list[Scenario]:
    """Every kind with every number of callers; a single caller is in one process."""
    kinds: tuple[Kind, ...] = ("threads", "tasks", "processes")
    return [
        Scenario(kind, count, width)
        for width in pools
        for kind in kinds
        for count in callers
        if kind != "processes" or count >= PROCESSES
    ]


CALLERS: Final = (1, 8, 32, 256)
QUICK_CALLERS: Final = (1, 32)
POOLS: Final = (1, 1_000)
LENGTH: Final = Length(0.2, 0.8)
QUICK_LENGTH: Final = Length(0.1, 0.4)
