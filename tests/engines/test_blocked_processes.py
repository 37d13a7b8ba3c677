"""Blocked calls of several processes, on SQLite and PostgreSQL: served in turn; a killed one costs the next its place or its offer."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.engines.port import Channels
from holdkit.kernel._sync import line_watch
from holdkit.kernel.prepare import channel_of
from tests.support.threads import PATIENCE, CallerThreads, wait_until

Start = Callable[..., "subprocess.Popen[str]"]
LONG, SHORT = ("60", "10", "20"), ("1", "0.5", "0.2")
"""How long a place and an offer stand, and when it is renewed: as users have it, and for a test that waits for it."""


@pytest.fixture(params=["sqlite", "postgres"])
def hk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdkit.Kernel]:
    url = f"sqlite:///{tmp_path}/holds.db" if request.param == "sqlite" else request.getfixturevalue("migrated")()
    with holdkit.connect(url) as kernel:
        kernel.create_pool("gpu", 1)
        yield kernel


@pytest.fixture
def start(hk: holdkit.Kernel) -> Iterator[Start]:
    """Starts a process, and returns when it waits in line."""
    with ExitStack() as stack:

        def begin(times: tuple[str, ...] = LONG) -> subprocess.Popen[str]:
            before = hk.pool("gpu").raw.last_number
            command = [sys.executable, "-m", "tests.support.blocked_process", hk.url, *times]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            wait_until(lambda: hk.pool("gpu").raw.last_number > before)
            return process

        yield begin


def number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0


def test_processes_and_threads_stand_in_one_line(hk: holdkit.Kernel, start: Start) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    first, second = start(), start()
    hk.release(taken)
    assert number(first) == 1
    assert hk.pool("gpu").waiting == 1
    finish(first)
    assert number(second) == 2
    finish(second)
    assert hk.hold("gpu", 1, ttl=60, wait="1m").raw.number is None
    assert hk.admin.verify().ok


def test_one_that_is_killed_in_line_keeps_nobody_waiting_once_its_place_has_ended(
    hk: holdkit.Kernel, start: Start
) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    killed, follower = start(SHORT), start()
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE)
    wait_until(lambda: hk.pool("gpu").waiting == 1)
    hk.release(taken)
    assert number(follower) == 2
    assert [entry.action for entry in hk.history(held(hk, 1).id)][-1] == "hold.expired"
    finish(follower)


def test_one_that_is_killed_with_an_offer_costs_the_next_one_that_offer(hk: holdkit.Kernel, start: Start) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    killed, follower = start(("600", "0.5", "300")), start()
    killed.send_signal(signal.SIGSTOP)  # so that it cannot accept
    hk.release(taken)
    assert held(hk, 1).state == "held"
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE)
    assert number(follower) == 2, "served when the offer has ended, by whoever looks"
    finish(follower)
    assert hk.admin.verify().ok


def held(hk: holdkit.Kernel, number: int) -> Any:
    (found,) = [hold for hold in hk.holds(pool="gpu") if hold.raw.number == number]
    return found


def test_an_interrupted_process_leaves_the_line(hk: holdkit.Kernel, start: Start) -> None:
    hk.hold("gpu", 1, ttl=600)
    process = start(("60", "10", "0.1"))
    placed = held(hk, 1)
    wait_until(lambda: hk.get(placed.id).version > placed.version)  # renewed: it is blocked
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert hk.pool("gpu").waiting == 0
    assert held(hk, 1).state == "released"


def test_of_several_processes_only_the_one_that_is_served_is_woken(hk: holdkit.Kernel) -> None:
    """Each kernel stands for a process: they share nothing but the store."""
    taken = hk.hold("gpu", 1, ttl=600)
    woken: list[str] = []
    channels = hk._executor.engine.capabilities.channels
    assert channels is not None
    with ExitStack() as stack:
        kernels = [stack.enter_context(holdkit.connect(hk.url)) for _ in range(3)]
        callers = CallerThreads()
        for number, kernel in enumerate(kernels):
            callers.start(lambda kernel=kernel: kernel.hold("gpu", 1, ttl=60, wait="10m"))  # type: ignore[misc]
            wait_until(lambda number=number: hk.pool("gpu").waiting == number + 1)  # type: ignore[misc]
        ids = [hold.id for hold in hk.holds(pool="gpu", state="waiting")]
        own = [kernel._executor.line_watch.channel for kernel in kernels]
        assert [channel_of(id) for id in sorted(ids)] == own, "its hold's id says how to wake a kernel"
        hk._executor.line_watch._channels = Recording(channels, woken)
        hk.release(taken)
        assert woken == [own[0]]
        wait_until(lambda: len(callers.results) == 1)
        for kernel in kernels[1:]:
            kernel.close()
        callers.join()


class Recording:
    def __init__(self, channels: Channels, notified: list[str]) -> None:
        self._channels, self._notified = channels, notified

    def listen_on(self, channel: str, wake: Callable[[], None]) -> None:
        self._channels.listen_on(channel, wake)

    def notify(self, channels: Iterable[str]) -> None:
        self._notified.extend(channels)
        self._channels.notify(channels)


def test_a_release_in_a_callers_transaction_serves_the_line_when_it_is_committed(
    hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not only when somebody looks: here nobody does, for ten minutes."""
    monkeypatch.setattr(line_watch, "LOOK", 600.0)
    taken = hk.hold("gpu", 1, ttl=3_600)
    path = hk.url.removeprefix("sqlite:///")
    connection = psycopg.connect(hk.url) if path == hk.url else sqlite3.connect(path)
    with holdkit.connect(hk.url) as other, closing(connection) as tx:
        callers = CallerThreads()
        callers.start(lambda: other.hold("gpu", 1, ttl=60, wait="10m"))
        wait_until(lambda: hk.pool("gpu").waiting == 1)
        wait_until(lambda: looks_no_more(other))
        hk.release(taken, tx=tx)
        tx.rollback()
        hk.release(taken, tx=tx)
        assert hk.pool("gpu").held == 1, "not yet"
        tx.commit()
        (hold,) = callers.join()
        assert hold.state == "held"
    assert hk.admin.verify().ok


def looks_no_more(hk: holdkit.Kernel) -> bool:
    """Whether the watch of this kernel listens on its channel, has looked since, and waits."""
    watch = hk._executor.line_watch
    looked = [line.version is not None for line in watch._lines.values()]
    return looked == [True] and watch._news.count > 0 and watch._news._waiting == 1
