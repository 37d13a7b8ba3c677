"""The kernel for async views: every call runs on the thread on which Django runs sync code for this request.

Django's connections are sync, and belong to threads; so its own async methods run there too (`sync_to_async`), and so does a test's
transaction. A call here is therefore part of what surrounds it, in views and in tests, and no second kernel is opened for an event loop that
may last for one request only.

A request that is cancelled cannot interrupt the other thread. A block that is being entered there is entered, and then left at once; one that
is being left is left. Only then the cancellation goes on, so no lease of a request outlives it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async


class AsyncCalls:
    """The same names as `find()` has, each call awaited; faces (`claims`, `items` …) likewise."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        kind = self._kind(name)
        if kind == "call":
            return lambda *arguments, **options: AsyncCall(lambda: getattr(self._find(), name)(*arguments, **options))
        return AsyncCalls(lambda: getattr(self._find(), name))

    def _kind(self, name: str) -> str:
        from ...faces._sync.kernel import Kernel

        found = inspect.getattr_static(Kernel, name, None)
        return "face" if found is not None and not inspect.isfunction(found) else "call"


class AsyncCall:
    """A call that was not made yet: awaited, entered as a block, or iterated over."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._block: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        return sync_to_async(self._call)().__await__()

    async def __aenter__(self) -> Any:
        def enter() -> Any:
            self._block = self._call()
            return self._block.__enter__()

        entering = asyncio.ensure_future(sync_to_async(enter)())
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError as cancelled:
            await asyncio.wait([entering])
            if (
                not entering.cancelled() and entering.exception() is None
            ):  # nobody else would leave it, or release its hold
                await self.__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        leaving = asyncio.ensure_future(sync_to_async(self._block.__exit__)(kind, error, trace))
        try:
            return await asyncio.shield(leaving)
        except asyncio.CancelledError:
            await asyncio.wait([leaving])
            raise

    async def __aiter__(self) -> AsyncIterator[Any]:
        iterator = await sync_to_async(lambda: iter(self._call()))()
        end = object()
        while (entry := await sync_to_async(lambda: next(iterator, end))()) is not end:
            yield entry
