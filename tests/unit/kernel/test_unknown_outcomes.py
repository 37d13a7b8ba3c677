"""Unknown outcomes: resolved where there is a retry key, never turned into a refusal, never applied twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdkit import Hold, InsufficientCapacity, OutcomeUnknown, Overloaded
from holdkit.commands import CreatePool, PlaceHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group, ResizePool
from holdkit.core.model import Leg
from holdkit.core.reading import ReadHistory
from holdkit.errors import EngineError, PoolNotFound
from tests.support.modes import Async, Sync
from tests.support.watched_engine import WatchedEngine, batch_of


def lose_once(engine: WatchedEngine, *, written: bool, then: Callable[[], BaseException] | None = None) -> None:
    """The next batch's answer is lost, after it was written or before; then every batch fails as `then` says."""

    def lose(_: Sequence[Group]) -> None:
        engine.before = engine.after = None
        if then is not None:

            def fail(_: Sequence[Group]) -> None:
                raise then()

            engine.before = fail
        raise OutcomeUnknown("the connection was lost")

    if written:
        engine.after = lose
    else:
        engine.before = lose


@pytest.mark.parametrize("written", [True, False])
def test_a_minted_hold_is_a_retry_key(hk: Any, engine: WatchedEngine, written: bool) -> None:
    lose_once(engine, written=written)
    hold = hk.hold("p", 3, ttl=60, metadata={"a": 1})
    assert (hold.state, hold.raw.deadline, hold.metadata) == ("held", 60_000_000, {"a": 1})
    assert hold.position == hk.history(hold)[0].position
    assert hk.pool("p").held == 3
    assert hk.confirm(hold).state == "confirmed", "the token is the one it was placed with"


@pytest.mark.parametrize("written", [True, False])
def test_an_operation_id_is_a_retry_key(hk: Any, engine: WatchedEngine, written: bool) -> None:
    hold = hk.hold("p", 3, ttl=60)
    lose_once(engine, written=written)
    assert hk.confirm(hold, op="op-1", quantity=2, keep_rest=True).legs[0].confirmed == 2
    lose_once(engine, written=written)
    assert hk.create_pool("q", 5, op="op-2").total == 5
    assert hk.pool("p").consumed == 2


@pytest.mark.parametrize("written", [True, False])
def test_a_refusal_that_was_lost_is_a_refusal(hk: Any, engine: WatchedEngine, written: bool) -> None:
    lose_once(engine, written=written)
    with pytest.raises(InsufficientCapacity):
        hk.hold("p", 11, ttl=60)
    lose_once(engine, written=written)
    with pytest.raises(PoolNotFound):
        hk.hold("none", 1, ttl=60, op="op-1")


def test_a_consume_is_answered_from_the_journal_or_stays_unknown(hk: Any, engine: WatchedEngine) -> None:
    lose_once(engine, written=True)
    spent = hk.consume("p", 3)
    assert (spent.state, spent.legs[0].confirmed) == ("confirmed", 3)
    assert spent.position == hk.history(spent)[-1].position
    lose_once(engine, written=False)
    with pytest.raises(OutcomeUnknown):
        hk.consume("p", 3)
    assert hk.pool("p").consumed == 3


@pytest.mark.parametrize("written", [True, False])
def test_what_has_no_retry_key_is_never_sent_twice(hk: Any, engine: WatchedEngine, written: bool) -> None:
    hold = hk.hold("p", 4, ttl=60)
    chosen = {"id": "1" * 32, "token": "mine"}
    calls: list[Callable[[], Any]] = [
        lambda: hk.confirm(hold, quantity=1, keep_rest=True),
        lambda: hk.release(hold, quantity=1),
        lambda: hk.extend(hold, by=1),
        lambda: hk.create_pool(f"q{written}", 1),
        lambda: hk.hold("p", 1, ttl=60, **chosen),
        lambda: hk.apply([PlaceHold(legs=(Leg("p"),), ttl=60), CreatePool(id="r", total=1, op="op-1")]),
    ]
    for call in calls:
        engine.batches.clear()
        lose_once(engine, written=written)
        with pytest.raises(OutcomeUnknown) as unknown:
            call()
        assert unknown.value.effect == "unknown"
        assert engine.batches == ([1] if written else [])


@pytest.mark.parametrize("error", [Overloaded("busy"), EngineError("disk"), OutcomeUnknown("again"), ValueError("odd")])
@pytest.mark.parametrize("op", [None, "op-1"])
def test_being_turned_away_does_not_settle_it(hk: Any, engine: WatchedEngine, error: Exception, op: str | None) -> None:
    lose_once(engine, written=False, then=lambda: error)
    with pytest.raises(OutcomeUnknown, match="the connection was lost"):
        hk.hold("p", 1, ttl=60, op=op)
    engine.before = None
    assert isinstance(hk.hold("p", 1, ttl=60, op=op), Hold)


def test_a_full_operation_table_does_not_settle_it(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=Limits(max_operations=1))
    hk = mode.open(engine)
    hk.create_pool("p", 10, op="op-1")
    lose_once(engine, written=False)
    with pytest.raises(OutcomeUnknown):
        hk.hold("p", 1, ttl=60, op="op-2")
    hk.close()


def test_a_short_retry_window_proves_nothing(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=Limits(retry_window=1))
    hk = mode.open(engine)
    lose_once(engine, written=True)
    with pytest.raises(OutcomeUnknown):
        hk.create_pool("p", 10, op="op-1")
    hk.close()


def test_a_hold_that_expired_meanwhile_was_granted_all_the_same(hk: Any, engine: WatchedEngine) -> None:
    """The journal says that it was born; that it cannot be placed again (its deadline has passed) is no refusal."""
    lose_once(engine, written=True)
    landed = engine.after
    assert landed is not None

    def late(groups: Sequence[Group]) -> None:
        engine.fake.advance(3600)
        landed(groups)

    engine.after = late
    hold = hk.hold("p", 3, deadline=5_000_000)
    assert (hold.state, hold.raw.deadline) == ("held", 5_000_000), "the answer that was lost"
    assert hk.get(hold).state == "expired"
    assert len(hk.history(hold)) == 1


def test_a_first_attempt_that_lands_late_is_found(hk: Any, engine: WatchedEngine) -> None:
    """It is not in the journal when it is looked for, and in the way when it is placed again."""
    lost: list[Group] = []

    def lose(groups: Sequence[Group]) -> None:
        engine.before = None
        lost.extend(groups)
        engine.reading = land
        raise OutcomeUnknown("the connection was lost")

    def arrive(_: Sequence[Group]) -> None:
        engine.before = None
        engine.inner.apply(lost)

    def land(query: Any) -> None:
        if isinstance(query, ReadHistory):
            engine.reading = None
            engine.before = arrive

    engine.before = lose
    hold = hk.hold("p", 3, ttl=60)
    assert hold.state == "held"
    assert hk.pool("p").held == 3
    assert len(hk.history(hold)) == 1


def test_where_others_write_a_refusal_of_the_second_attempt_settles_nothing(hk: Any, engine: WatchedEngine) -> None:
    """A server may run what it was sent after the connection is gone: the first attempt lands behind the second one's refusal."""
    engine.alone = False
    lost: list[Group] = []

    def lose(groups: Sequence[Group]) -> None:
        lost.extend(groups)
        engine.inner.apply([Group((ResizePool(id="p", total=2),))])
        engine.before = None
        raise OutcomeUnknown("the connection was lost")

    engine.before = lose
    with pytest.raises(OutcomeUnknown):
        hk.hold("p", 3, ttl=60)
    engine.inner.apply([Group((ResizePool(id="p", total=10),))])
    engine.inner.apply(lost)
    assert hk.pool("p").held == 3, "so it was no refusal"


def test_each_call_of_a_lost_batch_is_answered_for_itself(hk: Any, engine: WatchedEngine) -> None:
    hold = hk.hold("p", 1, ttl=60)
    calls = [
        lambda: hk.hold("p", 1, ttl=60),
        lambda: hk.confirm(hold),
        lambda: hk.hold("p", 1, ttl=60, op="op-1"),
        lambda: hk.hold("p", 99, ttl=60),
    ]

    def lose(groups: Sequence[Group]) -> None:
        if len(groups) == 4:
            raise OutcomeUnknown("the connection was lost")

    engine.after = lose
    with batch_of(hk, engine, calls) as callers:
        pass
    assert [type(answer) for answer in callers.join()] == [Hold, OutcomeUnknown, Hold, InsufficientCapacity]
    assert (hk.pool("p").held, hk.pool("p").consumed) == (2, 1)
    assert hk.admin.verify().ok


def test_when_the_engine_stays_silent_it_is_asked_once(hk: Any, engine: WatchedEngine) -> None:
    """A batch of many must not become many waits on a disk that is gone."""
    asked: list[int] = []

    def gone(groups: Sequence[Group]) -> None:
        asked.append(len(groups))
        if len(asked) > 1:  # the first batch is the one at the gate
            raise OutcomeUnknown("the disk is gone")

    engine.before = gone
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 9) as callers:
        pass
    assert [type(answer) for answer in callers.join()] == [OutcomeUnknown] * 9
    assert asked == [1, 9, 1]


def test_changed_limits_are_told_without_another_look(hk: Any, engine: WatchedEngine) -> None:
    """One that failed after the commit would deny what is done."""

    def fail(_: object) -> None:
        raise EngineError("the server is gone")

    engine.reading = fail
    assert hk.admin.change_limits(retention="7d", reason="shorter").version == 1
    engine.reading = None
    assert hk.admin.change_limits(retention="8d", reason="longer", op="op-1").version == 2
    assert hk.admin.change_limits(retention="8d", reason="longer", op="op-1").version == 2
