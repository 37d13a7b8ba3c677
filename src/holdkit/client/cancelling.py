"""What happens if a caller is cancelled while the server works: the client finishes the request all the same, and releases
a hold that was granted to the cancelled caller.

`tools/gen_sync.py` turns the name `AsyncFinisher` into `Finisher`, so both classes must have the same methods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ..core.commands import AnyCommand
from ..core.outcomes import Receipt
from ..errors import HoldkitError
from ..kernel.batches import Undo
from ..kernel.workers import AsyncSignal, AsyncWorker, Worker

log = logging.getLogger("holdkit")


class Finisher:
    """For threads, which cannot be cancelled."""

    def __init__(self, workers: set[Worker], execute: Callable[[AnyCommand], Receipt]) -> None:
        pass

    def finish(self, done: Receipt, undo: Undo | None, *, shielded: bool) -> Receipt:  # noqa: ARG002 (as for tasks)
        """Return what was done."""
        return done


class AsyncFinisher:
    """For tasks."""

    def __init__(self, workers: set[AsyncWorker], execute: Callable[[AnyCommand], Awaitable[Receipt]]) -> None:
        self._workers, self._execute = workers, execute

    async def finish(self, request: Coroutine[Any, Any, Receipt], undo: Undo | None, *, shielded: bool) -> Receipt:
        """Return the answer to a request. If the caller is cancelled meanwhile and the request is `shielded` or has an `undo`, a worker
        finishes it."""
        if undo is None and not shielded:
            return await request
        task = asyncio.ensure_future(request)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            AsyncWorker(self._workers, lambda: self._finish_alone(task, undo), "holdkit-cancelled", AsyncSignal())
            raise

    async def _finish_alone(self, task: asyncio.Future[Receipt], undo: Undo | None) -> None:
        try:
            done = await task
            group = None if undo is None else undo([done])
            for command in () if group is None else group.commands:
                await self._execute(command)
        except HoldkitError as failed:
            log.warning(
                "a cancelled call could not be finished; what it holds expires at its deadline: %s",
                failed,
                extra={"event": "cancelled_call_unfinished"},
            )
