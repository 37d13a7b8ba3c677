"""Room: a server refuses requests that store something new while its disk is nearly full.

Theory of operation
-------------------

A full disk stops all callers: existing holds can neither be confirmed nor released, because each of these writes an entry of the
journal. So the server keeps `journal.min_free` bytes for commands that end or shrink what exists. While less is free, it refuses requests
that would store something new (`grows`) with 507 `storage_full`, before the kernel sees them, so they settle no operation id. Callers
can still confirm, release, extend, return, sweep, archive and erase, and replace an existing record or set of budgets: sagas finish,
followers move on, and an operator can lower a budget.

The server reads the free space of the file system that has the data, if that is on this machine (`port.OnDisk`). It reads it when a
request needs it, at most once in `READ_EVERY_SECONDS`; what is admitted within that time may go beyond the bound.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..core.commands import COMMANDS
from ..core.reading import FindRecord
from ..engines.doctor import Space, is_low, space_of
from ..kernel._async.executor import AsyncExecutor
from ..wire.batches import DOCUMENTS, Batch
from ..wire.budgets import BudgetConsume, BudgetHold, BudgetSet
from ..wire.claims import NewClaim
from ..wire.items import AddItems, AddSeats, HoldItems, HoldSeats
from ..wire.journal import MoveCursor
from ..wire.problems import Problem
from ..wire.records import PutRecordBody
from ..wire.stats import Disk, DiskState
from ..wire.windows import Windowed
from ._async import budget_sets

if TYPE_CHECKING:
    from .request import Request

log = logging.getLogger("holdkit.server")

READ_EVERY_SECONDS: Final = 1.0
"""Seconds for which the free space is not read again."""
RETRY_AFTER_SECONDS: Final = 30.0
"""Seconds after which a request that was turned away may be sent again: a person has to make room."""


GROWING: Final = (
    *(DOCUMENTS[verb].__bases__[0] for verb, kind in COMMANDS.items() if kind.stores),
    *(NewClaim, AddItems, AddSeats, HoldItems, HoldSeats, BudgetHold, BudgetConsume, BudgetSet),
)
"""Bodies that store something new: those of the routes of commands that do, and those of faces."""


def grows(body: Any) -> bool:
    """Return whether a request may store something new. Commands that end, shrink or change what exists do not."""
    if isinstance(body, Batch | Windowed):
        return any(COMMANDS[str(command.__struct_config__.tag)].stores for command in body.commands)
    if isinstance(body, PutRecordBody):
        return body.body is not None
    if isinstance(body, MoveCursor):
        return body.if_version == 0
    return isinstance(body, GROWING)


class Room:
    """The free space of the disk, and whether it is enough for something new."""

    def __init__(
        self, read: Callable[[], Space | None], min_free: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Keep the settings. `read` returns the space of the data's file system, or None if that is not known."""
        self._read, self._min_free, self._clock = read, min_free, clock
        self._space: Space | None = None
        self._read_again_at = float("-inf")
        self._state: DiskState | None = None

    @property
    def state(self) -> DiskState | None:
        """Return whether there is room; None if that is not known."""
        now = self._clock()
        if now >= self._read_again_at:
            self._read_again_at = now + READ_EVERY_SECONDS
            self._space = self._read()
            self._change(self._state_of(self._space))
        return self._state

    def document(self) -> Disk | None:
        """Return the free space for operators, or None if it is not known."""
        state, space = self.state, self._space
        return None if state is None or space is None else Disk(state, space.free, space.total, self._min_free)

    def refusal(self) -> Problem | None:
        """Return the problem of a request that would store something new now, or None if it may."""
        if self.state != "full":
            return None
        return Problem(
            507,
            "storage_full",
            "the disk of the server is nearly full, so nothing new is stored until an operator has made room; confirm, release, "
            "extend and return still work",
            retry_after=RETRY_AFTER_SECONDS,
        )

    def _state_of(self, space: Space | None) -> DiskState | None:
        if space is None:
            return None
        return "full" if space.free < self._min_free else "low" if is_low(space) else "ok"

    def _change(self, state: DiskState | None) -> None:
        """Log a state when it begins."""
        if state == self._state:
            return
        self._state = state
        free = 0 if self._space is None else self._space.free
        if state == "full":
            log.warning(
                "%d MiB of the data's disk are free, less than journal.min_free: nothing new is stored until there is room",
                free >> 20,
                extra={"event": "disk_full", "free": free},
            )
        elif state == "low":
            log.warning(
                "%d MiB of the data's disk are free, less than a twentieth: make room",
                free >> 20,
                extra={"event": "disk_low", "free": free},
            )


async def open_room(executor: AsyncExecutor, min_free: int) -> Room:
    """Watch the disk that has the data of a kernel, if it is one of this machine."""
    on_disk = executor.engine.capabilities.on_disk
    path = None if on_disk is None else await executor.run_blocking(on_disk.data_path)
    return Room(lambda: None if path is None else space_of(path), min_free)


async def check_growth(request: Request, refusal: Problem) -> None:
    """Raise the refusal if the request would store something new: its tenant's quota or the disk is full."""
    if grows(request.body) and not await _replaces(request):
        raise refusal


async def _replaces(request: Request) -> bool:
    """Return whether the request writes a record or a set of budgets that exists already."""
    if isinstance(request.body, BudgetSet):
        kind, id = budget_sets.KIND, request.names[0]
    elif isinstance(request.body, PutRecordBody) and request.body.if_version != 0:
        kind, id = request.names
    else:
        return False
    return await request.kernel._executor.read(FindRecord((request.caller.tenant, kind, id))) is not None
