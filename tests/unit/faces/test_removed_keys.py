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


def confirmed(hk: Any, entity: str = "user:1") -> Any:
    return hk.claims.confirm(hk.claims.reserve("email", "a@b.c", ttl=60), entity=entity)


def not_confirmed(forget: Callable[[], object], *, replayed: bool = False) -> None:
    with pytest.raises(holdkit.NotConfirmed, match=r"'email:a@b\.c' is not confirmed") as refused:
        forget()
    assert (refused.value.subject, refused.value.replayed) == ("email:a@b.c", replayed)


@pytest.mark.parametrize("age", [0, YEARS])
def test_a_key_is_freed_once(store: Store, age: int) -> None:
    hk = store.open()
    claim = confirmed(hk)
    store.clock.advance(age)
    hk.sweep()
    call = {"force": True, "reason": "closed", "op": "first"}
    assert hk.claims.forget(claim.id, **call).state == "released"
    for named in (claim, claim.id):
        late = partial(hk.claims.forget, named, force=True, reason="closed")
        not_confirmed(late)
        not_confirmed(partial(late, op=f"late {named}"))
        not_confirmed(partial(late, op=f"late {named}"), replayed=True)
    again = hk.claims.forget(claim.id, **call)
    assert (again.state, again.replayed) == ("released", True)
    assert differences(hk) == ()


def test_an_old_claim_does_not_free_the_key_of_somebody_else(store: Store) -> None:
    hk = store.open()
    old = confirmed(hk)
    store.clock.advance(YEARS)
    hk.sweep()
    hk.claims.forget(old, reason="closed")
    confirmed(hk, "user:2")
    store.clock.advance(YEARS)
    hk.sweep()
    not_confirmed(lambda: hk.claims.forget(old, reason="closed"))
    assert hk.claims.find(key="email:a@b.c").entity == "user:2"
    assert hk.claims.forget(old.id, reason="closed").state == "released"


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
    Meddler(hk, lambda: freed.append(hk.claims.forget(claim, reason="closed by them", op="theirs")))
    not_confirmed(lambda: hk.claims.forget(claim.id, force=True, reason="closed by me", op=op))
    assert [gone.state for gone in freed] == ["released"]
    assert hk.pool(f"~claim/{claim.id}").available == 1


@pytest.mark.parametrize("op", [None, "mine"])
def test_its_hold_is_dropped_meanwhile(hk: holdkit.Kernel, clock: FakeClock, op: str | None) -> None:
    claim = confirmed(hk)
    clock.advance(YEARS)
    Meddler(hk, hk.sweep)
    freed = hk.claims.forget(claim.id, force=True, reason="closed", op=op)
    assert (freed.state, freed.replayed) == ("released", False)
    if op is not None:
        assert hk.claims.forget(claim.id, force=True, reason="closed", op=op).replayed
    assert hk.admin.verify().differences == ()


@pytest.mark.parametrize("age", [0, YEARS])
def test_two_connections_free_one_key(migrated: Callable[..., str], clock: FakeClock, age: int) -> None:
    """The second has looked, and waits for the lock that the first has taken."""
    url = migrated()
    with holdkit.connect(url, clock=clock) as first, holdkit.connect(url, clock=clock) as second:
        claim = confirmed(first)
        clock.advance(age)
        first.sweep()
        with caller(url) as connection, ThreadPoolExecutor(1) as thread:
            first.claims.forget(claim, reason="closed", tx=connection)
            late = thread.submit(second.claims.forget, claim.id, force=True, reason="closed")
            await_waiter(url)
            connection.commit()
            not_confirmed(late.result)
        assert first.admin.verify().differences == ()
