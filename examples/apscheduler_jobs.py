"""Nightly reports with APScheduler: several schedulers, as in several processes, but each report is written by one at a time.

Shows: a lease around a job that many processes have scheduled, a run that is put off while another has the slot, and sweeps in the
same scheduler. Run it: `python examples/apscheduler_jobs.py`.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

import holdkit
from holdkit.contrib.apscheduler import Holds

PROCESSES = 3


class Reports:
    """What each process has: a scheduler with its job."""

    def __init__(self, url: str, written: threading.Semaphore) -> None:
        self.scheduler = BackgroundScheduler(timezone="UTC")
        self.holds = Holds(self.scheduler, url, sweep_every="1s", on_open=make_slot)
        self.most = 0
        self._written = written
        job = self.holds("report-writer", 1, ttl="1m", retry_in="50ms")(self.write)
        self.scheduler.add_job(job, "date", id="report")  # now; a report every night would be "cron", hour=3
        self.scheduler.start()

    def write(self, lease: Any) -> None:
        """One at a time, whatever the others do. `lease.fence` goes along with what is written."""
        self.most = max(self.most, self.holds.kernel.pool("report-writer").held)
        lease.check()
        self._written.release()

    def close(self) -> None:
        """Finish what runs."""
        self.scheduler.shutdown()
        self.holds.close()


def make_slot(hk: holdkit.Kernel) -> None:
    """In each process. Of several, one creates the pool."""
    with suppress(holdkit.errors.PoolExists):
        hk.create_pool("report-writer", total=1)


def main() -> None:
    """Start the schedulers, and wait until each of them has written its report."""
    with tempfile.TemporaryDirectory() as folder:
        written = threading.Semaphore(0)
        processes = [Reports(f"sqlite:///{Path(folder) / 'holds.db'}", written) for _ in range(PROCESSES)]
        for _ in processes:
            written.acquire()
        for process in processes:
            process.close()
        print(f"{PROCESSES} reports, at most {max(process.most for process in processes)} at a time")


if __name__ == "__main__":
    main()
