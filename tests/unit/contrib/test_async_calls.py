"""Blocks of Django's `ahk`, in requests that are cancelled: whatever was entered on the other thread is left there."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import holdkit
from holdkit.contrib.django.async_calls import AsyncCalls


class Slow:
    """A block that stops at its beginning or its end until it is let through."""

    def __init__(self, block: Any, where: str) -> None:
        self._block, self._where = block, where
        self.reached, self.through = threading.Event(), threading.Event()

    def __enter__(self) -> Any:
        found = self._block.__enter__()
        self._stop("enter")
        return found

    def __exit__(self, *error: object) -> Any:
        self._stop("exit")
        return self._block.__exit__(*error)

    def _stop(self, where: str) -> None:
        if where == self._where:
            self.reached.set()
            assert self.through.wait(20)


@pytest.mark.parametrize("where", ["enter", "exit"])
def test_a_cancelled_request_gives_its_lease_back(where: str) -> None:
    async def main(hk: holdkit.Kernel) -> None:
        slow = Slow(hk.lease("gpu", 1, ttl=60), where)
        ahk: Any = AsyncCalls(lambda: SimpleNamespace(lease=lambda: slow))

        async def request() -> None:
            async with ahk.lease():
                pass

        running = asyncio.create_task(request())
        assert await asyncio.to_thread(slow.reached.wait, 20)
        running.cancel()
        await asyncio.sleep(0)
        slow.through.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert hk.pool("gpu").held == 0

    with holdkit.connect("memory://") as hk:
        hk.create_pool("gpu", 1)
        asyncio.run(main(hk))
