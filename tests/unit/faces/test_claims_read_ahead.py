"""The answer to a change of a claim is built from what was read before it: a read that fails after the commit must not deny it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdkit
from holdkit.faces.claim import Claim
from holdkit.testing import FakeClock


class Cut:
    """The engine can be read until it has committed."""

    def __init__(self, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed = 0
        read, apply = engine.read, engine.apply

        def applied(*arguments: Any, **options: Any) -> Any:
            answer = apply(*arguments, **options)
            self.committed += 1
            return answer

        def look(*arguments: Any, **options: Any) -> Any:
            if self.committed:
                raise holdkit.errors.EngineError("the server is gone")
            return read(*arguments, **options)

        monkeypatch.setattr(engine, "apply", applied)
        monkeypatch.setattr(engine, "read", look)


@pytest.mark.parametrize("age", [0, 401 * 86_400])
def test_a_change_is_told_without_another_read(age: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.confirm(hk.claims.hold("email", "a@b.c", ttl=60), entity="user:1")
        clock.advance(age)
        hk.sweep()
        cut = Cut(hk._executor.engine, monkeypatch)
        expect_freed(hk.claims.free("email", "a@b.c", reason="closed"))
        assert cut.committed == 1


def test_the_same_async(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with await holdkit.connect_async("memory://") as hk:
            await hk.confirm(await hk.claims.hold("email", "a@b.c", ttl=60), entity="user:1")
            cut = Cut(hk._executor.engine, monkeypatch)
            expect_freed(await hk.claims.free("email", "a@b.c", reason="closed"))
            assert cut.committed == 1

    asyncio.run(story())


def expect_freed(claim: Claim) -> None:
    assert (claim.state, claim.key, claim.taken, claim.entity) == ("released", "email:a@b.c", False, None)
