# Generated from ../_async/blocks.py by tools/gen_sync.py: do not edit.
"""Blocks at a distance: `holding` confirms or releases at the end, `lease` renews while inside and always releases.

They decide by the server's answers alone. A hold whose answer never came, because the caller was cancelled meanwhile, is
freed by its deadline.
"""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Any, Self

from ...core.commands import Ttl
from ...core.model import SECOND, Slot
from ...core.validation import invalid
from ...errors import AlreadyConfirmed, AlreadyReleased, HoldExpired, HoldkitError, LifetimeExceeded, Refused
from ...kernel._sync.calls import Call
from ...kernel.spelling import What, legs_of, span
from ...kernel.surface import Hold
from ...kernel.workers import GRACE, Signal, Worker
from ..clock import ServerClock
from .verbs import MAX_LEGS, RemoteVerbs

log = logging.getLogger("holdkit")

RENEWALS = 3
"""How often a lease is renewed within its ttl: two may fail before it is lost."""


class RemoteBlock:
    """What both blocks share: one hold, placed at the beginning and ended at the end, by the same actor."""

    def __init__(
        self,
        remote: RemoteVerbs,
        call: Call,
        what: What,
        quantity: int | None,
        ttl: Ttl,
        metadata: dict[str, Any] | None,
    ) -> None:
        self._remote, self._call = remote, call
        self._legs, self._span, self._metadata = legs_of(what, quantity, MAX_LEGS), span(ttl), metadata
        self._entered = False
        self._hold: Hold | None = None

    @property
    def hold(self) -> Hold:
        """The hold behind the block."""
        if self._hold is None:
            raise invalid("block", "block_not_entered", "has no hold before `with` has entered it")
        return self._hold

    def _frame(self, **more: Any) -> Any:
        """Who and in which thread of events, without the retry key and the reason of the beginning."""
        kept = {name: value for name, value in self._call.items() if name in ("actor", "correlation_id")}
        return {**kept, **more}

    def _enter(self) -> Hold:
        if self._entered:
            raise invalid("block", "block_reused", "can be entered once: call holding() or lease() again")
        self._entered = True
        ttl = self._span / SECOND
        self._hold = self._remote.hold(self._legs, ttl=ttl, metadata=self._metadata, **self._call)
        return self._hold

    def _release(self, why: type[BaseException] | None) -> None:
        reason = "lease_ended" if why is None else why.__name__ if why.__name__.isidentifier() else "error"
        self._remote.release(self.hold, **self._frame(reason=reason[:200]))


class RemoteHolding(RemoteBlock):
    """``with hk.holding(...) as hold``: leaves normally → confirmed; raises → released."""

    def __init__(
        self,
        remote: RemoteVerbs,
        call: Call,
        what: What,
        quantity: int | None,
        ttl: Ttl,
        metadata: dict[str, Any] | None,
        entity: str | None,
    ) -> None:
        super().__init__(remote, call, what, quantity, ttl, metadata)
        self._entity = entity

    def __enter__(self) -> Hold:
        return self._enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._confirm()
            return
        try:
            self._release(kind)
        except HoldkitError as failed:
            if error is not None and not isinstance(failed, AlreadyConfirmed | AlreadyReleased):
                error.add_note(f"the hold {self.hold.id} could not be released ({failed}); its deadline will do it")

    def _confirm(self) -> None:
        reason = {"reason": self._call["reason"]} if self._call.get("reason") else {}
        try:
            self._remote.confirm(self.hold, entity=self._entity, **self._frame(**reason))
        except AlreadyConfirmed:
            return  # the body did it itself
        except AlreadyReleased:
            if self.hold.replayed or self._forced():
                raise  # not by this body: what it did is not covered by any units

    def _forced(self) -> bool:
        story = [entry for entry in self._remote.history(self.hold) if not entry.part]
        return bool(story) and story[-1].forced


class RemoteLease(RemoteBlock):
    """``with hk.lease(...) as lease``: a job slot, renewed while inside, always released; `lost` tells the holder."""

    def __init__(
        self,
        remote: RemoteVerbs,
        call: Call,
        what: What,
        quantity: int | None,
        ttl: Ttl,
        crew: set[Worker],
        clock: ServerClock,
    ) -> None:
        super().__init__(remote, call, what, quantity, ttl, None)
        self._crew, self._clock = crew, clock
        self._stop = Signal()
        self._worker: Worker | None = None
        self._safe_until = 0.0
        self._ended: Refused | None = None

    @property
    def fence(self) -> int:
        """Pass it to whatever the job writes to: an older one is a stale holder."""
        return self.hold.fence

    @property
    def lost(self) -> bool:
        """Whether the units may belong to someone else by now: stop working if so. Counted from when the last renewal was
        sent, by this machine's clocks and by the server's."""
        deadline = self.hold.deadline
        assert deadline is not None
        late = time.time() >= self._safe_until or self._clock.now() >= deadline
        return late or self._ended is not None

    def check(self) -> None:
        """Raise `HoldExpired` if the lease is lost."""
        if self.lost:
            why = "" if self._ended is None else f" ({self._ended})"
            raise HoldExpired(f"the lease is lost, its units may belong to someone else{why}", subject=self.hold.id)

    def renew(self) -> None:
        """Renew now; happens by itself every third of the ttl. Near the longest lifetime it renews for what is left."""
        try:
            self._extend(self._span, None)
        except LifetimeExceeded as longest:
            most: Slot | None = longest.details.get("max_lifetime")
            if most is None:
                raise
            self._extend(None, self.hold.held_at + most)
        except Refused as refused:
            self._ended = refused
            raise

    def _extend(self, slots: Slot | None, until: Slot | None) -> None:
        began, now = time.time(), self._clock.now()
        ttl = None if slots is None else slots / SECOND
        self._hold = self._remote.extend(self.hold, ttl=ttl, until=until, **self._frame())
        assert self._hold.deadline is not None
        self._safe_until = began + (self._hold.deadline - now if slots is None else slots) / SECOND

    def _keep(self) -> None:
        """Renew until told to stop or refused; a server that does not answer is asked again until the deadline has passed."""
        while not self._stop.closed and not self.lost:
            self._stop.wait(0, max(0.001, self._span / RENEWALS / SECOND))
            try:
                if not self._stop.closed:
                    self.renew()
            except Refused as refused:
                log.warning("lease %s will not be renewed: %s", self.hold.id, refused)
                return
            except HoldkitError as failed:
                log.warning("lease %s could not be renewed, will try again: %s", self.hold.id, failed)

    def __enter__(self) -> Self:
        began = time.time()
        self._enter()
        self._safe_until = began + self._span / SECOND
        self._worker = Worker(self._crew, self._keep, "holdkit-lease", self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.close()
        try:
            self._release(kind)
        except HoldkitError as failed:
            if error is not None:
                error.add_note(f"the lease's hold {self.hold.id} could not be released: {failed}")
            elif not isinstance(failed, Refused):
                log.warning("lease %s could not be released, its deadline will do it: %s", self.hold.id, failed)
        assert self._worker is not None
        self._worker.end(GRACE)
