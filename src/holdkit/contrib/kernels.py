"""Kernels that are opened where they are used: one per process for threads, one per event loop for tasks.

Theory of operation

Web servers and queues load an application once and fork their workers afterwards; a kernel that was opened before a fork refuses
every call. So nothing is opened at import time: the first call of a process opens its kernel, under a lock, and every later call
returns it. In a forked child, whatever the parent had is put aside, never closed: its connections belong to the parent. The lock
is made anew there, for a thread of the parent may have held it when it forked. An opening that fails leaves nothing behind, and the
next call tries again.

An async kernel belongs to one event loop. The first task of a loop that asks opens it; tasks that ask meanwhile wait for that
opening. Cancelling the first task does not cancel the opening.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect, connect_async
from ..kernel.opening import DEFAULT_URL

_every: weakref.WeakSet[ProcessKernel | LoopKernels] = weakref.WeakSet()


class ProcessKernel:
    """The kernel of this process, for threads."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        on_open: Callable[[Kernel], Any] | None = None,
        sweep_every: float | None = None,
        **options: Any,
    ) -> None:
        """Keep the options, which are those of `holdkit.connect`. `on_open` is called in each process with the kernel, before any caller gets it."""
        self.url, self._options = url, options
        self._on_open, self._sweep_every = on_open, sweep_every
        self._lock = threading.Lock()
        self._opening = 0
        """Which thread opens it."""
        self._opened = _Opened()
        self._at_exit = weakref.finalize(self, self._opened.close)
        _every.add(self)

    def get(self) -> Kernel:
        """Return the kernel; open it if this process has none yet."""
        kernel = self._opened.kernel
        if kernel is not None and not kernel._executor.closed:
            return kernel
        if self._opening == threading.get_ident():
            raise EngineError("the kernel is being opened: on_open is given it as its argument; use that one")
        with self._lock:
            if self._opened.kernel is None or self._opened.kernel._executor.closed:
                self._opening = threading.get_ident()
                try:
                    self._opened.kernel = self._open()
                finally:
                    self._opening = 0
            return self._opened.kernel

    def _open(self) -> Kernel:
        kernel = connect(self.url, **self._options)
        try:
            if self._on_open is not None:
                self._on_open(kernel)
            if self._sweep_every is not None:
                kernel.sweeper(every=self._sweep_every)
        except BaseException:
            kernel.close()
            raise
        return kernel

    def close(self) -> None:
        """Close the kernel, if it is open. (It is also closed when the process ends.) A later call opens it again."""
        self._opened.close()

    def after_fork(self) -> None:
        """In a forked child: put aside what the parent has."""
        self._lock, self._opening = threading.Lock(), 0
        self._opened.put_aside()


class _Opened:
    """The kernel that a process has opened: an object of its own, so that it can be closed after its owner was collected."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self._of_parents: list[Kernel] = []

    def close(self) -> None:
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            kernel.close()

    def put_aside(self) -> None:
        if self.kernel is not None:
            self._of_parents.append(self.kernel)
            self.kernel = None


class LoopKernels:
    """The kernel of the running event loop, for tasks."""

    def __init__(
        self, url: str = DEFAULT_URL, *, on_open: Callable[[AsyncKernel], Awaitable[Any]] | None = None, **options: Any
    ) -> None:
        self._url, self._options, self._on_open = url, options, on_open
        self._opening: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[AsyncKernel]]
        self._opening = weakref.WeakKeyDictionary()
        self._of_parents: list[Any] = []
        _every.add(self)

    async def get(self) -> AsyncKernel:
        """Return the kernel; open it if this loop has none yet."""
        loop = asyncio.get_running_loop()
        opening = self._opening.get(loop)
        if opening is None or (opening.done() and _is_over(opening)):
            self._opening[loop] = opening = loop.create_task(self._open(), name="holdkit-opening")
        return await asyncio.shield(opening)

    async def _open(self) -> AsyncKernel:
        kernel = await connect_async(self._url, **self._options)
        try:
            if self._on_open is not None:
                await self._on_open(kernel)
        except BaseException:
            await kernel.close()
            raise
        return kernel

    async def aclose(self) -> None:
        """Close the kernel of this loop, if it is open. A later call opens it again."""
        opening = self._opening.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await asyncio.wait([opening])
            if not _is_over(opening):  # an opening that failed has left nothing behind
                await opening.result().close()

    def after_fork(self) -> None:
        """In a forked child: put aside what the parent has."""
        self._of_parents.append(self._opening)
        self._opening = weakref.WeakKeyDictionary()


def _is_over(opening: asyncio.Task[AsyncKernel]) -> bool:
    """Return whether an opening failed, or its kernel was closed since."""
    return opening.cancelled() or opening.exception() is not None or opening.result()._executor.closed


def _after_fork() -> None:
    for one in [*_every]:
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
