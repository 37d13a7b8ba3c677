"""A caller in alternating windows: while an archive run rests, and while it works.

The run is another process, as that of `holdkit admin archive` from cron, or a thread of the caller's own process, as
`hk.admin.archive` of an application is.
It reports its progress between two steps, and can be made to wait there: so one run gives pairs of windows, a moment apart, whose ratio
does not tell how busy the machine was.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from statistics import fmean, quantiles
from threading import Thread
from time import perf_counter

import msgspec
from msgspec import Struct

import holdkit

from .callers import POOL, TTL
from .rows import BenchFailed

WINDOW = 1.0
"""Seconds of one window."""
PAIRS = 30
"""Pairs of windows; then the run goes on alone."""
FEWEST = 10
"""Calls of a window that counts."""


class Archived(Struct, frozen=True):
    """What a run has done."""

    entries: int
    files: int


class Told(Struct, frozen=True):
    """What a run tells when it stands still, and at its end."""

    done: int
    ended: Archived | None = None


class Called(Struct, frozen=True):
    """One caller: calls, and their seconds."""

    calls: int
    mean: float
    p50: float
    p99: float
    longest: float


class Windows(Struct, frozen=True):
    """A run, and a caller beside it."""

    archived: Archived
    resting: Called
    working: Called
    p50: tuple[float, ...]
    """Ratios of each pair."""
    p99: tuple[float, ...]
    mean: tuple[float, ...]
    rate: float
    """Entries per second beside the caller."""
    rate_alone: float | None
    """And when the caller had gone; None if the run was ended then, or had nothing left."""


class Ended(Exception):
    """The run is to end where it is."""


class Gate:
    """Where a run waits: `progress` of `hk.admin.archive`. It is told to stop, to go, and to end; `tell` gets what it answers."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self.commands: SimpleQueue[str] = SimpleQueue()
        self._tell, self._done = tell, 0

    def __call__(self, done: int, _total: int) -> None:
        self._done = done
        if not self.commands.empty() and self.commands.get() == "stop":
            self._tell(Told(done))
            self._wait()

    def archive(self, hk: holdkit.Kernel, to: str, before: str) -> None:
        """Begin as soon as `go` is said, and tell the end."""
        try:
            self._wait()
            report = hk.admin.archive(before=before, to=to, progress=self)
        except Ended:
            self._tell(Told(self._done, Archived(self._done, 0)))
        else:
            self._tell(Told(report.entries, Archived(report.entries, len(report.files))))

    def _wait(self) -> None:
        if self.commands.get() == "end":
            raise Ended


class Run:
    """A run as the caller sees it."""

    def __init__(self, say: Callable[[str], None], read: Callable[[], Told]) -> None:
        self._say, self.read = say, read

    def go(self) -> None:
        """Let it work."""
        self._say("go")

    def stop(self) -> Told:
        """Wait until it stands still."""
        self._say("stop")
        return self.read()

    def end(self) -> Told:
        """End it where it stands."""
        self._say("end")
        return self.read()


@contextmanager
def begun(hk: holdkit.Kernel, url: str, to: str, before: str, *, same_process: bool) -> Iterator[Run]:
    """A run that waits for its first `go`."""
    if same_process:
        told: SimpleQueue[Told] = SimpleQueue()
        gate = Gate(told.put)
        thread = Thread(target=gate.archive, args=(hk, to, before), daemon=True)
        thread.start()
        yield Run(gate.commands.put, told.get)
        thread.join()
        return
    command = [sys.executable, "-m", "bench.archive_windows", url, to, before]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def say(word: str) -> None:
            print(word, file=lines, flush=True)

        def read() -> Told:
            line = answers.readline()
            if not line:
                raise BenchFailed("archive: the process ended")
            return msgspec.json.decode(line, type=Told)

        yield Run(say, read)


def call_for(hk: holdkit.Kernel, seconds: float) -> list[float]:
    """Place holds one after the other; the seconds of each."""
    taken: list[float] = []
    end = perf_counter() + seconds
    while perf_counter() < end or len(taken) < 2:
        begin = perf_counter()
        hk.hold(POOL, 1, ttl=TTL)
        taken.append(perf_counter() - begin)
    return taken


def called(taken: list[float]) -> Called:
    """The same in figures."""
    parts = quantiles(taken, n=100)
    return Called(len(taken), fmean(taken), parts[49], parts[98], max(taken))


def measure_windows(
    hk: holdkit.Kernel,
    url: str,
    to: str,
    before: str,
    *,
    same_process: bool,
    window: float = WINDOW,
    pairs: int = PAIRS,
    finish: bool = True,
) -> Windows:
    """Alternate until there are enough pairs, or the run has ended. Then it goes on alone, or (without `finish`) is ended."""
    resting: list[list[float]] = []
    working: list[list[float]] = []
    worked, alone = 0.0, None
    with begun(hk, url, to, before, same_process=same_process) as run:
        told = Told(0)
        while told.ended is None and len(working) < pairs:
            resting.append(call_for(hk, window))
            begin = perf_counter()
            run.go()
            working.append(call_for(hk, window))
            told = run.stop()
            worked += perf_counter() - begin
        done = told.done
        if told.ended is None and finish:
            begin = perf_counter()
            run.go()
            told = run.read()
            alone = (told.done - done) / (perf_counter() - begin)
        elif told.ended is None:
            told = run.end()
    assert told.ended is not None
    figures = [(called(one), called(two)) for one, two in zip(resting, working, strict=True)]
    every = [pair for pair in figures if min(pair[0].calls, pair[1].calls) >= FEWEST] or figures[:1]
    return Windows(
        told.ended,
        called([call for one in resting for call in one]),
        called([call for one in working for call in one]),
        tuple(two.p50 / one.p50 for one, two in every),
        tuple(two.p99 / one.p99 for one, two in every),
        tuple(two.mean / one.mean for one, two in every),
        done / worked,
        alone,
    )


def main(url: str, to: str, before: str) -> None:
    """The other process: commands come line by line, also when it is done."""
    gate = Gate(lambda told: print(msgspec.json.encode(told).decode(), flush=True))

    def read() -> None:
        for line in sys.stdin:
            gate.commands.put(line.strip())

    reader = Thread(target=read, daemon=True)
    reader.start()
    with holdkit.connect(url) as hk:
        gate.archive(hk, to, before)
    reader.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
