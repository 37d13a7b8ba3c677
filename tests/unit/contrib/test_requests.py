"""What frameworks share of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdkit.contrib.asgi import AsgiHoldkit, RequestState
from holdkit.contrib.requests import operation_id_of
from holdkit.kernel.arguments import current
from holdkit.kernel.context import context


def sent(key: str) -> Callable[[str], str | None]:
    return {"idempotency-key": key}.get


def test_no_key_of_one_actor_is_the_operation_of_another() -> None:
    found = []
    for actor, key in (("user:a", "b/c"), ("user:a/b", "c"), ("user:a%2Fb", "c"), ("user:a%2fb", "c")):
        with context(actor=actor):
            found.append(operation_id_of(sent(key)))
    assert found == ["user:a/b/c", "user:a%2Fb/c", "user:a%252Fb/c", "user:a%252fb/c"]
    assert operation_id_of(sent("c")) == "anonymous/c"


def test_a_caller_who_was_turned_away_does_not_become_anonymous() -> None:
    asked = []

    def actor(_request: object) -> str:
        asked.append("actor")
        if len(asked) == 1:
            raise PermissionError
        return "user:7"

    async def main() -> None:
        holdkit: AsgiHoldkit[object] = AsgiHoldkit("memory://", actor=actor)
        state = RequestState(holdkit, "r1", None)
        with pytest.raises(PermissionError):
            await holdkit.identify(None, state)
        for _ in range(2):
            await holdkit.identify(None, state)
        assert (current().actor, len(asked)) == ("user:7", 2)

    asyncio.run(main())
