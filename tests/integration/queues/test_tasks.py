"""What all queues share: leases of tasks, which errors run a task again, sweep and recovery. Functions and coroutine functions."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.contrib.tasks import Holds, RunAgain, current_lease, seconds_until_retry
from holdkit.kernel.arguments import current


class Queue:
    """A worker that runs one task at a time, here or on an event loop of its own."""

    def __init__(self, url: str, mode: str) -> None:
        self.mode = mode
        self.holds = Holds(url)
        self._loop = asyncio.new_event_loop()
        self.hk = holdkit.connect(url)
        self.hk.create_pool("gpu", 1)

    def task(self, decorator: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
        """A task of this mode, whose body is the function."""
        if self.mode == "sync":
            return decorator(function)  # type: ignore[no-any-return]

        async def body(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        body.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        made = decorator(body)
        assert inspect.iscoroutinefunction(made)

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._loop.run_until_complete(made(*args, **kwargs))

        run.__signature__ = inspect.signature(made)  # type: ignore[attr-defined]
        return run

    @property
    def free(self) -> int:
        return self.hk.pool("gpu").available

    def close(self) -> None:
        self.holds.close()
        self._loop.run_until_complete(self.holds.aclose())
        self._loop.close()
        self.hk.close()


@pytest.fixture(params=["sync", "async"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    made = Queue(f"sqlite:///{tmp_path}/holds.db", request.param)
    yield made
    made.close()


def test_a_task_has_its_units_while_it_runs(queue: Queue) -> None:
    def train(model: str, lease: Any, *, rounds: int = 1) -> tuple[Any, ...]:
        assert current_lease() is lease
        return model, rounds, queue.free, lease.fence > 0, current().actor

    task = queue.task(queue.holds("gpu", 1), train)
    assert list(inspect.signature(task).parameters) == ["model", "rounds"], "queues check arguments against it"
    model, rounds, free, fenced, actor = task("bert", rounds=3)
    assert (model, rounds, free, fenced) == ("bert", 3, 0, True)
    assert actor.startswith("job:")
    assert queue.free == 1
    with pytest.raises(holdkit.InvalidRequest, match="@holds"):
        current_lease()


def test_the_lease_may_be_any_parameter(queue: Queue) -> None:
    def first(lease: Any, model: str) -> tuple[Any, ...]:
        return lease.fence > 0, model

    def middle(model: str, lease: Any, rounds: int) -> tuple[Any, ...]:
        return lease.fence > 0, model, rounds

    def positional(model: str, lease: Any, /) -> tuple[Any, ...]:
        return lease.fence > 0, model

    def keyword(*models: str, lease: Any) -> tuple[Any, ...]:
        return lease.fence > 0, *models

    run = {body: queue.task(queue.holds("gpu", 1), body) for body in (first, middle, positional, keyword)}
    assert run[first]("bert") == run[first](model="bert") == (True, "bert")
    assert run[middle]("bert", 3) == run[middle]("bert", rounds=3) == run[middle](model="bert", rounds=3)
    assert run[positional]("bert") == (True, "bert")
    assert run[keyword]("bert", "gpt") == (True, "bert", "gpt")


def test_no_body_runs_after_its_lease_has_ended(tmp_path: Path) -> None:
    holds = Holds(f"sqlite:///{tmp_path}/holds.db", on_open=lambda hk: hk.create_pool("gpu", 1))

    class Train:
        async def __call__(self) -> int:
            return (await (await holds.async_kernel()).pool("gpu")).held

    def each() -> Iterator[int]:
        yield 1

    async def main() -> int:
        holds.kernel.pool("gpu")
        try:
            return int(await holds("gpu", 1)(Train())())
        finally:
            await holds.aclose()

    assert asyncio.run(main()) == 1
    with pytest.raises(holdkit.InvalidRequest, match="generator"):
        holds("gpu", 1)(each)
    holds.close()


def test_the_units_come_back_when_it_fails(queue: Queue) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queue.task(queue.holds("gpu", 1), fail)()
    assert queue.free == 1


def test_a_taken_slot_runs_it_again_later(queue: Queue) -> None:
    task = queue.task(queue.holds("gpu", 1, retry_in=100), lambda: "ran")
    with queue.hk.lease("gpu", 1, ttl=60):
        with pytest.raises(RunAgain) as again:
            task()
        assert 75 <= again.value.seconds <= 125
        assert isinstance(again.value.__cause__, holdkit.InsufficientCapacity)
    assert task() == "ran"


def test_it_waits_in_line_first(queue: Queue) -> None:
    """The unit is freed by whoever sees it wait: without the line it would be refused at once."""
    holder = queue.hk.hold("gpu", 1, ttl=60)
    freed = queue.hk.journal.on("hold.waiting", lambda _entry: queue.hk.release(holder))
    try:
        assert queue.task(queue.holds("gpu", 1, wait="60s"), lambda: "ran")() == "ran"
    finally:
        freed.cancel()


def test_what_to_hold_may_depend_on_the_arguments(queue: Queue) -> None:
    other = queue.hk.tenant("acme")
    other.create_pool("gpu:eu", 2, per_account=1)
    seen: list[int] = []
    made = queue.holds(
        lambda job: f"gpu:{job['zone']}", 1, tenant=lambda job: job["tenant"], account=lambda job: job["user"]
    )
    task = queue.task(made, lambda job: seen.append(other.accounts.usage(job["user"])[0].used))
    task({"zone": "eu", "tenant": "acme", "user": "u1"})
    assert seen == [1]


def test_a_final_refusal_fails_the_task(queue: Queue) -> None:
    with pytest.raises(holdkit.errors.PoolNotFound):
        queue.task(queue.holds("none", 1), lambda: "never")()
    with pytest.raises(holdkit.InvalidRequest):
        queue.task(queue.holds("gpu", 0), lambda: "never")()
    with pytest.raises(holdkit.InvalidRequest, match="ttl"):
        queue.holds("gpu", 1, ttl="soon")


def test_a_lost_lease_stops_the_task_and_runs_it_again(queue: Queue) -> None:
    def train(lease: Any) -> str:
        queue.hk.admin.release(lease.hold.id, reason="maintenance")
        lease._ended = holdkit.HoldExpired()  # as the next renewal finds out
        lease.check()
        return "never"

    with pytest.raises(RunAgain) as again:
        queue.task(queue.holds("gpu", 1), train)()
    assert 1 <= again.value.seconds <= 1.5


def test_a_result_stands_although_the_lease_was_lost(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    def train(lease: Any) -> str:
        lease._ended = holdkit.HoldExpired()
        return "done"

    with caplog.at_level(logging.WARNING):
        assert queue.task(queue.holds("gpu", 1), train)() == "done"
    assert "was lost before its task had ended" in caplog.text


def test_the_expiry_of_another_hold_is_final(queue: Queue) -> None:
    def confirm() -> None:
        raise holdkit.HoldExpired(subject="another")

    with pytest.raises(holdkit.HoldExpired):
        queue.task(queue.holds("gpu", 1), confirm)()


def test_retrying_needs_no_lease(queue: Queue) -> None:
    def turned_away(lease: str) -> str:
        if lease == "mine":
            return lease  # an argument of its own by that name
        raise holdkit.Overloaded("the queue is full", retry_after=2.5)

    task = queue.task(queue.holds.retrying, turned_away)
    assert task("mine") == "mine"
    with pytest.raises(RunAgain) as again:
        task("theirs")
    assert 2.5 <= again.value.seconds <= 3.75


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (holdkit.Overloaded("x", retry_after=0.3), 0.3),
        (holdkit.errors.SagaBusy("x", retry_after=7), 7),
        (holdkit.OutcomeUnknown("x"), 1.0),
        (holdkit.errors.EngineError("x"), 1.0),
        (holdkit.InsufficientCapacity(retry_after=12.0), 12.0),
        (holdkit.errors.PoolNotFound(), None),
        (holdkit.HoldExpired(), None),
        (holdkit.InvalidRequest("x", field="a", code="b"), None),
        (holdkit.errors.SagaParked("x"), None),
        (holdkit.errors.PromiseBroken("x"), None),
        (ValueError(), None),
    ],
)
def test_which_errors_run_a_task_again(error: Exception, seconds: float | None) -> None:
    """Not earlier than it says, and not all at the same time."""
    if seconds is None:
        assert seconds_until_retry(error) is None
        return
    found = [seconds_until_retry(error) or 0.0 for _ in range(200)]
    assert seconds <= min(found) < max(found) <= seconds * 1.5


class Order(holdkit.Saga):
    name = "order"

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "gpu"

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


class AsyncOrder(Order):
    async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


@pytest.mark.parametrize("saga", [Order, AsyncOrder])
def test_scheduled_work(tmp_path: Path, saga: type[holdkit.Saga]) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holds = Holds(url, sagas=[saga])
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", 1)
        legs = [holdkit.Leg(f"p{n}", 1, create_with_total=1) for n in range(600)]  # more than one sweep takes
        hk.apply([holdkit.commands.PlaceHold(legs=(leg,), ttl=0.000001) for leg in legs])
        assert holds.sweep() == 600
        hk.sagas.register(Order).begin("order-1", {})
        if saga is Order:
            assert holds.recover_here == holds.recover
            counted = holds.recover()
        else:
            assert holds.recover_here == holds.recover_async

            async def recover() -> Any:
                try:
                    return await holds.recover_async()
                finally:
                    await holds.aclose()

            counted = asyncio.run(recover())
        assert counted["done"] == 1
        saga_record = hk.sagas.get("order-1")
        assert saga_record is not None
        assert saga_record.result == "paid"
    holds.close()


def test_scheduled_work_that_fails_says_so_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    holds = Holds(f"sqlite:///{tmp_path}/missing/holds.db", sagas=[Order])
    with caplog.at_level(logging.WARNING):
        assert (holds.sweep(), holds.recover()) == (0, {})
    assert "sweep failed" in caplog.text
    assert "recovery of sagas failed" in caplog.text


def test_a_forked_worker_opens_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holds = Holds(url, on_open=lambda hk: [hk.create_pool("gpu", 1)] if not hk.pools() else None)
    task = holds("gpu", 1)(os.getpid)
    assert task() == os.getpid()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if task() == os.getpid() else 2
            holds.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert task() == os.getpid()
    holds.close()


def test_tasks_of_one_loop_share_a_kernel(tmp_path: Path) -> None:
    holds = Holds(f"sqlite:///{tmp_path}/holds.db")

    async def main() -> int:
        first, *others = [asyncio.create_task(holds.async_kernel()) for _ in range(6)]
        await asyncio.sleep(0)  # all of them wait for the opening
        first.cancel()
        kernels = await asyncio.gather(*others)
        await holds.aclose()
        assert kernels[0]._executor.closed
        again = await holds.async_kernel()
        assert not again._executor.closed
        await holds.aclose()
        return len(set(map(id, kernels)))

    assert asyncio.run(main()) == 1
