"""The callers of one process, as threads or as tasks, with the end of each call. A refusal fails the run."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from time import perf_counter

from msgspec import Struct

from ..by_hand_postgres import GaveUp
from .scenarios import TTL, Interval
from .stores import AsyncStore, Store


class Calls(Struct):
    """Each granted call: its end and its duration. And how many gave up after all retries."""

    done: list[tuple[float, float]]
    gave_up: int

    def add(self, other: Calls) -> None:
        """Add the calls of another caller."""
        self.done += other.done
        self.gave_up += other.gave_up


def run_threads(store: Store, callers: int, pools: list[str], interval: Interval, name: str) -> Calls:
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
                    store.hold(chance.choice(pools), 1, ttl=TTL, op=f"{name}-{number}-{turn}")
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


async def run_tasks(store: AsyncStore, callers: int, pools: list[str], interval: Interval, name: str) -> Calls:
    """Each task makes one call after the other until the interval ends."""
    whole = Calls([], 0)

    async def caller(number: int) -> None:
        chance = random.Random(f"{name}-{number}")
        await asyncio.sleep(max(0.0, interval.begin - perf_counter()))
        turn = 0
        while (begin := perf_counter()) < interval.until:
            turn += 1
            try:
                await store.hold(chance.choice(pools), 1, ttl=TTL, op=f"{name}-{number}-{turn}")
            except GaveUp:
                whole.gave_up += 1
                continue
            end = perf_counter()
            whole.done.append((end, end - begin))

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return whole
