"""A server to start, stop, kill and start again. Closing it removes everything, and so does the end of the process that owns it,
however that ends (`watchdog.py`); it is not for data that must be kept.

PostgreSQL refuses to run as root, and as a user without a name. If we are root, its programs run as the user `nobody`; no
user is created. It is as durable as any (`fsync` is on) unless it is started with other settings: a test that prefers speed must choose them.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from .address import USER, ServerAddress
from .binaries import find, readable
from .processes import alive, children, running
from .watchdog import Watchdog, forget_shared_memory

Stop: TypeAlias = Literal["smart", "fast", "immediate"]

SOCKET_LIMIT: Final = 103
"""Bytes in the path of a Unix socket: 107 on Linux, 103 on macOS."""
PATIENCE: Final = 60.0
SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
PORTS: Final = range(20_000, 30_000)
"""Below the ports that systems assign on request."""
SETTINGS: Final = {
    "max_connections": "100",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "wal_retrieve_retry_interval": "100ms",  # a standby that lost its primary looks again soon, not after 5 s
    "log_line_prefix": "%m [%p] %d ",
    "dynamic_shared_memory_type": "mmap",  # in the data folder, so that a killed server leaves nothing in /dev/shm
}
_asked = count()


class ServerFailed(Exception):
    """The server did not start, stop or answer as it should; the message ends with its log."""


class PostgresServer(ServerAddress):
    """One server in a temporary folder. Use it as a context manager, or call `start` and `close`."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        tcp: bool = False,
        binaries: Path | None = None,
        within: Path | None = None,
    ) -> None:
        """Make the folders. `within` is the folder for the data, if the disk matters; the socket is always in a short temporary folder."""
        self.settings = {**SETTINGS, **(settings or {})}
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.programs = find() if binaries is None else binaries
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._orphans: list[int] = []
        self._folders: list[Path] = []
        self._watchdog = Watchdog()
        self.home = self._folder(within)
        self.data, self.log_file = self.home / "data", self.home / "log"
        super().__init__(str(self.home if within is None else self._folder(None)), free_port() if tcp else 5432)
        self.settings |= {"listen_addresses": "127.0.0.1" if tcp else "", "port": str(self.port)}
        try:
            self._bin = readable(self.programs, self.home / "programs") if self._user else self.programs
            self._watchdog.watch(self._bin, self._folders)
            check_socket(Path(self.host) / f".s.PGSQL.{self.port}")
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tcp_dsn(self, database: str = "postgres") -> str:
        """Return the address of a database through 127.0.0.1, for tests that a Unix socket does not allow."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Return once it answers. New settings stay for later starts too."""
        self.launch(settings)
        try:
            self._wait_until_it_answers()
        except BaseException:
            if self._process is not None:
                self.kill()
            raise

    def launch(self, settings: Mapping[str, str] | None = None) -> None:
        """Begin to start the server and return at once: for tests that disturb its recovery."""
        if self._process is not None:
            raise ServerFailed("already started")
        self.settings |= settings or {}
        if not self.data.exists():
            # Checksums, so that pg_rewind works on every version. Text sorts by code point: the system's own locales differ.
            # Not synced: a test that cuts the power syncs the disk before it begins.
            self.run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-k", "-N")
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, "-k", self.host, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                start_new_session=True,  # an interrupt of the tests is not for the server: we stop it ourselves
                **self._user,
            )  # fmt: skip

    def is_running(self) -> bool:
        """Return whether the server's first process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self, mode: Stop = "fast") -> None:
        """Stop the server and return once it is down. After `immediate`, the next start recovers what was not checkpointed."""
        process = self._running()
        process.send_signal(SIGNALS[mode])
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"did not stop within {PATIENCE:.0f} s\n{self.log()}") from None
        self._process = None

    def kill(self) -> None:
        """Kill all of its processes at once, as a crash of the machine would, except that the disk's own cache is kept."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)  # or it would start others while they are counted
        wait_for(lambda: not running([process.pid]), "it ignored SIGSTOP")
        others = children(process.pid)
        process.kill()
        signal_each(others, signal.SIGKILL)
        process.wait()
        self._process = None
        wait_for(lambda: not alive(others), "its processes survived SIGKILL")  # or the next start would refuse

    def kill_postmaster(self) -> None:
        """Kill the first process alone: the others notice and end by themselves, some of them after a while."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)  # or it would start others while they are counted
        wait_for(lambda: not running([process.pid]), "it ignored SIGSTOP")
        self._orphans = children(process.pid)
        process.kill()
        process.wait()
        self._process = None

    def begin_stop(self, mode: Stop) -> None:
        """Ask the server to stop and return at once: after `smart` it waits for its clients."""
        self._running().send_signal(SIGNALS[mode])

    def pause(self) -> None:
        """Send SIGSTOP to all of its processes: connections stay open, and the server does not answer."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not running([process.pid]), "it ignored SIGSTOP")
        others = children(process.pid)
        signal_each(others, signal.SIGSTOP)
        wait_for(lambda: not running(others), "its processes ignored SIGSTOP")

    def resume(self) -> None:
        """Send SIGCONT to all of its processes."""
        process = self._running()
        signal_each([*children(process.pid), process.pid], signal.SIGCONT)

    def end(self) -> None:
        """Kill all of its processes, in any state of the server, and return once they have ended."""
        if self.is_running():
            self.kill()
        self._process = None
        signal_each(alive(self._orphans), signal.SIGKILL)
        wait_for(lambda: not alive(self._orphans), "its processes survived SIGKILL")
        self._orphans = []

    def restart(self, mode: Stop = "fast", settings: Mapping[str, str] | None = None) -> None:
        """Stop the server if it was started, and start it again."""
        if self._process is not None:
            self.stop(mode)
        self.start(settings)

    def standby(self, settings: Mapping[str, str] | None = None, *, within: Path | None = None) -> PostgresServer:
        """Return a second server that follows this one; not started. Name it in `synchronous_standby_names` as "standby"."""
        other = PostgresServer({**self.settings, **(settings or {})}, binaries=self.programs, within=within)
        primary = f"host={self.host} port={self.port} user={USER} application_name=standby"
        other.run(
            "pg_basebackup", "-D", str(other.data), "-d", primary, "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )
        return other

    def run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's other programs (`pg_rewind`, `pg_waldump`) as the server's user; what it printed."""
        command = [str(self._bin / program), *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.home, check=False, **self._user
        )
        if done.returncode:
            raise ServerFailed(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")
        return str(done.stdout)

    def log(self, lines: int = 20) -> str:
        """Return the end of the server's log."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Stop it and remove all of its files; closing again does nothing, and so does a forked child, whose parent owns it."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        self.end()
        if self._folders:
            forget_shared_memory(self.data)
        while self._folders:
            shutil.rmtree(self._folders.pop(), ignore_errors=True)
        self._watchdog.dismiss()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed("not started")
        return self._process

    def _folder(self, within: Path | None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="hkpg-", dir=within)).resolve()
        self._folders.append(folder)
        self._watchdog.watch(self.programs, self._folders)
        if self._user:
            os.chown(folder, self._user["user"], self._user["group"])
        return folder

    def _wait_until_it_answers(self) -> None:
        import psycopg

        process, deadline = self._running(), time.monotonic() + PATIENCE
        while True:
            try:
                with closing(self.connect(connect_timeout=5)):
                    return
            except psycopg.OperationalError as error:
                if process.poll() is not None:
                    self._process = None
                    raise ServerFailed(f"did not start\n{self.log()}") from None
                if time.monotonic() > deadline:
                    raise ServerFailed(f"does not answer: {error}\n{self.log()}") from error
            time.sleep(0.01)


def signal_each(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each; those that have ended are skipped."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for(done: Callable[[], bool], otherwise: str) -> None:
    """Poll until the condition holds, or fail after the timeout."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise ServerFailed(otherwise)
        time.sleep(0.001)


def check_socket(path: Path) -> None:
    """Raise `ServerFailed` if the path is too long: the system would cut or refuse it, with a message that does not help."""
    if len(os.fsencode(path)) > SOCKET_LIMIT:
        raise ServerFailed(
            f"the path of the server's socket is too long, at most {SOCKET_LIMIT} bytes: {path}: let TMPDIR name a shorter folder"
        )


def free_port() -> int:
    """Return a port that no process listens on, outside the range that the system assigns by itself: it stays free while a server
    is down."""
    first = os.getpid() * 100 + next(_asked)
    for number in range(len(PORTS)):
        port = PORTS[(first + number) % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerFailed("no port is free")
