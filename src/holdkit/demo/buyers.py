"""Simulated buyers, who hold seats and then pay, cancel, abandon them or pay too late; and processes that run them.

``python -m holdkit.demo.buyers URL NAME SEED`` reads one JSON command per line from stdin and answers with one line each, so
that the sale can control several processes on one file (`BuyerProcess`). It ends when its input ends, so that none is left
behind.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

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

from .statistics import Statistics

T = TypeVar("T")

BEHAVIOURS = {"pays": 50, "abandons": 20, "cancels": 12, "pays late": 18}
LOST_REPLIES = 0.1
"""The share of calls whose reply is "lost", so that the buyer retries with the same operation id."""
ATTEMPTS = 6
"""How often a buyer tries to get seats."""


class Buyers:
    """The buyers of one process, one asyncio task each; when one is done, the task continues with the next."""

    def __init__(self, hk: AsyncKernel, name: str, seed: int = 0) -> None:
        self.hk, self.name = hk, name
        self.random = random.Random(f"{name}/{seed}")
        self.counts: Counter[str] = Counter()
        self.receipts: dict[str, int] = {}
        self.broken: list[str] = []
        self._started = 0

    async def sell(self, pool: str, buyers: int, seconds: float, ttl: float) -> None:
        """Run `buyers` concurrent buyers for some seconds; those who have started may finish."""
        until = time.monotonic() + seconds

        async def buy_repeatedly() -> None:
            await asyncio.sleep(self.random.uniform(0, ttl / 4))
            while time.monotonic() < until:
                self._started += 1
                await self.visit(f"{self.name}-{self._started}", pool, ttl, until)

        async with asyncio.TaskGroup() as group:
            for _ in range(buyers):
                group.create_task(buy_repeatedly())

    async def visit(self, who: str, pool: str, ttl: float, until: float) -> None:
        """Run one buyer: hold seats, then decide."""
        seats = self.random.randint(1, 4)
        for attempt in range(ATTEMPTS):
            try:
                # A refusal settles an operation id: each new attempt is a new operation.
                hold = await self.hold_seats(pool, seats, ttl, who, op=f"{who}/hold/{attempt}")
            except InsufficientCapacity:
                await asyncio.sleep(self.random.uniform(0.1, 0.4) * ttl)
                if time.monotonic() >= until:
                    return
                continue
            await self.decide(who, pool, hold, seats, ttl)
            return

    async def hold_seats(self, pool: str, seats: int, ttl: float, who: str, op: str) -> Hold:
        """Hold seats; for some calls the reply is lost, and the same operation is sent again."""

        async def call() -> Hold:
            return await self.hk.hold(pool, seats, ttl=ttl, op=op, actor=f"user:{who}")

        hold = await self.ask(call)
        if self.random.random() < LOST_REPLIES:
            again = await self.ask(call)
            self.count("replayed")
            if again.id != hold.id or again.token != hold.token or not again.replayed:
                self.broken.append(f"the retry of {op} returned another hold")
        return hold

    async def decide(self, who: str, pool: str, hold: Hold, seats: int, ttl: float) -> None:
        """Decide what this buyer does with the seats."""
        behaviour = self.random.choices([*BEHAVIOURS], [*BEHAVIOURS.values()])[0]
        if behaviour == "abandons":
            self.count("abandoned")
            await asyncio.sleep(ttl / 2)
        elif behaviour == "pays late":
            await asyncio.sleep(ttl * 1.1)
            await self.pay_late(pool, hold, seats, op=f"{who}/late")
        else:
            await asyncio.sleep(self.random.uniform(0.2, 0.8) * ttl)
            try:
                if behaviour == "pays":
                    await self.pay(hold, seats, op=f"{who}/pay")
                else:
                    await self.ask(lambda: self.hk.release(hold, reason="user_cancelled", op=f"{who}/cancel"))
            except HoldExpired:  # a slow machine made this buyer late: the refusal is right
                self.count("overtaken")

    async def pay(self, hold: Hold, seats: int, op: str) -> None:
        """Confirm in time."""
        done = await self.ask(lambda: self.hk.confirm(hold, entity=f"order:{op}", op=op))
        self.receipts[done.id] = seats

    async def pay_late(self, pool: str, hold: Hold, seats: int, op: str) -> bool:
        """Pay after the deadline: the hold has expired, so request the seats again; if there are none, the payment is refunded."""
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
        """Let all buyers request the same last unit at once; return how many got it."""

        async def rival(number: int) -> int:
            try:
                hold = await self.ask(lambda: self.hk.hold(pool, 1, ttl="1m", op=f"{self.name}/race/{number}"))
                await self.ask(lambda: self.hk.confirm(hold, op=f"{self.name}/race/{number}/pay"))
            except InsufficientCapacity:
                return 0
            return 1

        return sum(await asyncio.gather(*map(rival, range(rivals))))

    async def grab(self, pool: str, holds: int, seats: int, ttl: float) -> dict[str, Any]:
        """Take many seats and do nothing more: for the process that will be killed."""
        taken = [await self.ask(lambda: self.hk.hold(pool, seats, ttl=ttl)) for _ in range(holds)]
        return {"holds": [hold.id for hold in taken], "deadline": max(hold.raw.deadline or 0 for hold in taken)}

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer: retry with the same operation id if the kernel is overloaded or the outcome unknown."""
        while True:
            try:
                answer = await call()
            except Overloaded as busy:
                self.count("overloaded")
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
        """Count something."""
        self.counts[name] += 1

    def take_counts(self) -> dict[str, int]:
        """Return the counts since the last call."""
        counts, self.counts = dict(self.counts), Counter()
        return counts


async def execute(buyers: Buyers, command: dict[str, Any]) -> dict[str, Any]:
    """Execute one command of the parent process."""
    match command.pop("do"):
        case "sell":
            await buyers.sell(**command)
            return {"receipts": buyers.receipts, "broken": buyers.broken}
        case "race":
            return {"winners": await buyers.race(**command)}
        case "grab":
            return await buyers.grab(**command)
        case other:
            raise ValueError(other)


async def run(url: str, name: str, seed: int) -> None:
    """Run a process of buyers: a command per line in, an answer per line out, with counts in between."""
    async with await connect_async(url) as hk:
        buyers = Buyers(hk, name, seed)
        send({"answer": "ready"})
        while line := await asyncio.to_thread(sys.stdin.readline):
            work = asyncio.create_task(execute(buyers, json.loads(line)))
            while not work.done():
                await asyncio.wait([work], timeout=0.2)
                if counts := buyers.take_counts():
                    send({"counts": counts})
            send({"answer": work.result()})


def send(line: dict[str, Any]) -> None:
    """Send one line to the parent process."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))


class BuyerProcess:
    """A process of buyers, as its parent sees it."""

    def __init__(self, process: Process, name: str, statistics: Statistics) -> None:
        self.process, self.name = process, name
        self._statistics = statistics
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, url: str, name: str, seed: int, statistics: Statistics) -> Self:
        """Start a process; its first answer says that it has opened the file."""
        command = (sys.executable, "-m", "holdkit.demo.buyers", url, name, str(seed))
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**22)
        return cls(process, name, statistics)

    async def call(self, **command: Any) -> Any:
        """Send a command and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        await self.process.stdin.drain()
        return await self.answer()

    async def answer(self) -> Any:
        """Return the next answer; raise `RuntimeError` if the process has ended."""
        answer = await self._answers.get()
        if answer is None:
            raise RuntimeError(f"buyer process {self.name} ended early, with code {await self.process.wait()}")
        return answer

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # truncated by the kill
                continue
            if "counts" in message:
                self._statistics.add(message["counts"])
            else:
                self._answers.put_nowait(message["answer"])
        self._answers.put_nowait(None)

    async def kill(self) -> None:
        """Kill the process with SIGKILL: it releases nothing and cleans up nothing."""
        self.process.kill()
        await self.process.wait()
        await self._listening

    async def stop(self) -> None:
        """Let the process end; kill it if it does not."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(ProcessLookupError):
            try:
                async with asyncio.timeout(5):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        await self._listening
