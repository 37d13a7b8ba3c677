"""The ledger: what each caller asked, and what it was told. One line of JSON per event, on another file system than the one
under test.

An answer is on the disk before its caller asks the next question. It carries the moment at which the caller had it, on the
machine's monotonic clock: an answer counts only if that lies before the fault.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

Said: TypeAlias = Literal[
    "asked", "done", "settled", "refused", "none", "unknown", "broken", "shown", "cursor_lost", "guarded"
]
"""What a line tells.

asked     the attempt has begun; without another line about it, its caller died with the answer still open
done      committed
settled   refused because an earlier attempt of the same call has happened (`hold_exists`, `already_confirmed`, …)
refused   refused by the rules: no effect
none      turned away or failed: this attempt had no effect
unknown   the attempt may or may not have had its effect
broken    an exception that is none of ours, or a promise broken
shown     a follower was shown an entry
guarded   how many commands of this process have passed a guard so far (`call`)
"""
KEPT: Final = frozenset({"done", "settled"})
"""Answers that promise an effect."""
DENIED: Final = frozenset({"refused", "none"})
"""Answers that promise that this attempt had none."""


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event."""

    said: Said
    at: float
    caller: str
    call: int = 0
    attempt: int = 0
    verb: str = ""
    op: bool = False
    """The call has an operation id: a refusal settles all of its attempts."""
    hold: str = ""
    lane: int = 0
    seq: int = 0
    """The journal position that the answer named; 0 if it named none."""
    words: str = ""

    @property
    def key(self) -> str:
        """The correlation id of this attempt, which the journal repeats."""
        return correlation(self.caller, self.call, self.attempt)


def correlation(caller: str, call: int, attempt: int) -> str:
    """The correlation id of one attempt: what has happened can be told from it, with and without operation ids."""
    return f"{caller}/{call}/{attempt}"


class Ledger:
    """Appends to one file; several callers of a process may share it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Return once it is on the disk."""
        text = msgspec.json.encode(line) + b"\n"
        with self._lock:
            os.write(self._descriptor, text)
            if line.said != "asked":
                os.fsync(self._descriptor)


class Reader:
    """All ledgers of a folder, read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self.lines: list[Line] = []

    def more(self) -> list[Line]:
        """What was written since the last look; a line that is still being written comes next time."""
        fresh = [line for path in sorted(self._folder.glob("*.jsonl")) for line in self._more_of(path)]
        self.lines += fresh
        return fresh

    def _more_of(self, path: Path) -> Iterator[Line]:
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offsets[path] = self._offsets.get(path, 0) + len(whole)
        for line in whole.splitlines():
            yield msgspec.json.decode(line, type=Line)


def now() -> float:
    """Seconds on a clock that all processes of this machine share."""
    return time.monotonic()
