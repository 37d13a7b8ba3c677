"""Group commit for tasks on an engine that needs no thread: a batch is applied on the event loop itself, and while the server
writes it, those of the batch before are given their answers. So the two take turns, half of the callers in each.

What the engine cannot do from the loop goes the way of all others, through the pump's thread. Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final

from ..core.commands import Group
from ..engines.deadlines import until
from ..engines.port import AsyncApply, Engine, NeedsThread
from .batch_worker import Awaited, BatchWorker, give_up, latest
from .queued_calls import MAX_COMMANDS
from .workers import AsyncSignal

SPLIT: Final = 128
"""Queued commands from which on a batch leaves half of them for the next: fewer are not worth a second transaction."""
MOST: Final = 256
"""Commands that are decided on the loop in one go: more would keep its other tasks waiting, and go to the thread."""
PATIENCE: Final = 0.005
"""Seconds that an answer waits at most for the next batch to be on its way."""


class LoopBatches(BatchWorker):
    """A pump whose batches fly, where the engine can."""

    def __init__(self, engine: Engine, committed: AsyncSignal, *, wait_for_locks: bool = False) -> None:
        super().__init__(engine, committed, wait_for_locks=wait_for_locks)
        self._wings: AsyncApply | None = engine if isinstance(engine, AsyncApply) and not wait_for_locks else None
        self._landed: list[tuple[Sequence[Awaited], bool]] = []
        self._flying: asyncio.Task[None] | None = None

    def _take(
        self,
        batch: list[Any],
        most: int = MAX_COMMANDS,
        fits: Callable[[Group], bool] | None = None,
        latest: float = inf,
    ) -> None:
        if self._wings is not None and not self._landed and self._queued >= SPLIT:
            most = (self._queued + 1) // 2
        super()._take(batch, most, fits, latest)

    def _launch(self, batch: list[Awaited]) -> None:
        if self._wings is None or sum([submission.size for submission in batch]) > MOST:
            self._give_answers()
            super()._launch(batch)
            return
        self._flight = batch
        self._flying = self._loop.create_task(self._fly(self._wings, batch), name="holdkit-flight")
        self._flying.add_done_callback(lambda task: self._look_after(task, batch))

    async def _fly(self, engine: AsyncApply, batch: list[Awaited]) -> None:
        failed: Exception | None = None
        try:
            with until(latest(batch)):
                applied = await engine.apply_async(self._runner.begin(batch), self._give_answers)
            wrote = self._runner.accept(batch, applied)
        except NeedsThread:
            pass
        except Exception as error:  # noqa: BLE001 - the runner knows what each means
            failed = error
        except BaseException as error:  # the loop is ending
            give_up(batch, error)
            self._give_answers()
            self._settle(batch, True)
            raise
        else:
            self._complete(batch, wrote)
            return
        self._give_answers()
        self._batches.put(lambda: self._run(batch, failed))

    def _look_after(self, task: asyncio.Task[None], batch: list[Awaited]) -> None:
        """A task that was cancelled before its first step never knew its batch: it is queued again."""
        if task.cancelled() and self._flight is batch:
            self._settle(batch, False)

    def _complete(self, batch: Sequence[Awaited], wrote: bool) -> None:
        """Who is here already flies next, and the answers are given meanwhile; a few are not worth waiting for."""
        self._flight = ()
        self._landed.append((batch, wrote))
        following: list[Any] = []
        if self._queued * 4 >= len(batch):
            self._take(following)
        if following:
            self._launch(following)
            self._loop.call_later(PATIENCE, self._give_answers)
        else:
            self._give_answers()
            self._loop.call_soon(self._pump)

    def _give_answers(self) -> None:
        landed, self._landed = self._landed, []
        for batch, wrote in landed:
            self._answer(batch, wrote)
