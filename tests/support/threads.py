"""Callers in threads of their own, and waiting for what gives no signal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 120.0
"""Seconds after which a test that waits for a signal has failed: many, for a machine may be slow. Never slept."""


class CallerThreads:
    """Threads that each make one call, with what came back; so that sync and async can have many callers."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.results: dict[int, Any] = {}

    def start(self, call: Callable[[], Any]) -> int:
        number = len(self._threads)

        def run() -> None:
            try:
                self.results[number] = call()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.results[number] = error

        self._threads.append(threading.Thread(target=run, name=f"rider-{number}", daemon=True))
        self._threads[-1].start()
        return number

    def join(self) -> list[Any]:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} is stuck"
        return [self.results[number] for number in range(len(self._threads))]


def wait_until(condition: Callable[[], bool]) -> None:
    """Spin, yielding the processor, until another thread has got there: for states that give no signal."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        pause.wait(0.0005)


def no_threads_left(but: set[threading.Thread]) -> None:
    """Every thread of ours is gone."""
    for thread in set(threading.enumerate()) - but:
        if thread.name.startswith("holdkit"):
            thread.join(PATIENCE)
    left = [thread.name for thread in set(threading.enumerate()) - but if thread.name.startswith("holdkit")]
    assert not left, left
