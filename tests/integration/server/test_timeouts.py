"""One timer for the timeouts of all requests: a task that is late gets `TimeoutError`, and no other task is disturbed."""

from __future__ import annotations

import asyncio

import pytest

from holdkit.server.limits import Timeouts


def test_only_the_late_task_gets_a_timeout_and_can_go_on() -> None:
    async def wait(timeouts: Timeouts, seconds: float, event: asyncio.Event) -> str:
        try:
            with timeouts.limit(seconds):
                await event.wait()
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)  # a task that is still cancelled would end here
            return "late"
        return "done"

    async def main() -> None:
        timeouts, event = Timeouts(), asyncio.Event()
        late = asyncio.create_task(wait(timeouts, 0.01, event))
        other = asyncio.create_task(wait(timeouts, 60, event))
        assert await late == "late"
        event.set()
        assert await other == "done"

    asyncio.run(main())


def test_a_task_that_is_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def main() -> None:
        timeouts = Timeouts()
        entered = asyncio.Event()

        async def wait() -> None:
            with timeouts.limit(60):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_late_task_that_is_also_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def main() -> None:
        timeouts = Timeouts()

        async def wait() -> None:
            with timeouts.limit(0):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    current = asyncio.current_task()
                    assert current is not None
                    current.cancel()
                    raise

        task = asyncio.create_task(wait())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_the_timer_runs_only_while_there_are_limits() -> None:
    class Watched(Timeouts):
        """Says after a check whether there will be another."""

        def __init__(self) -> None:
            super().__init__()
            self.checked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def _check(self) -> None:
            super()._check()
            self.checked.set_result(self._timer is not None)

    async def main() -> None:
        idle = Watched()
        with idle.limit(60):
            pass
        assert not await idle.checked
        busy = Watched()
        with busy.limit(60):
            assert await busy.checked

    asyncio.run(main())
