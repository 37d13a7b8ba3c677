from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdkit.server.webhooks.slots import FairSlots


def play(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Queue:
    """Tasks that wait for slots, by name, and the order in which they got them."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots, self.order = slots, list[str]()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, tenant: str, receiver: str = "r") -> None:
        async def take() -> None:
            await self.slots.take(tenant, receiver)
            self.order.append(name)

        self.tasks[name] = asyncio.create_task(take())
        await settle()


def test_tenants_take_turns_however_many_of_one_wait() -> None:
    async def work() -> None:
        queue = Queue(FairSlots(1, 9, 9))
        await queue.ask("first", "m")
        for n in range(5):
            await queue.ask(f"m{n}", "m")
        await queue.ask("quiet", "q")
        await queue.ask("other", "o")
        for tenant in ("m", "m", "q", "o", "m", "m", "m"):
            queue.slots.give_back(tenant, "r")
            await settle()
        assert queue.order == ["first", "m0", "quiet", "other", "m1", "m2", "m3", "m4"]
        assert (queue.slots.busy, queue.slots.waiting) == (1, 0)

    play(work)


def test_the_bounds_of_a_tenant_and_of_a_receiver_stop_nobody_else() -> None:
    async def work() -> None:
        queue = Queue(FairSlots(6, 3, 2))
        for n in range(3):
            await queue.ask(f"dead{n}", "m", "dead")
        await queue.ask("alive", "m", "alive")
        assert queue.order == ["dead0", "dead1", "alive"], "two of one receiver, three of one tenant"
        await queue.ask("more", "m", "alive")
        await queue.ask("quiet", "q", "dead")
        assert queue.order[3:] == ["quiet"]
        queue.slots.give_back("m", "alive")
        await settle()
        assert queue.order[4:] == ["more"], "the first in the queue waits for its receiver, the second need not"
        queue.slots.give_back("m", "dead")
        await settle()
        assert queue.order[5:] == ["dead2"]

    play(work)


@pytest.mark.parametrize("granted", [False, True])
def test_one_that_is_cancelled_keeps_no_slot(granted: bool) -> None:
    async def work() -> None:
        queue = Queue(FairSlots(1, 9, 9))
        await queue.ask("first", "a")
        await queue.ask("cancelled", "a")
        await queue.ask("next", "b")
        if granted:  # in the same moment, before its task has run
            queue.slots.give_back("a", "r")
            queue.tasks["cancelled"].cancel()
        else:
            queue.tasks["cancelled"].cancel()
            queue.slots.give_back("a", "r")
        await settle()
        assert queue.order == ["first", "next"]
        assert (queue.slots.busy, queue.slots.waiting) == (1, 0)

    play(work)


@pytest.mark.parametrize("seed", range(20))
def test_random_use_keeps_every_bound_and_ends_with_all_slots_free(seed: int) -> None:
    chance = random.Random(seed)

    async def work() -> None:
        slots, used = FairSlots(4, 2, 1), Counter[tuple[str, str]]()
        most = 0

        async def use(tenant: str, receiver: str) -> None:
            nonlocal most
            async with slots.slot(tenant, receiver):
                used[tenant, receiver] += 1
                try:
                    most = max(most, used.total())
                    assert used.total() <= 4
                    assert sum(count for (owner, _), count in used.items() if owner == tenant) <= 2
                    assert used[tenant, receiver] <= 1
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                finally:
                    used[tenant, receiver] -= 1

        tasks = [asyncio.create_task(use(chance.choice("abc"), chance.choice("xyz"))) for _ in range(200)]
        while not all(task.done() for task in tasks):
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
            await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one for one in results if isinstance(one, Exception)] == []
        assert most == 4
        assert (slots.busy, slots.waiting) == (0, 0)

    play(work)
