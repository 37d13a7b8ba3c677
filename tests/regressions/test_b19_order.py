"""B19: what happens in one instant is told in the order in which it happened."""

from __future__ import annotations

import pytest

import holdkit
from holdkit import Leg
from holdkit.commands import ConfirmHold, PlaceHold
from tests.support.kernels import Store, differences


def test_b19_held_and_confirmed_in_the_same_instant(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 500)
    holds = [hk.hold("p", 2, ttl=60) for _ in range(20)]
    for hold in reversed(holds):
        hk.extend(hold, by=1)
        hk.confirm(hold, quantity=1, keep_rest=True)
        hk.release(hold)
    hk = store.reopen(hk)
    for hold in holds:
        history = hk.history(hold)
        assert [entry.action for entry in history] == [
            "hold.held",
            "hold.extended",
            "hold.partly_confirmed",
            "hold.released",
        ]
        assert {entry.raw.slot for entry in history} == {0}
        assert history == sorted(history, key=lambda entry: entry.raw.position)
        assert holdkit.journal.reconstruct(history) == hk.get(hold)
    assert differences(hk) == ()


def test_b19_one_step_and_one_batch(store: Store) -> None:
    """Hold and confirm in a single command, and as two commands of one transaction."""
    hk = store.open()
    hk.create_pool("p", 9)
    consumed = hk.consume("p", 1)
    place = PlaceHold(legs=(Leg("p", 2),), ttl=60, id=f"{1:032x}", token="me")
    batched = hk.apply([place, ConfirmHold(id=f"{1:032x}", token="me")])[-1].unwrap()
    for hold in (consumed, batched):
        assert hold.state == "confirmed"
        assert [entry.action for entry in hk.history(hold)] == ["hold.held", "hold.confirmed"]
        assert holdkit.journal.reconstruct(hk.history(hold)) == hk.get(hold)


@pytest.mark.parametrize("step", [-30, -1, 0, 1])
def test_b19_a_clock_that_stands_or_steps_back_changes_no_order(store: Store, step: int) -> None:
    store.clock.set(100_000_000)
    hk = store.open()
    hk.create_pool("p", 9)
    hold = hk.hold("p", 3, ttl=600)
    for _ in range(3):
        store.clock.advance(step)
        hk.confirm(hold, quantity=1, keep_rest=True)
    history = hk.history(hold)
    assert [entry.action for entry in history] == ["hold.held", *["hold.partly_confirmed"] * 2, "hold.confirmed"]
    slots = [entry.raw.slot for entry in history]
    assert slots == sorted(slots), "time never moves backwards along a pool"
    assert holdkit.journal.reconstruct(history) == hk.get(hold)


def test_b19_a_due_hold_that_nobody_has_touched_is_expired_in_its_history_too(store: Store) -> None:
    hk = store.open()
    hk.create_pool("p", 9)
    hold = hk.hold("p", 2, ttl=60)
    store.clock.advance(59)
    early = hk.history(hold)
    assert holdkit.journal.reconstruct(early) == hk.get(hold)
    store.clock.advance(1)
    history = hk.history(hold)
    assert [entry.action for entry in history] == ["hold.held"]
    found = holdkit.journal.reconstruct(history)
    assert found is not None
    assert (found.state, found.raw.deadline) == ("expired", 60_000_000)
    assert found == hk.get(hold)
    before = holdkit.journal.reconstruct(early, at=59_999_999)
    assert before is not None
    assert before.state == "held"
    assert holdkit.journal.reconstruct(early, at=60_000_000) == found
    assert holdkit.journal.reconstruct(hk.journal.list()[-1:]) == found
    assert holdkit.journal.reconstruct([]) is None
