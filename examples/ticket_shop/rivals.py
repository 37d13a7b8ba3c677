"""Buyers who want the same seats at the same time. Some pay, some change their mind, some just leave."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import holdkit
from holdkit import AsyncKernel, Hold

SECONDS = 6.0
"""In which they arrive."""


class Rivals:
    """Buyers, and what became of them."""

    def __init__(self, paid: Callable[[Hold], object], seed: int | None = None) -> None:
        self._paid, self._random = paid, random.Random(seed)
        self._counts: Counter[str] = Counter()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> dict[str, int]:
        """How many bought, changed their mind, left, or found nothing."""
        return dict(self._counts)

    def send(self, hk: AsyncKernel, buyers: int) -> None:
        """Let them in, without waiting for them."""
        task = asyncio.create_task(self.buy(hk, buyers))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """The shop closes: nobody is waited for."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def buy(self, hk: AsyncKernel, buyers: int, seconds: float = SECONDS) -> None:
        """All of them; returns when the last one has gone."""
        self._counts["came"] += buyers
        async with asyncio.TaskGroup() as group:
            for buyer in range(buyers):
                group.create_task(self._arrive(hk, buyer, self._random.uniform(0, seconds)))

    async def _arrive(self, hk: AsyncKernel, buyer: int, after: float) -> None:
        await asyncio.sleep(after)
        try:
            seats = self._random.choice((1, 2, 2, 3, 4))
            hold = await hk.seats.hold(seats, section="stalls", ttl="5s")
        except (holdkit.ItemsTaken, holdkit.Overloaded):
            await self._stand(hk, buyer)
        else:
            await self._decide(hk, hold)

    async def _stand(self, hk: AsyncKernel, buyer: int) -> None:
        """No seats: wait in line for a standing place, for a while."""
        try:
            hold = await hk.hold("standing", 1, ttl="5s", wait="10s", account=f"rival:{buyer}")
        except holdkit.Refused:
            self._counts["found nothing"] += 1
        else:
            await self._decide(hk, hold)

    async def _decide(self, hk: AsyncKernel, hold: Hold) -> None:
        await asyncio.sleep(self._random.uniform(0.1, 1.0))  # they look for their wallet
        what = self._random.random()
        try:
            if what < 0.7:
                self._paid(await hk.confirm(hold))
                self._counts["bought"] += 1
            elif what < 0.85:
                await hk.release(hold, reason="user_cancelled")
                self._counts["changed their mind"] += 1
            else:
                self._counts["just left"] += 1  # the deadline frees what they held
        except holdkit.HoldExpired:  # on a busy machine
            self._counts["came too late"] += 1
