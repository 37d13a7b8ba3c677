"""Blocked calls on a simulated disk: callers come, are cancelled, release, and die with their machine; the line goes on.

The calls are the kernel's own, on an event loop; the clock, the disk and the dice are the simulation's. When which task runs is the
loop's business, so a seed repeats the steps of a life, and not every one of their interleavings.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from holdkit import AsyncKernel, Hold, HoldkitError
from holdkit.core.model import State
from holdkit.engines.log.engine import LogEngine
from holdkit.kernel._async import blocking, line_watch
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.testing import FakeClock
from holdkit.testing.sim.disk import SimDisk

SLOTS, STEPS, LIVES = 1, 24, 2


class Life:
    """One kernel, from opening its disk to a power cut."""

    def __init__(self, disk: SimDisk, clock: FakeClock, dice: Random, reached: Counter[str]) -> None:
        engine = LogEngine(disk, clock=clock, randomness=dice.randbytes, segment_bytes=1 << 14)
        self.hk = AsyncKernel(AsyncExecutor(engine, dice.randbytes))
        self.clock, self.dice, self.reached = clock, dice, reached
        self.callers: list[asyncio.Task[Hold]] = []
        self.served: list[Hold] = []

    async def call(self) -> Hold:
        hold = await self.hk.hold("gpu", 1, ttl=60, wait="1h")
        self.served.append(hold)
        return hold

    async def step(self) -> None:
        """What one of the people in this life does."""
        match self.dice.choice(("call", "call", "release", "release", "cancel", "pass")):
            case "call":
                self.callers.append(asyncio.create_task(self.call()))
            case "cancel" if self.callers:
                caller = self.callers.pop(self.dice.randrange(len(self.callers)))
                self.reached["cancelled in line"] += caller.cancel()
                await asyncio.wait([caller])
            case "release" if self.served:
                hold = self.served.pop(self.dice.randrange(len(self.served)))
                try:
                    await self.hk.release(hold)
                    self.reached["released"] += 1
                except HoldkitError:
                    self.reached["expired before"] += 1
            case "pass":
                self.clock.advance(self.dice.randrange(1, 25))
        if self.dice.random() < 0.8:
            await self.settle()

    async def settle(self) -> None:
        """Wait, a moment at most, until whoever is not served stands in line."""
        for _ in range(20):
            unserved = sum(not caller.done() for caller in self.callers)
            if (await self.hk.pool("gpu")).waiting == unserved:
                return
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        for caller in self.callers:
            caller.cancel()
        await asyncio.gather(*self.callers, return_exceptions=True)
        await self.hk.aclose()


async def play(seed: int) -> Counter[str]:
    dice, clock, disk = Random(seed), FakeClock(10**15), SimDisk()
    reached: Counter[str] = Counter()
    for number in range(LIVES):
        life = Life(disk, clock, dice, reached)
        if number == 0:
            await life.hk.create_pool("gpu", SLOTS)
        for _ in range(STEPS):
            await life.step()
        left = await life.hk.pool("gpu")
        reached["left in line"] += left.waiting
        after = deepcopy(disk)  # what is there when the power goes; what this life does from now on is lost
        after.crash(dice)
        await life.end()
        disk = after
    life = Life(disk, clock, dice, reached)
    last = asyncio.create_task(life.call())
    for _ in range(5_000):
        if last.done():
            break
        clock.advance(0.2)  # the dead lose their offers after 10 seconds, their units after 60, their places after 60
        await asyncio.sleep(0.001)
    hold = await last
    assert hold.state is State.HELD, "whoever comes last is served, behind the dead"
    reached["offered"] = await check(life.hk)
    await life.end()
    return reached


async def check(hk: Any) -> int:
    """Nothing is lost, and nobody was overtaken; returns how many offers there were."""
    assert (await hk.verify()).ok
    story = [entry async for entry in hk.follow(wait=False)]
    joined = [entry.subject for entry in story if entry.action == "hold.waiting"]
    offered = [joined.index(entry.subject) for entry in story if entry.action == "hold.offered"]
    assert offered == sorted(offered), "in the order of the line"
    assert len(offered) == len({*offered}), "each once"
    return len(offered)


def test_the_line_survives_cancelled_callers_and_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_watch, "LOOK", 0.005)
    monkeypatch.setattr(blocking, "RENEWAL", 0.05)  # the clock of a life runs faster than the kernel's
    reached: Counter[str] = Counter()
    for seed in range(4):
        try:
            reached += asyncio.run(play(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    for what in ("released", "offered", "left in line", "cancelled in line"):
        assert reached[what] > 3, reached
