"""Celery, with its in-memory broker and a worker in threads here, and with the file system as broker and forked workers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, current_task
from celery.contrib.testing.worker import start_worker

import holdkit
from holdkit.contrib.celery import Holds
from tests.support.threads import PATIENCE, wait_until

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class Order(holdkit.Saga):
    name = "order"

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "orders"

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "paid"


class Here:
    """An application with its tasks, and a kernel that looks on."""

    def __init__(self, url: str) -> None:
        self.app = Celery("test", broker="memory://", backend="cache+memory://", set_as_current=False)
        self.holds = Holds(self.app, url, sagas=[Order])
        self.hk = holdkit.connect(url)
        self.hk.create_pool("gpu", 1)
        self.hk.create_pool("orders", 1)
        self.runs: Counter[str] = Counter()
        self.again: list[float] = []
        """The delays of the runs that are repeated."""
        original = self.holds.run_again

        def noted(call: Any, error: Any, seconds: float) -> Any:
            self.again.append(seconds)
            return original(call, error, seconds)

        self.holds.run_again = noted  # type: ignore[method-assign]
        leased, retrying = self.holds("gpu", 1, retry_in="10ms"), self.holds.retrying
        self.train = self.task(leased(self._train))
        self.waiting = self.task(leased(self._retries), max_retries=None)
        self.refused = self.task(retrying(self._refused))
        self.turned_away = self.task(retrying(self._turned_away), max_retries=2)

    def task(self, function: Any, **options: Any) -> Any:
        """Declare a task, in this application alone."""
        return self.app.task(function, name=function.__name__.strip("_"), shared=False, **options)

    def _train(self, model: str, lease: Any) -> list[Any]:
        entry = self.hk.history(lease.hold.id)[0]
        return [model, self.hk.pool("gpu").available, entry.actor, entry.correlation_id == current_task.request.id]

    def _retries(self) -> int:
        return int(current_task.request.retries)

    def _refused(self) -> None:
        self.runs["refused"] += 1
        self.hk.hold("none", 1, ttl=60)

    def _turned_away(self) -> None:
        self.runs["turned_away"] += 1
        raise holdkit.Overloaded("full", retry_after=0.01)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    made = Here(f"sqlite:///{tmp_path_factory.mktemp('celery')}/holds.db")
    with start_worker(made.app, perform_ping_check=False, pool="solo", shutdown_timeout=PATIENCE):
        yield made
    made.holds.close()
    made.hk.close()


def run(task: Any, *args: Any) -> Any:
    """Send it to the worker, and return its result."""
    return task.delay(*args).get(timeout=PATIENCE)


def test_a_task_runs_under_its_lease(here: Here) -> None:
    assert run(here.train, "bert") == ["bert", 0, "job:train", True]
    assert here.hk.pool("gpu").available == 1
    with pytest.raises(TypeError):
        here.train.delay("bert", "too many")


def test_a_taken_slot_is_retried_by_celery(here: Here) -> None:
    taken = here.hk.hold("gpu", 1, ttl=600)
    here.again.clear()
    result = here.waiting.delay()
    wait_until(lambda: len(here.again) > 0)
    here.hk.release(taken)
    assert result.get(timeout=PATIENCE) >= 1
    assert all(0.0075 <= seconds <= 0.0125 for seconds in here.again)


def test_a_final_refusal_is_not_retried(here: Here) -> None:
    with pytest.raises(holdkit.errors.PoolNotFound):
        run(here.refused)
    assert here.runs["refused"] == 1


def test_the_limit_is_celerys(here: Here) -> None:
    with pytest.raises(holdkit.Overloaded):
        run(here.turned_away)
    assert here.runs["turned_away"] == 3


def test_called_like_a_function_it_raises_the_refusal(here: Here) -> None:
    with here.hk.lease("gpu", 1, ttl=600), pytest.raises(holdkit.InsufficientCapacity):
        here.train("bert")


def test_an_eager_call_raises_the_refusal_too(here: Here) -> None:
    """As in applications' tests (`task_always_eager`): Celery repeats an eager task at once, and this one without end."""
    with here.hk.lease("gpu", 1, ttl=600):
        assert isinstance(here.waiting.apply().result, holdkit.InsufficientCapacity)
    assert here.waiting.apply().result == 0


def test_sweep_and_recovery_are_scheduled(here: Here) -> None:
    beat = here.app.conf.beat_schedule
    scheduled = {name: (entry["task"], entry["schedule"]) for name, entry in beat.items()}
    assert scheduled == {"holdkit.sweep": ("holdkit.sweep", 60.0), "holdkit.recover": ("holdkit.recover", 15.0)}
    here.hk.hold("gpu", 1, ttl=0.000001)
    assert run(here.app.tasks["holdkit.sweep"]) == 1
    here.hk.sagas.register(Order).begin("order-1", {})
    assert run(here.app.tasks["holdkit.recover"])["done"] == 1


def test_an_application_that_is_finalized_already_has_the_schedule_too() -> None:
    app = Celery("late", set_as_current=False)
    app.finalize()
    Holds(app, "memory://", sweep_every="5s")
    assert {name: entry["schedule"] for name, entry in app.conf.beat_schedule.items()} == {"holdkit.sweep": 5.0}


def test_sagas_that_celery_cannot_run_are_refused() -> None:
    class Later(Order):
        async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
            return "paid"

    with pytest.raises(holdkit.InvalidRequest, match="coroutine"):
        Holds(Celery("async", set_as_current=False), "memory://", sagas=[Later])


def test_the_url_may_be_a_setting(tmp_path: Path) -> None:
    app = Celery("settings", set_as_current=False)
    with pytest.raises(holdkit.InvalidRequest, match="holdkit_url"):
        Holds(app)
    app.conf.holdkit_url = f"sqlite:///{tmp_path}/holds.db"
    assert Holds(app).kernel.pools() == []


def test_forked_workers_and_beat(tmp_path: Path) -> None:
    """The example as its docstring says: `celery worker` forks its children after the tasks were defined; beat sends the sweeps."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES), "JOBS_FOLDER": str(tmp_path)}
    worker_command = [
        "celery",
        "-A",
        "celery_jobs",
        "worker",
        "--concurrency",
        "3",
        "-B",
        "-l",
        "warning",
        "-s",
        "schedule",
    ]
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk, (tmp_path / "log").open("w+") as log:
        hk.create_pool("forgotten", 1)
        forgotten = hk.hold("forgotten", 1, ttl=0.000001)
        swept = threading.Event()
        listening = hk.journal.on("hold.expired", lambda entry: swept.set() if entry.subject == forgotten.id else None)
        running = [sys.executable, "-m", *worker_command]
        worker = subprocess.Popen(running, env=environment, stdout=log, stderr=log, cwd=tmp_path)
        try:
            asking = [sys.executable, str(EXAMPLES / "celery_jobs.py")]
            asked = subprocess.run(
                asking, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            assert asked.stdout == "6 models trained, never on more than 2 GPUs: True\n", asked.stderr
            assert swept.wait(PATIENCE), "beat sent no sweep"
        finally:
            worker.terminate()
            worker.wait(PATIENCE)
            listening.cancel()
        log.seek(0)
        assert "Traceback" not in log.read()
        assert hk.pool("gpu").available == 2
        assert {entry.actor for entry in hk.journal.list() if entry.action == "hold.held"} == {
            None,
            "job:celery_jobs.train",
        }
