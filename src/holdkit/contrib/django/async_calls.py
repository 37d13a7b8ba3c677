"""The kernel for async views: every call runs on the thread on which Django runs sync code for this request.

Django's connections are sync, and belong to threads; so its own async methods run there too (`sync_to_async`), and so does a test's
transaction. A call here therefore joins the transaction around it, in views and in tests, and no second kernel is opened for an event loop
that may last for one request only.

Awaiting, entering or iterating over a call runs the sync kernel's method on the other thread. What an `AsyncKernel` answers at once, such as
`tenant(…)`, `calendar(…)` or `limits`, is answered at once here too: none of it waits for the database.

A request that is cancelled cannot interrupt the other thread. A call that waits in line, or follows the journal, ends there (`Caller`). A block
that is being entered is entered, and then left at once; one that is being left is left. Only then the request is cancelled, so no lease outlives
its request.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator
from functools import cached_property
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async

from ...kernel.joining import Caller


class AsyncCalls:
    """The names of an async class, `kind`, on the sync object of the same kind that `find()` gives; `find_here()` gives it on the thread
    of the event loop."""

    def __init__(self, find: Callable[[], Any], kind: type, find_here: Callable[[], Any] | None = None) -> None:
        self._find, self._find_here, self._kind = find, find_here or find, kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = inspect.getattr_static(self._kind, name, None)
        if isinstance(found, property | cached_property):
            return self._wrapped(found, lambda owner: getattr(owner, name))
        if not inspect.isfunction(found):  # an attribute of the object, or nothing at all
            return getattr(self._find_here(), name)
        returned = _returned(found, self._kind)
        if _waits(found) or (returned is not self._kind and hasattr(returned, "__aenter__")):
            return lambda *arguments, **options: AsyncCall(lambda: getattr(self._find(), name)(*arguments, **options))
        return lambda *arguments, **options: self._wrapped(
            found, lambda owner: getattr(owner, name)(*arguments, **options), at_once=True
        )

    def _wrapped(self, found: Any, get: Callable[[Any], Any], *, at_once: bool = False) -> Any:
        """Return what `get` returns: wrapped with async methods if its class has some, else as it is."""
        kind = _returned(found, self._kind)
        if kind is None:
            return get(self._find_here())
        if at_once:  # its arguments are checked now, and a saga is registered now
            made = get(self._find_here())
            return AsyncCalls(lambda: made, kind)
        return AsyncCalls(lambda: get(self._find()), kind, lambda: get(self._find_here()))

    def __repr__(self) -> str:
        return f"<{self._kind.__name__} of holdkit.contrib.django>"


def _waits(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _returned(found: Any, kind: type) -> type | None:
    """Return the class with async methods that the annotation of a function or a property names; None if it returns a value."""
    function: Any = getattr(found, "fget", None) or getattr(found, "func", None) or found
    named = re.match(r"\w+", function.__annotations__["return"])
    assert named is not None
    if named[0] == "Self":
        return kind
    returned = function.__globals__.get(named[0])
    return returned if inspect.isclass(returned) and "._async." in returned.__module__ else None


class AsyncCall:
    """A call that was not made yet: await it, enter it as a block, or iterate over it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._block: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result().__await__()

    async def _result(self) -> Any:
        caller = Caller()
        try:
            return await _on_thread(caller, self._call)
        except asyncio.CancelledError:
            caller.leave()
            raise

    async def __aenter__(self) -> Any:
        caller = Caller()

        def enter() -> Any:
            self._block = self._call()
            return self._block.__enter__()

        entering = asyncio.ensure_future(_on_thread(caller, enter))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError as cancelled:
            caller.leave()
            await asyncio.wait([entering])
            if (
                not entering.cancelled() and entering.exception() is None
            ):  # no caller has it, so none would leave it or release its hold
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
        caller, end = Caller(), object()
        try:
            iterator = await _on_thread(caller, lambda: iter(self._call()))
            while (entry := await _on_thread(caller, lambda: next(iterator, end))) is not end:
                yield entry
        finally:
            caller.leave()


async def _on_thread(caller: Caller, call: Callable[[], Any]) -> Any:
    def run() -> Any:
        with caller.calling():
            return call()

    return await sync_to_async(run)()
