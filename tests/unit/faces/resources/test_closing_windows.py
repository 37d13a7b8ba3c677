"""Windows that say when they close: refused from then on, swept away with what was consumed there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdkit import InsufficientCapacity, InvalidRequest, Limits, Resource
from holdkit.errors import PoolNotFound, WindowClosed
from holdkit.kernel.times import datetime_of
from tests.support.kernels import VARIANTS, differences
from tests.unit.faces.resources.shows import ShowStore

HOUR = 3600
LENGTH = 4 * HOUR * 1_000_000
"""Slots of a window."""
WEEKS = 3


class Quota(Resource[str, int]):
    """So many requests per client and four hours; the window is counted from 1970."""

    kind = "api.quota"

    def __init__(self, total: int = 2) -> None:
        self.total = total

    def capacity(self, tx: Any, key: str, window: int) -> int:
        return self.total

    def closes(self, key: str, window: int) -> datetime | None:
        return datetime.fromtimestamp((window + 1) * LENGTH // 1_000_000, UTC)


class Moved(Quota):
    """Its end is as it was said last."""

    kind = "moved.quota"
    end: Any = None

    def closes(self, key: str, window: int) -> Any:
        return self.end


@pytest.fixture(params=VARIANTS, ids="-".join)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShowStore]:
    """Room for 50 pools."""
    engine, mode = request.param
    migrated = request.getfixturevalue("migrated") if engine == "postgres" else None
    made = ShowStore(engine, mode, tmp_path, migrated, limits=Limits(max_pools=50))
    yield made
    made.close()


def test_a_rate_limit_written_with_consume_runs_for_ever(small: ShowStore) -> None:
    """Weeks of requests, in windows that together are far more than there is room for, and nobody sweeps."""
    quota = small.resource(Quota())
    clock = small.clock
    for turn in range(WEEKS * 7 * 6):
        window = clock.now() // LENGTH
        quota.consume(f"client-{turn % 40}", window)
        clock.advance(4 * HOUR)
    asked = [f"client-{number}" for number in range(50)]
    window = clock.now() // LENGTH
    for client in asked:
        quota.consume(client, window)
    pools = quota.pools(limit=1_000)
    assert [each.key for each in pools] == sorted(asked), "only what runs is left: the table is full of it"
    assert {each.window for each in pools} == {window}
    assert differences(small.hk) == ()


def test_a_closed_window_refuses_and_goes_with_what_was_consumed(store: ShowStore) -> None:
    quota = store.resource(Quota(total=3))
    clock = store.clock
    window = clock.now() // LENGTH
    paid, open_ = quota.consume("a", window), quota.hold("a", window, ttl=10 * HOUR)
    assert quota.pool("a", window).closes == datetime_of((window + 1) * LENGTH)
    clock.set((window + 1) * LENGTH - 1)
    late = quota.hold("a", window, ttl=10 * HOUR)
    clock.advance(0.000001)
    for verb, times in (("hold", {"ttl": 60}), ("consume", {})):
        with pytest.raises(WindowClosed) as no:
            getattr(quota, verb)("a", window, **times)
        assert (no.value.transient, no.value.now) == (False, datetime_of(clock.now()))
    with pytest.raises(WindowClosed):
        store.hk.confirm(open_, quantity=2, overage="if_available")
    assert store.hk.extend(open_, by=60).state == "held"
    assert store.hk.return_units(paid).legs[0].returned == 1
    assert store.hk.release(late).state == "released"
    store.hk.sweep()
    assert quota.pool("a", window).held == 1
    assert store.hk.confirm(open_, quantity=2, overage="up_to_available").uncovered == {open_.legs[0].name: 1}
    store.hk.sweep()
    assert quota.pools() == []
    with pytest.raises(WindowClosed):
        quota.consume("a", window)
    store.hk.sweep()
    assert quota.pools() == []
    assert differences(store.hk) == ()


def test_another_answer_counts_at_once_and_is_journaled(store: ShowStore) -> None:
    moved = Moved()
    moved.total = 9
    quota = store.resource(moved)
    now = datetime.fromtimestamp(store.clock.now() / 1e6, UTC)
    quota.consume("a", 1)
    for end in (now + timedelta(hours=2), now + timedelta(hours=1), None, now + timedelta(hours=3)):
        moved.end = end
        quota.consume("a", 1)
        assert quota.pool("a", 1).closes == end
    moved.end = now
    with pytest.raises(WindowClosed):
        quota.consume("a", 1)
    ends = [
        effect.pool.raw.closes
        for entry in store.hk.journal.list()
        for effect in entry.pools
        if entry.action == "pool.resized" and not effect.total
    ]
    assert len(ends) == 5
    assert ends[-1] == store.clock.now(), "the answer stands, though the command was refused"
    assert differences(store.hk) == ()


@pytest.mark.parametrize(
    ("answer", "code"),
    [(datetime(2030, 1, 1), "closes_naive"), (7, "closes_malformed"), ("2030-01-01", "closes_malformed")],  # noqa: DTZ001
)
def test_nonsense_is_refused_and_nothing_written(store: ShowStore, answer: Any, code: str) -> None:
    moved = Moved()
    moved.end = answer
    quota = store.resource(moved)
    with pytest.raises(InvalidRequest) as no:
        quota.consume("a", 1)
    assert (no.value.field, no.value.code) == ("closes", code)
    assert [entry.action for entry in store.hk.journal.list() if entry.action != "pool.created"] == []
    assert quota.holds() == []


def test_a_window_that_never_closes_is_as_before(small: ShowStore) -> None:
    quota = small.resource(Moved(total=1))
    quota.consume("a", 1)
    small.clock.advance(400 * 24 * HOUR)
    small.hk.sweep()
    with pytest.raises(InsufficientCapacity):
        quota.consume("a", 1)
    with pytest.raises(PoolNotFound):
        small.hk.pool("nowhere")
