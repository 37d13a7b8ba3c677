"""What every face has of its kernel: where commands go, the frame of a call, the tenant, and reads inside a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...core.reading import Query
from ...kernel._async.calls import Call
from ...kernel._async.executor import AsyncExecutor

T = TypeVar("T")

Frame = Callable[[Call], dict[str, Any]]
"""The fields every command has, from the call or from the context."""


class AsyncFace:
    """Turns arguments into commands and outcomes into results, for one tenant; decides nothing."""

    def __init__(self, executor: AsyncExecutor, frame: Frame, tenant: str) -> None:
        self._executor, self._frame, self._tenant = executor, frame, tenant

    async def _read(self, query: Query[T], tx: Any, *, durable: bool = False) -> T:
        return await self._executor.read(query, tx, durable=durable)
