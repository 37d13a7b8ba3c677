"""Callers of one process, as threads or as tasks, and when each of their calls was done. A refusal fails the run."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from time import perf_counter

from msgspec import Struct

from ..by_hand_postgres import GaveUp
from .scenarios import TTL, Shift
from .sides import AsyncStore, Store


class Calls(Struct):
    """Each call that was granted: when it was done and how long it took. And how many gave up after all their tries."""

    done: list[tuple[float, float]]
    gave_up: int

    def add(self, other: Calls) -> None:
        """Those of another caller too."""
        self.done += other.done
        self.gave_up += other.gave_up


def run_threads(store: Store, callers: int, pools: list[str], shift: Shift, name: str) -> Calls:
    """One after the other in each thread, until the shift ends."""
    whole = Calls([], 0)
    failures: list[BaseException] = []
    lock = threading.Lock()

    def caller(number: int) -> None:
        mine = Calls([], 0)
        chance = random.Random(f"{name}-{number}")
        time.sleep(max(0.0, shift.begin - perf_counter()))
        turn = 0
        try:
            while (begin := perf_counter()) < shift.until:
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


async def run_tasks(store: AsyncStore, callers: int, pools: list[str], shift: Shift, name: str) -> Calls:
    """One after the other in each task, until the shift ends."""
    whole = Calls([], 0)

    async def caller(number: int) -> None:
        chance = random.Random(f"{name}-{number}")
        await asyncio.sleep(max(0.0, shift.begin - perf_counter()))
        turn = 0
        while (begin := perf_counter()) < shift.until:
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
