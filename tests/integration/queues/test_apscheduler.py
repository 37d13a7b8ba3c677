"""APScheduler 3, with its real schedulers in threads and on an event loop, whose jobs run once and whose repeats come in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_SUBMITTED
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

import holdkit
from holdkit.contrib.apscheduler import Holds
from tests.support.threads import PATIENCE, wait_until


class Order(holdkit.Saga):
    name = "order"

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "orders"

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


class Here:
    """A scheduler, and a kernel that looks on."""

    def __init__(self, url: str) -> None:
        self.scheduler = BackgroundScheduler(timezone="UTC")
        self.holds = Holds(self.scheduler, url, sagas=[Order], sweep_every="50ms", recover_every="50ms")
        self.hk = holdkit.connect(url)
        self.hk.create_pool("gpu", 1)
        self.hk.create_pool("orders", 1)
        self.errors: list[BaseException] = []
        self.scheduler.add_listener(lambda event: self.errors.append(event.exception), EVENT_JOB_ERROR)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(f"sqlite:///{tmp_path}/holds.db")
    made.scheduler.start()
    yield made
    made.scheduler.shutdown()
    made.holds.close()
    made.hk.close()


def test_a_job_runs_under_its_lease(here: Here) -> None:
    seen, done = list[Any](), threading.Event()

    @here.holds("gpu", 1)
    def train(model: str, lease: Any) -> None:
        seen.append((model, here.hk.pool("gpu").available, (here.hk.history(lease.hold.id)[0].actor or "")[:4]))
        done.set()

    here.scheduler.add_job(train, args=["bert"])
    assert done.wait(PATIENCE)
    assert seen == [("bert", 0, "job:")]
    wait_until(lambda: here.hk.pool("gpu").available == 1)


def test_a_taken_slot_is_scheduled_again_once(here: Here) -> None:
    taken, done, runs = here.hk.hold("gpu", 1, ttl=600), threading.Event(), list[str]()
    again, delays = here.holds.run_again, list[float]()

    def noted(call: Any, error: Any, seconds: float) -> Any:
        delays.append(seconds)
        return again(call, error, seconds)

    here.holds.run_again = noted  # type: ignore[method-assign]

    @here.holds("gpu", 1, retry_in="100ms")
    def train(model: str) -> None:
        runs.append(model)
        done.set()

    here.scheduler.add_job(train, args=["bert"])
    here.scheduler.add_job(train, args=["bert"])
    wait_until(lambda: len(delays) >= 2)
    assert len([job for job in here.scheduler.get_jobs("holdkit") if job.id.startswith("again:")]) <= 1
    here.hk.release(taken)
    assert done.wait(PATIENCE)
    assert set(runs) == {"bert"}
    assert here.errors == []


def test_a_repeat_that_is_due_before_its_run_has_ended_is_not_dropped(here: Here) -> None:
    """A run is refused, asks for the next one, and is then not scheduled by the system for a while."""
    taken, done, codes = here.hk.hold("gpu", 1, ttl=600), threading.Event(), list[int]()
    again = here.holds.run_again

    def told(event: Any) -> None:
        if event.job_id.startswith("again:"):
            codes.append(event.code)

    def late(call: Any, error: Any, seconds: float) -> Any:
        seen, asked = len(codes), again(call, error, seconds)
        wait_until(lambda: len(codes) > seen)  # the next run has been started, or dropped
        return asked

    here.scheduler.add_listener(told, EVENT_JOB_SUBMITTED | EVENT_JOB_MAX_INSTANCES)
    here.holds.run_again = late  # type: ignore[method-assign]
    here.scheduler.add_job(here.holds("gpu", 1, retry_in="10ms")(done.set))
    wait_until(lambda: len(codes) > 1 or EVENT_JOB_MAX_INSTANCES in codes)
    here.hk.release(taken)
    assert EVENT_JOB_MAX_INSTANCES not in codes
    assert done.wait(PATIENCE)


def test_a_final_refusal_is_the_jobs_error(here: Here) -> None:
    here.scheduler.add_job(here.holds("none", 1)(lambda: None))
    wait_until(lambda: len(here.errors) == 1)
    assert isinstance(here.errors[0], holdkit.errors.PoolNotFound)


def test_sweep_and_recovery_run_by_themselves(here: Here) -> None:
    here.hk.create_pool("forgotten", 1)
    here.hk.hold("forgotten", 1, ttl=0.000001)
    here.hk.sagas.register(Order).begin("order-1", {})
    wait_until(lambda: str(here.hk.journal.history("forgotten")[-1].action) == "hold.expired")

    def phase() -> str:
        saga = here.hk.sagas.get("order-1")
        return "" if saga is None else saga.phase

    wait_until(lambda: phase() == "done")
    assert here.errors == []


def test_sagas_of_coroutine_functions_need_an_event_loop(tmp_path: Path) -> None:
    url, paid = f"sqlite:///{tmp_path}/holds.db", asyncio.Event()

    class AsyncOrder(Order):
        async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
            paid.set()

    with pytest.raises(holdkit.InvalidRequest, match="AsyncIOScheduler"):
        Holds(BackgroundScheduler(timezone="UTC"), url, sagas=[AsyncOrder])

    async def main() -> None:
        scheduler = AsyncIOScheduler(timezone="UTC")
        holds = Holds(scheduler, url, sagas=[AsyncOrder], sweep_every=None, recover_every="20ms")
        with holdkit.connect(url) as hk:
            hk.create_pool("orders", 1)
            hk.sagas.register(Order).begin("order-1", {})
        scheduler.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await paid.wait()
        finally:
            scheduler.shutdown()
            await holds.aclose()

    asyncio.run(main())


def test_on_an_event_loop(tmp_path: Path) -> None:
    async def main() -> tuple[str, int]:
        scheduler = AsyncIOScheduler(timezone="UTC")
        holds = Holds(scheduler, f"sqlite:///{tmp_path}/holds.db", sweep_every=None)
        kernel = await holds.async_kernel()
        await kernel.create_pool("gpu", 1)
        taken = await kernel.hold("gpu", 1, ttl=600)
        done: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
        again = holds.run_again

        def free_and_run_again(call: Any, error: Any, seconds: float) -> Any:
            releasing.append(asyncio.ensure_future(kernel.release(taken)))
            return again(call, error, seconds)

        releasing: list[Any] = []
        holds.run_again = free_and_run_again  # type: ignore[method-assign]

        @holds("gpu", 1, retry_in="100ms")
        async def train(model: str, lease: Any) -> None:
            done.set_result((model, (await kernel.pool("gpu")).held))

        scheduler.start()
        scheduler.add_job(train, args=["bert"])
        try:
            async with asyncio.timeout(PATIENCE):
                return await done
        finally:
            scheduler.shutdown()
            await asyncio.gather(*releasing)
            await holds.aclose()

    assert asyncio.run(main()) == ("bert", 1)
