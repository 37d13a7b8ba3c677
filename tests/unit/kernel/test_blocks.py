"""`holding` and `lease`, sync and async: ended as promised, whatever the body, the clock or the engine does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from holdkit import AlreadyReleased, HoldExpired, InsufficientCapacity, InvalidRequest, context
from holdkit.commands import ExtendHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.errors import EngineError, LifetimeExceeded
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE
from tests.support.watched_engine import WatchedEngine


def actions(hk: Any) -> list[str]:
    return [str(entry.action) for entry in hk.journal.list() if entry.subject != "p"]


def test_a_body_that_leaves_normally_confirms(hk: Any) -> None:
    with hk.holding("p", 2, ttl="5m", entity="order:9", actor="user:7", correlation_id="c-1") as hold:
        assert hold.state == "held"
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)
    assert hk.get(hold).entity == "order:9"
    assert [(entry.actor, entry.correlation_id) for entry in hk.history(hold)] == [("user:7", "c-1")] * 2


def test_a_body_that_raises_releases(hk: Any) -> None:
    with pytest.raises(ZeroDivisionError), hk.holding("p", 2, ttl="5m", actor="user:7") as hold:
        raise ZeroDivisionError
    assert hk.pool("p").available == 10
    assert hk.get(hold).reason == "ZeroDivisionError"
    assert hk.history(hold)[-1].actor == "user:7"


def test_an_exception_with_an_odd_name_releases_too(hk: Any) -> None:
    odd = type("a\nb" * 500, (Exception,), {})
    with pytest.raises(odd), hk.holding("p", 2, ttl="5m") as hold:
        raise odd
    assert hk.get(hold).reason == "error"


def test_leaving_after_the_deadline_raises(hk: Any, engine: WatchedEngine) -> None:
    with pytest.raises(HoldExpired), hk.holding("p", 2, ttl=60):
        engine.fake.advance(60)
    assert hk.pool("p").available == 10


def test_the_bodys_exception_is_never_masked(hk: Any, engine: WatchedEngine) -> None:
    with pytest.raises(ZeroDivisionError) as late, hk.holding("p", 2, ttl=60):  # noqa: PT012
        engine.fake.advance(60)
        raise ZeroDivisionError
    assert "could not be released" in late.value.__notes__[0]
    assert "hold_expired" in late.value.__notes__[0]

    def fail(_: Sequence[Group]) -> None:
        raise EngineError("disk")

    with pytest.raises(ZeroDivisionError) as failed, hk.holding("p", 2, ttl=60):  # noqa: PT012
        engine.before = fail
        raise ZeroDivisionError
    assert "holdkit: disk" in failed.value.__notes__[0]
    assert failed.value.__notes__[0].endswith("it expires at its deadline")


@pytest.mark.parametrize("end", ["confirm", "release"])
def test_the_body_may_end_the_hold_itself(hk: Any, end: str) -> None:
    with hk.holding("p", 2, ttl=60) as hold:
        getattr(hk, end)(hold)
    with pytest.raises(ZeroDivisionError) as raised, hk.holding("p", 2, ttl=60) as hold:  # noqa: PT012
        getattr(hk, end)(hold)
        raise ZeroDivisionError
    assert not getattr(raised.value, "__notes__", [])


def test_a_hold_that_was_released_by_force_is_not_passed_over(hk: Any) -> None:
    """The body did its work, and no units stand behind it any more: it must hear of that."""
    with pytest.raises(AlreadyReleased), hk.holding("p", 2, ttl=60) as hold:
        hk.admin.release(hold.id, reason="admin_override")


def test_a_replayed_hold_that_was_released_is_not_passed_over(hk: Any) -> None:
    hk.release(hk.hold("p", 2, ttl=60, op="op-1"))
    with pytest.raises(AlreadyReleased), hk.holding("p", 2, ttl=60, op="op-1"):
        pass


def test_a_retried_block_that_was_confirmed_stays_confirmed(hk: Any) -> None:
    for _ in range(2):
        with hk.holding("p", 2, ttl=60, op="op-1"):
            pass
    assert hk.pool("p").consumed == 2


def test_a_refused_block_never_runs(hk: Any) -> None:
    for block in (hk.holding("p", 11, ttl=60), hk.lease("p", 11, ttl=60)):
        with pytest.raises(InsufficientCapacity), block:
            raise AssertionError("never entered")


def test_a_block_is_entered_once(hk: Any) -> None:
    for block in (hk.holding("p", 1, ttl=60), hk.lease("p", 1, ttl=60)):
        with pytest.raises(InvalidRequest, match="before `with` has entered it"):
            _ = block.hold
        with block:
            pass
        with pytest.raises(InvalidRequest, match="entered once"), block:
            pass


def test_blocks_take_no_transaction(hk: Any) -> None:
    for block in (hk.holding, hk.lease):
        with pytest.raises(InvalidRequest) as refused:
            block("p", 1, ttl=60, tx=object())
        assert (refused.value.field, refused.value.code) == ("tx", "tx_unsupported")


def test_a_lease_is_always_released(hk: Any) -> None:
    with hk.lease("p", 2, ttl=60, actor="job:train") as lease:
        assert hk.pool("p").held == 2
        assert lease.fence == lease.hold.fence
        assert not lease.lost
        lease.check()
    with pytest.raises(ZeroDivisionError), hk.lease("p", 2, ttl=60) as lease:
        raise ZeroDivisionError
    assert hk.pool("p").available == 10
    assert [(entry.reason, entry.actor) for entry in hk.journal.list() if entry.action == "hold.released"] == [
        ("lease_ended", "job:train"),
        ("ZeroDivisionError", None),
    ]


def test_renewing_counts_from_now_and_keeps_the_actor(hk: Any, engine: WatchedEngine) -> None:
    with hk.lease("p", 2, ttl=60, actor="job:train", correlation_id="c-1") as lease:
        engine.fake.advance(30)
        lease.renew()
        assert lease.hold.raw.deadline == 90_000_000
        engine.fake.advance(59)
        assert not lease.lost
        story = hk.history(lease.hold)
    assert [(str(entry.action), entry.actor, entry.correlation_id) for entry in story] == [
        ("hold.held", "job:train", "c-1"),
        ("hold.extended", "job:train", "c-1"),
    ]


def test_a_lease_past_its_deadline_is_lost(hk: Any, engine: WatchedEngine) -> None:
    with hk.lease("p", 2, ttl=60) as lease:
        engine.fake.advance(60)
        assert lease.lost, "also before anyone tried to renew it"
        with pytest.raises(HoldExpired, match="lease is lost"):
            lease.check()
        with pytest.raises(HoldExpired):
            lease.renew()
        engine.fake.advance(-60)
        assert lease.lost, "what was refused once stays lost"
    assert hk.pool("p").available == 10


def test_a_lease_released_by_force_is_lost_at_the_next_renewal(hk: Any) -> None:
    with hk.lease("p", 2, ttl=60) as lease:
        hk.admin.release(lease.hold.id, reason="admin_override")
        with pytest.raises(AlreadyReleased):
            lease.renew()
        assert lease.lost
        with pytest.raises(HoldExpired, match="already_released"):
            lease.check()


def test_a_lease_is_renewed_up_to_the_longest_lifetime(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=Limits(max_lifetime=100_000_000))
    hk = mode.open(engine)
    hk.create_pool("p", 1)
    with hk.lease("p", 1, ttl=60) as lease:
        engine.fake.advance(50)
        lease.renew()
        assert lease.hold.raw.deadline == 100_000_000, "what was left of its lifetime"
        assert not lease.lost, "refused more time, but alive until then"
        engine.fake.advance(49)
        lease.renew()
        assert not lease.lost
        engine.fake.advance(1)
        assert lease.lost
    assert hk.pool("p").available == 1
    with pytest.raises(LifetimeExceeded):
        hk.hold("p", 1, ttl=101)
    hk.close()


def extending(groups: Sequence[Group]) -> bool:
    return any(isinstance(command, ExtendHold) for group in groups for command in group.commands)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases renew as fast as they can."""
    monkeypatch.setattr("holdkit.kernel._sync.blocks.RENEWALS", 10**9)
    monkeypatch.setattr("holdkit.kernel._async.blocks.RENEWALS", 10**9)


@pytest.mark.usefixtures("short_waits")
def test_a_lease_renews_itself(hk: Any, engine: WatchedEngine) -> None:
    renewed = threading.Event()
    engine.after = lambda groups: renewed.set() if extending(groups) else None
    with hk.lease("p", 1, ttl=60) as lease:
        assert renewed.wait(PATIENCE)
        assert lease.hold.state == "held"


@pytest.mark.usefixtures("short_waits")
def test_a_failing_engine_is_asked_again(hk: Any, engine: WatchedEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdkit")
    renewed = threading.Event()
    failures = [EngineError("disk")] * 3

    def fail(groups: Sequence[Group]) -> None:
        if extending(groups):
            if failures:
                raise failures.pop()
            renewed.set()

    engine.before = fail
    with hk.lease("p", 1, ttl=60) as lease:
        assert renewed.wait(PATIENCE)
        assert not lease.lost
    assert "could not be renewed, will try again: holdkit: disk" in caplog.text


def test_a_lease_that_cannot_be_released_says_so(
    hk: Any, engine: WatchedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Sequence[Group]) -> None:
        raise EngineError("disk")

    with hk.lease("p", 1, ttl=60):
        engine.before = fail
    assert "could not be released and expires at its deadline" in caplog.text
    engine.before = None
    with pytest.raises(ZeroDivisionError) as raised, hk.lease("p", 1, ttl=60):  # noqa: PT012
        engine.before = fail
        raise ZeroDivisionError
    assert "holdkit: disk" in raised.value.__notes__[0]


def test_leaving_waits_for_no_renewal(hk: Any, engine: WatchedEngine) -> None:
    """The release goes first; a renewal under way is refused behind it, and quietly."""
    with hk.lease("p", 1, ttl=60) as lease:
        pass
    assert actions(hk) == ["hold.held", "hold.released"]
    assert lease.hold.state == "held", "the lease keeps what it last knew"


def test_blocks_inherit_the_context_they_were_made_in(hk: Any) -> None:
    with context(actor="user:7", correlation_id="c-1", reason="checkout"):
        block = hk.holding("p", 1, ttl=60)
    with block as hold:
        pass
    assert [(entry.actor, entry.reason) for entry in hk.history(hold)] == [("user:7", "checkout")] * 2


@pytest.mark.parametrize("renewals", [3, 10**9], ids=["at its end", "while it renews"])
def test_a_lease_outlives_a_closed_kernel_without_noise(
    mode: Sync | Async, renewals: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("holdkit.kernel._sync.blocks.RENEWALS", renewals)
    monkeypatch.setattr("holdkit.kernel._async.blocks.RENEWALS", renewals)
    engine = WatchedEngine()
    hk = mode.open(engine)
    hk.create_pool("p", 1)
    with hk.lease("p", 1, ttl=60):
        hk.close()
    hk = mode.open(engine := WatchedEngine())
    hk.create_pool("p", 1)
    with pytest.raises(ZeroDivisionError) as raised, hk.lease("p", 1, ttl=60):  # noqa: PT012
        hk.close()
        raise ZeroDivisionError
    assert "this kernel is closed" in raised.value.__notes__[0], "an error that is under way is told, not logged"
    assert caplog.text == ""
