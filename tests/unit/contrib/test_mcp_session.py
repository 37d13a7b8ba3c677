"""A session of an assistant: what it may do as time goes by, and at once. (`tests/integration/mcp` runs it in a process of its own.)"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError

import holdkit
from holdkit.contrib.mcp import Policy, Session
from holdkit.contrib.mcp.policy import NotAllowed
from holdkit.contrib.mcp.tools import Tools
from holdkit.testing import FakeClock


def played(story: Callable[[Session, holdkit.AsyncKernel, FakeClock], Awaitable[None]], **policy: Any) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with await holdkit.connect_async("memory://", clock=clock) as hk:
            await hk.create_pool("gpu", 8, per_account=2)
            await hk.create_pool("limit", 3)
            await story(
                Session(hk, Policy(**{"pools": ("g*",), "limit_pool": "limit", "account": "ann"} | policy)), hk, clock
            )

    asyncio.run(main())


def test_extensions_end_at_the_greatest_age() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        held = await session.place({"gpu": 1}, 60, None)
        for _ in range(4):
            clock.advance(20)
            await session.extend(held.id, 60)
        clock.advance(41)
        with pytest.raises(NotAllowed, match="180 seconds altogether"):
            await session.extend(held.id, 60)
        await session.extend(held.id, 59)
        assert (await hk.get(held.id)).raw.deadline == 180 * 1_000_000

    played(story, max_ttl="60s", max_age="180s")


def test_the_account_of_the_policy_bounds_what_is_held_and_confirmed() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        held = await session.place({"gpu": 2}, 60, None)
        await session.confirm(held.id, None)
        with pytest.raises(holdkit.AccountLimit):
            await session.place({"gpu": 1}, 60, None)

    played(story)


def test_a_hold_ends_once_whatever_the_session_does_at_once() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        held = await session.place({"gpu": 2}, 60, None)
        ends = (session.confirm(held.id, None), session.release(held.id), session.confirm(held.id, {"gpu": 1}))
        answers = await asyncio.gather(*ends, return_exceptions=True)
        assert [isinstance(answer, holdkit.Hold) for answer in answers].count(True) == 1
        assert (await hk.pool("limit")).held == (await hk.pool("gpu")).held == 0
        with pytest.raises(NotAllowed, match="not placed in this session, or has ended"):
            await session.release(held.id)

    played(story)


def test_what_expired_is_forgotten_and_makes_room() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        first = await session.place({"gpu": 2}, 60, None)
        clock.advance(60)
        await session.place({"gpu": 2}, 60, None)
        with pytest.raises(NotAllowed):
            await session.confirm(first.id, None)
        assert (await session.hold(first.id)).state == "expired"

    played(story)


def test_a_hold_of_others_is_not_shown() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        await hk.create_pool("payroll", 1)
        secret = await hk.hold("payroll", 1, ttl=60)
        with pytest.raises(NotAllowed):
            await session.hold(secret.id)
        shared = await hk.hold("gpu", 1, ttl=60, account="bob")
        assert (await session.hold(shared.id)).token is None
        with pytest.raises(NotAllowed):
            await session.release(shared.id)

    played(story)


def test_pools_units_and_times_outside_the_policy_are_refused_although_there_is_room() -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        await hk.create_pool("other", 8)
        for units in ({"other": 1}, {"limit": 1}, {"gpu": 1, "other": 1}, {"~claims": 1}):
            with pytest.raises(NotAllowed, match="is not one that you may use"):
                await session.place(units, 30, None)
        for units in ({"gpu": 0}, {"gpu": -5}, {}):
            with pytest.raises(NotAllowed):
                await session.place(units, 30, None)
        for seconds in (61, 10**12, 0, -1):
            with pytest.raises(NotAllowed, match="at most 60 seconds"):
                await session.place({"gpu": 1}, seconds, None)
        assert (await session.place({"gpu": 1}, 60, None)).state == "held"

    played(story, max_ttl="60s")


def test_a_storage_that_fails_is_not_described_to_the_model(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "holds.db"
        async with await holdkit.connect_async(f"sqlite:///{path}") as hk:
            await hk.create_pool("gpu", 8)
            tools = Tools(Session(hk, Policy(pools=("gpu",))))
            await tools.hold({"gpu": 1}, 60)
            path.rename(tmp_path / "moved.db")
            for call in (tools.hold({"gpu": 1}, 60), tools.list_pools()):
                with pytest.raises(ToolError, match="not done: the storage does not answer") as told:
                    await call
                assert str(tmp_path) not in str(told.value)
            (tmp_path / "moved.db").rename(path)
            with pytest.raises(ToolError, match="entity"):
                await tools.hold({"gpu": 1}, 60, purpose="\0")

    asyncio.run(main())


def test_without_a_database_the_end_of_a_session_does_not_try_each_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        held = [await session.place({"gpu": 1}, 60, None) for _ in range(2)]
        await hk.release(held[0])
        await hk.create_pool("gear", 1)
        held += [await session.place({"gear": 1}, 60, None)]
        tried, release = [], session._hk.release

        async def failing(hold: holdkit.Hold, **call: Any) -> holdkit.Hold:
            tried.append(hold.id)
            if hold.id == held[0].id:
                return await release(hold, **call)
            raise holdkit.errors.EngineError("no database")

        monkeypatch.setattr(session._hk, "release", failing)
        await session.end()
        assert tried == [held[0].id, held[1].id]

    played(story)


LOST, BUSY, DOWN = (
    holdkit.OutcomeUnknown("lost"),
    holdkit.Overloaded("full", retry_after=2),
    holdkit.errors.EngineError("down"),
)


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        ([LOST, BUSY, LOST], None),
        ([LOST, DOWN], None),
        ([BUSY] * 4, "not done: too much is asked for at the moment. Wait 2.0 seconds, then try again"),
        ([LOST, BUSY, DOWN, BUSY], "it is unknown whether this was done"),
        ([LOST, DOWN, DOWN, DOWN], "it is unknown whether this was done"),
        ([BUSY, BUSY, BUSY, LOST], "it is unknown whether this was done"),
        ([DOWN], "not done: the storage does not answer"),
        ([BUSY, DOWN], "not done: the storage does not answer"),
    ],
)
def test_what_a_later_attempt_does_not_settle_stays_unknown(
    monkeypatch: pytest.MonkeyPatch, attempts: list[holdkit.HoldkitError], told: str | None
) -> None:
    monkeypatch.setattr("holdkit.contrib.mcp.session.PAUSES", (0.0, 0.0, 0.0))

    async def story(session: Session, hk: holdkit.AsyncKernel, clock: FakeClock) -> None:
        hold, left = session._hk.hold, [*attempts]

        async def failing(*what: Any, **call: Any) -> holdkit.Hold:
            if not left:
                return await hold(*what, **call)
            if left[0] is LOST:
                await hold(*what, **call)  # it was done, and the answer was lost
            raise left.pop(0)

        monkeypatch.setattr(session._hk, "hold", failing)
        if told is None:
            assert (await Tools(session).hold({"gpu": 1}, 60)).state == "held"
        else:
            with pytest.raises(ToolError, match=told):
                await Tools(session).hold({"gpu": 1}, 60)
        assert left == []
        assert (await hk.pool("gpu")).held == (LOST in attempts)

    played(story)
