"""The sale: the demo's script, chapter by chapter. Narrates what one sees, checks it, and ends with a summary."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from holdkit import AsyncKernel, State, connect_async

from .buyers import Crowd
from .company import Company
from .tally import Killed, Race, Summary, Tally

SHOW = "show:tonight"
LAST = "seat:last"


class Plan(Struct, frozen=True):
    """How big and how long."""

    seconds: float = 14.0
    """Of the sale itself; what comes before and after takes about half as long again."""
    seats: int = 1_200
    processes: int = 3
    """Beside this one."""
    buyers: int = 80
    """At the same time, in each process."""
    rivals: int = 40
    """For the last seat, in each process."""
    seed: int = 1

    @property
    def ttl(self) -> float:
        """How long a seat is held for a buyer."""
        return max(0.5, self.seconds / 4)


class Audience(Protocol):
    """Whoever watches: a live screen, or lines of text."""

    def say(self, text: str) -> None: ...
    def show(self, tally: Tally, calls_per_second: float) -> None: ...


class Sale:
    """One run of the demo, on a kernel that is open."""

    def __init__(self, plan: Plan, hk: AsyncKernel, url: str, audience: Audience) -> None:
        self.plan, self.hk, self.url, self.say = plan, hk, url, audience.say
        self.audience = audience
        self.tally = Tally(SHOW, plan.seats)
        self.crowd = Crowd(hk, "p0", plan.seed)
        self.companies: list[Company] = []
        self.doomed: Company | None = None
        self.killed, self.race = Killed(), Race()
        self.rushed = (0, 1.0)
        self.place: str | None = None
        self.remarked: set[str] = set()

    async def perform(self) -> Summary:
        """All chapters, in order."""
        self.following = asyncio.create_task(self.follow())
        watching = [self.following, asyncio.create_task(self.draw())]
        try:
            await self.open_doors()
            await self.rush()
            await self.honour_late_money()
            await self.retry()
            await self.race_for_the_last()
            return await self.close_the_books()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await self.send_home()

    # Chapters

    async def open_doors(self) -> None:
        """One pool, one file, several processes."""
        plan = self.plan
        await self.hk.create_pool(SHOW, plan.seats)
        names = [f"p{number}" for number in range(1, plan.processes + 1)]
        for name in names:
            self.companies.append(await Company.start(self.url, name, plan.seed, self.tally))
        self.doomed = await Company.start(self.url, "doomed", plan.seed, self.tally)
        await asyncio.gather(*(company.answer() for company in [*self.companies, self.doomed]))
        self.say(
            f"Doors open: {plan.seats} seats, one SQLite file, {plan.processes + 1} processes, "
            f"{(plan.processes + 1) * plan.buyers} buyers at once. A seat is held for {plan.ttl:.1f} s."
        )

    async def rush(self) -> None:
        """Everybody buys, cancels, forgets, retries, pays late; meanwhile one process is killed."""
        plan = self.plan
        order = {"pool": SHOW, "buyers": plan.buyers, "seconds": plan.seconds, "ttl": plan.ttl}
        taken = await self.grab_some()
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.kill_one(taken))
            own = group.create_task(self.crowd.sell(SHOW, plan.buyers, plan.seconds, plan.ttl))
            others = [group.create_task(company.ask(do="sell", **order)) for company in self.companies]
        self.tally.add(self.crowd.news())
        self.rushed = (self.tally.counts["calls"], time.monotonic() - started)
        own.result()
        self.tally.keep(self.crowd.receipts)
        self.tally.problems += self.crowd.broken
        for answer in (task.result() for task in others):
            self.tally.keep(answer["receipts"])
            self.tally.problems += answer["broken"]
        self.say(
            f"The rush is over: {sum(self.tally.receipts.values())} seats sold, {self.tally.actions['hold.expired']} holds "
            "expired. No sweeper ran: deadlines need none."
        )

    async def grab_some(self) -> dict[str, Any]:
        """Before the rush, while there are enough: a process takes seats that it will not live to pay."""
        plan, doomed = self.plan, self.doomed
        assert doomed is not None
        holds, seats = 20, max(1, plan.seats // 200)
        self.killed = Killed(holds=holds, units=holds * seats)
        taken: dict[str, Any] = await doomed.ask(do="grab", pool=SHOW, holds=holds, seats=seats, ttl=plan.seconds / 2)
        return taken

    async def kill_one(self, taken: dict[str, Any]) -> None:
        """SIGKILL a process that holds seats: its deadlines bring them back."""
        plan, doomed, holds = self.plan, self.doomed, self.killed.holds
        assert doomed is not None
        await asyncio.sleep(plan.seconds / 8)
        await doomed.kill()
        self.say(
            f"A fifth process held {self.killed.units} seats and was just killed (SIGKILL). Nothing released them: "
            "they stay held until their deadline, and no longer."
        )
        await asyncio.sleep(max(0, taken["deadline"] - self.hk.executor.now()) / 1e6 + 0.05)
        ended = [await self.hk.get(hold) for hold in taken["holds"]]
        self.killed.came_back = sum(hold.state is State.EXPIRED for hold in ended)
        if self.killed.came_back == holds:
            self.say(
                f"The deadline of the killed process has come: its {self.killed.units} seats came back by themselves."
            )
        else:
            self.tally.problem(f"only {self.killed.came_back} of {holds} holds of the killed process came back")

    async def honour_late_money(self) -> None:
        """The same late payment twice: once there is room, once there is not."""
        await self.pause()
        ttl = max(0.3, self.plan.seconds / 40)
        boxes = ("box:left", "box:right")
        for box in boxes:
            await self.hk.create_pool(box, 1)
        ann = await self.hk.hold(boxes[0], 1, ttl=ttl, actor="user:ann")
        bob = await self.hk.hold(boxes[1], 1, ttl=ttl, actor="user:bob")
        await asyncio.sleep(ttl * 1.1)
        if await self.crowd.pay_late(boxes[0], ann, 1, op="ann/late"):
            self.say(
                "Ann pays late: confirm answers hold_expired. Her box is free still, so consume sells it to her anew."
            )
        else:
            self.tally.problem("Ann's late payment was refused although her box was free")
        await self.pause()
        await self.hk.hold(boxes[1], 1, ttl="1m", actor="user:eve")
        if await self.crowd.pay_late(boxes[1], bob, 1, op="bob/late"):
            self.tally.problem("Bob's late payment took the box away from Eve")
        else:
            self.say("Bob pays late too, but Eve has his box by now: insufficient_capacity. His money goes back.")

    async def retry(self) -> None:
        """Twenty answers get lost, twenty clients ask again: nothing happens twice."""
        await self.pause()
        await self.hk.create_pool("coat-check", 100)
        replayed = 0
        for number in range(20):
            first = await self.hk.hold("coat-check", 1, ttl="1m", op=f"coat/{number}")
            again = await self.hk.hold("coat-check", 1, ttl="1m", op=f"coat/{number}")
            replayed += again.replayed and again.id == first.id and again.owner == first.owner
        held = (await self.hk.pool("coat-check")).held
        self.tally.count("replayed", replayed)
        if (replayed, held) != (20, 20):
            self.tally.problem(f"20 retried operations were replayed {replayed} times and hold {held} hooks")
        self.say(f"20 calls are sent twice with the same operation id: {replayed} replayed, {held} coats held, not 40.")

    async def race_for_the_last(self) -> None:
        """Every process, every task, one seat."""
        await self.pause()
        plan = self.plan
        await self.hk.create_pool(LAST, 1)
        rivals = [company.ask(do="race", pool=LAST, rivals=plan.rivals) for company in self.companies]
        own, *others = await asyncio.gather(self.crowd.race(LAST, plan.rivals), *rivals)
        self.race = Race(rivals=plan.rivals * (plan.processes + 1), winners=own + sum(a["winners"] for a in others))
        if self.race.winners != 1:
            self.tally.problem(f"the last seat was sold {self.race.winners} times")
        self.say(
            f"{self.race.rivals} rivals in {plan.processes + 1} processes want one last seat: {self.race.winners} gets it."
        )

    async def close_the_books(self) -> Summary:
        """Sweep, compare what buyers were told with what is stored, and fold the whole journal."""
        await self.pause()
        while (await self.hk.sweep()).more:
            pass
        pool = await self.hk.pool(SHOW)
        report = await self.hk.verify()
        self.following.cancel()
        await asyncio.gather(self.following, return_exceptions=True)
        await self.follow(wait=False)
        tally, sold = self.tally, sum(self.tally.receipts.values())
        tally.add(self.crowd.news())
        if pool.consumed > pool.total:
            tally.problem(f"oversold: {pool.consumed} of {pool.total}")
        if pool.consumed != sold:
            tally.problem(f"{pool.consumed} seats are consumed, but the buyers' receipts add up to {sold}")
        if pool.held or tally.held:
            tally.problem(f"{pool.held} seats are held by nobody")
        tally.problems += [f"verify: {difference}" for difference in report.differences]
        verdict = "clean" if report.ok else f"{len(report.differences)} differences"
        self.say(f"verify folds {sum(tally.actions.values())} journal entries and compares every row: {verdict}.")
        self.audience.show(tally, 0)
        return self.summary(pool.consumed, len(report.differences))

    def summary(self, sold: int, differences: int) -> Summary:
        """The figures of the whole run."""
        summary = self.tally.summary()
        summary.sold, summary.differences = sold, differences
        summary.killed, summary.race = self.killed, self.race
        summary.processes = self.plan.processes + 1
        summary.buyers = summary.processes * self.plan.buyers
        summary.calls, summary.seconds = self.rushed[0], round(self.rushed[1], 1)
        summary.calls_per_second = round(self.rushed[0] / self.rushed[1], 1)
        summary.problems = self.tally.problems
        summary.ok = not summary.problems
        return summary

    # Beside the script

    async def follow(self, *, wait: bool = True) -> None:
        """See every entry of every process, in commit order, from where we were."""
        async for entry in self.hk.follow(after=self.place, wait=wait, poll=0.1):
            self.tally.see(entry)
            self.place = entry.cursor

    async def draw(self) -> None:
        """Show the counters a few times a second."""
        seen, since = 0, time.monotonic()
        while True:
            await asyncio.sleep(0.12)
            self.tally.add(self.crowd.news())
            calls, now = self.tally.counts["calls"], time.monotonic()
            rate = (calls - seen) / (now - since)
            if now - since >= 1:
                seen, since = calls, now
            self.remark()
            self.audience.show(self.tally, rate)

    def remark(self) -> None:
        """Say what is worth a look, when it happens for the first time."""
        tally = self.tally
        if tally.actions["hold.expired"] and "expired" not in self.remarked:
            self.remarked.add("expired")
            self.say("The first who walked away have reached their deadline: others have their seats already.")
        if tally.free <= 0 and "full" not in self.remarked:
            self.remarked.add("full")
            self.say("Every seat is sold or held. Who comes now is refused, and tries again for what others give up.")
        if tally.sold * 10 >= tally.seats * 9 and "nearly" not in self.remarked:
            self.remarked.add("nearly")
            self.say("Nine of ten seats are sold: hundreds fight over the rest.")

    async def pause(self) -> None:
        """Time to read."""
        await asyncio.sleep(min(1.5, self.plan.seconds / 12))

    async def send_home(self) -> None:
        """No process outlives the demo."""
        companies = [*self.companies, *([self.doomed] if self.doomed else [])]
        await asyncio.gather(*(company.dismiss() for company in companies), return_exceptions=True)


async def stage(plan: Plan, audience: Audience) -> Summary:
    """Run the demo in a directory of its own, and leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="holdkit-demo-") as folder:
        url = f"sqlite:///{quote(str(Path(folder) / 'sale.db'))}"
        async with await connect_async(url) as hk, asyncio.timeout(60 + 3 * plan.seconds):
            return await Sale(plan, hk, url, audience).perform()
