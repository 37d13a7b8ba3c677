"""The buyers: people who hold seats, then pay, cancel, walk away or pay too late. Also a process of its own.

``python -m holdkit.demo.buyers URL NAME`` reads one JSON order per line from its input and answers with one line each, so
that the sale can direct several processes on one file. It ends when its input ends: no orphan outlives the demo.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdkit import (
    AsyncKernel,
    Hold,
    HoldExpired,
    InsufficientCapacity,
    OutcomeUnknown,
    Overloaded,
    Refused,
    connect_async,
)

T = TypeVar("T")

TEMPERS = {"pays": 50, "walks away": 20, "cancels": 12, "pays late": 18}
LOST_REPLIES = 0.1
"""Share of calls whose reply is "lost", so that the buyer asks again with the same operation id."""
PATIENCE = 6
"""How often a buyer who found nothing tries again."""


class Crowd:
    """Some hundred people in one process, one asyncio task each; whoever is done makes room for the next."""

    def __init__(self, hk: AsyncKernel, name: str, seed: int = 0) -> None:
        self.hk, self.name = hk, name
        self.random = random.Random(f"{name}/{seed}")
        self.counts: Counter[str] = Counter()
        self.receipts: dict[str, int] = {}
        self.broken: list[str] = []
        self._arrived = 0

    async def sell(self, pool: str, buyers: int, seconds: float, ttl: float) -> None:
        """Keep so many buyers busy for so long; those who are inside at the end may finish."""
        until = time.monotonic() + seconds

        async def turnstile() -> None:
            await asyncio.sleep(self.random.uniform(0, ttl / 4))
            while time.monotonic() < until:
                self._arrived += 1
                await self.visit(f"{self.name}-{self._arrived}", pool, ttl, until)

        async with asyncio.TaskGroup() as group:
            for _ in range(buyers):
                group.create_task(turnstile())

    async def visit(self, who: str, pool: str, ttl: float, until: float) -> None:
        """One buyer, from the door to the end of the story."""
        seats = self.random.randint(1, 4)
        for attempt in range(PATIENCE):
            try:
                # A refusal settles an operation id: each new attempt is a new operation.
                hold = await self.place(pool, seats, ttl, who, op=f"{who}/hold/{attempt}")
            except InsufficientCapacity:
                await asyncio.sleep(self.random.uniform(0.1, 0.4) * ttl)
                if time.monotonic() >= until:
                    return
                continue
            await self.decide(who, pool, hold, seats, ttl)
            return

    async def place(self, pool: str, seats: int, ttl: float, who: str, op: str) -> Hold:
        """Hold seats; now and then the reply gets lost and the same operation is sent again."""

        async def call() -> Hold:
            return await self.hk.hold(pool, seats, ttl=ttl, op=op, actor=f"user:{who}")

        hold = await self.ask(call)
        if self.random.random() < LOST_REPLIES:
            again = await self.ask(call)
            self.count("replayed")
            if again.id != hold.id or again.owner != hold.owner or not again.replayed:
                self.broken.append(f"the retry of {op} took other seats than the first time")
        return hold

    async def decide(self, who: str, pool: str, hold: Hold, seats: int, ttl: float) -> None:
        """What this buyer does with the seats."""
        temper = self.random.choices([*TEMPERS], [*TEMPERS.values()])[0]
        if temper == "walks away":
            self.count("walked_away")
            await asyncio.sleep(ttl / 2)
        elif temper == "pays late":
            await asyncio.sleep(ttl * 1.1)
            await self.pay_late(pool, hold, seats, op=f"{who}/late")
        else:
            await asyncio.sleep(self.random.uniform(0.2, 0.8) * ttl)
            try:
                if temper == "pays":
                    await self.pay(hold, seats, op=f"{who}/pay")
                else:
                    await self.ask(lambda: self.hk.release(hold, reason="user_cancelled", op=f"{who}/cancel"))
            except HoldExpired:  # a slow machine made this buyer late: refused, as it must be
                self.count("overtaken")

    async def pay(self, hold: Hold, seats: int, op: str) -> None:
        """The ordinary way: confirm in time."""
        done = await self.ask(lambda: self.hk.confirm(hold, entity=f"order:{op}", op=op))
        self.receipts[done.id] = seats

    async def pay_late(self, pool: str, hold: Hold, seats: int, op: str) -> bool:
        """Money after the deadline: the hold is gone, so ask for the seats anew; without room the money goes back."""
        try:
            await self.ask(lambda: self.hk.confirm(hold, op=op))
        except HoldExpired:
            self.count("late_refused")
        else:
            self.broken.append(f"{op}: a hold was confirmed after its deadline")
        try:
            sold = await self.ask(lambda: self.hk.consume(pool, seats, entity=f"order:{op}", op=f"{op}/again"))
        except InsufficientCapacity:
            self.count("late_refunded")
            return False
        self.count("late_honoured")
        self.receipts[sold.id] = seats
        return True

    async def race(self, pool: str, rivals: int) -> int:
        """Everyone wants the same last unit at once; how many got it."""

        async def rival(number: int) -> int:
            try:
                hold = await self.ask(lambda: self.hk.hold(pool, 1, ttl="1m", op=f"{self.name}/race/{number}"))
                await self.ask(lambda: self.hk.confirm(hold, op=f"{self.name}/race/{number}/pay"))
            except InsufficientCapacity:
                return 0
            return 1

        return sum(await asyncio.gather(*map(rival, range(rivals))))

    async def grab(self, pool: str, holds: int, seats: int, ttl: float) -> dict[str, Any]:
        """Take many seats, and do nothing more: for the process that is going to be killed."""
        taken = [await self.ask(lambda: self.hk.hold(pool, seats, ttl=ttl)) for _ in range(holds)]
        return {"holds": [hold.id for hold in taken], "deadline": max(hold.deadline or 0 for hold in taken)}

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer: turned away or unknown means asking again, with the same operation id."""
        while True:
            try:
                answer = await call()
            except Overloaded as busy:
                self.count("turned_away")
                await asyncio.sleep(busy.retry_after)
            except OutcomeUnknown:
                self.count("unknown")
                await asyncio.sleep(0.1)
            except Refused as refusal:
                self.count("calls")
                self.count(f"refused:{refusal.reason}")
                raise
            else:
                self.count("calls")
                return answer

    def count(self, name: str) -> None:
        """One more."""
        self.counts[name] += 1

    def news(self) -> dict[str, int]:
        """What was counted since the last time."""
        counts, self.counts = dict(self.counts), Counter()
        return counts


async def obey(crowd: Crowd, order: dict[str, Any]) -> dict[str, Any]:
    """One order of the director."""
    match order.pop("do"):
        case "sell":
            await crowd.sell(**order)
            return {"receipts": crowd.receipts, "broken": crowd.broken}
        case "race":
            return {"winners": await crowd.race(**order)}
        case "grab":
            return await crowd.grab(**order)
        case other:
            raise ValueError(other)


async def perform(url: str, name: str, seed: int) -> None:
    """A process full of buyers: an order per line in, an answer per line out, and what is counted in between."""
    async with await connect_async(url) as hk:
        crowd = Crowd(hk, name, seed)
        say({"answer": "ready"})
        while line := await asyncio.to_thread(sys.stdin.readline):
            work = asyncio.create_task(obey(crowd, json.loads(line)))
            while not work.done():
                await asyncio.wait([work], timeout=0.2)
                if news := crowd.news():
                    say({"counts": news})
            say({"answer": work.result()})


def say(line: dict[str, Any]) -> None:
    """One line to the director."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(perform(sys.argv[1], sys.argv[2], int(sys.argv[3])))
