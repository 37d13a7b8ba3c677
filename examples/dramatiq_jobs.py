"""GPU jobs with Dramatiq: six models are trained on two GPUs; a job that finds no free GPU is retried by Dramatiq.

Shows: a lease as a decorator of an actor, an actor that is a coroutine function, and a sweep that a scheduler would send. The broker
is Dramatiq's in-memory one, with its worker in this process, so that nothing else has to run; use Redis or RabbitMQ instead.
Run it: `python examples/dramatiq_jobs.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO

from holdkit.contrib.dramatiq import Holds, current_lease

FOLDER = tempfile.TemporaryDirectory()
broker = StubBroker()
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)
holds = Holds(broker, f"sqlite:///{Path(FOLDER.name) / 'holds.db'}", on_open=lambda hk: hk.create_pool("gpu", total=2))
trained: dict[str, int] = {}


@dramatiq.actor(max_retries=1_000)  # a job that waits for a slot may have to wait for long
@holds("gpu", 1, ttl="30s", retry_in="50ms")
def train(model: str, lease: Any) -> None:
    """A plain function, in a thread of the worker."""
    trained[model] = lease.fence


@dramatiq.actor
@holds("gpu", 2, ttl="30s", wait="10s", retry_in="50ms")
async def evaluate(model: str) -> None:
    """A coroutine function, on the worker's event loop: waits in line for both GPUs before it is retried."""
    kernel = await holds.async_kernel()
    trained[model] = (await kernel.pool("gpu")).held
    current_lease().check()


def main() -> None:
    """Send the messages, process all of them, and look at what is left."""
    worker = dramatiq.Worker(broker, worker_threads=3, worker_timeout=50)
    hk = holds.kernel
    hk.create_pool("forgotten", total=1)
    hk.hold("forgotten", ttl=0.000001)
    worker.start()
    for number in range(6):
        train.send(f"model-{number}")
    evaluate.send("all")
    holds.sweep_actor.send()
    for queue in broker.get_declared_queues():
        broker.join(queue)
    worker.join()
    swept = [entry for entry in hk.journal.list() if entry.action == "hold.expired"]
    print(f"{len(trained) - 1} models trained, all evaluated on {trained['all']} GPUs")
    print(f"{hk.pool('gpu').available} GPUs free, {len(swept)} forgotten hold swept")
    worker.stop()
    broker.close()
    FOLDER.cleanup()


if __name__ == "__main__":
    main()
