"""Drives one saga whose lease this process holds, step by step. `saga_steps` has the theory of operation.

Each step is one transaction, written at the version that the driver has seen. Before the point of no return the
effect never runs; after it nothing is released. `saga_steps.next_step` alone says what to do next.
"""

from __future__ import annotations

import logging
from collections.abc import (
    Awaitable,  # async-only
    Callable,
)
from typing import Any

from msgspec.structs import replace

from ...core.commands import AnyCommand, ConfirmHold, ExtendHold, Group, PlaceHold, ReleaseHold
from ...core.entries import Action
from ...core.model import SECOND, Record, State, StoredHold
from ...core.outcomes import Reply
from ...core.reading import FindHold, FindRecord, ReadHistory, entry_of
from ...core.validation import combined
from ...engines.port import Engine
from ...errors import EngineError, HoldExists, HoldExpired, HoldkitError, OutcomeUnknown, Overloaded, Refused
from ...kernel._async.executor import AsyncExecutor
from ...kernel.answers import in_own_words
from ...kernel.arguments import legs_of
from ...kernel.own_transaction import decide_inside
from ...kernel.record_lease import LeaseLost, written
from ...kernel.results import Hold
from ...kernel.workers import AsyncSignal
from ..saga import SagaOptions, SagaStep
from ..saga_records import (
    KIND,
    SagaBody,
    SagaError,
    decode,
    error_of,
    hold_id_of,
    next_body,
    op_of,
    step_commands,
    storable_result,
)
from ..saga_steps import UNFINISHED, Phase, Step, next_step

log = logging.getLogger("holdkit")

RENEWALS = 3
"""How often a lease is renewed within its length: two renewals in a row may fail before it is lost."""
MAX_IDS_TAKEN = 1_000
"""The number of hold ids that may be taken already, by earlier runs of the saga for example, before a driver gives
up."""
ENGINE_ERRORS = (EngineError, Overloaded, OutcomeUnknown)
"""Errors that say nothing about the saga itself: they never abort it."""


class Aborted(Exception):
    """The saga was aborted, and why."""

    def __init__(self, why: BaseException) -> None:
        super().__init__(why)
        self.why = why


async def write_step(
    executor: AsyncExecutor,
    record: Record,
    before: SagaBody | None,
    after: SagaBody,
    *beside: AnyCommand,
    tx: Any = None,
) -> Record:
    """Write one step in one transaction. Raises `LeaseLost` if the record has changed, and the refusal of any
    command of the step."""
    return written(record, await executor.execute_together(step_commands(record, before, after, *beside), tx))


async def may_consume(executor: AsyncExecutor, tenant: str, body: SagaBody, hold: StoredHold | None) -> bool:
    """Return whether units of the last attempt's hold are consumed before the point of no return, or may be. If the hold is no longer
    kept, its last entry decides: only a hold whose units stay consumed is retired by an entry. If its entries are archived too, the
    answer is that they may be."""
    if hold is not None or body.hold is None or body.phase is not Phase.RESERVING:
        return hold is not None and hold.consumes
    rows = await executor.read(ReadHistory(tenant, body.hold))
    story = [entry for entry in map(entry_of, rows) if entry.refused is None]
    return not story or story[-1].action is Action.HOLD_RETIRED


class AsyncSagaDriver:
    """Drives one saga to its end, or to its next failure."""

    def __init__(self, executor: AsyncExecutor, options: SagaOptions, record: Record, body: SagaBody) -> None:
        self._executor, self._options = executor, options
        self.record, self.body = record, body
        self._stop = AsyncSignal()
        self._lost = False
        self._attempts_lost = 0
        self._ids_taken = 0

    async def drive(self) -> None:
        """Take steps until the saga is over; read nothing after that, as it could fail. Raise `Aborted`, `LeaseLost`, or what stopped it."""
        while self.body.phase in UNFINISHED:
            hold = await self._read_hold()
            state = None if hold is None else hold.state
            consumes = await may_consume(self._executor, self.record.tenant, self.body, hold)
            step = next_step(self.body.phase, state, consumes=consumes)
            if step is Step.RESERVE:
                await self._reserve(hold)
            elif step is Step.ROLL_FORWARD:
                assert hold is not None
                await self._roll_forward(hold)
            elif step is Step.FINISH:
                await self._write(self._ended(Phase.DONE))
            elif step is Step.PARK:
                await self._park_with(hold)
            else:
                return

    async def _read_hold(self) -> StoredHold | None:
        """Return the last attempt's hold."""
        if self.body.hold is None:
            return None
        return await self._executor.read(FindHold((self.record.tenant, self.body.hold)))

    def _call_fields(self) -> dict[str, Any]:
        """Return the fields of every command of this saga: actor and correlation id are those of the call that began it."""
        body = self.body
        return {"tenant": self.record.tenant, "actor": body.actor, "correlation_id": body.correlation_id}

    def _step(self, hold: StoredHold | None = None) -> SagaStep:
        body, id = self.body, self.record.id
        return SagaStep(id=id, name=body.name, attempt=body.attempt, epoch=body.epoch, op=op_of(id, body.attempt),
                        hold=None if hold is None else Hold(hold))  # fmt: skip

    async def _call(self, method: str, step: SagaStep) -> Any:
        """Call a method of the application, however long it takes, and renew the lease meanwhile."""
        function: Callable[..., Any] = getattr(self._options.saga, method)
        self._stop = AsyncSignal()
        renewer = self._executor.start_worker(self._renew_lease, "holdkit-saga", self._stop)
        try:
            result = function(self.body.intent, step)
            result = await result if isinstance(result, Awaitable) else result  # async-only
        finally:
            await renewer.end()
        if self._lost:
            raise LeaseLost(self.record.id)
        return result

    def _next(self, **changes: Any) -> SagaBody:
        return next_body(self.record, self.body, **changes)

    def _ended(self, phase: Phase, **changes: Any) -> SagaBody:
        """Return the last write of this run. The driver's previous write is recent, so its slot will do for the index."""
        return self._next(phase=phase, lease=0, index_slot=self.record.slot, **changes)

    async def _write(self, after: SagaBody, *beside: AnyCommand) -> None:
        self.record = await write_step(self._executor, self.record, self.body, after, *beside)
        self.body = after

    # Before the point of no return

    async def _reserve(self, before: StoredHold | None) -> None:
        """Make one attempt: hold, validate, pass the point of no return; or abort, if the application or the pools refuse."""
        hold = before
        try:
            hold = await self._take(before)
            await self._call("validate", self._step(hold))
            await self._pass_point_of_no_return(hold)
        except (*ENGINE_ERRORS, LeaseLost):
            raise
        except _NextAttempt as next_attempt:
            id_taken = isinstance(next_attempt.__cause__, HoldExists)
            self._attempts_lost += not id_taken
            self._ids_taken += id_taken
            if self._attempts_lost < self._options.max_attempts and self._ids_taken < MAX_IDS_TAKEN:
                return
            why = next_attempt.__cause__ or next_attempt
            if await self._abort(why, hold):
                raise Aborted(why) from None
        except Exception as error:  # noqa: BLE001 - an exception aborts, and the caller gets its cause
            if await self._abort(error, hold):
                raise Aborted(error) from None

    async def _take(self, before: StoredHold | None) -> StoredHold:
        """Release what the last attempt holds and place a new hold, in one transaction with the record."""
        attempt = self.body.attempt + 1
        hold_id = hold_id_of(self.record.tenant, self.record.id, attempt)
        what = await self._call("reserve", replace(self._step(), attempt=attempt, op=op_of(self.record.id, attempt)))
        place = PlaceHold(legs=legs_of(what, None), ttl_slots=self._options.ttl, id=hold_id,
                          metadata={"saga": self.record.id, "attempt": attempt}, **self._call_fields())  # fmt: skip
        await self._executor.check(place, faces=combined(place))  # only a face may name its own pools
        beside: list[AnyCommand] = [place]
        if before is not None and before.state is State.HELD:
            beside.insert(0, self._release(before, "saga_attempt_abandoned"))
        try:
            await self._write(self._next(attempt=attempt, hold=hold_id, lease=self._options.lease), *beside)
        except HoldExists as taken:
            await self._write(self._next(attempt=attempt))  # that id is taken: the next attempt has another
            raise _NextAttempt from taken
        except Refused as refused:
            if before is not None and await self._hold_changed(before):
                raise _NextAttempt from refused
            raise in_own_words(refused, place.legs) from None
        hold = await self._read_hold()
        if hold is None or hold.state is not State.HELD:
            raise _NextAttempt from HoldExpired("it expired before it could be read", subject=hold_id)
        return hold

    async def _pass_point_of_no_return(self, hold: StoredHold) -> None:
        """Change the phase and remove the hold's deadline, in one transaction."""
        after = self._next(phase=Phase.FINALIZING, lease=self._options.lease)
        try:
            await self._write(after, ExtendHold(id=hold.id, forever=True, trusted=True, **self._call_fields()))
        except Refused as refused:
            if await self._hold_changed(hold):
                raise _NextAttempt from refused  # it expired or was released by force: the next attempt
            raise

    def _release(self, hold: StoredHold, reason: str) -> ReleaseHold:
        """Release all that we have seen it hold: refused if an operator has confirmed some of it meanwhile."""
        held = {leg.pool: leg.held for leg in hold.legs}
        return ReleaseHold(id=hold.id, quantity=held, trusted=True, reason=reason, **self._call_fields())

    async def _hold_changed(self, hold: StoredHold) -> bool:
        """Return whether a hold no longer has the state and the units that we have seen."""
        now = await self._executor.read(FindHold((self.record.tenant, hold.id)))
        return now is None or now.state is not hold.state or now.legs != hold.legs

    async def _abort(self, error: BaseException, hold: StoredHold | None) -> bool:
        """Take back what was done elsewhere; then release and change the phase, in one transaction. False: an operator has
        confirmed units by force, which an abort would leave consumed, so the saga is parked instead."""
        if await self._park_if_consumed():
            return False
        await self._call("undo", self._step(hold))
        after = self._ended(Phase.ABORTED, error=error_of(error))
        now = await self._read_hold()
        if now is not None and now.state is State.HELD and not now.consumes:
            try:
                await self._write(after, self._release(now, "saga_aborted"))
                return True
            except Refused:
                if not await self._hold_changed(now):
                    raise  # else it expired meanwhile, or an operator ended it: there is nothing to release
        if await self._park_if_consumed():
            return False
        await self._write(after)
        return True

    async def _park_if_consumed(self) -> bool:
        hold = await self._read_hold()
        if not await may_consume(self._executor, self.record.tenant, self.body, hold):
            return False
        await self._park_with(hold)
        return True

    # After the point of no return

    async def _roll_forward(self, hold: StoredHold) -> None:
        """Run the effect; then confirm and change the phase, in one transaction."""
        if self._options.inside:
            return await self._roll_forward_inside(hold)
        result = await self._call("effect", self._step(hold))
        try:
            await self._write(self._done(result), self._confirm(hold))
        except Refused:
            now = await self._read_hold()
            if now is not None and now.state is State.HELD:
                raise
            if now is not None and now.state is State.CONFIRMED:  # by force: the result of the effect is kept
                await self._write(self._done(result))
            # else it was released by force: the next step parks the saga

    async def _roll_forward_inside(self, hold: StoredHold) -> None:
        """Run the effect in the transaction that confirms: both happen or neither."""
        afters: list[SagaBody] = []

        def job(engine: Engine) -> list[Reply]:
            return decide_inside(engine, Group(()), minted=False, ask=ask, whole=True)

        def ask(tx: Any) -> Group:
            afters.append(self._done(self._options.saga.effect_in(tx, self.body.intent, self._step(hold))))
            return self._executor.atomic_group(step_commands(self.record, self.body, afters[-1], self._confirm(hold)))

        try:
            self.record = written(self.record, await self._executor.borrow(job))
            self.body = afters[-1]
        except Refused:
            if not await self._hold_changed(hold):
                raise

    def _done(self, result: Any) -> SagaBody:
        return self._ended(Phase.DONE, result=storable_result(result), error=None)

    def _confirm(self, hold: StoredHold) -> ConfirmHold:
        return ConfirmHold(id=hold.id, trusted=True, entity=f"saga:{self.record.id}", **self._call_fields())

    async def _renew_lease(self) -> None:
        while not self._stop.closed:
            await self._stop.wait(0, self._options.lease / RENEWALS / SECOND)
            try:
                if not self._stop.closed:
                    await self._write(self._next(lease=self._options.lease))
            except LeaseLost:
                if not await self._still_ours():
                    self._lost = True
                    return
            except HoldkitError as failed:
                if self._executor.closed:
                    return
                log.warning("the lease of saga %s is not renewed, will try again: %s", self.record.id, failed, extra={"event": "saga_lease_unrenewed", "saga": self.record.id})  # fmt: skip

    async def _still_ours(self) -> bool:
        """Return whether our own renewal, whose outcome was unknown, changed the record."""
        record = await self._executor.read(FindRecord((self.record.tenant, KIND, self.record.id)))
        if record is None or (body := decode(record)).epoch != self.body.epoch:
            return False
        self.record, self.body = record, body
        return True

    # Failures

    async def record_failure(self, error: BaseException) -> None:
        """Count a failure and free the lease; after too many failures park the saga."""
        failures = self.body.failures + 1
        if failures >= self._options.max_attempts:
            await self.park(error_of(error))
        else:
            await self._write(self._next(failures=failures, error=error_of(error), lease=0))

    async def _park_with(self, hold: StoredHold | None) -> None:
        """Park the saga because of the state of its hold."""
        said = "is missing"
        if self.body.phase is Phase.RESERVING:
            said = "is no longer kept, and units of it may still be consumed"
        if hold is not None:
            word = "confirmed in part" if hold.consumes and hold.state is not State.CONFIRMED else hold.state
            said = f"was {word}, and not by this saga"
        await self.park(SagaError("HoldLost", f"its hold {self.body.hold} {said}"))

    async def park(self, error: SagaError) -> None:
        """Park the saga for an operator: it stays visible and is not run."""
        failures = self.body.failures + 1
        await self._write(
            self._next(phase=Phase.PARKED, lease=0, failures=failures, error=error, parked_in=self.body.phase)
        )


class _NextAttempt(Exception):
    """The hold is no longer what it was: read again and make the next attempt."""
