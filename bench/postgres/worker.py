"""One process of the bench, with the `holdkit` of one revision: it prepares databases, makes calls, and checks what they left.

It reads requests from its input and answers each on its output: four bytes of length, then msgpack. An answer that is a text is an error.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import msgspec
from msgspec import Struct

import holdkit
from holdkit.kernel.group_commit import Stats

from .callers import Calls, run_arrivals, run_tasks, run_threads
from .scenarios import Interval, Kind, Work, pool_names
from .stores import Ours, Variant, expect_whole, open_tasks, open_threads, prepare


class Prepare(Struct, frozen=True, tag=True):
    """Fill an empty database."""

    variant: Variant
    place: str
    pools: int


class Job(Struct, frozen=True, tag=True):
    """Open a store; the interval follows once all processes are ready."""

    variant: Variant
    place: str
    kind: Kind
    callers: int
    pools: int
    work: Work
    connections: int
    name: str
    rate: float | None = None
    """Arrivals per second; without it each caller makes one call after the other."""


class Check(Struct, frozen=True, tag=True):
    """Compare what is stored with what was granted."""

    variant: Variant
    place: str
    granted: int
    work: Work


Request: TypeAlias = Prepare | Job | Check
Answer: TypeAlias = Calls | str | None

encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(Request)
_interval: Final = msgspec.msgpack.Decoder(Interval)


def send(stream: IO[bytes], message: Any) -> None:
    """One message."""
    body = encode(message)
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """The next message; nothing at the end."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else b""


Wait: TypeAlias = Callable[[], Interval]


def answer_to(request: Request, wait: Wait) -> Calls | None:
    """Do what was asked."""
    if isinstance(request, Prepare):
        prepare(request.variant, request.place, request.pools)
        return None
    if isinstance(request, Check):
        expect_whole(request.variant, request.place, request.granted, request.work)
        return None
    if request.kind == "tasks":
        return asyncio.run(as_tasks(request, wait))
    with closing(open_threads(request.variant, request.place, request.callers, request.connections)) as store:
        pools = pool_names(request.pools)
        calls = run_threads(store, request.callers, pools, wait(), request.name, request.work)
        if isinstance(store, Ours):
            note_batches(calls, store.kernel.admin.stats(), request.work)
        return calls


async def as_tasks(job: Job, wait: Wait) -> Calls:
    """On an event loop."""
    store = await open_tasks(job.variant, job.place, job.callers, job.connections)
    pools = pool_names(job.pools)
    try:
        interval = await asyncio.to_thread(wait)
        if job.rate is not None:
            calls = await run_arrivals(store, job.rate, pools, interval, job.name)
        else:
            calls = await run_tasks(store, job.callers, pools, interval, job.name, job.work)
        if isinstance(store, holdkit.AsyncKernel):
            note_batches(calls, await store.admin.stats(), job.work)
        return calls
    finally:
        await store.close()


def note_batches(calls: Calls, stats: Stats, work: Work) -> Calls:
    """Add what the kernel says about its batches, over the whole run."""
    calls.batch = stats.commands / max(1, stats.batches)
    each = 2 if work == "lifecycle" else 1
    commands = len(calls.done) * each  # the kernel does not count all that waited for a lock
    calls.guarded = min(1.0, stats.guards.passed / max(1, commands))
    return calls


def main(source: str) -> int:
    """Answer requests until the input ends."""
    if not Path(holdkit.__file__).is_relative_to(source):
        print(f"this is holdkit from {holdkit.__file__}, not from {source}", file=sys.stderr)
        return 1
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not end up between two answers

    def wait() -> Interval:
        send(answers, None)
        return _interval.decode(receive(requests))

    while body := receive(requests):
        try:
            answer: Answer = answer_to(_request.decode(body), wait)
        except Exception as error:  # noqa: BLE001 - reported by the process that waits
            answer = f"{type(error).__name__}: {error}"
        send(answers, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
