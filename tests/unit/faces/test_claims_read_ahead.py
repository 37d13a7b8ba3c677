"""The answer to a change of a claim is built from what was read before it: a read that fails after the commit must not deny it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdkit
from holdkit.faces.claim import Claim

CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "confirm": lambda claims, named: claims.confirm(named, entity="user:1", token="me"),
    "release": lambda claims, named: claims.release(named, token="me"),
    "extend": lambda claims, named: claims.extend(named, by=60, token="me"),
}
NAMES: dict[str, Callable[[Claim], Any]] = {
    "claim": lambda claim: claim,
    "ticket": lambda claim: claim.ticket,
    "id": lambda claim: claim.id,
}


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
                raise holdkit.EngineError("the server is gone")
            return read(*arguments, **options)

        monkeypatch.setattr(engine, "apply", applied)
        monkeypatch.setattr(engine, "read", look)


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_without_another_read(change: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdkit.connect("memory://") as hk:
        claim = hk.claims.reserve("email", "a@b.c", ttl=60, token="me")
        cut = Cut(hk._executor.engine, monkeypatch)
        expect_told(CHANGES[change](hk.claims, NAMES[named](claim)), change, claim)
        assert cut.committed == 1


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize("change", CHANGES)
def test_the_same_async(change: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with await holdkit.connect_async("memory://") as hk:
            claim = await hk.claims.reserve("email", "a@b.c", ttl=60, token="me")
            cut = Cut(hk._executor.engine, monkeypatch)
            expect_told(await CHANGES[change](hk.claims, NAMES[named](claim)), change, claim)
            assert cut.committed == 1

    asyncio.run(story())


def expect_told(told: Claim, change: str, before: Claim) -> None:
    states = {"confirm": "confirmed", "release": "released", "extend": "held"}
    assert (told.state, told.key, told.id) == (states[change], "email:a@b.c", before.id)
    assert (told.hold_id, told.token) == (before.hold_id, "me")
    assert told.entity == ("user:1" if change == "confirm" else None)
