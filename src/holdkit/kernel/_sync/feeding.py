# Generated from ../_async/feeding.py by tools/gen_sync.py: do not edit.
"""Feeding lines: a transaction makes a bounded number of offers, and later transactions make the rest.

Theory of operation. An engine reports the lines that it has left with units to offer (`Applied.unfed`), and `Feeder.add` notes
their pools. A worker sends a `FeedLine` for each through the queue, like any other call: so the answers of the batch do not wait for
it, and the tenants of other pools have their turns in between. The worker is started when there is something to feed, and ends when
there is nothing left. The engine puts off a `FeedLine` until its line is fed to the end, so one per pool is enough; a pool is noted
once, however often it is reported. What cannot be sent now is sent again, until the kernel closes.

Units that a call in a caller's own transaction releases are not offered by it, because an offer could end before the caller commits.
Their lines are noted too: the `FeedLine` waits for what that transaction has locked, so it is decided as soon as the caller has ended it.

A pool is noted before `_running` is read, and the worker looks for more after it has cleared `_running`. So either sees the other, and
no pool is left behind. Two workers at once do no harm.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.commands import FeedLine, Group
from ...core.model import Key
from ...errors import HoldkitError
from ..workers import Signal

if TYPE_CHECKING:
    from .executor import Executor

log = logging.getLogger("holdkit")

PAUSE = 1.0
"""Seconds before a line that could not be fed is fed again."""


class Feeder:
    """Sends a `FeedLine` for every pool that is added."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._pools: OrderedDict[Key, None] = OrderedDict()
        self._running = False
        self._stop = Signal()

    def add(self, pools: Sequence[Key]) -> None:
        """Have these lines fed. Never raises: the batch that reports them has been written."""
        for pool in pools:
            self._pools[pool] = None
        self._start()

    def _start(self) -> None:
        if self._running or not self._pools or self._executor.closed:
            return
        self._running = True
        try:
            self._executor.start_worker(self._run, "holdkit-feeder", self._stop)
        except Exception:
            self._running = False  # the next one that is added tries again
            log.exception(
                "no worker to feed the lines of %d pools",
                len(self._pools),
                extra={"event": "line_worker_missing", "count": len(self._pools)},
            )

    def _run(self) -> None:
        while self._pools and not self._stop.closed:
            pool, _ = self._pools.popitem(last=False)
            self._feed(pool)
        self._running = False
        if not self._stop.closed:
            self._start()

    def _feed(self, pool: Key) -> None:
        tenant, id = pool
        try:
            self._executor.group_commit.submit(Group((FeedLine(tenant=tenant, id=id),)))
        except HoldkitError as failed:
            if self._executor.closed:
                return
            log.warning(
                "the line of pool %r could not be fed, will try again: %s",
                id,
                failed,
                extra={"event": "line_unfed", "pool": id},
            )
            self._pools[pool] = None
            self._stop.wait(0, PAUSE)
