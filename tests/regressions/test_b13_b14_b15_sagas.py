"""B13, B14 and B15, the sagas' side: an error behind the point of no return, a reply that was lost, an attempt that failed."""

from __future__ import annotations

from typing import Any

import pytest

import holdkit
from tests.support.kernels import Store, differences
from tests.unit.faces.sagas.scripted_saga import opened


def test_b13_an_error_behind_the_point_of_no_return_a_rival_recovery(store: Store) -> None:
    """Nothing is spent twice, and nothing is stuck: the units stay the saga's, however long it takes."""
    disk = {"fails": True}

    def write(_intent: Any, step: holdkit.sagas.SagaStep) -> str:
        if disk["fails"]:
            raise OSError("input/output error")
        return step.op

    hk, sagas, registered, saga = opened(store, effect=write)
    with pytest.raises(holdkit.OutcomeUnknown, match="input/output error"):
        registered.run("order-1", {"pool": "p"})
    hk.consume("p", 1)
    store.clock.advance(86_400)  # far beyond the hold's first deadline
    hk.sweep()
    with pytest.raises(holdkit.InsufficientCapacity):
        hk.consume("p", 1)  # a rival, for what the saga holds
    (seen,) = sagas.list(phase="finalizing")
    assert (seen.id, seen.failures, seen.error.kind) == ("order-1", 1, "OSError")
    disk["fails"] = False
    assert sagas.recover().done == 1
    assert sagas.get("order-1").result == "saga:order-1:1"
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)
    assert sagas.recover() == holdkit.sagas.RecoveryReport()
    assert saga.calls.count("effect") == 2
    assert differences(hk) == ()


def test_b14_a_saga_whose_reply_was_lost_is_run_again(store: Store) -> None:
    hk, _, registered, saga = opened(store)
    first = registered.run("order-1", {"pool": "p"})
    hk = store.reopen(hk)
    registered = hk.sagas.register(saga)
    assert registered.run("order-1", {"pool": "p"}) == first
    assert saga.calls.count("effect") == 1
    assert hk.pool("p").consumed == 1
    with pytest.raises(holdkit.OperationConflict):
        registered.run("order-1", {"pool": "q"})


def test_b15_an_aborted_saga_does_not_block_its_next_attempt(store: Store) -> None:
    hk, sagas, registered, saga = opened(store)
    rival = hk.hold("p", 2, ttl=3600)
    for _ in range(3):
        with pytest.raises(holdkit.InsufficientCapacity):
            registered.run("order-1", {"pool": "p"})
        assert sagas.get("order-1").phase == "aborted"
    hk.release(rival)
    assert registered.run("order-1", {"pool": "p"}).phase == "done"
    assert saga.calls == ["reserve", "undo"] * 3 + ["reserve", "validate", "effect"]
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 1)
    assert differences(hk) == ()


def test_b15_a_dead_attempt_does_not_stand_in_the_way_of_the_next(store: Store) -> None:
    """The units of an attempt that died are released by the next one, in the transaction that takes them again."""

    class Gone(BaseException):
        """The process is gone."""

    died: list[int] = []

    def look(_intent: Any, step: holdkit.sagas.SagaStep) -> None:
        if not died:
            died.append(step.attempt)
            raise Gone

    hk, sagas, registered, _ = opened(store, validate=look, reserve=lambda _intent, _step: {"p": 2})
    with pytest.raises(Gone):
        registered.run("order-1", {"pool": "p"})
    assert hk.pool("p").held == 2
    store.clock.advance(30)  # the lease is over, the hold is not
    assert sagas.recover().done == 1
    assert (sagas.get("order-1").attempt, hk.pool("p").consumed) == (2, 2)
    assert differences(hk) == ()
