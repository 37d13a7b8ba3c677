"""What `holdkit watch` shows, taken again and again: pools, live holds, what just happened, how fast."""

from __future__ import annotations

import time
from collections import Counter, deque

from ..core.model import Pool
from ..faces._sync.kernel import Kernel
from ..kernel.normalise import text_of
from ..kernel.results import Hold, JournalEntry
from .documents import entry_document, hold_document, pool_document
from .shapes import WatchDocument

PAGES = 10
"""Of the journal, read at most for one picture: who falls behind begins anew at the end."""
PAGE = 1_000


class Watcher:
    """Looks at one tenant's things."""

    def __init__(self, hk: Kernel, prefix: str, pools: int, holds: int, tail: int) -> None:
        self._hk, self._prefix = hk, prefix
        self._most_pools, self._most_holds = pools, holds
        self.tail: deque[JournalEntry] = deque(hk.journal(after=hk.cursor(back=tail), limit=PAGE), tail)
        self._cursor = hk.cursor()
        self._looked = time.monotonic()
        self.pools: list[Pool] = []
        self.holds: list[Hold] = []
        self.rates: dict[str, float] = {}
        self.now = 0

    def look(self) -> None:
        """Take a new picture."""
        self.pools = self._hk.pools(self._prefix, limit=self._most_pools)
        found = self._hk.holds(state="held", limit=1_000)
        self.now = self._hk.executor.now()
        self.holds = sorted(found, key=lambda hold: (hold.deadline is None, hold.deadline, hold.id))[: self._most_holds]
        seen: Counter[str] = Counter()
        for _ in range(PAGES):
            fresh = self._hk.journal(after=self._cursor, limit=PAGE)
            seen.update(str(entry.action) for entry in fresh if not entry.part)
            self.tail.extend(fresh)
            if not fresh:
                break
            self._cursor = fresh[-1].cursor
        else:
            self._cursor = self._hk.cursor()
        looked = time.monotonic()
        self.rates = {action: count / max(looked - self._looked, 1e-3) for action, count in sorted(seen.items())}
        self._looked = looked

    def document(self) -> WatchDocument:
        """The picture for programs."""
        return WatchDocument(
            at=text_of(self.now) or "",
            url=self._hk.url,
            pools=tuple(map(pool_document, self.pools)),
            holds=tuple(map(hold_document, self.holds)),
            entries=tuple(map(entry_document, self.tail)),
            rates=self.rates,
        )
