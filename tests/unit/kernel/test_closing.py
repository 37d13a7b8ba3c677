"""After close, and after a fork: every call says what to do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdkit
from holdkit import Hold
from holdkit.commands import PlaceHold
from holdkit.core.model import Leg
from holdkit.errors import EngineError
from tests.support.modes import Async, Sync
from tests.support.threads import CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of, queued


def every_call(hk: Any) -> list[Callable[[], Any]]:
    return [
        lambda: hk.create_pool("q", 1),
        lambda: hk.admin.resize_pool("p", 11),
        lambda: hk.hold("p", 1, ttl=60),
        lambda: hk.consume("p", 1),
        lambda: hk.confirm(holdkit.ticket("1" * 32, "x")),
        lambda: hk.release(holdkit.ticket("1" * 32, "x")),
        lambda: hk.extend(holdkit.ticket("1" * 32, "x"), by=1),
        lambda: hk.admin.expire("1" * 32),
        lambda: hk.return_units(holdkit.ticket("1" * 32, "x")),
        lambda: hk.admin.records.put("k", "x", "1"),
        lambda: hk.apply([PlaceHold(legs=(Leg("p"),), ttl=60)]),
        hk.sweep,
        lambda: hk.pool("p"),
        hk.pools,
        lambda: hk.get("1" * 32),
        hk.holds,
        lambda: hk.admin.records.get("k", "x"),
        lambda: hk.admin.records.list("k"),
        lambda: hk.journal.history("p"),
        hk.journal.list,
        hk.journal.search,
        hk.journal.cursor,
        hk.admin.verify,
        lambda: hk.journal.on(None, print),
        hk.sweeper,
        lambda: hk.holding("p", 1, ttl=60).__enter__(),
        lambda: hk.lease("p", 1, ttl=60).__enter__(),
        lambda: hk.lock(tx=object()),
    ]


def test_every_call_after_close_is_refused(hk: Any, engine: WatchedEngine) -> None:
    hk.close()
    assert hk._executor.closed
    assert engine.closed
    for call in every_call(hk):
        with pytest.raises(EngineError, match="holdkit: this kernel is closed: connect again"):
            call()
    hk.close()


def test_following_a_closed_kernel_is_refused(hk: Any) -> None:
    hk.close()
    for following in (hk.journal.follow(), hk.journal.follow("mail")):
        with pytest.raises(EngineError, match="closed"):
            list(following)


def test_closing_finishes_what_is_queued(engine: WatchedEngine) -> None:
    hk = Sync().open(engine)
    hk.create_pool("p", 10)
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 3) as callers:
        closing = CallerThreads()
        closing.start(hk.close)
        wait_until(lambda: hk._executor.group_commit._closed)
        with pytest.raises(EngineError, match="closed"):
            hk.hold("p", 1, ttl=60)
        assert queued(hk) == 3
        assert not engine.closed
    assert all(isinstance(answer, Hold) for answer in callers.join())
    closing.join()
    assert engine.closed


def test_a_kernel_closes_at_the_end_of_its_block(mode: Sync | Async, engine: WatchedEngine) -> None:
    with mode.open(engine) as hk:
        hk.create_pool("p", 1)
    assert engine.closed


def test_closing_a_tenants_kernel_closes_the_kernel(hk: Any, engine: WatchedEngine) -> None:
    hk.tenant("acme").close()
    assert hk._executor.closed
    assert engine.closed


def in_child(work: Callable[[], str]) -> str:
    """What the work says in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
        except BaseException as error:  # noqa: BLE001 - the parent looks at it
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_after_a_fork_the_child_must_connect_anew() -> None:
    engine = WatchedEngine()
    hk = Sync().open(engine)
    hk.create_pool("p", 10)

    def child() -> str:
        said = set()
        for call in every_call(hk):
            try:
                call()
                said.add("worked")
            except EngineError as error:
                said.add(str(error))
        hk.close()  # quiet, and touches nothing of the parent's
        if engine.closed:
            return "closed the parent's engine"
        with holdkit.connect("memory://") as anew:
            anew.create_pool("p", 1)
        return " | ".join(sorted(said))

    assert in_child(child) == "holdkit: this kernel was opened before a fork: connect anew in the child process"
    assert hk.hold("p", 1, ttl=60).state == "held", "the parent goes on"
    hk.close()


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_while_others_hold_the_queues_lock_does_not_hang_the_child() -> None:
    engine = WatchedEngine()
    hk = Sync().open(engine)
    hk._executor.group_commit.main._lock.acquire()
    try:
        said = in_child(lambda: str(hk.hold("p", 1, ttl=60)))
    finally:
        hk._executor.group_commit.main._lock.release()
    assert "opened before a fork" in said
    hk.close()


def test_closing_from_many_threads_at_once(engine: WatchedEngine) -> None:
    hk = Sync().open(engine)
    start = threading.Barrier(8)
    callers = CallerThreads()

    def close() -> None:
        start.wait()
        hk.close()

    for _ in range(8):
        callers.start(close)
    assert callers.join() == [None] * 8
    assert engine.closed
