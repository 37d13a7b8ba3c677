"""The sale: the steps of the demo. Each explains what happens and checks it; the last one returns a summary."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from holdkit import AsyncKernel, State, connect_async

from .buyers import BuyerProcess, Buyers
from .statistics import Killed, Race, Statistics, Summary

SHOW = "show:tonight"
LAST = "seat:last"


class Plan(Struct, frozen=True):
    """The size and length of the demo."""

    seconds: float = 14.0
    """The length of the sale itself; the steps before and after take about half as long again."""
    seats: int = 1_200
    processes: int = 3
    """In addition to this one."""
    buyers: int = 80
    """Concurrent buyers in each process."""
    rivals: int = 40
    """Buyers who want the last seat, in each process."""
    seed: int = 1

    @property
    def ttl(self) -> float:
        """Return for how many seconds a seat is held."""
        return max(0.5, self.seconds / 4)


class View(Protocol):
    """Where the demo is shown: `Live` or `Plain`."""

    def say(self, text: str) -> None: ...
    def show(self, statistics: Statistics, calls_per_second: float) -> None: ...


class Sale:
    """One run of the demo, on an open kernel."""

    def __init__(self, plan: Plan, hk: AsyncKernel, url: str, view: View) -> None:
        self.plan, self.hk, self.url, self.say = plan, hk, url, view.say
        self.view = view
        self.statistics = Statistics(SHOW, plan.seats)
        self.buyers = Buyers(hk, "p0", plan.seed)
        self.processes: list[BuyerProcess] = []
        self.doomed: BuyerProcess | None = None
        self.killed, self.race_result = Killed(), Race()
        self.rush_result = (0, 1.0)
        self.cursor: str | None = None
        self.explained: set[str] = set()

    async def run(self) -> Summary:
        """Run all steps in order."""
        self.following = asyncio.create_task(self.follow())
        watching = [self.following, asyncio.create_task(self.draw())]
        try:
            await self.start_processes()
            await self.rush()
            await self.pay_late()
            await self.retry()
            await self.race()
            return await self.check_result()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await self.stop_processes()

    # The steps

    async def start_processes(self) -> None:
        """Create the pool and start the processes."""
        plan = self.plan
        await self.hk.create_pool(SHOW, plan.seats)
        names = [f"p{number}" for number in range(1, plan.processes + 1)]
        for name in names:
            self.processes.append(await BuyerProcess.start(self.url, name, plan.seed, self.statistics))
        self.doomed = await BuyerProcess.start(self.url, "doomed", plan.seed, self.statistics)
        await asyncio.gather(*(process.answer() for process in [*self.processes, self.doomed]))
        self.say(
            f"Doors open: {plan.seats} seats, one SQLite file, {plan.processes + 1} processes, "
            f"{(plan.processes + 1) * plan.buyers} buyers at once. A seat is held for {plan.ttl:.1f} s."
        )

    async def rush(self) -> None:
        """Run the sale: buyers pay, cancel, abandon, retry and pay late; meanwhile one process is killed."""
        plan = self.plan
        order = {"pool": SHOW, "buyers": plan.buyers, "seconds": plan.seconds, "ttl": plan.ttl}
        taken = await self.grab_some()
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.kill_one(taken))
            own = group.create_task(self.buyers.sell(SHOW, plan.buyers, plan.seconds, plan.ttl))
            others = [group.create_task(process.call(do="sell", **order)) for process in self.processes]
        self.statistics.add(self.buyers.take_counts())
        self.rush_result = (self.statistics.counts["calls"], time.monotonic() - started)
        own.result()
        self.statistics.add_receipts(self.buyers.receipts)
        self.statistics.problems += self.buyers.broken
        for answer in (task.result() for task in others):
            self.statistics.add_receipts(answer["receipts"])
            self.statistics.problems += answer["broken"]
        self.say(
            f"The sale is over: {sum(self.statistics.receipts.values())} seats sold, {self.statistics.actions['hold.expired']} holds "
            "expired. No sweeper was running: deadlines do not need one."
        )

    async def grab_some(self) -> dict[str, Any]:
        """Let one process take seats, before the sale, that it will not be able to pay for."""
        plan, doomed = self.plan, self.doomed
        assert doomed is not None
        holds, seats = 20, max(1, plan.seats // 200)
        self.killed = Killed(holds=holds, units=holds * seats)
        taken: dict[str, Any] = await doomed.call(do="grab", pool=SHOW, holds=holds, seats=seats, ttl=plan.seconds / 2)
        return taken

    async def kill_one(self, taken: dict[str, Any]) -> None:
        """Kill a process that holds seats: they are available again after their deadline."""
        plan, doomed, holds = self.plan, self.doomed, self.killed.holds
        assert doomed is not None
        await asyncio.sleep(plan.seconds / 8)
        await doomed.kill()
        self.say(
            f"A fifth process held {self.killed.units} seats and was just killed (SIGKILL). Nothing released them: "
            "they stay held until their deadline."
        )
        await asyncio.sleep(max(0, taken["deadline"] - self.hk._executor.now()) / 1e6 + 0.05)
        ended = [await self.hk.get(hold) for hold in taken["holds"]]
        self.killed.came_back = sum(hold.state is State.EXPIRED for hold in ended)
        if self.killed.came_back == holds:
            self.say(
                f"The deadline of the killed process has passed: its {self.killed.units} seats are available again."
            )
        else:
            self.statistics.problem(f"only {self.killed.came_back} of {holds} holds of the killed process expired")

    async def pay_late(self) -> None:
        """Make two late payments: once the seat is still available, once it is not."""
        await self.pause()
        ttl = max(0.3, self.plan.seconds / 40)
        boxes = ("box:left", "box:right")
        for box in boxes:
            await self.hk.create_pool(box, 1)
        ann = await self.hk.hold(boxes[0], 1, ttl=ttl, actor="user:ann")
        bob = await self.hk.hold(boxes[1], 1, ttl=ttl, actor="user:bob")
        await asyncio.sleep(ttl * 1.1)
        if await self.buyers.pay_late(boxes[0], ann, 1, op="ann/late"):
            self.say(
                "Ann pays late: confirm answers hold_expired. Her box is still free, so consume sells it to her again."
            )
        else:
            self.statistics.problem("Ann's late payment was refused although her box was free")
        await self.pause()
        await self.hk.hold(boxes[1], 1, ttl="1m", actor="user:eve")
        if await self.buyers.pay_late(boxes[1], bob, 1, op="bob/late"):
            self.statistics.problem("Bob's late payment took the box away from Eve")
        else:
            self.say("Bob pays late too, but Eve has his box now: insufficient_capacity. Bob gets a refund.")

    async def retry(self) -> None:
        """Send twenty operations twice: each is applied once."""
        await self.pause()
        await self.hk.create_pool("coat-check", 100)
        replayed = 0
        for number in range(20):
            first = await self.hk.hold("coat-check", 1, ttl="1m", op=f"coat/{number}")
            again = await self.hk.hold("coat-check", 1, ttl="1m", op=f"coat/{number}")
            replayed += again.replayed and again.id == first.id and again.token == first.token
        held = (await self.hk.pool("coat-check")).held
        self.statistics.count("replayed", replayed)
        if (replayed, held) != (20, 20):
            self.statistics.problem(f"20 retried operations were replayed {replayed} times and hold {held} units")
        self.say(f"20 calls are sent twice with the same operation id: {replayed} replayed, {held} coats held, not 40.")

    async def race(self) -> None:
        """Let all processes compete for one last seat."""
        await self.pause()
        plan = self.plan
        await self.hk.create_pool(LAST, 1)
        rivals = [process.call(do="race", pool=LAST, rivals=plan.rivals) for process in self.processes]
        own, *others = await asyncio.gather(self.buyers.race(LAST, plan.rivals), *rivals)
        self.race_result = Race(
            rivals=plan.rivals * (plan.processes + 1), winners=own + sum(a["winners"] for a in others)
        )
        if self.race_result.winners != 1:
            self.statistics.problem(f"the last seat was sold {self.race_result.winners} times")
        self.say(
            f"{self.race_result.rivals} buyers in {plan.processes + 1} processes want the last seat: {self.race_result.winners} gets it."
        )

    async def check_result(self) -> Summary:
        """Sweep, compare the buyers' receipts with the stored data, and verify the whole journal."""
        await self.pause()
        while (await self.hk.sweep()).more:
            pass
        pool = await self.hk.pool(SHOW)
        report = await self.hk.admin.verify()
        self.following.cancel()
        await asyncio.gather(self.following, return_exceptions=True)
        await self.follow(wait=False)
        statistics, sold = self.statistics, sum(self.statistics.receipts.values())
        statistics.add(self.buyers.take_counts())
        if pool.consumed > pool.total:
            statistics.problem(f"oversold: {pool.consumed} of {pool.total}")
        if pool.consumed != sold:
            statistics.problem(f"{pool.consumed} seats are consumed, but the buyers' receipts add up to {sold}")
        if pool.held or statistics.held:
            statistics.problem(f"{pool.held} seats are still held, although no buyer is left")
        statistics.problems += [f"verify: {difference}" for difference in report.differences]
        verdict = "clean" if report.ok else f"{len(report.differences)} differences"
        self.say(
            f"verify replays {sum(statistics.actions.values())} journal entries and compares every row: {verdict}."
        )
        self.view.show(statistics, 0)
        return self.summary(pool.consumed, len(report.differences))

    def summary(self, sold: int, differences: int) -> Summary:
        """Return the figures of the whole run."""
        summary = self.statistics.summary()
        summary.sold, summary.differences = sold, differences
        summary.killed, summary.race = self.killed, self.race_result
        summary.processes = self.plan.processes + 1
        summary.buyers = summary.processes * self.plan.buyers
        summary.calls, summary.seconds = self.rush_result[0], round(self.rush_result[1], 1)
        summary.calls_per_second = round(self.rush_result[0] / self.rush_result[1], 1)
        summary.problems = self.statistics.problems
        summary.ok = not summary.problems
        return summary

    # In the background

    async def follow(self, *, wait: bool = True) -> None:
        """Follow the journal entries of all processes from the last cursor."""
        async for entry in self.hk.journal.follow(after=self.cursor, wait=wait, poll=0.1):
            self.statistics.add_entry(entry)
            self.cursor = entry.cursor

    async def draw(self) -> None:
        """Update the view a few times a second."""
        seen, since = 0, time.monotonic()
        while True:
            await asyncio.sleep(0.12)
            self.statistics.add(self.buyers.take_counts())
            calls, now = self.statistics.counts["calls"], time.monotonic()
            rate = (calls - seen) / (now - since)
            if now - since >= 1:
                seen, since = calls, now
            self.explain()
            self.view.show(self.statistics, rate)

    def explain(self) -> None:
        """Explain what happens when it happens for the first time."""
        statistics = self.statistics
        if statistics.actions["hold.expired"] and "expired" not in self.explained:
            self.explained.add("expired")
            self.say("The first abandoned holds have reached their deadline: other buyers already have their seats.")
        if statistics.free <= 0 and "full" not in self.explained:
            self.explained.add("full")
            self.say("Every seat is sold or held. New buyers are refused, and retry for seats that others give up.")
        if statistics.sold * 10 >= statistics.seats * 9 and "nearly" not in self.explained:
            self.explained.add("nearly")
            self.say("Nine of ten seats are sold: hundreds of buyers compete for the rest.")

    async def pause(self) -> None:
        """Wait, so that the narration can be read."""
        await asyncio.sleep(min(1.5, self.plan.seconds / 12))

    async def stop_processes(self) -> None:
        """Stop all processes."""
        processes = [*self.processes, *([self.doomed] if self.doomed else [])]
        await asyncio.gather(*(process.stop() for process in processes), return_exceptions=True)


async def run_demo(plan: Plan, view: View) -> Summary:
    """Run the demo in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="holdkit-demo-") as folder:
        url = f"sqlite:///{quote(str(Path(folder) / 'sale.db'))}"
        async with await connect_async(url) as hk, asyncio.timeout(60 + 3 * plan.seconds):
            return await Sale(plan, hk, url, view).run()
