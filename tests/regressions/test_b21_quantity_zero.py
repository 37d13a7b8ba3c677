"""B21: a quantity of 0 is `InvalidRequest`; nothing is written, and nothing is poisoned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import holdkit
from holdkit import Leg
from holdkit.commands import ConfirmHold, Consume, PlaceHold, ReleaseHold, ReturnUnits
from tests.support.kernels import Store, differences


def test_b21_by_every_way_in(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 5)
    held, paid = hk.hold("p", 2, ttl=60), hk.consume("p", 1)
    end = hk.journal.cursor()
    batches = [
        PlaceHold(legs=(Leg("p", 0),), ttl=60, op="op"),
        Consume(legs=(Leg("p", 0),), op="op"),
        ConfirmHold(id=held.id, token=held.token, quantity=0, op="op"),
        ReleaseHold(id=held.id, token=held.token, quantity=0, op="op"),
        ReturnUnits(id=paid.id, token=paid.token, quantity=0, op="op"),
    ]
    calls: list[Callable[[], Any]] = [
        lambda: hk.hold("p", 0, ttl=60, op="op"),
        lambda: hk.hold({"p": 0}, ttl=60, op="op"),
        lambda: hk.hold([Leg("p", 0)], ttl=60, op="op"),
        lambda: hk.hold([("p", 0)], ttl=60, op="op"),
        lambda: hk.consume("p", 0, op="op"),
        lambda: hk.confirm(held, quantity=0, op="op"),
        lambda: hk.confirm(held, quantity={"p": 0}, op="op"),
        lambda: hk.release(held, quantity=0, op="op"),
        lambda: hk.return_units(paid, quantity=0, op="op"),
        *(partial(hk.apply, [command]) for command in batches),
        *(partial(hk.apply, [command], atomic=True) for command in batches),
    ]
    for call in calls:
        with pytest.raises(holdkit.InvalidRequest) as wrong:
            call()
        assert wrong.value.field == "quantity"
        assert wrong.value.effect == "none"
    assert hk.journal.list(after=end) == []
    assert (hk.pool("p").held, hk.pool("p").consumed) == (2, 1)
    assert hk.hold("p", 1, ttl=60, op="op").replayed is False, "the operation id was not used up"
    assert differences(hk) == ()


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_b21_neighbours_in_flight_are_not_poisoned(engine: str, tmp_path: Any) -> None:
    """Good and bad requests at once, from many tasks and many threads: the good ones are all granted."""
    url = "memory://" if engine == "memory" else f"sqlite:///{tmp_path}/holds.db"

    async def play() -> None:
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("tasks", 50)
            answers = await asyncio.gather(
                *(hk.hold("tasks", i % 2, ttl=60) for i in range(100)), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [holdkit.InvalidRequest, holdkit.Hold] * 50
            assert (await hk.pool("tasks")).available == 0

    asyncio.run(play())
    with holdkit.connect(url) as hk:
        hk.create_pool("threads", 20)
        wrong: list[holdkit.InvalidRequest] = []

        def ask(quantity: int) -> None:
            for _ in range(10):
                try:
                    hk.hold("threads", quantity, ttl=60)
                except holdkit.InvalidRequest as error:
                    wrong.append(error)

        threads = [threading.Thread(target=ask, args=(number % 2,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wrong) == 20
        assert hk.pool("threads").available == 0
        assert hk.admin.verify().ok
