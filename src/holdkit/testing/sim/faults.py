"""Faults that strike a simulated disk: power cuts and errors, each at a call that its plan has drawn."""

from __future__ import annotations

import errno
from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

UNCHANGING: Final = ("open", "read")


class PowerCut(BaseException):
    """The machine stops here. It is not an Exception, so that no code handles it."""


class Fault(Struct, frozen=True):
    """Arms one fault: a power cut or a disk error at the n-th disk call from here."""

    kind: str
    """cut, error or rot."""
    after: int
    dice: int
    """The seed of what survives."""
    times: int = 1
    """How many calls in a row fail."""
    changes: bool = False
    """Whether only calls count that change something."""


class Faults:
    """At most one fault is armed; it strikes at its n-th disk call from then on."""

    def __init__(self, reached: Counter[str]) -> None:
        self._reached = reached
        self.armed: Fault | None = None
        self._countdown = 0
        self.paused = False
        """Nothing strikes while the checker reads."""

    def arm(self, fault: Fault | None) -> None:
        """Arm a fault instead of any other, or none."""
        self.armed, self._countdown = fault, 0 if fault is None else fault.after

    def before(self, call: str) -> None:
        """Strike at this call, or let it pass."""
        if self.armed is None or self.paused:
            return
        if self.armed.changes and call in UNCHANGING:
            return
        if self._countdown > 0:
            self._countdown -= 1
            return
        if self.armed.kind == "cut":  # stays: its dice say what survives
            self._reached[f"cut at {call}"] += 1
            raise PowerCut
        times = self.armed.times - 1
        self.armed = replace(self.armed, times=times) if times else None
        self._reached[f"error at {call}"] += 1
        raise OSError(errno.EIO, "input/output error")
