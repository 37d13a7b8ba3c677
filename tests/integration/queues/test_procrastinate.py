"""procrastinate, with its queue and our holds in one real PostgreSQL database."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from procrastinate import App, PsycopgConnector, RetryStrategy
from procrastinate.jobs import Job

import holdkit
from holdkit.contrib.procrastinate import Holds
from tests.support.threads import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class Order(holdkit.Saga):
    name = "order"

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "orders"

    async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


class Here:
    """An application, and a kernel that looks on."""

    def __init__(self, url: str) -> None:
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self.holds = Holds(self.app, url, sagas=[Order], sweep_cron="* * * * * *", recover_cron=None)
        self.again: list[float] = []
        original = self.holds.run_again

        def noted(call: Any, error: Any, seconds: float) -> Any:
            self.again.append(seconds)
            return original(call, error, seconds)

        self.holds.run_again = noted  # type: ignore[method-assign]

    async def work(self, until: Callable[[], Any]) -> None:
        """Run a worker until this is true."""
        options = {"install_signal_handlers": False, "fetch_job_polling_interval": 0.05}
        working = asyncio.create_task(self.app.run_worker_async(**options))  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(PATIENCE):
                while not await until():
                    assert not working.done(), working
                    await asyncio.sleep(0.01)
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    async def status(self, id: int) -> Callable[[], Any]:
        async def ended() -> bool:
            return (await self.app.job_manager.get_job_status_async(id)).value in ("succeeded", "failed")

        return ended


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Here]:
    holdkit.migrate(url, lanes=4)
    here = Here(url)
    async with here.app.open_async():
        await here.app.schema_manager.apply_schema_async()
        try:
            hk = await here.holds.async_kernel()
            await hk.create_pool("gpu", 1)
            await hk.create_pool("orders", 1)
            yield here
        finally:
            await here.holds.aclose()
            here.holds.close()


def test_tasks_under_leases_retries_and_scheduled_work(postgres_url: str) -> None:
    """One database for all of it: to create procrastinate's tables takes longer than the rest."""

    async def main() -> None:
        async with opened(postgres_url) as here:
            await leases(here)
            await taken(here)
            await refused(here)
            await scheduled(here)

    asyncio.run(main())


async def leases(here: Here) -> None:
    seen: list[Any] = []

    @here.app.task(name="train", retry=here.holds.retry(), pass_context=True)
    @here.holds("gpu", 1)
    async def train(context: Any, model: str, lease: Any) -> None:
        hk = await here.holds.async_kernel()
        entry = (await hk.history(lease.hold))[0]
        seen.append((model, (await hk.pool("gpu")).held, entry.actor, entry.correlation_id == f"job-{context.job.id}"))

    @here.app.task(name="plain", retry=here.holds.retry())
    @here.holds("gpu", 1, retry_in="10ms")
    def plain(model: str, lease: Any) -> None:
        seen.append((model, here.holds.kernel.pool("gpu").held))

    await train.defer_async(model="bert")
    await here.work(lambda: _is(len(seen) == 1))
    await plain.defer_async(model="plain")
    await here.work(lambda: _is(len(seen) == 2))
    assert seen == [("bert", 1, "job:train", True), ("plain", 1)]


async def taken(here: Here) -> None:
    hk = await here.holds.async_kernel()
    hold = await hk.hold("gpu", 1, ttl=600)
    done: list[int] = []

    @here.app.task(name="waits", retry=here.holds.retry())
    @here.holds("gpu", 1, retry_in="10ms")
    async def waits() -> None:
        done.append(1)

    async def free_then_done() -> bool:
        if here.again and (await hk.get(hold)).state == "held":
            await hk.release(hold)
        return bool(done)

    await waits.defer_async()
    await here.work(free_then_done)
    assert all(0.0075 <= seconds <= 0.0125 for seconds in here.again)


async def refused(here: Here) -> None:
    runs: list[int] = []

    @here.app.task(name="refused", retry=here.holds.retry())
    @here.holds.retrying
    async def refused() -> None:
        runs.append(1)
        await (await here.holds.async_kernel()).hold("none", 1, ttl=60)

    id = await refused.defer_async()
    await here.work(await here.status(id))
    assert runs == [1]
    assert (await here.app.job_manager.get_job_status_async(id)).value == "failed"


async def scheduled(here: Here) -> None:
    hk = await here.holds.async_kernel()
    await hk.create_pool("forgotten", 1)
    await hk.hold("forgotten", 1, ttl=0.000001)

    async def swept() -> bool:
        return str((await hk.journal.history("forgotten"))[-1].action) == "hold.expired"

    await here.work(
        swept
    )  # by the schedule: a sweep that is queued here could meet one of the schedule, and be refused

    class Begun(Order):
        def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any: ...

    here.holds.kernel.sagas.register(Begun).begin("order-1", {})
    assert here.holds.recover_task is not None
    id = await here.holds.recover_task.defer_async(timestamp=0)
    await here.work(await here.status(id))
    saga = await hk.sagas.get("order-1")
    assert saga is not None
    assert saga.phase == "done"


async def _is(value: bool) -> bool:
    return value


def test_the_schedule() -> None:
    app = App(connector=PsycopgConnector(conninfo="postgresql:///nowhere"))
    Holds(app, "memory://", sagas=[Order])
    periodic = app.periodic_registry.periodic_tasks.values()
    assert [(task.task.name, task.cron) for task in periodic] == [
        ("holdkit.sweep", "* * * * *"),
        ("holdkit.recover", "* * * * * */15"),
    ]


@pytest.mark.parametrize(
    ("error", "attempts", "again"),
    [
        (holdkit.Overloaded("full", retry_after=5), 0, True),
        (holdkit.Overloaded("full", retry_after=5), 3, False),
        (holdkit.errors.PoolNotFound(), 0, False),
        (ZeroDivisionError(), 0, False),
        (LookupError(), 0, True),
    ],
)
def test_the_strategy(error: Exception, attempts: int, again: bool) -> None:
    """Without the decorator it decides by the error itself; about other exceptions it asks the other strategy."""
    app = App(connector=PsycopgConnector(conninfo="postgresql:///nowhere"))
    holds = Holds(app, "memory://", sweep_cron=None)
    strategy = holds.retry(max_attempts=3, otherwise=RetryStrategy(retry_exceptions=[LookupError]))
    job = Job(id=1, queue="q", lock=None, queueing_lock=None, task_name="t", attempts=attempts)
    assert (strategy.get_retry_decision(exception=error, job=job) is not None) is again


def test_the_example(postgres_url: str) -> None:
    environment = {**os.environ, "DATABASE_URL": postgres_url}
    command = [sys.executable, "-W", "error", str(EXAMPLES / "procrastinate_jobs.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "6 models trained, never on more than 2 GPUs: True\n", done.stderr
