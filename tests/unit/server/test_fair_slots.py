from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdkit.server.webhooks import slots as slots_module
from holdkit.server.webhooks.slots import FairSlots, Slot


def play(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Queue:
    """Tasks that wait for slots, by name, and the order in which they got them."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots, self.order, self.held = slots, list[str](), list[Slot]()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, tenant: str, receiver: str = "r") -> None:
        async def take() -> None:
            self.held.append(await self.slots.take(tenant, receiver))
            self.order.append(name)

        self.tasks[name] = asyncio.create_task(take())
        await settle()

    def give_back(self, tenant: str, receiver: str = "r") -> None:
        """Give back the slot that a tenant has had longest."""
        slot = next(one for one in self.held if (one.tenant, one.receiver) == (tenant, receiver))
        self.held.remove(slot)
        self.slots.give_back(slot)

    def wanted(self) -> list[str]:
        """The names of those whose slots are wanted back."""
        return [name for name, slot in zip(self.order, self.held, strict=True) if slot.wanted]


def test_tenants_take_turns_however_many_of_one_wait() -> None:
    async def work() -> None:
        queue = Queue(FairSlots(1, 9, 9))
        await queue.ask("first", "m")
        for n in range(5):
            await queue.ask(f"m{n}", "m")
        await queue.ask("quiet", "q")
        await queue.ask("other", "o")
        for tenant in ("m", "m", "q", "o", "m", "m", "m"):
            queue.give_back(tenant, "r")
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
        queue.give_back("m", "alive")
        await settle()
        assert queue.order[4:] == ["more"], "the first in the queue waits for its receiver, the second need not"
        queue.give_back("m", "dead")
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
            queue.give_back("a", "r")
            queue.tasks["cancelled"].cancel()
        else:
            queue.tasks["cancelled"].cancel()
            queue.give_back("a", "r")
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
                    assert sum(count for (token, _), count in used.items() if token == tenant) <= 2
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
        assert (slots.busy, slots.waiting, slots._wanted, slots._held) == (0, 0, [], {})

    play(work)


def test_a_tenant_without_a_slot_has_the_next_one_before_those_that_have_some() -> None:
    async def work() -> None:
        queue = Queue(FairSlots(4, 3, 9))
        for name in ("m0", "m1", "m2", "n0", "m3", "n1", "quiet"):
            await queue.ask(name, name[0])
        assert queue.order == ["m0", "m1", "m2", "n0"]
        queue.give_back("m")
        await settle()
        assert queue.order[4:] == ["quiet"], "m and n wait longer, and have slots"
        queue.give_back("m")
        await settle()
        assert queue.order[5:] == ["m3"], "then it is the turn of whoever has waited longest"

    play(work)


def test_a_slot_is_wanted_back_for_each_tenant_that_has_none_and_for_no_other() -> None:
    async def work() -> None:
        queue = Queue(FairSlots(5, 3, 9))
        for name in ("m0", "m1", "m2", "n0", "n1"):
            await queue.ask(name, name[0])
        await queue.ask("m3", "m")
        assert queue.wanted() == [], "it has slots"
        await queue.ask("quiet", "q")
        await queue.ask("again", "q")
        assert queue.wanted() == ["m0"], "the one that the tenant with the most has had longest"
        await queue.ask("other", "o")
        assert queue.wanted() == ["m0", "m1"]
        queue.tasks["other"].cancel()
        await settle()
        assert queue.wanted() == ["m0"], "nobody waits for the second any more"
        queue.give_back("n")
        await settle()
        assert queue.slots._wanted == [], "whoever waited for it has another one"

    play(work)


def test_work_in_a_slot_is_ended_only_if_a_tenant_without_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "CERTAIN_SECONDS", 0.0)
    monkeypatch.setattr(slots_module, "LEAST_WORK_SECONDS", 0.0)

    async def work() -> None:
        slots, ended, begun = FairSlots(2, 2, 2), list[str](), list[str]()
        forever = asyncio.Event()

        async def hang(name: str) -> None:
            async with slots.slot("m", name) as slot:
                try:
                    async with slot.work():
                        begun.append(name)
                        await forever.wait()
                except TimeoutError:
                    ended.append(name)

        tasks = [asyncio.create_task(hang(name)) for name in ("first", "second")]
        await settle()
        assert (begun, ended) == (["first", "second"], [])
        async with slots.slot("quiet", "r") as granted:
            assert ended == ["first"]
            assert (granted.wanted, slots.busy) == (False, 2)
        forever.set()
        await asyncio.gather(*tasks)
        assert ended == ["first"], "nobody waited for the other"

    play(work)


def test_work_that_begins_late_in_a_wanted_slot_still_has_its_least_time() -> None:
    async def work() -> None:
        slots = FairSlots(1, 1, 1)
        slot = await slots.take("m", "r")
        now = asyncio.get_running_loop().time()
        slot.taken_at = now - 60
        waiting = asyncio.create_task(slots.take("quiet", "r"))
        await settle()
        async with slot.work():
            assert slot.limit is not None
            ends = slot.limit.when()
            assert ends is not None
            assert ends - now >= 2.0
        slot.taken_at = asyncio.get_running_loop().time()
        async with slot.work():
            assert slot.limit.when() == slot.taken_at + 3.0
        slots.give_back(slot)
        await waiting

    play(work)
