"""How much there is to read: the size of the code, and the walk of one `hold` through it.

*Size* counts hand-written Python: every line of every `.py` file, `_sync` folders left out because they are generated.
A function's length is from its `def` to its last line, with docstring, without decorators.

The *walk* of a call is the list of our source files (those under `src/holdkit`) in which a function is called while the call
runs, in the order of the calls, over all threads that take part. Its two figures:

- *files*: how many different files the list names;
- *changes*: how often a file in the list differs from the one before it.

Only calls count (`sys.setprofile`, `threading.setprofile`): a return is no step, and a generator or coroutine that resumes is
still the call that it was when it began. The kernel has done the same call several times before, and does nothing else. Now and
then a batch also prunes, or a step of another thread comes earlier or later: a walk is recorded `RUNS` times, and the commonest counts.

    python -m tools.walk                 sizes, the walk on SQLite (sync), on PostgreSQL (async) and over HTTP (a server on SQLite)
    python -m tools.walk --json          the same as JSON
    python -m tools.walk --show sqlite   the walk itself, one line per file entered
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import msgspec

import holdkit
from holdkit.server import app
from holdkit.testing.postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "holdkit"
AREAS = {
    "kernel and engines": (SOURCE / "kernel", SOURCE / "engines"),
    "src/holdkit": (SOURCE,),
    "tests": (ROOT / "tests",),
}
WARM_UP = 5
RUNS = 9
SETTLED = 0.5
"""Seconds after which the notifications of earlier calls, which a thread sends a moment later, have been sent."""


class Size(msgspec.Struct, frozen=True):
    """How much Python there is in some folders."""

    files: int
    lines: int
    median: float
    per_thousand: float
    """Files per thousand lines."""
    longest_file: str
    longest_file_lines: int
    longest_function: str
    longest_function_lines: int


class Walk(msgspec.Struct, frozen=True):
    """The way of one call through our files."""

    files: int
    changes: int
    calls: int
    stops: tuple[str, ...]
    """Each file entered, and the function that was called there first: `kernel/batches.py run`."""


def sources(*folders: Path) -> list[Path]:
    """The hand-written Python files below these folders."""
    return sorted(path for folder in folders for path in folder.rglob("*.py") if "_sync" not in path.parts)


def files_per_thousand_lines(*folders: Path) -> float:
    """How many files a thousand lines are spread over."""
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in sources(*folders)]
    return round(1000 * len(lengths) / sum(lengths), 2)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file with its length."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def size(*folders: Path) -> Size:
    """Count what is below these folders."""
    files = sources(*folders)
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    lines = sum(lengths.values())
    longest = max(files, key=lambda path: lengths[path])
    function, length = max(
        ((f"{path.relative_to(ROOT)} {name}", length) for path in files for name, length in functions(path)),
        key=lambda found: found[1],
    )
    return Size(
        files=len(files),
        lines=lines,
        median=statistics.median(lengths.values()),
        per_thousand=files_per_thousand_lines(*folders),
        longest_file=str(longest.relative_to(ROOT)),
        longest_file_lines=lengths[longest],
        longest_function=function,
        longest_function_lines=length,
    )


class Recorder:
    """Records calls of our functions, in this thread and in those that start while it is installed."""

    def __init__(self) -> None:
        self._recording = False
        self._frames: dict[FrameType, None] = {}  # in order; kept alive, so that a frame that resumes is recognised

    @contextmanager
    def installed(self) -> Iterator[Recorder]:
        """Install it before the kernel opens: a thread that already runs cannot be profiled from outside."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is called inside, instead of what was recorded before."""
        self._frames = {}
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self._recording and event == "call" and frame.f_code.co_filename.startswith(f"{SOURCE}/"):
            self._frames.setdefault(frame)

    def walk(self) -> Walk:
        """What was recorded."""
        calls = [
            (str(Path(frame.f_code.co_filename).relative_to(SOURCE)), frame.f_code.co_name) for frame in self._frames
        ]
        changed = [after for before, after in pairwise(calls) if before[0] != after[0]]
        return Walk(
            files=len({file for file, _ in calls}),
            changes=len(changed),
            calls=len(calls),
            stops=tuple(" ".join(call) for call in [*calls[:1], *changed]),
        )


def commonest(walks: list[Walk]) -> Walk:
    """Return a walk whose figures were recorded most often; among equals, one with the fewest changes of file."""
    figures = Counter((walk.changes, walk.files) for walk in walks)
    return min(walks, key=lambda walk: (-figures[walk.changes, walk.files], walk.changes))


def walk_on_sqlite(folder: Path) -> Walk:
    """The walk of one sync hold on SQLite."""
    recorded = []
    with Recorder().installed() as recorder, holdkit.connect(f"sqlite:///{folder / 'walk.db'}") as hk:
        hk.create_pool("pool", total=WARM_UP + RUNS)
        for _ in range(WARM_UP):
            hk.hold("pool", 1, ttl="1h")
        for _ in range(RUNS):
            with recorder.recording():
                hk.hold("pool", 1, ttl="1h")
            recorded.append(recorder.walk())
    return commonest(recorded)


async def walk_on_postgres(url: str) -> Walk:
    """The walk of one async hold on PostgreSQL."""
    recorded = []
    with Recorder().installed() as recorder:
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("pool", total=WARM_UP + RUNS)
            for _ in range(WARM_UP):
                await hk.hold("pool", 1, ttl="1h")
            await asyncio.sleep(SETTLED)
            for _ in range(RUNS):
                with recorder.recording():
                    await hk.hold("pool", 1, ttl="1h")
                recorded.append(recorder.walk())
    return commonest(recorded)


async def walk_over_http(folder: Path) -> Walk:
    """The walk of one request that holds, from the application that receives it to its answer. The server is on SQLite."""
    recorded = []
    with Recorder().installed() as recorder:
        application = app(f"sqlite:///{folder / 'served.db'}")
        async with application.lifespan() as running:
            key = (await running.keys.make("walk", scope="admin")).text
            await running.admission.refresh()
            headers = {"Authorization": f"Bearer {key}"}
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
                pool = {"id": "pool", "total": WARM_UP + RUNS}
                (await http.post("/v1/pools", json=pool, headers={"Idempotency-Key": "pool"})).raise_for_status()
                hold = {"legs": [{"pool": "pool", "quantity": 1}], "ttl": "1h"}
                for number in range(WARM_UP):
                    op = {"Idempotency-Key": f"first {number}"}
                    (await http.post("/v1/holds", json=hold, headers=op)).raise_for_status()
                await asyncio.sleep(SETTLED)
                for number in range(RUNS):
                    op = {"Idempotency-Key": f"recorded {number}"}
                    with recorder.recording():
                        answer = await http.post("/v1/holds", json=hold, headers=op)
                    answer.raise_for_status()
                    recorded.append(recorder.walk())
    return commonest(recorded)


def walks(url: str | None = None) -> dict[str, Walk]:
    """Each walk, on a database of its own. `url` is a PostgreSQL database with our tables and without pools; without it a server
    is started."""
    with tempfile.TemporaryDirectory() as folder:
        on_sqlite = walk_on_sqlite(Path(folder))
        over_http = asyncio.run(walk_over_http(Path(folder)))
    with ExitStack() as stack:
        if url is None:
            url = stack.enter_context(PostgresServer()).dsn()
            holdkit.migrate(url)
        on_postgres = asyncio.run(walk_on_postgres(url))
    return {"sqlite": on_sqlite, "postgres": on_postgres, "http": over_http}


def print_figures(sizes: dict[str, Size], walked: dict[str, Walk]) -> None:
    """Print the figures, one line each."""
    for name, counted in sizes.items():
        print(
            f"{name}: {counted.files} files, {counted.lines} lines, median {counted.median:g}, "
            f"{counted.per_thousand} files per thousand lines\n"
            f"    longest file {counted.longest_file} ({counted.longest_file_lines} lines), "
            f"longest function {counted.longest_function} ({counted.longest_function_lines} lines)"
        )
    for name, walk in walked.items():
        print(
            f"a hold {'over' if name == 'http' else 'on'} {name}: {walk.files} files, {walk.changes} changes of file, {walk.calls} calls"
        )


def main(arguments: list[str]) -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.walk", description="Count the code, and the walk of one hold."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--show", choices=["sqlite", "postgres", "http"], help="print the walk itself instead")
    chosen = parser.parse_args(arguments)
    walked = walks()
    if chosen.show:
        print(*walked[chosen.show].stops, sep="\n")
        return 0
    sizes = {name: size(*folders) for name, folders in AREAS.items()}
    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode({"sizes": sizes, "walks": walked})).decode())
    else:
        print_figures(sizes, walked)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
