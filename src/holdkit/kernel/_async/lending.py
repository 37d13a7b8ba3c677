"""Blocks that hold: `holding` confirms or releases at the end, `lease` renews while inside and always releases."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ...core.commands import PlaceHold
from ...core.model import Slot
from ...errors import AlreadyConfirmed, AlreadyReleased, HoldExpired, HoldkitError, Refused
from ..surface import Hold
from ..waiters import AsyncSignal, AsyncWorker

if TYPE_CHECKING:
    from .kernel import AsyncKernel


class AsyncHolding:
    """``with hk.holding(...) as hold``: leaves normally → confirmed; raises → released."""

    def __init__(self, kernel: AsyncKernel, command: PlaceHold, entity: str | None) -> None:
        self._kernel, self._command, self._entity = kernel, command, entity
        self._hold: Hold | None = None

    async def __aenter__(self) -> Hold:
        self._hold = await self._kernel.grant(self._command)
        return self._hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._hold is not None
        if kind is None:
            with suppress(AlreadyConfirmed, AlreadyReleased):  # the body may have ended it itself
                await self._kernel.confirm(self._hold, entity=self._entity)
            return
        try:
            await self._kernel.release(self._hold, reason=kind.__name__)
        except HoldkitError as failed:
            if error is not None:
                error.add_note(f"the hold {self._hold.id} could not be released: {failed}; its deadline will do it")


class AsyncLease:
    """``with hk.lease(...) as lease``: a job slot, renewed while inside, always released; `lost` tells the holder."""

    def __init__(self, kernel: AsyncKernel, command: PlaceHold) -> None:
        self._kernel, self._command = kernel, command
        self._stop = AsyncSignal()
        self._worker: AsyncWorker | None = None
        self._hold: Hold | None = None
        self._safe_until = 0.0
        self._ended: HoldkitError | None = None

    @property
    def hold(self) -> Hold:
        """The hold behind the lease."""
        assert self._hold is not None, "enter the lease first"
        return self._hold

    @property
    def fence(self) -> int:
        """Pass it to whatever the job writes to: an older one is a stale holder."""
        return self.hold.fence

    @property
    def lost(self) -> bool:
        """Whether the units may belong to someone else by now: stop working if so."""
        return self._ended is not None or time.monotonic() >= self._safe_until

    def check(self) -> None:
        """Raise `HoldExpired` if the lease is lost."""
        if self.lost:
            raise HoldExpired("the lease is lost: its units may belong to someone else", subject=self.hold.id)

    async def renew(self) -> None:
        """Renew now; happens by itself every third of the ttl."""
        ttl = self._span()
        started = time.monotonic()
        await self._kernel.extend(self.hold, ttl=timedelta(microseconds=ttl))
        self._safe_until = started + ttl / 1e6

    def _span(self) -> Slot:
        assert self._command.ttl_slots is not None
        return self._command.ttl_slots

    async def _keep(self) -> None:
        """Renew until told to stop or refused; a failing engine is asked again until the deadline has passed."""
        while not self._stop.closed:
            await self._stop.wait(0, self._span() / 3e6)
            try:
                if not self._stop.closed:
                    await self.renew()
            except Refused as refused:
                self._ended = refused
                return
            except HoldkitError:
                if self.lost:
                    return

    async def __aenter__(self) -> Self:
        started = time.monotonic()
        self._hold = await self._kernel.grant(self._command)
        self._safe_until = started + self._span() / 1e6
        self._worker = AsyncWorker(self._keep, "holdkit-lease")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.close()
        assert self._worker is not None
        await self._worker.join()
        try:
            await self._kernel.release(self.hold, reason="lease_ended" if kind is None else kind.__name__)
        except HoldkitError as failed:
            if error is not None:
                error.add_note(f"the lease's hold {self.hold.id} could not be released: {failed}")
