"""The callers of one process, as threads, as tasks, or as arrivals on a schedule, with the end of each call. A refusal fails the run.

Threads and tasks are a *closed loop*: each caller makes one call after the other, so a slow store is asked less often, and
the calls that would have been made meanwhile are not in its latencies. Arrivals are an *open loop*: they come when the schedule says,
whether or not earlier ones have been answered, and each latency counts from the scheduled time.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final

from msgspec import Struct

from ..by_hand_postgres import GaveUp
from .scenarios import TTL, Interval, Work
from .stores import AsyncStore, Store

MOST_OUTSTANDING: Final = 20_000
"""Arrivals that may wait for their answer; later ones are not sent, and the run counts as overloaded."""


class Calls(Struct):
    """Each granted call: its end and its duration. And how many gave up after all retries, or were not sent."""

    done: list[tuple[float, float]]
    gave_up: int
    batch: float = 0.0
    """Commands per batch, where the store groups them."""
    guarded: float = 0.0
    """The share of commands that a guarded batch decided."""

    def add(self, other: Calls) -> None:
        """Add the calls of another caller."""
        self.done += other.done
        self.gave_up += other.gave_up
        self.batch, self.guarded = max(self.batch, other.batch), max(self.guarded, other.guarded)


def run_threads(store: Store, callers: int, pools: list[str], interval: Interval, name: str, work: Work) -> Calls:
    """Each thread makes one call after the other until the interval ends."""
    whole = Calls([], 0)
    failures: list[BaseException] = []
    lock = threading.Lock()

    def caller(number: int) -> None:
        mine = Calls([], 0)
        chance = random.Random(f"{name}-{number}")
        time.sleep(max(0.0, interval.begin - perf_counter()))
        turn = 0
        try:
            while (begin := perf_counter()) < interval.until:
                turn += 1
                try:
                    call(store, work, chance.choice(pools), f"{name}-{number}-{turn}")
                except GaveUp:
                    mine.gave_up += 1
                    continue
                end = perf_counter()
                mine.done.append((end, end - begin))
        except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
            failures.append(error)
        with lock:
            whole.add(mine)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return whole


def call(store: Store, work: Work, pool: str, op: str) -> None:
    """One turn of a caller."""
    if work == "tx":
        store.order(pool, ttl=TTL, op=op)
        return
    held = store.hold(pool, 1, ttl=TTL, op=name_of(op, work))
    if work == "lifecycle":
        store.confirm(held, op=f"{op}-confirm")


def name_of(op: str, work: Work) -> Any:
    """The operation id of a hold; the hand-written variants, which need one, do not run without."""
    return None if work == "plain" else op


async def run_tasks(
    store: AsyncStore, callers: int, pools: list[str], interval: Interval, name: str, work: Work
) -> Calls:
    """Each task makes one call after the other until the interval ends."""
    whole = Calls([], 0)

    async def caller(number: int) -> None:
        chance = random.Random(f"{name}-{number}")
        await asyncio.sleep(max(0.0, interval.begin - perf_counter()))
        turn = 0
        while (begin := perf_counter()) < interval.until:
            turn += 1
            op = f"{name}-{number}-{turn}"
            try:
                held = await store.hold(chance.choice(pools), 1, ttl=TTL, op=name_of(op, work))
                if work == "lifecycle":
                    await store.confirm(held, op=f"{op}-confirm")
            except GaveUp:
                whole.gave_up += 1
                continue
            end = perf_counter()
            whole.done.append((end, end - begin))

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return whole


async def run_arrivals(store: AsyncStore, rate: float, pools: list[str], interval: Interval, name: str) -> Calls:
    """Calls arrive at random, so many per second on average; each has a task of its own."""
    whole = Calls([], 0)
    chance = random.Random(f"{name}, pools")
    waiting: set[asyncio.Task[None]] = set()

    async def arrival(at: float, number: int) -> None:
        await store.hold(chance.choice(pools), 1, ttl=TTL, op=f"{name}-{number}")
        end = perf_counter()
        whole.done.append((end, end - at))

    for number, at in enumerate(schedule(random.Random(name), rate, interval)):
        if (early := at - perf_counter()) > 0:
            await asyncio.sleep(early)
        if len(waiting) >= MOST_OUTSTANDING:
            whole.gave_up += 1
            continue
        task = asyncio.create_task(arrival(at, number))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        if number % 64 == 0:
            await asyncio.sleep(0)  # a sender that is late would never let the store run
    await asyncio.gather(*waiting)
    return whole


def schedule(chance: random.Random, rate: float, interval: Interval) -> Iterator[float]:
    """The times of a Poisson process."""
    at = interval.begin
    while (at := at + chance.expovariate(rate)) < interval.until:
        yield at
