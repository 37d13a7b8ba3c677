"""Two callers free the same key, or its hold is dropped meanwhile: one succeeds, the other is refused with `not_confirmed`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import FindHold
from holdkit.testing import FakeClock
from tests.engines.postgres.engine_calls import await_waiter, caller
from tests.support.kernels import Store, differences

YEARS = 401 * 86_400
"""Longer than any hold is kept."""


KEY = ("email", "a@b.c")


def confirmed(hk: Any, entity: str = "user:1") -> Any:
    return hk.confirm(hk.claims.hold(*KEY, ttl=60), entity=entity)


def not_confirmed(forget: Callable[[], object], *, replayed: bool = False) -> None:
    with pytest.raises(holdkit.errors.NotConfirmed, match=r"'email:a@b\.c' is not confirmed") as refused:
        forget()
    assert (refused.value.subject, refused.value.replayed) == ("email:a@b.c", replayed)


@pytest.mark.parametrize("age", [0, YEARS])
def test_a_key_is_freed_once(store: Store, age: int) -> None:
    hk = store.open()
    confirmed(hk)
    store.clock.advance(age)
    hk.sweep()
    freed = hk.claims.free(*KEY, reason="closed", op="first")
    assert (freed.state, freed.taken) == ("released", False)
    late = partial(hk.claims.free, *KEY, reason="closed")
    not_confirmed(late)
    not_confirmed(partial(late, op="late"))
    not_confirmed(partial(late, op="late"), replayed=True)
    assert hk.claims.free(*KEY, reason="closed", op="first").state == "released"
    confirmed(hk, "user:2")
    assert hk.claims.free(*KEY, reason="closed", op="first").state == "released", "it tells what was, not what is"
    assert hk.claims.get(*KEY).entity == "user:2"
    assert differences(hk) == ()


def test_a_key_that_was_never_held_is_not_confirmed(store: Store) -> None:
    with pytest.raises(holdkit.errors.NotConfirmed):
        store.open().claims.free(*KEY, reason="closed")


def test_a_key_is_freed_in_each_life(store: Store) -> None:
    hk = store.open()
    for entity in ("user:1", "user:2", "user:3"):
        confirmed(hk, entity)
        store.clock.advance(YEARS)
        hk.sweep()
        assert hk.claims.get(*KEY).entity == entity
        assert hk.claims.free(*KEY, reason="closed").state == "released"
        assert not hk.claims.is_taken(*KEY)
    assert differences(hk) == ()


class Meddler:
    """Lets somebody else act right after a key's hold was looked at: before the call that looked does anything."""

    def __init__(self, hk: Any, act: Callable[[], object]) -> None:
        self._group_commit, self._acts = hk._executor.group_commit, [act]
        self._read = self._group_commit.read
        self._group_commit.read = self.read

    def read(self, query: Any, tx: Any = None, *, durable: bool = False) -> Any:
        found = self._read(query, tx, durable=durable)
        if isinstance(query, FindHold) and self._acts:
            self._acts.pop()()
        return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("migrated")())
    return "memory://" if request.param == "memory" else f"{request.param}:///{tmp_path}/holds"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hk(place: str, clock: FakeClock) -> Iterator[holdkit.Kernel]:
    with holdkit.connect(place, clock=clock) as kernel:
        yield kernel


@pytest.mark.parametrize("op", [None, "mine"])
@pytest.mark.parametrize("age", [0, YEARS])
def test_somebody_was_faster(hk: holdkit.Kernel, clock: FakeClock, age: int, op: str | None) -> None:
    claim = confirmed(hk)
    clock.advance(age)
    hk.sweep()
    freed: list[Any] = []
    Meddler(hk, lambda: freed.append(hk.claims.free(*KEY, reason="closed by them", op="theirs")))
    not_confirmed(lambda: hk.claims.free(*KEY, reason="closed by me", op=op))
    assert [gone.state for gone in freed] == ["released"]
    assert hk.pool(claim.legs[0].pool).available == 1


@pytest.mark.parametrize("op", [None, "mine"])
def test_its_hold_is_dropped_meanwhile(hk: holdkit.Kernel, clock: FakeClock, op: str | None) -> None:
    confirmed(hk)
    clock.advance(YEARS)
    Meddler(hk, hk.sweep)
    assert hk.claims.free(*KEY, reason="closed", op=op).state == "released"
    if op is not None:
        assert hk.claims.free(*KEY, reason="closed", op=op).state == "released"
    assert hk.admin.verify().differences == ()


@pytest.mark.parametrize("age", [0, YEARS])
def test_two_connections_free_one_key(migrated: Callable[..., str], clock: FakeClock, age: int) -> None:
    """The second has looked, and waits for the lock that the first has taken."""
    url = migrated()
    with holdkit.connect(url, clock=clock) as first, holdkit.connect(url, clock=clock) as second:
        confirmed(first)
        clock.advance(age)
        first.sweep()
        with caller(url) as connection, ThreadPoolExecutor(1) as thread:
            first.claims.free(*KEY, reason="closed", tx=connection)
            late = thread.submit(second.claims.free, *KEY, reason="closed")
            await_waiter(url)
            connection.commit()
            not_confirmed(late.result)
        assert first.admin.verify().differences == ()
