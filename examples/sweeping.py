"""Three ways to sweep: a job of your scheduler, a loop, or cron. No answer depends on it, because a due hold is expired either way;
a sweep keeps tables small, and journals the expiries.

Shows: a job that drains the backlog; a loop in a thread and one in a task, which survive a failed sweep; the command line for
cron. Run it: `python examples/sweeping.py`.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import holdkit

log = logging.getLogger("shop")


def sweep_job(hk: holdkit.Kernel, *, limit: int = 500) -> int:
    """For a queue or scheduler: call it every minute. `more` says that one sweep was not enough."""
    expired = 0
    while True:
        report = hk.sweep(limit)
        expired += report.expired
        if not report.more:
            return expired


def in_a_thread(hk: holdkit.Kernel) -> None:
    """A loop that ends with the block, or with the kernel."""
    with hk.sweeper(every=60):
        pass  # the application runs here


async def in_a_task(hk: holdkit.AsyncKernel, rounds: int, every: float = 60) -> None:
    """The same by hand, in an event loop: a failed sweep is retried in the next round."""
    for _ in range(rounds):
        try:
            await hk.sweep()
        except holdkit.HoldkitError:
            log.warning("sweep failed", exc_info=True)
        await asyncio.sleep(every)


def by_cron(url: str) -> str:
    """A line of a crontab: `* * * * *  holdkit sweep sqlite:////srv/shop/holds.db`."""
    command = [sys.executable, "-m", "holdkit", "sweep", url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Sweep five unconfirmed holds in all three ways."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'holds.db'}"
        with holdkit.connect(url) as hk:
            for name in ("lamp", "vase", "desk", "sofa", "rug"):
                hk.create_pool(name, 1)
                hk.hold(name, ttl=0.000001)
            print(sweep_job(hk, limit=2), "expired")
            in_a_thread(hk)

        async def tasks() -> None:
            async with await holdkit.connect_async(url) as hk:
                await in_a_task(hk, 2, every=0)

        asyncio.run(tasks())
        print(by_cron(url).strip())


if __name__ == "__main__":
    main()
