from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdkit.core.model import SECOND
from holdkit.server.webhooks.leasing import Elsewhere, Lease
from holdkit.testing import FakeClock
from tests.support.servers import PATIENCE, in_process_app

SECONDS = 0.000_001
"""One slot: so short that every look is one at the database, whose clock stands still until it is moved."""


def play(work: Callable[[Lease, Lease, FakeClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = FakeClock(start=1_000_000_000_000_000)
        async with in_process_app(clock=clock) as here:
            executor = here.running.kernel.executor
            await work(Lease(executor, "", "hook", SECONDS), Lease(executor, "", "hook", SECONDS), clock)

    asyncio.run(main())


def test_one_has_it_until_its_time_is_over() -> None:
    async def work(ours: Lease, theirs: Lease, clock: FakeClock) -> None:
        assert await ours.hold(), "what was read before may be old"
        assert not await ours.hold(), "it was ours all the while"
        with pytest.raises(Elsewhere):
            await theirs.hold()
        clock.advance(SECONDS)
        assert await theirs.hold()
        with pytest.raises(Elsewhere):
            await ours.keep()

    play(work)


def test_one_that_comes_back_after_another_had_it_knows_that() -> None:
    async def work(ours: Lease, theirs: Lease, clock: FakeClock) -> None:
        await ours.hold()
        clock.advance(SECONDS)
        await theirs.hold()
        clock.advance(SECONDS)
        with pytest.raises(Elsewhere):
            await ours.keep()  # it is ours again, but not without a break
        await ours.keep()

    play(work)


def test_one_that_is_late_but_had_no_rival_goes_on() -> None:
    async def work(ours: Lease, _theirs: Lease, clock: FakeClock) -> None:
        await ours.hold()
        clock.advance(60)
        await ours.keep()

    play(work)


def test_what_is_given_back_is_free_at_once() -> None:
    async def work(ours: Lease, theirs: Lease, _clock: FakeClock) -> None:
        await ours.hold()
        await ours.give_back()
        await theirs.free()
        assert await theirs.hold()
        await ours.give_back()  # it has none: nothing is taken from anybody
        with pytest.raises(Elsewhere):
            await ours.hold()

    play(work)


def test_a_clock_that_went_back_keeps_nobody_out_for_longer_than_a_lease_lasts() -> None:
    async def work(ours: Lease, theirs: Lease, clock: FakeClock) -> None:
        await theirs.hold()
        clock.set(clock.now() - 3_600 * SECOND)
        await asyncio.wait_for(ours.free(), PATIENCE)
        assert await ours.hold()
        with pytest.raises(Elsewhere):
            await theirs.keep()

    play(work)
