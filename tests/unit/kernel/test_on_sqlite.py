"""The kernel on a file: the same promises where commits are slow, durable, and shared with other kernels."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import AsyncKernel, Hold, InsufficientCapacity
from holdkit.kernel.batches import BatchRunner
from tests.support.threads import PATIENCE, CallerThreads, no_threads_left, wait_until
from tests.support.watched_engine import queued


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/holds.db"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    real = BatchRunner.run

    def run(self: BatchRunner, batch: Any, until: float, **options: Any) -> bool:
        sizes.append(len(batch))
        return real(self, batch, until, **options)

    monkeypatch.setattr(BatchRunner, "run", run)
    return sizes


def test_threads_share_commits(url: str, batches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 100)
        callers = CallerThreads()
        alone = BatchRunner.run

        def behind_all(self: BatchRunner, batch: Any, until: float, **options: Any) -> bool:
            monkeypatch.setattr(BatchRunner, "run", alone)
            wait_until(lambda: queued(hk) + len(batch) == 32)
            return alone(self, batch, until, **options)

        monkeypatch.setattr(BatchRunner, "run", behind_all)

        def take() -> list[Any]:
            answers: list[Any] = []
            for _ in range(5):
                try:
                    answers.append(hk.hold("p", 1, ttl=60))
                except InsufficientCapacity as refused:
                    answers.append(refused)
            return answers

        for _ in range(32):
            callers.start(take)
        answers = [answer for taken in callers.join() for answer in taken]
        assert sum(isinstance(answer, Hold) for answer in answers) == 100
        assert sum(isinstance(answer, InsufficientCapacity) for answer in answers) == 60
        assert hk.pool("p").available == 0
        assert hk.admin.verify().ok
    assert sum(batches) == 161
    assert sum(batches[1:3]) >= 32, "they rode together"
    no_threads_left(before)


def test_tasks_share_commits(url: str, batches: list[int]) -> None:
    async def main() -> None:
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("p", 1000)

            async def work() -> None:
                for _ in range(3):
                    await hk.confirm(await hk.hold("p", 1, ttl=60))

            await asyncio.gather(*[work() for _ in range(64)])
            assert (await hk.pool("p")).consumed == 192
            assert (await hk.admin.verify()).ok

    asyncio.run(main())
    assert batches == [1] + [64] * 6


def test_a_follower_sees_what_another_kernel_commits(url: str) -> None:
    with holdkit.connect(url) as here, holdkit.connect(url) as there:
        seen = threading.Semaphore(0)
        names: list[str] = []

        def follow() -> None:
            for entry in here.journal.follow("mail", poll=0.001):
                names.append(entry.subject)
                seen.release()

        callers = CallerThreads()
        callers.start(follow)
        for name in ("a", "b"):
            there.create_pool(name, 1)
            assert seen.acquire(timeout=PATIENCE)
        here.close()
        callers.join()
        assert names == ["a", "b"]


def test_what_is_done_is_there_after_opening_anew(url: str) -> None:
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 3)
        with hk.holding("p", 1, ttl=60):
            pass
        ticket = hk.hold("p", 1, ttl=60, op="op-1").ticket
        entries = list(hk.journal.follow("mail", wait=False))
        with hk.lease("p", 1, ttl=60) as lease:
            lease.renew()
    with holdkit.connect(url) as hk:
        assert hk.hold("p", 1, ttl=60, op="op-1").ticket == ticket
        assert ticket is not None
        assert hk.confirm(ticket).state == "confirmed"
        later = [str(entry.action) for entry in hk.journal.follow("mail", wait=False)]
        assert later[0] == "hold.held"
        assert later[-1] == "hold.confirmed"
        assert len(entries) == 4
        assert hk.admin.verify().ok


def test_a_block_that_is_cancelled_on_a_file_gives_its_units_back(url: str) -> None:
    async def main() -> None:
        hk: AsyncKernel
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("p", 10)

            async def block() -> None:
                async with hk.holding("p", 1, ttl=60):
                    await asyncio.Event().wait()

            tasks = [asyncio.create_task(block()) for _ in range(10)]
            for turn, task in enumerate(tasks):
                for _ in range(turn):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hk.admin.records.put("k", "barrier", "1")
            await hk.admin.records.put("k", "barrier", "1")
            assert (await hk.pool("p")).held == 0
            assert (await hk.admin.verify()).ok

    asyncio.run(main())
