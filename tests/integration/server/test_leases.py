from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdkit.core.model import SECOND
from holdkit.kernel.record_lease import LeaseLost, RecordLease
from holdkit.server.webhooks.hooks import LEASES
from holdkit.testing import FakeClock
from tests.support.servers import in_process_app
from tests.support.threads import PATIENCE

SECONDS = 0.000_001
"""One slot: so short that every look is one at the database, whose clock stands still until it is moved."""


def play(work: Callable[[RecordLease, RecordLease, FakeClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = FakeClock(start=1_000_000_000_000_000)
        async with in_process_app(clock=clock) as here:
            executor = here.running.kernel._executor
            await work(
                RecordLease(executor, ("", LEASES, "hook"), SECONDS),
                RecordLease(executor, ("", LEASES, "hook"), SECONDS),
                clock,
            )

    asyncio.run(main())


def test_one_has_it_until_its_time_is_over() -> None:
    async def work(ours: RecordLease, theirs: RecordLease, clock: FakeClock) -> None:
        assert await ours.acquire(), "what was read before may be old"
        assert not await ours.acquire(), "it was ours all the while"
        with pytest.raises(LeaseLost):
            await theirs.acquire()
        clock.advance(SECONDS)
        assert await theirs.acquire()
        with pytest.raises(LeaseLost):
            await ours.keep()

    play(work)


def test_one_that_comes_back_after_another_had_it_knows_that() -> None:
    async def work(ours: RecordLease, theirs: RecordLease, clock: FakeClock) -> None:
        await ours.acquire()
        clock.advance(SECONDS)
        await theirs.acquire()
        clock.advance(SECONDS)
        with pytest.raises(LeaseLost):
            await ours.keep()  # it is ours again, but not without a break
        await ours.keep()

    play(work)


def test_one_that_is_late_but_had_no_rival_goes_on() -> None:
    async def work(ours: RecordLease, _theirs: RecordLease, clock: FakeClock) -> None:
        await ours.acquire()
        clock.advance(60)
        await ours.keep()

    play(work)


def test_what_is_given_back_is_free_at_once() -> None:
    async def work(ours: RecordLease, theirs: RecordLease, _clock: FakeClock) -> None:
        await ours.acquire()
        await ours.release()
        await theirs.wait_until_free()
        assert await theirs.acquire()
        await ours.release()  # it has none: nothing is taken from anybody
        with pytest.raises(LeaseLost):
            await ours.acquire()

    play(work)


def test_a_clock_that_went_back_keeps_nobody_out_for_longer_than_a_lease_lasts() -> None:
    async def work(ours: RecordLease, theirs: RecordLease, clock: FakeClock) -> None:
        await theirs.acquire()
        clock.set(clock.now() - 3_600 * SECOND)
        await asyncio.wait_for(ours.wait_until_free(), PATIENCE)
        assert await ours.acquire()
        with pytest.raises(LeaseLost):
            await theirs.keep()

    play(work)
