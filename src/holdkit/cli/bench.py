"""``holdkit admin bench``: measure holds per second on this database. It uses a pool of its own and removes it; the
journal keeps the entries."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import click

from ..core.model import Leg
from ..errors import HoldkitError, InsufficientCapacity
from ..faces._sync.kernel import Kernel
from .documents import BenchDocument
from .options import database_options, open_database
from .output import OK, Output, progress_bar

AMPLE = 10**9
"""The total of the temporary pool: enough that no hold is refused."""


class Timings:
    """The measurements of one thread, or of all."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.errors: list[HoldkitError] = []
        self.refused = 0


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=5.0, show_default=True)
@click.option("--threads", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--pool", help="use this pool instead of a temporary one")
@database_options
def bench(target: str | None, url: str | None, in_json: bool, seconds: float, threads: int, pool: str | None) -> int:
    """Hold and release, each durable, with N threads as fast as possible; report pairs per second and latency.

    \b
    Example:
      holdkit admin bench sqlite:///holds.db --threads 32 --seconds 10
    """
    with open_database(url, target) as hk:
        name = pool or f"bench:{uuid4().hex[:12]}"
        leg = Leg(name, 1, create_with_total=AMPLE if pool is None else None)
        try:
            found, took = measure(hk, leg, threads, seconds)
        finally:
            hk.sweep()  # removes the temporary pool, which is empty now
        document = summary(found, took, hk, name, threads)
    Output(in_json).write(
        document,
        f"{document.pairs} pairs of hold and release in {took:.1f} s with {threads} threads: {document.per_second:.0f}/s",
        f"latency: p50 {document.p50_ms:.2f} ms, p99 {document.p99_ms:.2f} ms",
        f"largest group commit: {document.largest_batch}",
        *([f"{document.refused} holds were refused: the pool had too few units available"] if document.refused else []),
    )
    return OK


def measure(hk: Kernel, leg: Leg, threads: int, seconds: float) -> tuple[Timings, float]:
    """Run the threads for some seconds; the first error ends it."""
    stop, found = threading.Event(), [Timings() for _ in range(threads)]
    workers = [threading.Thread(target=_work, args=(hk, leg, stop, own)) for own in found]
    began = time.monotonic()
    with progress_bar("measuring") as progress:
        for worker in workers:
            worker.start()
        try:
            while (passed := time.monotonic() - began) < seconds and not stop.is_set():
                progress(int(passed * 1000), int(seconds * 1000))
                stop.wait(min(0.1, seconds - passed))
        finally:
            stop.set()
            for worker in workers:
                worker.join()
    took = time.monotonic() - began
    whole = Timings()
    for own in found:
        whole.seconds += own.seconds
        whole.refused += own.refused
        if own.errors:
            raise own.errors[0]
    return whole, took


def _work(hk: Kernel, leg: Leg, stop: threading.Event, own: Timings) -> None:
    while not stop.is_set():
        began = time.perf_counter()
        try:
            hk.release(hk.hold([leg], ttl=60))
        except InsufficientCapacity:
            own.refused += 1
            continue
        except HoldkitError as error:
            own.errors.append(error)
            stop.set()
            return
        own.seconds.append(time.perf_counter() - began)


def summary(found: Timings, took: float, hk: Kernel, pool: str, threads: int) -> BenchDocument:
    """Return the result as a document."""
    ordered: list[Any] = sorted(found.seconds) or [0.0]
    return BenchDocument(
        url=hk.url,
        pool=pool,
        threads=threads,
        seconds=took,
        pairs=len(found.seconds),
        refused=found.refused,
        per_second=len(found.seconds) / took,
        p50_ms=ordered[len(ordered) // 2] * 1000,
        p99_ms=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000,
        largest_batch=hk.admin.stats().largest,
    )
