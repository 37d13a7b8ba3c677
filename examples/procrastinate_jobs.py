"""GPU jobs with procrastinate: queue, holds and results in one PostgreSQL database, and nothing else to run.

Shows: a lease as a decorator of tasks that are coroutine functions or plain functions, retries by procrastinate, and the sweep as a
periodic task. Run it: `DATABASE_URL=postgresql://… python examples/procrastinate_jobs.py` (creates its tables).
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import Any

from procrastinate import App, PsycopgConnector

import holdkit
from holdkit.contrib.procrastinate import Holds

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/jobs")
app = App(connector=PsycopgConnector(conninfo=URL))
holds = Holds(app, URL)
trained: set[str] = set()
used: list[int] = []
all_done = threading.Event()


@app.task(name="train", retry=holds.retry())
@holds("gpu", 1, ttl="30s", retry_in="100ms")
async def train(model: str, lease: Any) -> None:
    """On the worker's event loop."""
    hk = await holds.async_kernel()
    used.append((await hk.pool("gpu")).held)
    lease.check()
    await hk.consume("trained", 1, entity=f"model:{model}", op=f"train:{model}")  # once, however often the job runs
    trained.add(model)
    if len(trained) == 6:  # true for one job only: nothing is awaited between this and the line above
        await report.defer_async()


@app.task(name="report", retry=holds.retry())
@holds("gpu", 2, ttl="30s", wait="5s", retry_in="100ms")
def report() -> None:
    """A plain function, in a thread of the worker: waits in line for both GPUs."""
    consumed = holds.kernel.pool("trained").consumed
    print(f"{consumed} models trained, never on more than 2 GPUs: {max(used) <= 2}")
    all_done.set()


async def main() -> None:
    """Create the tables and the pools, queue six jobs, and work until the report is written."""
    holdkit.migrate(URL)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        hk = await holds.async_kernel()
        for pool, total in (("gpu", 2), ("trained", 1_000)):
            with suppress(holdkit.errors.PoolExists):
                await hk.create_pool(pool, total=total)
        for number in range(6):
            await train.defer_async(model=f"model-{number}")
        working = asyncio.create_task(app.run_worker_async(concurrency=4, fetch_job_polling_interval=0.1))
        await asyncio.to_thread(all_done.wait)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    await holds.aclose()
    holds.close()


if __name__ == "__main__":
    asyncio.run(main())
