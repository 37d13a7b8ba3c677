"""Spenders for the race on one budget: each process opens the engine for itself, waits for the others, and spends."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

from msgspec import Struct

import holdkit
from holdkit import Allowance
from tests.support.threads import PATIENCE

_start: Barrier

TOKENS, REQUESTS, ESTIMATE = 5_000, 400, 100
PROCESSES, TASKS, ATTEMPTS = 3, 10, 6


class Spent(Struct):
    """What one process got."""

    tokens: int = 0
    requests: int = 0
    refused: int = 0
    uncovered: int = 0


def race(url: str) -> list[Spent]:
    """Everybody at once, on one client's two budgets."""
    spawn = get_context("spawn")
    start = spawn.Barrier(PROCESSES)
    with ProcessPoolExecutor(PROCESSES, spawn, initializer=_line_up, initargs=(start,)) as pool:
        runners = [pool.submit(_run, url, seed) for seed in range(PROCESSES)]
        return [runner.result(PATIENCE) for runner in runners]


def _line_up(start: Barrier) -> None:
    global _start  # noqa: PLW0603  (a barrier can only be inherited, never sent)
    _start = start


def _run(url: str, seed: int) -> Spent:
    async def main() -> Spent:
        async with await holdkit.connect_async(url) as hk:
            _start.wait(PATIENCE)
            return await spend(hk, seed)

    return asyncio.run(main())


async def spend(hk: holdkit.AsyncKernel, seed: int) -> Spent:
    """So many tasks, each with so many attempts: an estimate, and an actual that is often more."""
    llm = hk.budget("llm", requests=Allowance(REQUESTS, per="year"), tokens=Allowance(TOKENS, per="year"))
    dice, spent = random.Random(seed), Spent()

    async def work() -> None:
        for _ in range(ATTEMPTS):
            try:
                hold = await llm.hold("team", {"requests": 1, "tokens": ESTIMATE}, ttl=600)
            except holdkit.InsufficientCapacity:
                spent.refused += 1
                continue
            actual = dice.choice([0, 0, 30, 90, ESTIMATE, 150, 260])
            ended = await llm.confirm(hold, {"tokens": actual, "requests": min(1, actual)})
            confirmed = {leg.pool.split("/")[3]: leg.confirmed for leg in ended.legs}
            uncovered = ended.uncovered.get("tokens", 0)
            assert confirmed["tokens"] + uncovered == actual
            spent.tokens += confirmed["tokens"]
            spent.requests += confirmed["requests"]
            spent.uncovered += uncovered

    await asyncio.gather(*(work() for _ in range(TASKS)))
    return spent
