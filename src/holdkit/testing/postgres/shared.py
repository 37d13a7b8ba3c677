"""One server for all processes of a test run, without counting them.

Each process that uses the server holds a shared lock on a file; the operating system releases it however the process
ends. A keeper process owns the server and waits for the exclusive lock: it gets it when no user is left, and stops
the server. So a run that was interrupted or killed leaves neither processes nor files.

The server's files are in memory if there is space: durability is tested with other servers.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .address import ServerAddress
from .server import PostgresServer, ServerFailed

USERS: Final = "postgres-users"
STARTING: Final = "postgres-starting"
ADDRESS: Final = "postgres-address.json"
MEMORY: Final = Path("/dev/shm")
ROOM: Final = 2**30
SETTINGS: Final = {"min_wal_size": "32MB", "max_wal_size": "128MB"}


@contextmanager
def shared_server(place: Path) -> Iterator[ServerAddress]:
    """Share a server between all processes that name one folder. The first process starts it, and at the end waits until the server
    has stopped."""
    keeper: subprocess.Popen[str] | None = None
    with (place / USERS).open("a") as users:
        with (place / STARTING).open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits while another run's keeper stops its server
            if not (place / ADDRESS).exists():
                keeper = start_keeper(place)
        try:
            yield ServerAddress(**json.loads((place / ADDRESS).read_text()))
        finally:
            users.close()
            if keeper is not None:
                keeper.communicate()


def start_keeper(place: Path) -> subprocess.Popen[str]:
    """Start the process that owns the server, and return once the server answers."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", __name__, str(place)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    said = keeper.stdout.readline()
    if said.strip() != "ready":
        raise ServerFailed(said + keeper.communicate()[0])
    return keeper


def keep(place: Path) -> None:
    """Own a server until no process uses it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    address, draft = place / ADDRESS, place / f"{ADDRESS}.draft"
    with (place / USERS).open("a") as users, PostgresServer(SETTINGS, within=memory()) as server:
        draft.write_text(json.dumps({"host": server.host, "port": server.port}))
        draft.replace(address)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        try:
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            address.unlink()


def memory() -> Path | None:
    """Return a folder in memory; None if there is none, or if it is small, as in many containers."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY if roomy else None


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
