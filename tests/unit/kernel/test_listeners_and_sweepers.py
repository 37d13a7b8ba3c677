"""Listeners and sweepers, sync and async: beside the callers, never in their way, and gone when the kernel is closed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from holdkit import InvalidRequest
from holdkit.commands import Sweep
from holdkit.core.commands import Group
from holdkit.engines.memory import MemoryEngine
from holdkit.errors import EngineError
from holdkit.kernel.times import moment
from tests.support.modes import Async, Sync
from tests.support.recording_listener import RecordingListener
from tests.support.threads import PATIENCE, no_threads_left, wait_until
from tests.support.watched_engine import WatchedEngine


def test_a_listener_hears_what_is_committed_from_now_on(hk: Any) -> None:
    listener = RecordingListener()
    hk.journal.on("pool.created", listener)
    hk.create_pool("a", 1)
    hk.hold("p", 1, ttl=60)
    hk.create_pool("b", 1)
    listener.wait(2)
    assert listener.heard == ["pool.created a", "pool.created b"]


def test_a_listener_for_everything(hk: Any) -> None:
    listener = RecordingListener()
    hk.journal.on(None, listener)
    hold = hk.hold("p", 1, ttl=60)
    hk.release(hold)
    listener.wait(2)
    assert listener.heard == [f"hold.held {hold.id}", f"hold.released {hold.id}"]


def test_listeners_run_beside_the_callers(hk: Any, mode: Sync | Async) -> None:
    listener = RecordingListener()
    hk.journal.on(None, listener)
    hk.create_pool("a", 1)
    listener.wait()
    assert listener.threads == {"holdkit-listener" if mode.name == "sync" else "test-loop"}


def test_a_raising_listener_stops_nobody(hk: Any, caplog: pytest.LogCaptureFixture) -> None:
    listener = RecordingListener()

    def fail(entry: Any) -> None:
        listener(entry)
        raise ZeroDivisionError("listener bug")

    healthy = RecordingListener()
    hk.journal.on(None, fail)
    hk.journal.on(None, healthy)
    hk.create_pool("a", 1)
    hk.create_pool("b", 1)
    listener.wait(2)
    healthy.wait(2)
    assert listener.heard == healthy.heard == ["pool.created a", "pool.created b"]
    assert "listener failed on pool.created of a; going on" in caplog.text


def test_a_slow_listener_delays_neither_callers_nor_others(hk: Any, mode: Sync | Async) -> None:
    free, healthy, slow_listener = threading.Event(), RecordingListener(), RecordingListener()
    if isinstance(mode, Async):

        async def slow(entry: Any) -> None:
            await asyncio.to_thread(free.wait, PATIENCE)
            slow_listener(entry)
    else:

        def slow(entry: Any) -> None:  # type: ignore[misc]
            assert free.wait(PATIENCE)
            slow_listener(entry)

    hk.journal.on(None, slow)
    hk.journal.on(None, healthy)
    hk.create_pool("a", 1)
    hk.create_pool("b", 1)
    healthy.wait(2)
    assert not slow_listener.heard
    free.set()
    slow_listener.wait(2)
    assert slow_listener.heard == healthy.heard


def test_a_cancelled_listener_hears_no_more_and_its_thread_ends(
    hk: Any, mode: Sync | Async, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_sync", "_async"):
        monkeypatch.setattr(f"holdkit.kernel.{module}.background.POLL", 3600)
    before = set(threading.enumerate())
    listener, other = RecordingListener(), RecordingListener()
    subscription = hk.journal.on(None, listener)
    hk.journal.on(None, other)
    hk.create_pool("a", 1)
    listener.wait()
    subscription.cancel()
    subscription.cancel()
    workers = (hk._thing if mode.name == "async" else hk)._executor.group_commit.workers
    wait_until(lambda: len(workers) == 1)
    hk.create_pool("b", 1)
    other.wait(2)
    assert listener.heard == ["pool.created a"]
    hk.close()
    no_threads_left(before)


def test_a_tenants_listener_hears_only_its_own(hk: Any) -> None:
    listener = RecordingListener()
    hk.tenant("acme").journal.on(None, listener)
    hk.create_pool("a", 1)
    hk.tenant("acme").create_pool("x", 1)
    listener.wait()
    assert listener.heard == ["pool.created x"]


def test_a_listener_survives_a_read_that_fails(
    hk: Any, engine: WatchedEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in ("_sync", "_async"):
        monkeypatch.setattr(f"holdkit.kernel.{mode}.background.PAUSE", 0.001)
    caplog.set_level(logging.WARNING, "holdkit")
    listener = RecordingListener()
    hk.journal.on(None, listener)
    hk.create_pool("a", 1)
    listener.wait()
    failed = threading.Event()

    def fail(_: Any) -> None:
        failed.set()
        raise EngineError("disk")

    engine.reading = fail
    hk.create_pool("b", 1)
    assert failed.wait(PATIENCE)
    engine.reading = None
    listener.wait()
    assert listener.heard == ["pool.created a", "pool.created b"], "none skipped, none twice"
    assert "could not read the journal, will try again: holdkit: disk" in caplog.text


def test_a_listener_goes_on_after_a_journal_was_cut_back(
    hk: Any, engine: WatchedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdkit")
    listener = RecordingListener()
    hk.journal.on(None, listener)
    hk.create_pool("a", 1)
    listener.wait()
    engine.inner = MemoryEngine(clock=engine.fake)
    hk.create_pool("b", 1)
    wait_until(lambda: "listener missed entries" in caplog.text)
    others = count()

    def heard_another() -> bool:
        hk.create_pool(f"c{next(others)}", 1)
        return len(listener.heard) > 1

    wait_until(heard_another)
    assert listener.heard[1] != "pool.created a", "b, if it noticed before that; else the first c after"


def test_a_listener_may_call_the_kernel_sync(engine: WatchedEngine) -> None:
    hk = Sync().open(engine)
    listener = RecordingListener()

    def chain(entry: Any) -> None:
        if entry.subject == "a":
            hk.create_pool("b", 1)
        listener(entry)

    hk.journal.on("pool.created", chain)
    hk.create_pool("a", 1)
    listener.wait(2)
    hk.close()


def test_a_listener_may_close_the_kernel(mode: Sync | Async) -> None:
    before = set(threading.enumerate())
    hk = mode.open(WatchedEngine())
    closed = threading.Event()
    if isinstance(mode, Async):

        async def close(_: Any) -> None:
            await hk._thing.close()
            closed.set()
    else:

        def close(_: Any) -> None:  # type: ignore[misc]
            hk.close()
            closed.set()

    hk.journal.on(None, close)
    hk.create_pool("a", 1)
    assert closed.wait(PATIENCE)
    wait_until(lambda: hk._executor.closed)
    if mode.name == "sync":
        no_threads_left(before)


def test_closing_does_not_wait_for_ever_for_a_stuck_listener(
    mode: Sync | Async, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "async_group_commit" if isinstance(mode, Async) else "group_commit"
    monkeypatch.setattr(f"holdkit.kernel.{kind}.GRACE", 0.01)
    hk = mode.open(WatchedEngine())
    stuck, free = threading.Event(), threading.Event()
    if isinstance(mode, Async):

        async def stick(_: Any) -> None:
            stuck.set()
            await asyncio.Event().wait()
    else:

        def stick(_: Any) -> None:  # type: ignore[misc]
            stuck.set()
            free.wait(PATIENCE)

    hk.journal.on(None, stick)
    hk.create_pool("a", 1)
    assert stuck.wait(PATIENCE)
    hk.close()
    free.set()


@pytest.mark.parametrize(
    ("action", "callback", "field", "code"),
    [
        ("hold.exploded", print, "action", "action_unknown"),
        (["hold.held"], print, "action", "action_unknown"),
        (7, print, "action", "action_unknown"),
        (None, None, "callback", "callback_not_callable"),
        ("hold.held", "print", "callback", "callback_not_callable"),
    ],
)
def test_bad_listeners(hk: Any, action: Any, callback: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.journal.on(action, callback)
    assert (refused.value.field, refused.value.code) == (field, code)


def sweeping(groups: Sequence[Group]) -> bool:
    return any(isinstance(command, Sweep) for group in groups for command in group.commands)


def test_a_sweep_reports_what_it_did(hk: Any, engine: WatchedEngine) -> None:
    ids = sorted(hk.hold("p", 1, ttl=60).id for _ in range(3))
    engine.fake.advance(60)
    report = hk.sweep(limit=2)
    assert (report.expired, moment(report.scanned_at), report.more) == (2, 60_000_000, True)
    assert (report.holds, report.tenants) == (tuple(ids[:2]), ("", ""))
    report = hk.sweep(limit=2)
    assert (report.expired, report.holds, report.more) == (1, (ids[2],), False)
    report = hk.sweep()
    assert (report.expired, report.holds, report.tenants) == (0, (), ())


def test_a_tenants_sweep_reports_its_own_holds_only(hk: Any, engine: WatchedEngine) -> None:
    ids: dict[str, str] = {}
    for round in range(2):
        for name in ("acme", "globex"):
            bound = hk.tenant(name)
            bound.create_pool("q", 10, exist_ok=True)
            ids[name] = bound.hold("q", 1, ttl=60 if name == "acme" else 50).id
        engine.fake.advance(60)
        acme = hk.tenant("acme")
        report = acme.sweep() if round == 0 else acme.apply([Sweep()])[0].unwrap()
        assert (report.expired, report.holds, report.tenants) == (1, (ids["acme"],), ("acme",))
        assert hk.tenant("globex").get(ids["globex"]).raw.ended_at is not None
    ids = {name: hk.tenant(name).hold("q", 1, ttl=ttl).id for name, ttl in (("acme", 60), ("globex", 50))}
    engine.fake.advance(60)
    report = hk.sweep()
    assert (report.expired, report.holds) == (2, (ids["globex"], ids["acme"]))
    assert report.tenants == ("globex", "acme")


def test_a_tenants_sweeper_counts_its_own(hk: Any, engine: WatchedEngine) -> None:
    for name in ("acme", "globex"):
        hk.tenant(name).create_pool("q", 10)
        hk.tenant(name).hold("q", 1, ttl=60)
    engine.fake.advance(60)
    with hk.tenant("acme").sweeper(every=3600) as sweeper:
        wait_until(lambda: sweeper.sweeps == 1)
        assert sweeper.expired == 1
    assert hk.sweep().expired == 0


def test_a_sweeper_sweeps_and_counts(hk: Any, engine: WatchedEngine) -> None:
    for _ in range(5):
        hk.hold("p", 1, ttl=60)
    engine.fake.advance(60)
    with hk.sweeper(every=3600, limit=2) as sweeper:
        wait_until(lambda: sweeper.sweeps == 3)
        assert sweeper.expired == 5
    assert [entry.action for entry in hk.journal.list()].count("hold.expired") == 5


def test_a_sweeper_survives_errors(hk: Any, engine: WatchedEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdkit")
    failures: list[Exception] = [EngineError("disk"), ZeroDivisionError("bug"), ZeroDivisionError("bug")]

    def fail(groups: Sequence[Group]) -> None:
        if sweeping(groups) and failures:
            raise failures.pop(0)

    engine.before = fail
    with hk.sweeper(every=0.001) as sweeper:
        wait_until(lambda: sweeper.sweeps >= 2)
    assert "sweep failed, will try again: holdkit: disk" in caplog.text
    assert "unexpected ZeroDivisionError" in caplog.text


def test_a_sweeper_stops_promptly(hk: Any) -> None:
    before = set(threading.enumerate())
    sweeper = hk.sweeper(every=3600)
    wait_until(lambda: sweeper.sweeps == 1)
    sweeper.stop()
    sweeper.stop()
    no_threads_left(before)


def test_closing_ends_the_worker_threads_too(mode: Sync | Async) -> None:
    before = set(threading.enumerate())
    hk = mode.open(WatchedEngine())
    hk.create_pool("p", 10)
    hk.sweeper(every=3600)
    hk.journal.on(None, print)
    hk.tenant("acme").journal.on(None, print)
    lease = hk.lease("p", 1, ttl=3600)
    lease.__enter__()
    hk.close()
    if mode.name == "sync":
        no_threads_left(before)
    assert not (hk._thing if mode.name == "async" else hk)._executor.group_commit.workers
    for late in (hk.sweeper, partial(hk.journal.on, None, print), lease.renew):
        with pytest.raises(EngineError, match="closed"):
            late()


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf"), 10**9, "5", None, True])
def test_bad_sweepers(hk: Any, every: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.sweeper(every=every)
    assert (refused.value.field, refused.value.code) == ("every", "every_out_of_range")
    with pytest.raises(InvalidRequest) as refused:
        hk.sweeper(every=1, limit=0)
    assert refused.value.field == "limit"
