"""Racers for B18: each process opens the file for itself, waits for the others, and then takes what it can."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Barrier
from typing import Any

import holdkit
from tests.support.threads import PATIENCE

_start: Barrier
_shares: SynchronizedArray[int]

ENOUGH, MOST = 50, 1_000
"""Grants that each process must have had before another has so many. In turn they would have as many each; but who is not
running does not wait, and a machine may be busy with others."""


def race(url: str, mode: str, processes: int, attempts: int, holders: int) -> list[list[str]]:
    """What each process was granted: the ids, in order."""
    spawn = get_context("spawn")
    start = spawn.Barrier(processes)
    with ProcessPoolExecutor(processes, spawn, initializer=_line_up, initargs=(start,)) as pool:
        runners = [pool.submit(_run, url, mode, attempts, holders) for _ in range(processes)]
        return [runner.result(PATIENCE) for runner in runners]


def share(url: str, processes: int, holders: int) -> list[int]:
    """How many each process was granted until all had enough, or one had far too many."""
    spawn = get_context("spawn")
    start, shares = spawn.Barrier(processes), spawn.Array("i", processes)
    with ProcessPoolExecutor(processes, spawn, initializer=_line_up, initargs=(start, shares)) as pool:
        for runner in [pool.submit(_take_a_share, url, number, holders) for number in range(processes)]:
            runner.result(PATIENCE)
    return shares[:]


def _line_up(start: Barrier, shares: SynchronizedArray[int] | None = None) -> None:
    global _start, _shares  # noqa: PLW0603  (these can only be inherited, never sent)
    _start = start
    if shares is not None:
        _shares = shares


def _take_a_share(url: str, number: int, holders: int) -> None:
    def take() -> None:
        while min(_shares[:]) < ENOUGH and max(_shares[:]) < MOST:
            hk.hold("seats", 1, ttl=3600)
            with _shares.get_lock():
                _shares[number] += 1

    with holdkit.connect(url) as hk, ThreadPoolExecutor(holders) as threads:
        _start.wait(PATIENCE)
        for each in [threads.submit(take) for _ in range(holders)]:
            each.result()


def _run(url: str, mode: str, attempts: int, holders: int) -> list[str]:
    if mode == "async":
        return asyncio.run(_run_tasks(url, attempts, holders))
    with holdkit.connect(url) as hk:
        _start.wait(PATIENCE)
        return with_threads([hk] * holders, attempts // holders)


def with_threads(kernels: list[holdkit.Kernel], attempts: int) -> list[str]:
    """A thread per kernel given, each trying so often; one kernel may be given several times."""
    granted: list[str] = []
    failed: list[BaseException] = []

    def take(hk: holdkit.Kernel) -> None:
        try:
            for _ in range(attempts):
                try:
                    granted.append(hk.hold("seats", 1, ttl=3600).id)
                except holdkit.InsufficientCapacity as refused:
                    assert (refused.requested, refused.available) == (1, 0)  # noqa: PT017  (not a test's own)
        except BaseException as error:  # noqa: BLE001  (told to whoever waits)
            failed.append(error)

    threads = [threading.Thread(target=take, args=(hk,)) for hk in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return granted


async def _run_tasks(url: str, attempts: int, holders: int) -> list[str]:
    async with await holdkit.connect_async(url) as hk:
        _start.wait(PATIENCE)
        return await with_tasks([hk] * holders, attempts // holders)


async def with_tasks(kernels: list[holdkit.AsyncKernel], attempts: int) -> list[str]:
    """A task per kernel given, each trying so often."""

    async def take(hk: holdkit.AsyncKernel) -> list[str]:
        granted: list[Any] = []
        for _ in range(attempts):
            try:
                granted.append((await hk.hold("seats", 1, ttl=3600)).id)
            except holdkit.InsufficientCapacity as refused:
                assert (refused.requested, refused.available) == (1, 0)  # noqa: PT017  (not a test's own)
        return granted

    return [granted for each in await asyncio.gather(*map(take, kernels)) for granted in each]
