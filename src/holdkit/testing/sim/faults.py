"""Where faults strike: asked before every call of the simulated disk."""

from __future__ import annotations

import errno
from collections import Counter

from msgspec.structs import replace

from .disk import PowerCut
from .plan import Fault


class Faults:
    """At most one fault is armed at a time; it strikes at its n-th call from then on."""

    def __init__(self, reached: Counter[str]) -> None:
        self._reached = reached
        self.armed: Fault | None = None
        self._countdown = 0
        self.paused = False
        """Nothing strikes while the world is only looking."""

    def arm(self, fault: Fault | None) -> None:
        """Arm a fault in place of any other, or none."""
        self.armed, self._countdown = fault, 0 if fault is None else fault.after

    def before(self, call: str) -> None:
        """Strike here, or let the call pass."""
        if self.armed is None or self.paused:
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
