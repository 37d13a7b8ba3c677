"""Django's `ahk`, in requests that are cancelled: whatever was entered on the other thread is left there, and nobody goes on waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import holdkit
from holdkit.contrib.django.async_calls import AsyncCalls
from holdkit.engines.port import Applied
from holdkit.faces._sync.kernel import Kernel
from holdkit.kernel.joining import Caller, JoiningExecutor
from holdkit.kernel.opening import open_engine


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
        ahk: Any = AsyncCalls(lambda: SimpleNamespace(lease=lambda: slow), holdkit.AsyncKernel)

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


class NoTransaction:
    """A framework without transactions."""

    def current(self) -> None:
        return None

    def must_not_commit(self) -> bool:
        return False

    def after_commit(self, work: Callable[[], None]) -> None:
        work()


async def read_entries(ahk: Any) -> None:
    async for _ in ahk.journal.follow():
        pass


async def enter_lease(ahk: Any) -> None:
    async with ahk.lease("gpu", 1, ttl=60, wait="10m"):
        raise AssertionError("nobody has released it")


async def hold(ahk: Any) -> None:
    await ahk.hold("gpu", 1, ttl=60, wait="10m")


@pytest.mark.parametrize("request_of", [hold, enter_lease, read_entries])
def test_a_call_that_waits_ends_with_its_request(request_of: Callable[[Any], Any]) -> None:
    """The next call on the same thread shows that it has ended."""

    async def main(hk: Kernel) -> None:
        ahk: Any = AsyncCalls(lambda: hk, holdkit.AsyncKernel)
        running = asyncio.ensure_future(request_of(ahk))
        while not hk.pool("gpu").waiting and not hk._executor.committed._waiting:  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(60):
            assert (await ahk.pool("gpu")).waiting == 0
        assert not hk._executor.closed

    hk = Kernel(JoiningExecutor(open_engine("memory://"), NoTransaction()))
    with hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl=600)
        asyncio.run(main(hk))


def test_it_has_the_names_of_an_async_kernel() -> None:
    async def main(hk: holdkit.Kernel) -> None:
        ahk: Any = AsyncCalls(lambda: hk, holdkit.AsyncKernel)
        assert ahk.url == "memory://"
        assert (await ahk.claims.is_taken("email", "ann")) is False
        await ahk.tenant("acme").create_pool("gpu", 5)
        assert (await ahk.tenant("acme").pool("gpu")).total == 5
        with pytest.raises(holdkit.errors.PoolNotFound):
            await ahk.pool("gpu")
        with pytest.raises(holdkit.InvalidRequest, match="tenant"):
            ahk.tenant("")
        assert await ahk.accounts.usage("ann") == []
        with pytest.raises(AttributeError, match="holt"):
            ahk.holt  # noqa: B018

    with holdkit.connect("memory://") as hk:
        asyncio.run(main(hk))


def test_lines_are_fed_by_a_thread_whose_caller_is_gone() -> None:
    """It may have led a batch with the calls of others."""
    hk = Kernel(JoiningExecutor(open_engine("memory://"), NoTransaction()))
    with hk:
        hk.create_pool("gpu", 1)
        first = hk.hold("gpu", 1, ttl=600)
        waiting = hk.join("gpu", 1, ttl=600, offer_ttl=60)
        offered = threading.Event()
        hk.journal.on("hold.offered", lambda _: offered.set())
        caller = Caller()
        caller.leave()
        with caller.calling():
            assert hk._executor.closed
            hk._executor._lines_moved(Applied([], None, True, unfed=(("", "gpu"),)))
            assert not hk._executor._feeder._pools or hk._executor._feeder._running
            hk.release(first)
        assert offered.wait(60)
        assert (hk.get(waiting).state, hk._executor.closed) == ("held", False)
