# Generated from ../_async/blocks.py by tools/gen_sync.py: do not edit.
"""Blocks with a hold: `holding` confirms or releases it at the end; `lease` renews it meanwhile and always releases it."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from ...core.commands import ConfirmHold, ExtendHold, PlaceHold, ReleaseHold
from ...core.model import SECOND, Slot
from ...core.validation import invalid
from ...engines.clocks import steady
from ...errors import AlreadyConfirmed, AlreadyReleased, HoldExpired, HoldkitError, LifetimeExceeded, Refused
from ..answers import undo_grant
from ..arguments import span
from ..results import Hold, hold_of
from ..workers import Signal, Worker
from .blocking import BlockingCall
from .executor import ExecutorPort

log = logging.getLogger("holdkit")

RENEWALS = 3
"""How often a lease is renewed within its ttl: two may fail before it is lost."""


class Block:
    """The base of both blocks: one hold that is placed at the beginning and ended at the end, by the same actor."""

    def __init__(self, executor: ExecutorPort, command: PlaceHold) -> None:
        self._executor, self._command = executor, command
        self._entered = False
        self._hold: Hold | None = None

    @property
    def hold(self) -> Hold:
        """The hold behind the block."""
        if self._hold is None:
            raise invalid("block", "block_not_entered", "has no hold before `with` has entered it")
        return self._hold

    def _begin(self) -> None:
        if self._entered:
            raise invalid("block", "block_reused", "can be entered once: call holding() or lease() again")
        self._entered = True

    def _enter(self) -> Hold:
        self._begin()
        done = self._executor.execute(self._command, undo=undo_grant)
        self._hold = hold_of(done, None, self._command.legs)
        return self._hold

    def _release(self, why: type[BaseException] | None) -> None:
        reason = "lease_ended" if why is None else why.__name__ if why.__name__.isidentifier() else "error"
        command = self._command
        self._end(
            ReleaseHold(
                id=self.hold.id,
                token=self.hold.token,
                tenant=command.tenant,
                actor=command.actor,
                correlation_id=command.correlation_id,
                reason=reason[:200],
            )
        )

    def _end(self, command: ConfirmHold | ReleaseHold) -> None:
        self._executor.execute(command, shielded=True)  # executed even if the caller is cancelled meanwhile

    def _forced(self) -> bool:
        return self._executor.forced((self._command.tenant, self.hold.id))


class Holding(Block):
    """``with hk.holding(...) as hold``: leaves normally → confirmed; raises → released."""

    def __init__(self, executor: ExecutorPort, command: PlaceHold, entity: str | None) -> None:
        super().__init__(executor, command)
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
                error.add_note(f"the hold {self.hold.id} could not be released ({failed}); it expires at its deadline")

    def _confirm(self) -> None:
        command = self._command
        try:
            self._end(
                ConfirmHold(
                    id=self.hold.id,
                    token=self.hold.token,
                    entity=self._entity,
                    tenant=command.tenant,
                    actor=command.actor,
                    correlation_id=command.correlation_id,
                    reason=command.reason,
                )
            )
        except AlreadyConfirmed:
            return  # the body did it itself
        except AlreadyReleased:
            if self.hold.replayed or self._forced():
                raise  # not by this body: no units cover what the body did


class Lease(Block):
    """``with hk.lease(...) as lease``: a job slot, renewed while inside, always released; `lost` tells the holder."""

    def __init__(self, executor: ExecutorPort, command: PlaceHold, wait: float = 0.0) -> None:
        super().__init__(executor, command)
        self._wait = wait
        self._blocking: BlockingCall | None = None
        self._stop = Signal()
        self._worker: Worker | None = None
        self._safe_until = 0.0
        self._ended: Refused | None = None

    @property
    def fence(self) -> int:
        """Pass it to the system that the job writes to, which can refuse a holder with an older one."""
        return self.hold.fence

    @property
    def lost(self) -> bool:
        """Whether the units may belong to someone else by now: stop working if so."""
        deadline = self.hold.raw.deadline
        assert deadline is not None
        late = steady() >= self._safe_until or self._executor.now() >= deadline
        return late or self._ended is not None

    def check(self) -> None:
        """Raise `HoldExpired` if the lease is lost."""
        if self.lost:
            why = "" if self._ended is None else f" ({self._ended})"
            raise HoldExpired(f"the lease is lost, its units may belong to someone else{why}", subject=self.hold.id)

    def renew(self) -> None:
        """Renew now; the lease does so by itself every third of the ttl. Near `max_lifetime` it is renewed for the time that is left."""
        try:
            self._extend(ttl_slots=self._span())
        except LifetimeExceeded as longest:
            self._extend(until=self.hold.raw.began + span(longest.max_lifetime))
        except Refused as refused:
            self._ended = refused
            raise

    def _extend(self, *, ttl_slots: Slot | None = None, until: Slot | None = None) -> None:
        began, now = steady(), self._executor.now()
        command = self._command
        done = self._executor.execute(
            ExtendHold(
                id=self.hold.id,
                token=self.hold.token,
                ttl_slots=ttl_slots,
                until=until,
                tenant=command.tenant,
                actor=command.actor,
                correlation_id=command.correlation_id,
            )
        )
        self._hold = hold_of(done, self.hold.token, command.legs)
        if ttl_slots is None:
            assert self._hold.raw.deadline is not None
            ttl_slots = self._hold.raw.deadline - now
        self._safe_until = began + ttl_slots / SECOND

    def _span(self) -> Slot:
        assert self._command.ttl_slots is not None
        return self._command.ttl_slots

    def _keep(self) -> None:
        """Renew until the block ends or a renewal is refused. If the engine fails, try again until the deadline has passed."""
        while not self._stop.closed and not self.lost:
            self._stop.wait(0, max(0.001, self._span() / RENEWALS / SECOND))
            try:
                if not self._stop.closed:
                    self.renew()
            except Refused as refused:
                log.warning(
                    "lease %s will not be renewed: %s",
                    self.hold.id,
                    refused,
                    extra={"event": "lease_lost", "hold": self.hold.id},
                )
                return
            except HoldkitError as failed:
                if self._executor.closed:
                    return  # the kernel was closed on purpose
                log.warning(
                    "lease %s could not be renewed, will try again: %s",
                    self.hold.id,
                    failed,
                    extra={"event": "lease_unrenewed", "hold": self.hold.id},
                )

    def stop_waiting(self) -> None:
        """Let a call that waits to enter this block give up: it leaves the line, and raises `WaitGivenUp`. (For a thread that waits;
        a task can be cancelled.)"""
        if self._blocking is not None:
            self._blocking.give_up()

    def __enter__(self) -> Self:
        began = steady()
        if self._wait:
            self._begin()
            self._blocking = BlockingCall(self._executor, self._command, self._wait)
            self._hold = self._blocking.result()
            began = self._blocking.granted
        else:
            self._enter()
        self._safe_until = began + self._span() / SECOND
        self._worker = self._executor.start_worker(self._keep, "holdkit-lease", self._stop)
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
            elif not isinstance(failed, Refused) and not self._executor.closed:
                log.warning(
                    "lease %s could not be released and expires at its deadline: %s",
                    self.hold.id,
                    failed,
                    extra={"event": "lease_unreleased", "hold": self.hold.id},
                )
        assert self._worker is not None
        self._worker.end()
