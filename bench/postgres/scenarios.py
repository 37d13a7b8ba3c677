"""The kind and number of callers and of pools, and what they call. A run lasts a fixed time: with a fixed count, the slowest
variant would never end."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["threads", "tasks", "processes"]
Work: TypeAlias = Literal["hold", "plain", "lifecycle", "tx"]
"""A hold with an operation id; one without; a hold and its confirm; a hold beside a row of the caller's, in the caller's own
transaction."""

PROCESSES: Final = 4
TOTAL: Final = 10**9
TTL: Final = 300.0
WORDS: Final[dict[Work, str]] = {
    "hold": "",
    "plain": ", no operation ids",
    "lifecycle": ", hold and confirm",
    "tx": ", tx=",
}


class Scenario(Struct, frozen=True):
    """`callers` is the total; if there are several processes, each has an equal part of them, as threads."""

    kind: Kind
    callers: int
    pools: int = 1
    work: Work = "hold"

    @property
    def name(self) -> str:
        """As the table shows it."""
        kind = self.kind if self.callers > 1 else self.kind[:-1]
        if self.kind == "processes":
            kind = f"threads in {PROCESSES} processes"
        pools = "1 pool" if self.pools == 1 else f"{self.pools:,} pools"
        return f"{self.callers} {kind}, {pools}{WORDS[self.work]}"

    @property
    def processes(self) -> int:
        """How many processes the callers are spread over."""
        return PROCESSES if self.kind == "processes" else 1


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


KINDS: Final[tuple[Kind, ...]] = ("threads", "tasks", "processes")


def scenarios(callers: tuple[int, ...], wide: tuple[int, ...]) -> list[Scenario]:
    """Every kind of caller on one pool, the larger crowds on several, then lifecycles and callers' transactions.

    A single caller is in one process.
    """
    found = [Scenario(kind, count) for kind in KINDS for count in callers if kind != "processes" or count >= PROCESSES]
    crowds = [count for count in callers if count >= 32]
    found += [Scenario(kind, count, pools) for pools in wide for kind in KINDS for count in crowds]
    found += [Scenario("threads", 1, work="lifecycle")]
    found += [Scenario(kind, 32, work="lifecycle") for kind in KINDS]
    return [*found, Scenario("threads", 1, work="tx")]


CALLERS: Final = (1, 8, 32, 256)
QUICK_CALLERS: Final = (1, 32)
WIDE: Final = (8, 1_000)
LENGTH: Final = Length(0.2, 0.8)
QUICK_LENGTH: Final = Length(0.1, 0.4)
