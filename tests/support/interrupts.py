"""Interrupts: what they raise, how a test sends one to a thread, and threads that are interrupted at any bytecode."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from holdkit import OutcomeUnknown
from holdkit.commands import CreatePool
from holdkit.core.commands import Group
from holdkit.kernel.group_commit import GroupCommit
from tests.support.threads import PATIENCE, wait_until

THREADS = 6


class Interrupted(BaseException):
    """What an interrupt raises."""


def interrupt(thread: threading.Thread) -> None:
    """Raise `Interrupted` in another thread, at whatever bytecode it is."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))


class SubmittingThreads:
    """Threads that submit until they are told to stop, whatever strikes them."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self.stop = threading.Event()
        self._born = threading.Semaphore(0)
        self.done: list[str] = []
        self.interrupted: list[str] = []
        self.threads = [threading.Thread(target=self._live, args=(str(n),), daemon=True) for n in range(THREADS)]

    def start(self) -> None:
        """Return once everybody lives: who is struck before that was never there."""
        for thread in self.threads:
            thread.start()
            assert self._born.acquire(timeout=PATIENCE)

    def _live(self, name: str) -> None:
        with suppress(Interrupted):  # between two lives: nobody is there to catch it
            self._born.release()
            for life in count():
                try:
                    self._work(f"{name}.{life}")
                    return
                except Interrupted:
                    continue

    def _work(self, name: str) -> None:
        for number in count():
            try:
                self._group_commit.submit(Group((CreatePool(id=f"{name}-{number}", total=1),)))
                self.done.append(f"{name}-{number}")
            except (Interrupted, OutcomeUnknown):
                self.interrupted.append(name)
            if self.stop.is_set():
                return


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nothing is collected in here. A collection runs in whatever thread it comes due, and so do the callbacks of others on it
    (Hypothesis times collections, a `WeakSet` forgets its members): an interrupt that strikes one of those is not raised, but lost."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def interrupted_anywhere(group_commit: GroupCommit, rounds: int) -> None:
    """Stress: interrupts at random bytecodes. Everybody returns; what was answered as done was applied, and nothing twice.

    The engine behind it keeps the ids it has `applied`.
    """
    engine: Any = group_commit.engine
    crowd = SubmittingThreads(group_commit)
    with no_garbage_collection():
        crowd.start()
        for number in range(rounds):
            interrupt(crowd.threads[number % THREADS])
            before = len(engine.applied)
            wait_until(lambda before=before: len(engine.applied) > before)  # type: ignore[misc]
        crowd.stop.set()
        for thread in crowd.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread waits for ever"
    assert len(set(engine.applied)) == len(engine.applied), "something was applied twice"
    assert set(crowd.done) <= set(engine.applied), "something was answered as done and never applied"
    assert crowd.interrupted, "no interrupt struck inside a call: the test tested nothing"
