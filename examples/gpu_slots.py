"""GPU slots with blocking leases: twelve jobs of two users share four GPUs; each waits in line for its slots, none polls.

Shows: a lease that waits, jobs that need one GPU or two and are served in the order in which they came, a job that gives up after
its time, and a fence that every job passes to the storage it writes to. Run it: `python examples/gpu_slots.py`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import holdkit

GPUS, JOBS = 4, 12


class Cluster:
    """What the scheduler's host does: it runs each job on a thread, as soon as its GPUs are free."""

    def __init__(self, hk: holdkit.Kernel) -> None:
        self.hk = hk
        self._lock = threading.Lock()
        self.in_use = self.most = 0
        self.started: list[int] = []
        """The jobs in the order of their places in line."""
        self.fences: list[int] = []

    def run(self, job: int, training: threading.Event) -> None:
        """Wait for the GPUs, at most a minute, and train. The lease is renewed meanwhile, and released in any case."""
        gpus = 2 if job % 3 == 0 else 1
        with self.hk.lease("gpu", gpus, ttl="30s", wait="1m", actor=f"user:{job % 2}") as lease:
            with self._lock:
                self.in_use += gpus
                self.most = max(self.most, self.in_use)
                self.started.append(job)
                self.fences.append(lease.fence)
            training.wait(0.01)
            lease.check()  # raises if the GPUs were taken away
            with self._lock:
                self.in_use -= gpus


def main() -> None:
    """Fill the cluster, let the jobs queue up behind it, and free it."""
    with holdkit.connect("memory://") as hk, ThreadPoolExecutor(JOBS) as threads:
        hk.create_pool("gpu", total=GPUS)
        cluster, training = Cluster(hk), threading.Event()
        maintenance = hk.hold("gpu", GPUS, ttl="1h", reason="driver update")
        jobs = []
        for job in range(JOBS):
            jobs.append(threads.submit(cluster.run, job, training))
            while hk.pool("gpu").waiting <= job:  # so that they come one after the other
                training.wait(0.001)
        print(f"{hk.pool('gpu').waiting} jobs wait for {GPUS} GPUs")
        try:
            with hk.lease("gpu", 1, ttl="30s", wait="50ms"):
                print("never printed")
        except holdkit.InsufficientCapacity as full:
            print(f"an impatient job gave up: {full.available} of {full.total} free")
        hk.release(maintenance)
        for one in jobs:
            one.result()
        print(
            f"all {len(cluster.started)} ran, never on more than {GPUS} GPUs: {cluster.most <= GPUS}, fences differ: {differ(cluster.fences)}"
        )
        print(f"{hk.pool('gpu').available} GPUs free, {hk.pool('gpu').waiting} jobs waiting")


def differ(fences: list[int]) -> bool:
    """Whether no two jobs had the same fence."""
    return len({*fences}) == len(fences)


if __name__ == "__main__":
    main()
