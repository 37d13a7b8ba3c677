"""Sync and async kernels, called in one way: a test of both modes is written once, as sync code."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import holdkit
from holdkit import AsyncKernel, Kernel
from holdkit.engines.port import Engine
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._sync.executor import Executor
from tests.support.threads import PATIENCE

T = TypeVar("T")

AWAITED = ("holdkit.kernel._async", "holdkit.faces._async", "holdkit.client._async")
"""Where the classes are whose methods are awaited."""


class Sync:
    """Sync kernels, as they are."""

    name = "sync"

    def open(self, engine: Engine) -> Any:
        """A kernel on this engine."""
        return Kernel(Executor(engine))

    def connect(self, url: str, **options: Any) -> Any:
        return holdkit.connect(url, **options)

    def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        return work(*arguments, **named)

    def close(self) -> None:
        pass


class Async:
    """Async kernels, called from outside their event loop, which runs in a thread of its own."""

    name = "async"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def open(self, engine: Engine) -> Any:
        async def build() -> AsyncKernel:
            return AsyncKernel(AsyncExecutor(engine))

        return self.run(build)

    def connect(self, url: str, **options: Any) -> Any:
        return self.run(holdkit.connect_async, url, **options)

    def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call it on the loop, in the caller's context; wait for what it gives, if that can be awaited."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()

        async def call() -> None:
            try:
                result = work(*arguments, **named)
                future.set_result(await result if inspect.isawaitable(result) else result)
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        self.loop.call_soon_threadsafe(lambda: self._keep(self.loop.create_task(call(), context=context)))
        return self.wrap(future.result(PATIENCE))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def wrap(self, value: Any) -> Any:
        module = type(value).__module__
        if inspect.isasyncgen(value):
            return self._iterate(value)
        return Driven(self, value) if module.startswith(AWAITED) else value

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self.run(generator.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if threading.current_thread() is self._thread:  # collected there: it cannot wait for itself
                self._keep(self.loop.create_task(generator.aclose()))
            elif not self.loop.is_closed():
                self.run(generator.aclose)

    def close(self) -> None:
        self.run(self.loop.shutdown_asyncgens)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class Driven:
    """An async object, called as if it were sync."""

    def __init__(self, mode: Async, thing: Any) -> None:
        self._mode, self._thing = mode, thing

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, "aclose" if name == "close" and not hasattr(self._thing, name) else name)
        if type(value).__module__.startswith(AWAITED):
            return Driven(self._mode, value)
        if inspect.ismethod(value):
            return lambda *arguments, **named: self._mode.run(value, *arguments, **named)
        return value

    def __enter__(self) -> Any:
        return self._mode.run(self._thing.__aenter__)

    def __exit__(self, *error: object) -> Any:
        return self._mode.run(self._thing.__aexit__, *error)

    def __repr__(self) -> str:
        return repr(self._thing)


def unwrapped(thing: Any) -> Any:
    """The kernel or other object itself, sync or async."""
    return thing._thing if isinstance(thing, Driven) else thing


def close_quietly(kernel: Any) -> None:
    with suppress(Exception):
        kernel.close()
