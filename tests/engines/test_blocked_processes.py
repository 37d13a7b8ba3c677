"""Blocked calls of several processes, on SQLite and PostgreSQL: served in turn; a killed one costs the next its place or its offer."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import holdkit
from tests.support.threads import PATIENCE, wait_until

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
            before = hk.pool("gpu").last_number
            command = [sys.executable, "-m", "tests.support.blocked_process", hk.url, *times]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            wait_until(lambda: hk.pool("gpu").last_number > before)
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
    assert hk.hold("gpu", 1, ttl=60, wait="1m").number is None
    assert hk.verify().ok


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
    assert hk.verify().ok


def held(hk: holdkit.Kernel, number: int) -> Any:
    (found,) = [hold for hold in hk.holds(pool="gpu") if hold.number == number]
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
