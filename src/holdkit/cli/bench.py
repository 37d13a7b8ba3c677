"""``holdkit bench``: how fast is this place, here and now? A pool of its own, gone afterwards; the journal keeps what happened."""

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
from .options import chosen, kernel, whole
from .output import FINE, Output, bar

AMPLE = 10**9
"""Units of a pool that is made for it: nobody is refused."""


class Timings:
    """What every thread has measured."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.errors: list[HoldkitError] = []
        self.refused = 0


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=5.0, show_default=True)
@click.option("--threads", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--pool", help="a pool that is there; else one is made, and swept away afterwards")
@whole
def bench(place: str | None, url: str | None, in_json: bool, seconds: float, threads: int, pool: str | None) -> int:
    """Hold and release (each durable) as fast as N threads can; pairs per second, and how long one takes.

    \b
    Example:
      holdkit bench sqlite:///holds.db --threads 32 --seconds 10
    """
    with kernel(chosen(url, place)) as hk:
        name = pool or f"bench:{uuid4().hex[:12]}"
        leg = Leg(name, 1, create_with_total=AMPLE if pool is None else None)
        try:
            found, took = measure(hk, leg, threads, seconds)
        finally:
            hk.sweep()  # a pool that came on demand and is empty goes
    document = told(found, took, hk, name, threads)
    Output(in_json).say(
        document,
        f"{document.pairs} pairs of hold and release in {took:.1f} s with {threads} threads: {document.per_second:.0f}/s",
        f"one takes {document.p50_ms:.2f} ms (half of them), {document.p99_ms:.2f} ms (99 in 100)",
        f"largest group commit: {document.largest_batch}",
        *([f"{document.refused} were refused for lack of room"] if document.refused else []),
    )
    return FINE


def measure(hk: Kernel, leg: Leg, threads: int, seconds: float) -> tuple[Timings, float]:
    """Let them run for so long; the first error ends it."""
    stop, found = threading.Event(), [Timings() for _ in range(threads)]
    crew = [threading.Thread(target=_work, args=(hk, leg, stop, own)) for own in found]
    began = time.monotonic()
    with bar("measuring") as progress:
        for worker in crew:
            worker.start()
        try:
            while (passed := time.monotonic() - began) < seconds and not stop.is_set():
                progress(int(passed * 1000), int(seconds * 1000))
                stop.wait(min(0.1, seconds - passed))
        finally:
            stop.set()
            for worker in crew:
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


def told(found: Timings, took: float, hk: Kernel, pool: str, threads: int) -> BenchDocument:
    """The figures."""
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
        largest_batch=hk.stats.largest,
    )
