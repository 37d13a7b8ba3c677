"""Methods that ask the engine more than once, and are one call all the same: they have one deadline."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from ..engines.deadlines import run_until, until

C = TypeVar("C", bound=type[Any])


def one_call(cls: C) -> C:
    """Every public method of this class, which has a `_executor`, is one call. (Its properties and generators are not.)"""
    for name, method in tuple(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_") and not _goes_on(method):
            setattr(cls, name, _awaited(method) if inspect.iscoroutinefunction(method) else _called(method))
    return cls


def _goes_on(method: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)


def _called(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def bounded(self: Any, *args: Any, **named: Any) -> Any:
        return run_until(self._executor.deadline(), partial(method, self, *args, **named))

    return bounded


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def bounded(self: Any, *args: Any, **named: Any) -> Any:
        with until(self._executor.deadline()):
            return await method(self, *args, **named)

    return bounded
