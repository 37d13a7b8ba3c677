"""GPU jobs with Celery: six models are trained on two GPUs by three workers; a job that finds no free GPU is retried by Celery.

Shows: a lease as a decorator of a task, a retry that does not keep a worker waiting, and sweeps that Celery beat sends. The broker
is a folder, so that nothing else has to run; use Redis or RabbitMQ instead. Run it, in two terminals:
`celery --workdir examples -A celery_jobs worker -B --concurrency 3` and `python examples/celery_jobs.py`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery import Celery, group

import holdkit
from holdkit.contrib.celery import Holds

FOLDER = Path(os.environ.get("JOBS_FOLDER", "/tmp/holdkit-jobs"))
for name in ("queue", "processed", "results"):
    (FOLDER / name).mkdir(parents=True, exist_ok=True)

app = Celery("celery_jobs", broker="filesystem://", backend=f"file://{FOLDER / 'results'}")
app.conf.broker_transport_options = {
    "data_folder_in": FOLDER / "queue",
    "data_folder_out": FOLDER / "queue",
    "processed_folder": FOLDER / "processed",
    "control_folder": FOLDER / "control",
}


def open_cluster(hk: holdkit.Kernel) -> None:
    """In each worker, when its kernel is opened. Of several, one creates the pool."""
    with suppress(holdkit.errors.PoolExists):
        hk.create_pool("gpu", total=2)


holds = Holds(app, f"sqlite:///{FOLDER / 'holds.db'}", on_open=open_cluster, sweep_every="5s")


@app.task(max_retries=None)  # type: ignore[untyped-decorator]  # Celery has no types
@holds("gpu", 1, ttl="30s", retry_in="200ms")
def train(model: str, lease: Any) -> dict[str, Any]:
    """What the job writes elsewhere carries the fence, so that a worker whose lease is lost does no harm."""
    in_use = holds.kernel.pool("gpu").held
    lease.check()  # between two rounds: raises if the lease is lost, and the task is run again
    return {"model": model, "fence": lease.fence, "in_use": in_use}


def main() -> None:
    """Send six jobs, and wait for their results."""
    jobs = group(train.s(f"model-{number}") for number in range(6))
    results = jobs.apply_async().get(timeout=120)
    print(f"{len(results)} models trained, never on more than 2 GPUs: {all(one['in_use'] <= 2 for one in results)}")


if __name__ == "__main__":
    main()
