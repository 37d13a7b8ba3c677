"""Dramatiq, with the broker that it has for tests, and its real worker: retries by delay, none of what is final."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO

import holdkit
from holdkit.contrib.dramatiq import Holds
from tests.support.threads import PATIENCE, wait_until


class Order(holdkit.Saga):
    name = "order"

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "gpu"

    async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


class Here:
    """A broker with its worker, and a kernel that looks on."""

    def __init__(self, url: str) -> None:
        self.broker = StubBroker()
        self.broker.add_middleware(AsyncIO())
        self.holds = Holds(self.broker, url, sagas=[Order])
        self.hk = holdkit.connect(url)
        self.hk.create_pool("gpu", 1)
        self.worker = dramatiq.Worker(self.broker, worker_threads=2, worker_timeout=10)

    def actor(self, function: Any, **options: Any) -> Any:
        return dramatiq.actor(broker=self.broker, **options)(function)

    def run(self, message: Any) -> None:
        """Process it and what comes of it."""
        self.broker.enqueue(message)
        self.broker.join("default", timeout=int(PATIENCE * 1000), fail_fast=False)
        self.worker.join()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(f"sqlite:///{tmp_path}/holds.db")
    made.worker.start()
    yield made
    made.worker.stop(timeout=int(PATIENCE * 1000))
    assert made.holds._kernels._opened.kernel is None, "closed with its worker"
    assert not len(made.holds._loop_kernels._opening), "closed with its worker"
    made.broker.close()
    made.hk.close()


def test_an_actor_runs_under_its_lease(here: Here) -> None:
    seen: list[Any] = []

    @here.actor
    @here.holds("gpu", 1)
    def train(model: str, lease: Any) -> None:
        entry = here.hk.history(lease.hold.id)[0]
        seen.append((model, here.hk.pool("gpu").available, entry.actor, entry.correlation_id))

    message = train.message("bert")
    here.run(message)
    assert seen == [("bert", 0, "job:train", message.message_id)]
    assert here.hk.pool("gpu").available == 1


def test_a_coroutine_function_runs_on_the_workers_loop(here: Here) -> None:
    seen: list[Any] = []

    @here.actor
    @here.holds("gpu", 1)
    async def train(model: str, lease: Any) -> None:
        kernel = await here.holds.async_kernel()
        seen.append((model, (await kernel.pool("gpu")).held, (await kernel.history(lease.hold))[0].actor))

    here.run(train.message("bert"))
    assert seen == [("bert", 1, "job:train")]


def test_a_taken_slot_is_retried_by_dramatiq(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, seen = here.hk.hold("gpu", 1, ttl=600), list[int]()
    enqueue, delays = here.broker.enqueue, list[int]()

    def noted(message: Any, *, delay: int | None = None) -> Any:
        if delay is not None:
            delays.append(delay)
        return enqueue(message, delay=delay)

    monkeypatch.setattr(here.broker, "enqueue", noted)

    @here.holds("gpu", 1, retry_in="20ms")
    def train() -> None:
        seen.append(1)

    here.broker.enqueue(here.actor(train, max_retries=100_000).message())  # as often as it takes until the slot is free
    wait_until(lambda: len(delays) > 0)
    here.hk.release(taken)
    wait_until(lambda: seen == [1])
    assert all(15 <= delay <= 25 for delay in delays)


def test_what_is_final_is_not_retried(here: Here) -> None:
    runs: list[int] = []

    @here.actor
    def buy() -> None:
        runs.append(1)
        here.hk.hold("none", 1, ttl=60)

    message = buy.message()
    here.run(message)
    assert runs == [1]
    dead = here.broker.dead_letters_by_queue["default"]
    assert [one.message_id for one in dead] == [message.message_id]
    assert dead[0].encode(), "it can be stored"


def test_other_exceptions_are_dramatiqs(here: Here) -> None:
    runs: list[int] = []

    @here.holds.retrying
    def fail() -> None:
        runs.append(1)
        raise ZeroDivisionError

    here.run(here.actor(fail, max_retries=1, min_backoff=1, max_backoff=1).message())
    wait_until(lambda: len(runs) == 2)


def test_called_like_a_function_it_raises_the_refusal(here: Here) -> None:
    train = here.actor(here.holds("gpu", 2)(lambda: None), actor_name="train")
    with pytest.raises(holdkit.InsufficientCapacity):
        train()


def test_sweep_and_recovery_are_actors(here: Here) -> None:
    here.hk.create_pool("forgotten", 1)
    here.hk.hold("forgotten", 1, ttl=0.000001)
    here.run(here.holds.sweep_actor.message())
    assert [str(entry.action) for entry in here.hk.journal.history("forgotten")][-1] == "hold.expired"

    class Begun(Order):
        def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any: ...

    here.hk.sagas.register(Begun).begin("order-1", {})
    assert here.holds.recover_actor is not None
    here.run(here.holds.recover_actor.message())
    saga = here.hk.sagas.get("order-1")
    assert saga is not None
    assert saga.phase == "done"
