"""Removes what is left of a server whose owner was killed.

Theory of operation. Each `PostgresServer` has a watchdog: a process in a session of its own, so that nothing that ends the owner ends it
too. It reads from a pipe whose only writer is the owner; the operating system closes the pipe however the owner ends. While the owner
lives it tells the watchdog which folders belong to the server, and where its programs are. At the end of the input the watchdog kills
every process that runs one of these programs on one of these folders, with their children, and removes the folders. After an orderly
`close` there is nothing left to remove, and the owner says so. A child that the owner has forked gives up its end of the pipe at once, or
it would keep the server alive after the owner.

A process is known by its command line: the program is the server's own, and an argument names a folder that only this server has. So
the number of a process that has ended, and was given to another one, does no harm.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from .processes import PROC, alive, all_processes, children

PATIENCE: Final = 60.0
START: Final = f"from {__name__} import main; main()"
END: Final = "end\n"


class Watchdog:
    """The owner's side. If no process can be started (another user's interpreter), the owner works without a watchdog."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        _watchdogs.add(self)
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-c", START],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )  # fmt: skip

    def watch(self, programs: Path, folders: Iterable[Path]) -> None:
        """Tell the watchdog which programs and folders belong to the server from now on."""
        self._say(json.dumps([str(programs), *map(str, folders)]) + "\n")

    def dismiss(self) -> None:
        """End the watchdog: the owner has removed everything."""
        self._say(END)
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                process.communicate()

    def let_go(self) -> None:
        """Replace the pipe's end in a forked child by /dev/null, under its old number, so that no buffer is touched."""
        if self._process is not None and self._process.stdin is not None:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._process.stdin.fileno(), inheritable=False)
            os.close(nothing)

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it was killed
                self._process.stdin.write(line)
                self._process.stdin.flush()


_watchdogs: weakref.WeakSet[Watchdog] = weakref.WeakSet()


def _after_fork() -> None:
    for watchdog in [*_watchdogs]:
        watchdog.let_go()


os.register_at_fork(after_in_child=_after_fork)


def main() -> None:
    """Run the watchdog: read what belongs to the server, and remove it if the owner ends without `dismiss`."""
    said: list[str] = []
    for line in sys.stdin:
        if line == END:
            return
        said = json.loads(line)
    if said:
        remove(said[0], said[1:])


def remove(programs: str, folders: Sequence[str]) -> None:
    """Kill the processes in the folders and remove the folders; repeat if a process was just being started."""
    deadline = time.monotonic() + PATIENCE
    while any(Path(folder).exists() for folder in folders) and time.monotonic() < deadline:
        first = running_on(programs, folders)
        _signal(first, signal.SIGSTOP)  # or they would start others while they are counted
        still = running_on(programs, folders)
        _signal(set(first).difference(still), signal.SIGCONT)  # ended meanwhile, and its number given to another
        first = [pid for pid in first if pid in still]
        victims = [*first, *(child for pid in first for child in children(pid))]
        _signal(victims, signal.SIGKILL)
        while alive(victims) and time.monotonic() < deadline:
            time.sleep(0.01)
        for folder in folders:
            forget_shared_memory(Path(folder) / "data")
            shutil.rmtree(folder, ignore_errors=True)


def running_on(programs: str, folders: Sequence[str]) -> list[int]:
    """Return the processes whose program is one of ours and whose arguments name one of the folders."""
    found = []
    for pid in all_processes():
        program, *arguments = _command_line(pid) or [""]
        ours = program.startswith(f"{programs}/")
        if ours and any(_names(argument, folder) for folder in folders for argument in arguments):
            found.append(pid)
    return found


def _names(argument: str, folder: str) -> bool:
    """Return whether an argument names the folder, or something in it; not one whose name only begins so."""
    return re.search(f"{re.escape(folder)}(?![^/,:;'\"\\s])", argument) is not None


def _command_line(pid: int) -> list[str]:
    try:
        if (PROC / "self").exists():
            return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        listing = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return listing.stdout.split()
    except OSError:
        return []  # it has ended meanwhile


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def forget_shared_memory(data: Path) -> None:
    """Remove the few bytes of System V memory that a killed server leaves: otherwise only its next start would."""
    with suppress(OSError, IndexError, ValueError):
        _key, number = (data / "postmaster.pid").read_text().splitlines()[6].split()
        ctypes.CDLL(None).shmctl(int(number), 0, None)
