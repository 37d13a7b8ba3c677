"""What a call costs above the engine, in CPU time: ``python -m bench.call_path [--against REV] [--engines]``.

The calls go to an engine that answers every command at once with the same outcome, so that all that is left is the way from the
verb to the batch and back. Then its steps, each alone. `--against` runs another revision beside this one, alternating; `--engines`
adds whole calls on the memory engine and on SQLite. CPU time of the process, not time by the clock: other programs disturb it less.

The part that measures runs in a process of its own, with the code of the revision that it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from statistics import median
from time import process_time
from timeit import repeat
from typing import Any, TypeAlias

from holdkit import AsyncKernel, Kernel
from holdkit.core.commands import AnyCommand, Group, PlaceHold
from holdkit.core.model import SECOND, HeldLeg, Leg, State, StoredHold
from holdkit.core.outcomes import Done, Outcome, Position, Receipt
from holdkit.core.validation import check
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, Capabilities
from holdkit.faces.opening import connect, connect_async
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._sync.executor import Executor
from holdkit.kernel.batches import QueuedCall
from holdkit.kernel.fair_queue import FairQueue

POOL, TTL = "pool", "10m"
SLOT = 1_700_000_000 * SECOND
GRANTED = Done(
    SLOT,
    StoredHold(
        tenant="", id="0" * 32, owner_hash="0" * 32, legs=(HeldLeg(POOL, 1, 1, 1),), state=State.HELD, held_at=SLOT,
        deadline=SLOT + 600 * SECOND, fence=1,
    ),
)  # fmt: skip
WRITTEN = Position(0, 1)


class AnsweringEngine(MemoryEngine):
    """Answers every command with the same hold."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002 - the port's
        """Decide nothing."""
        outcomes: list[list[Outcome]] = [[GRANTED] * len(group.commands) for group in groups]
        return Applied(outcomes, 0, True, positions=[[WRITTEN] * len(answers) for answers in outcomes])


class LoopEngine(AnsweringEngine):
    """The same on the event loop, as PostgreSQL's engine does it."""

    @property
    def capabilities(self) -> Capabilities:
        """Batches need no thread."""
        return Capabilities(async_apply=self)

    async def apply_async(
        self,
        groups: Sequence[Group],
        sent: Callable[[], None] | None,
        *,
        until: float = inf,  # noqa: ARG002 - the port's
    ) -> Applied:
        """One turn of the loop is the server's."""
        if sent is not None:
            sent()
        await asyncio.sleep(0)
        return self.apply(groups)


async def tasks(verb: Callable[[int], Coroutine[Any, Any, object]], callers: int, calls: int) -> float:
    """Microseconds of CPU time per call, with so many tasks that call one after the other."""

    async def caller(first: int) -> None:
        for number in range(first, calls, callers):
            await verb(number)

    gc.collect()
    began = process_time()
    await asyncio.gather(*[caller(number) for number in range(callers)])
    return (process_time() - began) / calls * 1e6


async def by_tasks(kernel: AsyncKernel, callers: int, what: str, calls: int) -> float:
    """The same for one verb."""
    hold = await kernel.hold(POOL, 1, ttl=TTL)
    verbs: dict[str, Callable[[int], Coroutine[Any, Any, object]]] = {
        "hold": lambda _: kernel.hold(POOL, 1, ttl=TTL),
        "hold, op": lambda number: kernel.hold(POOL, 1, ttl=TTL, op=f"{number}"),
        "confirm": lambda _: kernel.confirm(hold),
    }
    try:
        await tasks(verbs[what], callers, 10 * callers)
        return await tasks(verbs[what], callers, calls)
    finally:
        await kernel.close()


async def above(engine: type[AnsweringEngine], callers: int, what: str, calls: int) -> float:
    """Above the engine."""
    return await by_tasks(AsyncKernel(AsyncExecutor(engine())), callers, what, calls)


async def whole(url: str, callers: int, what: str, calls: int) -> float:
    """With an engine."""
    kernel = await connect_async(url)
    await kernel.create_pool(POOL, total=10**9)
    return await by_tasks(kernel, callers, what, calls)


def lone(kernel: Kernel, what: str, calls: int) -> float:
    """One thread that calls."""
    commands = [PlaceHold(legs=(Leg(POOL, 1),), ttl=TTL) for _ in range(1_000)]
    verb: Callable[[], object] = lambda: kernel.hold(POOL, 1, ttl=TTL)  # noqa: E731 - beside its alternative
    each = 1
    if what == "apply 1,000":
        verb, each, calls = (lambda: kernel.apply(commands)), 1_000, max(calls, 1_000)
    for _ in range(min(10, 2_000 // each)):
        verb()
    gc.collect()
    began = process_time()
    for _ in range(calls // each):
        verb()
    spent = process_time() - began
    kernel.close()
    return spent / (calls // each * each) * 1e6


async def asyncio_alone(callers: int, calls: int) -> float:
    """What asyncio itself takes for tasks that wait for futures, which one callback per turn settles."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[None]] = []

    def settle() -> None:
        settled, waiting[:] = waiting[:], []
        for future in settled:
            future.set_result(None)

    async def verb(_: int) -> None:
        future = loop.create_future()
        if not waiting:
            loop.call_soon(settle)
        waiting.append(future)
        await future

    return await tasks(verb, callers, calls)


Steps: TypeAlias = dict[str, tuple[Callable[[], object], int]]
"""By name: what runs, and how many calls one run serves."""


async def steps(calls: int) -> dict[str, float]:
    """The steps of a hold, each alone: the shortest of many short runs."""
    engine, commands = AnsweringEngine(), deque[AnyCommand](maxlen=1)
    kernel = AsyncKernel(executor := AsyncExecutor(engine))
    group_commit, mint, limits = executor.group_commit, executor.mint, executor.limits

    async def answering(command: AnyCommand, _tx: object = None) -> Receipt:
        commands.append(command)
        return receipt

    def verb(**call: Any) -> AnyCommand:
        with suppress(StopIteration):  # it waits for nothing, and ends at once
            kernel.hold(POOL, 1, ttl=TTL, **call).send(None)
        return commands[0]

    receipt = Receipt(SLOT, GRANTED.hold)
    executor.execute = answering  # type: ignore[method-assign, assignment]
    command, under_op = verb(), verb(op="12345")
    group = Group((mint.prepare(command),), checked=0)
    batch = [QueuedCall(group, True, 1.0) for _ in range(100)]
    applied = engine.apply([group] * len(batch))

    def queue() -> None:
        bounded, taken = FairQueue(1_000), list[Any]()
        for call in batch:
            bounded.add(call)
        bounded.take(taken)

    def settle() -> None:
        for call in batch:
            call.sent = False
        group_commit._runner.begin(batch)
        group_commit._runner.accept(batch, applied, inf)

    each: Steps = {
        "verb, to the command and from the receipt": (verb, 1),
        "check": (lambda: check(command, limits, faces=None), 1),
        "mint": (lambda: mint.prepare(command), 1),
        "mint, op": (lambda: mint.prepare(under_op), 1),
        "may this task call": (group_commit.check, 1),
        "deadline of the call": (group_commit.deadline, 1),
        "queued call": (lambda: QueuedCall(group, True, 1.0), 1),
        "queue and take": (queue, len(batch)),
        "send and settle": (settle, len(batch)),
    }
    found = shortest(each, calls)
    await kernel.close()
    return found


def shortest(each: Steps, calls: int) -> dict[str, float]:
    """Microseconds of each step per call."""
    found: dict[str, float] = {}
    for name, (step, many) in each.items():
        number = max(1, 1_000 // many)
        runs = repeat(step, number=number, repeat=max(1, calls // 50))
        found[f"step: {name}"] = min(runs) / (number * many) * 1e6
    return found


def measured(engines: bool, calls: int, place: str) -> dict[str, float]:
    """Every row, once."""
    rows: dict[str, float] = {}
    for callers in (32, 256):
        rows[f"asyncio alone, {callers} tasks"] = asyncio.run(asyncio_alone(callers, calls))
        for what in ("hold", "hold, op", "confirm"):
            rows[f"above: {what}, {callers} tasks"] = asyncio.run(above(AnsweringEngine, callers, what, calls))
        rows[f"above: hold, {callers} tasks, on the loop"] = asyncio.run(above(LoopEngine, callers, "hold", calls))
    for what in ("hold", "apply 1,000"):
        rows[f"above: {what}, one thread"] = lone(Kernel(Executor(AnsweringEngine())), what, calls)
    rows |= asyncio.run(steps(calls))
    for name in ("memory", "sqlite") if engines else ():
        urls = iter([f"sqlite:///{place}/{number}.db" if name == "sqlite" else "memory://" for number in range(4)])
        for callers in (32, 256):
            rows[f"{name}: hold, {callers} tasks"] = asyncio.run(whole(next(urls), callers, "hold", calls))
        for what in ("hold", "apply 1,000"):
            kernel = connect(next(urls))
            kernel.create_pool(POOL, total=10**9)
            rows[f"{name}: {what}, one thread"] = lone(kernel, what, calls)
    return rows


def alternate(against: list[str], rounds: int, options: list[str]) -> None:
    """Run the rounds and print medians, and of each other revision the median of the ratios."""
    from .revision import THIS, extract  # here, because it needs packages that the part that measures does not

    with tempfile.TemporaryDirectory() as directory:
        revisions = [*(extract(name, Path(directory) / str(number)) for number, name in enumerate(against)), THIS]
        found: dict[str, list[dict[str, float]]] = {revision.name: [] for revision in revisions}
        for turn in range(rounds):
            for revision in revisions if turn % 2 == 0 else reversed(revisions):
                with tempfile.TemporaryDirectory() as place:
                    command = [revision.python, "-m", "bench.call_path", "--measure", place, *options]
                    done = subprocess.run(
                        command, env=revision.env(), cwd=revision.root, check=True, stdout=subprocess.PIPE
                    )
                found[revision.name].append(json.loads(done.stdout))
    print(
        f"{'µs of CPU per call':45}"
        + "".join(f"{name[:13]:>15}" for name in found)
        + "".join(" " * 3 + "ratio" for _ in against)
    )
    for row in found[THIS.name][0]:
        each = [median([run[row] for run in runs]) for runs in found.values()]
        ratios = [
            median([now[row] / before[row] for now, before in zip(found[THIS.name], found[name], strict=True)])
            for name in against
        ]
        print(f"{row:45}" + "".join(f"{one:15.2f}" for one in each) + "".join(f"{one:8.2f}" for one in ratios))


def main() -> None:
    """Measure in this process, or alternate between processes."""
    parser = argparse.ArgumentParser(prog="python -m bench.call_path", description=__doc__)
    parser.add_argument(
        "--against", metavar="REV", action="append", default=[], help="another revision, beside this one"
    )
    parser.add_argument("--engines", action="store_true", help="whole calls on memory and SQLite too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=8_000, help="of each row")
    parser.add_argument("--measure", metavar="DIRECTORY", help="measure once, in this process, and print JSON")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.engines, options.calls, options.measure)))
        return
    alternate(options.against, options.rounds, ["--calls", str(options.calls), *["--engines"] * options.engines])


if __name__ == "__main__":
    main()
