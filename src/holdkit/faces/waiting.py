"""Calling what an application has written, in the async colour: a plain function, or a coroutine function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, awaited if that can be awaited."""
    result = function(*arguments)
    return await result if isinstance(result, Awaitable) else result
