"""The client processes of a trial, seen from the harness: started, paused, stopped or killed; and the ledgers they keep."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

from tests.faults.campaign import client
from tests.faults.campaign.client import Job
from tests.faults.campaign.ledger import KEPT, Line, Reader, now

PATIENCE: Final = 180.0


def context() -> ForkServerContext:
    """A process that has imported everything and forks a client at a time: a client costs milliseconds."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.faults.campaign.client", "holdkit.engines.postgres", "holdkit.engines.sqlite"])
    return found


class NotServed(Exception):
    """Callers got no answer for a long time."""


class Clients:
    """Several client processes and their ledgers, which lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.reader = folder, Reader(folder)
        self._running: list[tuple[bool, ForkServerProcess, Connection]] = []
        self._callers: set[str] = set()
        self._context = context()

    def start(self, *jobs: Job) -> None:
        """A process each."""
        for job in jobs:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=client.run, args=(job, theirs), daemon=True)
            process.start()
            theirs.close()
            self._running.append((job.style == "follower", process, ours))
            if job.style != "follower":
                self._callers |= {f"{job.name}.{habit}" for habit in job.habits}

    def pause(self) -> None:
        """Return once every caller has ended its call; followers then see the rest of the journal, and pause as well."""
        for following in (False, True):
            lines = [line for follows, _, line in self._running if follows == following]
            for line in lines:
                line.send("pause")
            await_all(lines)
        self.reader.more()

    def resume(self) -> None:
        for _, _, line in self._running:
            line.send("go")

    def kill(self) -> None:
        """SIGKILL; return once they are gone."""
        for _, process, _ in self._running:
            process.kill()
        for _, process, line in self._running:
            process.join()
            process.close()
            line.close()
        self._running, self._callers = [], set()
        self.reader.more()

    def await_answers(self, count: int, after: float = 0.0) -> None:
        """Until so many more answers were kept."""
        left = [count]

        def enough() -> bool:
            left[0] -= sum(line.said in KEPT and line.at >= after for line in self.reader.more())
            return left[0] <= 0

        wait_until(enough, "nobody is served")

    def await_each(self, after: float, patience: float = PATIENCE) -> dict[str, float]:
        """Until every caller was told something that holds after that moment; when each was, for the first time."""
        found: dict[str, float] = {}

        def everybody() -> bool:
            self.reader.more()
            found.update(first_kept(self.reader.lines, after))
            return self._callers <= set(found)

        wait_until(everybody, "some callers are not served", patience)
        return found


def await_all(lines: list[Connection]) -> None:
    """Until each has said that it paused."""
    until = now() + PATIENCE
    left = set(lines)
    while left:
        ready = wait(left, max(0.0, until - now()))
        assert ready, f"{len(left)} clients do not come to an end of their calls"
        for line in ready:
            assert isinstance(line, Connection)
            assert line.recv() == "paused"
            left.discard(line)


def first_kept(lines: list[Line], after: float) -> dict[str, float]:
    """When each caller was first told something that holds, after that moment."""
    found: dict[str, float] = {}
    for line in reversed(lines):
        if line.at < after - PATIENCE:
            break
        if line.said in KEPT and line.at >= after:
            found[line.caller] = min(line.at, found.get(line.caller, line.at))
    return found


def wait_until(true: Callable[[], bool], otherwise: str, patience: float = PATIENCE) -> None:
    """Look again and again, for a while."""
    until = now() + patience
    while not true():
        if now() > until:
            raise NotServed(otherwise)
        time.sleep(0.005)
