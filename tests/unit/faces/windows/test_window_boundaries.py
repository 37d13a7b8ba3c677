"""The window is chosen by the slot of the decision: never by a client's clock, however wrong that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

import holdkit
from holdkit import Allowance, AsyncKernel, InsufficientCapacity, OutcomeUnknown
from holdkit.core.commands import Group
from holdkit.core.model import Leg
from holdkit.engines.clocks import wall_clock
from holdkit.errors import Overloaded, WindowClosed
from holdkit.faces.allowances import Meter
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.opening import open_engine
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE
from tests.support.watched_engine import WatchedEngine

SECOND = 1_000_000
MINUTE = 60 * SECOND


class Lagging(WatchedEngine):
    """An engine that decides by its own clock, while its callers read another: as with a database on another machine."""

    def __init__(self, lag: float) -> None:
        super().__init__(FakeClock(start=600 * SECOND))
        self.clock = lambda: self.fake.now() - round(lag * SECOND)


def overspent(mode: Sync | Async, lag: float) -> list[str]:
    """Take what there is, across the edge of a window, with a clock that is off; tell every window that gave too much, and
    every decision that was counted where it does not belong."""
    engine = Lagging(lag)
    hk = mode.open(engine)
    api = hk.rate("api", Allowance(2, per="minute"))
    for slot in (600 * SECOND, 660 * SECOND - 1, 660 * SECOND, 690 * SECOND, 719 * SECOND, 720 * SECOND):
        engine.fake.set(slot)
        for number in range(3):
            with suppress(InsufficientCapacity):  # and nothing else: a lag must not be seen
                api.consume("a", op=f"{slot}-{number}")
    wrong: list[str] = []
    taken: dict[int, int] = {}
    for entry in hk.journal.follow(wait=False):
        if entry.action == "hold.held":
            window = entry.raw.slot // MINUTE
            taken[window] = taken.get(window, 0) + 1
            wrong += [
                f"decided at {entry.raw.slot}, counted in {effect.pool.id}"
                for effect in entry.pools
                if effect.pool.id != f"~rates/api/a/60s@{window * 60}"
            ]
    wrong += [f"window {window}: {count}" for window, count in taken.items() if count > 2]
    assert taken.keys() == {10, 11, 12} or wrong
    hk.close()
    return wrong


@pytest.mark.parametrize("lag", [0, 0.000001, 30, 59.999999, 60, 3600, -0.000001, -30, -60, -3600])
def test_a_client_whose_clock_is_off_spends_what_there_is_where_it_belongs(mode: Sync | Async, lag: float) -> None:
    assert overspent(mode, lag) == []


@pytest.mark.parametrize("lag", [0.000001, 30, -30])
def test_canary_a_window_chosen_by_the_clients_clock_is_noticed(
    mode: Sync | Async, lag: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Legs that do not say when they may be granted: the guess is taken for the truth."""
    true_leg: Callable[..., Leg] = Meter.leg
    monkeypatch.setattr(Meter, "leg", lambda *said: replace(true_leg(*said), opens=None, closes=None))
    assert overspent(mode, lag)


def test_guessing_ends(mode: Sync | Async) -> None:
    """Windows that end faster than they can be found are told as such, and nothing is written."""
    engine = Lagging(30)
    hk = mode.open(engine)

    def hurry(groups: Sequence[Group]) -> None:
        engine.fake.advance(1)

    engine.before = hurry
    with pytest.raises(Overloaded) as no:
        hk.rate("api", Allowance(2, per="second")).consume("a", op="x")
    assert isinstance(no.value.__cause__, WindowClosed)
    assert len(engine.batches) == 8
    assert list(hk.journal.list()) == []
    engine.before = None
    assert not hk.rate("api", Allowance(2, per="second")).consume("a", op="x").replayed, "turned away is not settled"
    hk.close()


def test_a_budget_is_resized_in_the_window_that_runs_there(mode: Sync | Async) -> None:
    engine = Lagging(30)
    hk = mode.open(engine)
    llm: Any = hk.budget("llm", tokens=Allowance(100, per="minute"))
    llm.consume("team", 10)
    engine.fake.advance(60)
    llm.consume("team", 10)
    engine.fake.advance(1)  # the client believes that the first window still runs
    pool = llm.resize("team", "tokens", 500, op="x")
    assert (pool.id, pool.total) == ("~budgets/llm/team/tokens/60s@660", 500)
    hk.close()


def test_an_unknown_at_the_edge_stays_unknown_until_it_is_asked_again(mode: Sync | Async) -> None:
    """The commit's fate was lost, and by the time it is asked for the window has gone: that refusal is no proof."""
    engine = WatchedEngine(FakeClock(start=59 * SECOND))
    hk = mode.open(engine)
    api = hk.rate("api", Allowance(1, per="minute"))

    def lose(groups: Sequence[Group]) -> None:
        engine.before = None
        engine.fake.set(60 * SECOND)
        raise OutcomeUnknown("the line was cut")

    engine.before = lose
    with pytest.raises(OutcomeUnknown):
        api.consume("a", op="x")
    taken = api.consume("a", op="x")
    assert (taken.replayed, taken.legs[0].pool) == (False, "~rates/api/a/60s@60")
    hk.close()


def test_an_unknown_that_happened_is_found_in_a_later_window(mode: Sync | Async) -> None:
    engine = WatchedEngine(FakeClock(start=59 * SECOND))
    hk = mode.open(engine)
    api = hk.rate("api", Allowance(1, per="minute"))

    def lose(groups: Sequence[Group]) -> None:
        engine.after = None
        engine.fake.set(60 * SECOND)
        raise OutcomeUnknown("the line was cut")

    engine.after = lose
    taken = api.consume("a", op="x")
    assert taken.legs[0].pool == "~rates/api/a/60s@0"
    assert api.consume("a", op="x").id == taken.id
    assert api.remaining("a") == 1
    hk.close()


@pytest.mark.parametrize("lag", [3600, -3600])
def test_on_postgres_the_servers_clock_counts(mode: Sync | Async, lag: int, postgres_url: str) -> None:
    """The real thing: a machine whose clock is an hour off, and a server that decides by its own."""
    holdkit.migrate(postgres_url)
    engine = open_engine(postgres_url, clock=None, limits=None)
    engine.clock = lambda: wall_clock() - lag * SECOND
    hk = mode.open(engine)
    llm = hk.budget("llm", tokens=Allowance(100, per="minute"))
    for _ in range(3):
        hold = llm.hold("team", 10, ttl=600)
        assert hold.legs[0].pool == f"~budgets/llm/team/tokens/60s@{hold.raw.held_at // MINUTE * 60}"
        assert abs(hold.raw.held_at - wall_clock()) < 600 * SECOND
    hk.close()


def test_a_hold_granted_to_a_cancelled_block_is_released() -> None:
    async def main() -> list[str]:
        engine = WatchedEngine()
        hk = AsyncKernel(AsyncExecutor(engine))
        llm = hk.budget("llm", tokens=Allowance(100, per="minute"))
        engine.gate.clear()

        async def spend() -> None:
            async with llm.holding("team", 60, ttl=60):
                raise AssertionError("it was cancelled before")

        task = asyncio.create_task(spend())
        await asyncio.to_thread(engine.wait_entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        async for entry in hk.journal.follow():
            if entry.action == "hold.released":
                break
        assert await llm.remaining("team") == {"tokens": 100}
        story = [str(entry.action) for entry in await hk.journal.list()]
        await hk.close()
        return story

    async def bounded() -> list[str]:
        return await asyncio.wait_for(main(), PATIENCE)

    assert asyncio.run(bounded()) == ["pool.created", "hold.held", "hold.released"]
