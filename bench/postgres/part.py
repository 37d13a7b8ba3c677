"""The runs: all variants of a scenario alternate on fresh copies of one database; the order changes with every round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdkit.testing.postgres import PostgresServer, ServerAddress

from ..by_hand_postgres import LimitRun, count_rows, create_pools, expect_sound, install, limit
from ..by_hand_redis import redis_server
from ..revision import Revision
from .runs import SETTINGS, PostgresRun, Runner, processes_of, slower
from .scenarios import TOTAL, Length, Scenario, pool_names
from .stores import BY_HAND, CONNECTIONS, EACH, REDIS, Variant

LIMIT_BATCHES: Final = {1: 1_000, 8: 400, 32: 200, 256: 60}


class Measured(Struct, frozen=True):
    """All results."""

    version: str
    variants: tuple[Variant, ...]
    runs: list[PostgresRun]
    limits: list[LimitRun]


def variants_of(scenario: Scenario, against: Revision | None, redis: bool) -> list[Variant]:
    """Return the variants that can do what the scenario asks; where another revision is named, that one and this one."""
    if against is not None:
        return ["before", "ours"]
    found: list[Variant] = list(BY_HAND) if scenario.work == "hold" else ["one statement"]
    if scenario.callers > CONNECTIONS:
        found.append(EACH)
    if redis and scenario.work != "tx":
        found.append(REDIS)
    if scenario.work != "tx":  # a caller's own transaction is never a guarded batch
        found.append("ordinary")
    return [*found, "ours"]


def measure(
    directory: Path,
    wanted: list[Scenario],
    rounds: int,
    length: Length,
    step: Callable[[str], None],
    sync: float = 0,
    connections: int = CONNECTIONS,
    against: Revision | None = None,
) -> Measured:
    """Run everything, on a separate server whose data is on the disk of `directory`."""
    runs: list[PostgresRun] = []
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(SETTINGS | slower(sync), within=directory))
        redis = stack.enter_context(redis_server(directory)) if against is None else None
        runner = stack.enter_context(Runner(server, processes_of(against, stack), connections, redis))
        limits = limit_runs(server, rounds, LIMIT_BATCHES, step) if against is None else []
        for scenario in wanted:
            variants = variants_of(scenario, against, redis is not None)
            for turn in range(rounds):
                for variant in in_turn(variants, turn):
                    runs.append(runner.run(scenario, variant, length))
                    step(scenario.name)
        seen = {one.variant for one in runs}
        order: tuple[Variant, ...] = (*BY_HAND, EACH, REDIS, "before", "ordinary", "ours")
        return Measured(runner.version, tuple(one for one in order if one in seen), runs, limits)


def in_turn(variants: list[Variant], turn: int) -> list[Variant]:
    """Another one goes first in every round."""
    first = turn % len(variants)
    return [*variants[first:], *variants[:first]]


def limit_runs(
    server: ServerAddress, rounds: int, sizes: dict[int, int], step: Callable[[str], None]
) -> list[LimitRun]:
    """The limit of the server, at each batch size."""
    return [one for _ in range(rounds) for one in limit_round(server, sizes.items(), step)]


def limit_round(server: ServerAddress, sizes: Iterable[tuple[int, int]], step: Callable[[str], None]) -> list[LimitRun]:
    """Each batch size once."""
    runs: list[LimitRun] = []
    for batch, batches in sizes:
        dsn = server.create_database("run", server.template("by_hand_1", prepare_by_hand))
        runs.append(limit(dsn, pool_names(1)[0], batch, batches))
        expect_sound("limit", count_rows(dsn), batch * batches)
        server.drop_database("run")
        step(f"limit, batches of {batch}")
    return runs


def prepare_by_hand(dsn: str) -> None:
    """Tables and one pool."""
    install(dsn)
    create_pools(dsn, pool_names(1), TOTAL)
