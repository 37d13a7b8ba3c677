"""The memory engine: the executable reference for every other engine. Nothing survives the process."""

from __future__ import annotations

import os

from ...core.model import Limits
from ...core.view import View
from ..clocks import Clock
from ..resident.engine import ResidentEngine
from ..resident.tables import Tables
from .journal import Journal


class MemoryEngine(ResidentEngine):
    """Everything in dicts, the journal included; safe to share between threads."""

    url = "memory://"

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None, journal: int = 100_000) -> None:
        super().__init__(clock=clock, limits=limits)
        self._journal: Journal = Journal(max(1, journal))
        self._word = os.urandom(8).hex()

    @property
    def _generation(self) -> str:
        return self._word

    def _write(self, view: View) -> None:
        with self._lock:  # nothing is waited for: readers see journal and tables move together
            super()._write(view)

    def _persist(self, view: View) -> None:
        self._journal.append(view.entries)

    def close(self) -> None:
        """Forget everything."""
        with self._writing, self._lock:
            self._closed = True
            self._tables = Tables()
            self._journal = Journal(1)
