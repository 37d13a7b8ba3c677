"""Concurrent callers, as threads or as tasks, with the duration of each call.

All callers wait at one barrier; the clock runs from its release until the last caller is done. A caller that fails
fails the run.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from time import perf_counter
from typing import Protocol

from msgspec import Struct

POOL = "pool"
TOTAL = 10**9
TTL = 600


class Store(Protocol):
    """Something that can place holds."""

    def create_pool(self, pool: str, total: int, /) -> object: ...
    def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str | None = None) -> object: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The async variant."""

    async def create_pool(self, pool: str, total: int, /) -> object: ...
    async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str | None = None) -> object: ...
    async def close(self) -> None: ...


class Timing(Struct, frozen=True):
    """One run: the time from the barrier to the last caller, and the duration of every call."""

    seconds: float
    calls: list[float]


def run_threads(store: Store, callers: int, each: int, *, with_op: bool = False) -> Timing:
    """`callers` threads place `each` holds one after the other."""
    barrier = threading.Barrier(callers + 1)
    calls: list[list[float]] = [[] for _ in range(callers)]
    failures: list[BaseException] = []

    def caller(number: int) -> None:
        mine = calls[number]
        barrier.wait()
        try:
            for turn in range(each):
                op = f"{number}-{turn}" if with_op else None
                begin = perf_counter()
                store.hold(POOL, 1, ttl=TTL, op=op)
                mine.append(perf_counter() - begin)
        except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    gc.collect()
    barrier.wait()
    begin = perf_counter()
    for thread in threads:
        thread.join()
    seconds = perf_counter() - begin
    if failures:
        raise failures[0]
    return Timing(seconds, [call for mine in calls for call in mine])


async def run_tasks(store: AsyncStore, callers: int, each: int, *, with_op: bool = False) -> Timing:
    """`callers` tasks of one loop place `each` holds one after the other."""
    barrier = asyncio.Event()

    async def caller(number: int) -> list[float]:
        mine: list[float] = []
        await barrier.wait()
        for turn in range(each):
            op = f"{number}-{turn}" if with_op else None
            begin = perf_counter()
            await store.hold(POOL, 1, ttl=TTL, op=op)
            mine.append(perf_counter() - begin)
        return mine

    tasks = [asyncio.create_task(caller(number)) for number in range(callers)]
    await asyncio.sleep(0)  # every task reaches the barrier
    gc.collect()
    begin = perf_counter()
    barrier.set()
    calls = await asyncio.gather(*tasks)
    return Timing(perf_counter() - begin, [call for mine in calls for call in mine])
