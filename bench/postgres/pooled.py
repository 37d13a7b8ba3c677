"""What a pooler in transaction mode costs: how fast calls are, and how soon another process wakes a blocked call and a follower.

``python -m bench.postgres.pooled [times]``. A server on this machine, in memory if possible, and PgBouncer before it. Three ways to
the database alternate: directly, through the pooler, and through the pooler with a `notify_url` past it.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg

import holdkit
from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.server import wait_for
from holdkit.testing.postgres.shared import memory

PORT: Final = 6433
CONFIGURATION: Final = """
[databases]
shop = host={host} user=postgres
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 20
max_client_conn = 100
"""
SECONDS: Final = 3.0
"""How long calls are counted, each time."""
ROUNDS: Final = 5
CALLERS: Final = (1, 16)


@contextmanager
def pooler(server: PostgresServer) -> Iterator[str]:
    """PgBouncer before this server: its URL, in Holdkit's words."""
    program = shutil.which("pgbouncer")
    if program is None:
        sys.exit("pgbouncer is not installed: apt-get install pgbouncer")
    with tempfile.TemporaryDirectory(prefix="hkpb-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        host = psycopg.conninfo.conninfo_to_dict(server.dsn("shop"))["host"]
        (folder / "users").write_text('"postgres" ""\n')
        (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(host=host, port=PORT, folder=folder))
        user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen([program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, user=user)
        url = f"postgresql://postgres@/shop?host={folder}&port={PORT}"

        def answers() -> bool:
            with suppress(psycopg.OperationalError), closing(psycopg.connect(url)):
                return True
            return False

        try:
            wait_for(answers, "the pooler does not answer")
            yield f"{url}&pooler=transaction"
        finally:
            running.terminate()
            running.wait()


def calls_a_second(hk: holdkit.Kernel, callers: int) -> float:
    """Holds that are placed and released by so many threads."""
    until, counts = time.monotonic() + SECONDS, [0] * callers

    def call(number: int) -> None:
        while time.monotonic() < until:
            hk.release(hk.hold("wide", 1, ttl=60))
            counts[number] += 2

    with ThreadPoolExecutor(callers) as threads:
        list(threads.map(call, range(callers)))
    return sum(counts) / SECONDS


def seconds_until_held(hk: holdkit.Kernel, other: holdkit.Kernel) -> float:
    """From the release by another kernel until a blocked call has the units."""
    taken = other.hold("one", 1, ttl=60)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: (hk.hold("one", 1, ttl=60, wait=60), time.monotonic()))
        wait_for(lambda: other.pool("one").waiting == 1, "nobody waits")
        time.sleep(random.random())  # at any moment between two looks of its own
        began = time.monotonic()
        other.release(taken)
        hold, held = waiting.result()
    hk.release(hold)
    return held - began


def seconds_until_shown(hk: holdkit.Kernel, other: holdkit.Kernel) -> float:
    """From a commit of another kernel until a follower is shown its entry."""
    entries = hk.journal.follow(after=hk.journal.cursor())
    shown: list[float] = []
    thread = threading.Thread(target=lambda: shown.append((next(entries), time.monotonic())[1]))
    thread.start()
    time.sleep(1.1 + random.random())  # it listens by now, and this is any moment between two looks of its own
    began = time.monotonic()
    other.admin.resize_pool("shown", other.pool("shown").total + 1)
    thread.join()
    return max(0.0, shown[0] - began)


def main(times: int = 20) -> None:
    """Measure, and print a line for each way."""
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        direct = server.dsn("shop")
        migrate(direct)
        with pooler(server) as pooled, holdkit.connect(direct) as hk:
            for id, total in (("wide", 10**6), ("one", 1), ("shown", 1)):
                hk.create_pool(id, total)
            ways: dict[str, tuple[str, str | None]] = {
                "directly": (direct, None),
                "through the pooler": (pooled, None),
                "through the pooler, notify_url": (pooled, direct),
            }
            for name, (url, past) in ways.items():
                with holdkit.connect(url, notify_url=past) as one, holdkit.connect(url, notify_url=past) as other:
                    rates = [calls_a_second(one, callers) for callers in CALLERS for _ in range(ROUNDS)]
                    held = [seconds_until_held(one, other) for _ in range(times)]
                    shown = [seconds_until_shown(one, other) for _ in range(times)]
                print(
                    f"{name}: {spread(rates[:ROUNDS])} calls/s by {CALLERS[0]} thread, {spread(rates[ROUNDS:])} by {CALLERS[1]}; "
                    f"wait= wakes after {statistics.median(held):.3f} s (max {max(held):.3f}), "
                    f"follow after {statistics.median(shown):.3f} s (max {max(shown):.3f})"
                )


def spread(rates: list[float]) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
