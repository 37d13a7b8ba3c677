"""B18: N racing holders on capacity C admit exactly min(N, C): threads, tasks, connections and processes, C > 1."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from queue import SimpleQueue

import pytest

import holdkit
from tests.support.races import ENOUGH, race, share, with_tasks, with_threads

PROCESSES = 4
HOLDERS = 5
"""Threads or tasks per process."""


def check(url: str, granted: list[str], capacity: int, tries: int) -> None:
    assert len(set(granted)) == len(granted) == min(tries, capacity)
    with holdkit.connect(url) as hk:
        pool = hk.pool("seats")
        assert (pool.held, pool.available) == (len(granted), capacity - len(granted))
        journaled = [entry.subject for entry in hk.journal.list(limit=10_000) if entry.action == "hold.held"]
        assert sorted(journaled) == sorted(granted)
        assert hk.admin.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [2, 300, 1_000])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_b18_processes_on_one_file_admit_exactly_what_there_is(mode: str, capacity: int, tmp_path: Path) -> None:
    """Every process tries 200 times: more than there is, or (at 1,000) less."""
    attempts = 200
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("seats", capacity)
    granted = race(url, mode, PROCESSES, attempts, HOLDERS)
    check(url, [each for some in granted for each in some], capacity, PROCESSES * attempts)


@pytest.mark.slow
def test_b18_no_process_goes_away_hungry(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("seats", 10**6)
    shares = share(url, PROCESSES, HOLDERS)
    assert min(shares) >= ENOUGH, f"one process was starved: {shares}"


@pytest.mark.parametrize("tries", [30, 60])
@pytest.mark.parametrize("connections", [1, 3])
def test_b18_threads_on_several_connections(connections: int, tries: int, tmp_path: Path) -> None:
    url, capacity, holders = f"sqlite:///{tmp_path}/holds.db", 40, 6
    with ExitStack() as open_kernels:
        kernels = [open_kernels.enter_context(holdkit.connect(url)) for _ in range(connections)]
        kernels[0].create_pool("seats", capacity)
        granted = with_threads((kernels * holders)[:holders], tries // holders)
    check(url, granted, capacity, tries)


@pytest.mark.parametrize("tries", [30, 60])
@pytest.mark.parametrize("connections", [1, 3])
def test_b18_tasks_on_several_connections(connections: int, tries: int, tmp_path: Path) -> None:
    url, capacity, holders = f"sqlite:///{tmp_path}/holds.db", 40, 6

    async def play() -> list[str]:
        kernels = [await holdkit.connect_async(url) for _ in range(connections)]
        try:
            await kernels[0].create_pool("seats", capacity)
            return await with_tasks((kernels * holders)[:holders], tries // holders)
        finally:
            for kernel in kernels:
                await kernel.close()

    check(url, asyncio.run(play()), capacity, tries)


def test_b18_beside_an_application_that_writes_the_same_file(tmp_path: Path) -> None:
    """The application's own writes come in between, on a connection that knows nothing of us: nobody fails, none is lost."""
    file, capacity = tmp_path / "holds.db", 90
    url = f"sqlite:///{file}"
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)) as application:
        application.execute("pragma journal_mode = wal")
        application.execute("pragma wal_autocheckpoint = 0")
        application.execute("create table orders (id integer primary key)")
        news: SimpleQueue[holdkit.JournalEntry | None] = SimpleQueue()
        written = 0

        def order() -> None:
            nonlocal written
            while written == 0 or news.get() is not None:
                application.execute("begin immediate")
                application.execute("insert into orders default values")
                application.execute("commit")
                written += 1

        with holdkit.connect(url) as first, holdkit.connect(url) as second:
            first.create_pool("seats", capacity)
            first.journal.on(
                "hold.held", news.put
            )  # an order per grant: without a pause SQLite would let nobody else in
            orders = threading.Thread(target=order)
            orders.start()
            try:
                granted = with_threads([first, second] * 3, 25)
            finally:
                news.put(None)
                orders.join()
        assert application.execute("select count(*) from orders").fetchone() == (written,)
    check(url, granted, capacity, 150)


@pytest.mark.parametrize("tries", [300, 1_200])
def test_b18_threads_in_memory(tries: int) -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("seats", 700)
        granted = with_threads([hk] * 12, tries // 12)
        assert len(set(granted)) == len(granted) == min(tries, 700) == hk.pool("seats").held
        assert hk.admin.verify().ok


@pytest.mark.parametrize("tries", [300, 1_200])
def test_b18_tasks_in_memory(tries: int) -> None:
    async def play() -> None:
        async with await holdkit.connect_async("memory://") as hk:
            await hk.create_pool("seats", 700)
            granted = await with_tasks([hk] * 12, tries // 12)
            assert len(set(granted)) == len(granted) == min(tries, 700) == (await hk.pool("seats")).held
            assert (await hk.admin.verify()).ok

    asyncio.run(play())
