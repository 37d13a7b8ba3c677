# Generated from ../_async/sagas.py by tools/gen_sync.py: do not edit.
"""Sagas: reserve, validate, finalize, with a record that is written before each step, so that every saga ends despite
crashes.

`saga_steps` has the theory of operation. Only the driver that holds a saga's lease writes it. `recover` may run in any
number of processes, at any time.
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from msgspec.structs import replace

from ...core.commands import AnyCommand, ConfirmHold, PutRecord, ReleaseHold
from ...core.model import Record, State
from ...core.outcomes import Done, Reason, Refusal
from ...core.reading import FindHold, ListRecords
from ...core.validation import invalid, text, whole
from ...errors import SagaBusy
from ...kernel._sync.executor import Executor
from ...kernel.answers import refusal_of
from ...kernel.arguments import current
from ...kernel.record_lease import LeaseLost, written
from ..saga import SagaOptions, saga_options
from ..saga_records import (
    ENDS,
    KIND,
    OPEN,
    PARKED,
    UNREADABLE,
    RecoveryReport,
    SagaBody,
    SagaRecord,
    Unreadable,
    checked_id,
    checked_intent,
    decode,
    ended_saga,
    erased,
    next_body,
    step_commands,
    to_saga_record,
)
from ..saga_steps import ENDED, UNFINISHED, Phase, Step, next_step
from .saga_driving import Aborted, SagaDriver, may_consume
from .saga_store import SagaReads, SagaStore, note_failure, read_body

log = logging.getLogger("holdkit")

PRUNED = 100
"""The most ended sagas that one recovery deletes."""


class RegisteredSaga:
    """A registered saga, ready to be begun and run."""

    def __init__(self, store: SagaStore, options: SagaOptions) -> None:
        self._store, self._options = store, options

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self._options.name

    def begin(self, id: str, intent: Any, *, tx: Any = None) -> SagaRecord:
        """Write the record and no more; in your own transaction with `tx=`. `recover` or `run` then drives it.

        If the saga was begun before, its record is returned.
        """
        return self._store.begin(self._options, checked_id(id), checked_intent(intent), tx)

    def run(self, id: str, intent: Any) -> SagaRecord:
        """Drive a saga to its end and return its record. The id is a retry key: if the saga is done, its record is
        returned.

        An exception of `reserve` or `validate`, or the refusal of the units, is raised once the saga is aborted;
        running it again makes another attempt. `OutcomeUnknown`: the saga has not ended; `recover`, or running it
        again, will end it. `SagaBusy`: another driver has it. `SagaParked`: it waits for an operator. `SagaCancelled`:
        an operator has ended it.
        """
        return self._store.run(self._options, checked_id(id), checked_intent(intent))


class Sagas(SagaReads):
    """The sagas of one tenant. Registrations belong to this kernel object."""

    def __init__(self, executor: Executor, tenant: str) -> None:
        super().__init__(executor, tenant)
        self._store = SagaStore(executor, tenant)
        self._registered: dict[str, SagaOptions] = {}

    def register(self, saga: Any) -> RegisteredSaga:
        """Register a saga here: an object, or a class whose constructor needs no arguments. Registering a name again
        replaces it."""
        coroutines = False
        options = saga_options(saga, self._executor.limits, coroutines=coroutines)
        self._registered[options.name] = options
        return RegisteredSaga(self._store, options)

    # Recovering

    def recover(self, limit: int = 100) -> RecoveryReport:
        """Drive every saga that no driver has, up to `limit` of them, and delete those that ended longer ago than the
        retention."""
        whole(limit, "limit", 1, 10_000)
        counts: dict[str, Any] = dict.fromkeys(RecoveryReport.__struct_fields__, 0)
        more = False
        for record in self._walk(OPEN, ""):
            driven = sum(counts[name] for name in ("done", "aborted", "parked", "failed"))
            if driven == limit:
                more = True
                break
            counts[self._recover(record)] += 1
        counts["pruned"] = self._prune()
        return RecoveryReport(**{**counts, "more": more})

    def resolve(self, id: str, how: Literal["done", "cancelled"], *, reason: str, op: str | None = None) -> SagaRecord:
        """End a saga by hand, for good. `done` confirms what it holds. `cancelled` releases what it holds; running the
        saga again then raises `SagaCancelled`. `AlreadyConfirmed`: its hold is confirmed; return its units first.

        It is for an operator who has found out whether the effect has happened: Holdkit cannot know. If the saga has ended this way
        already, its record is returned. `SagaBusy`: a driver has it. `VersionConflict`: it has changed meanwhile; look again.
        """
        if how not in ("done", "cancelled"):
            raise invalid("how", "how_unknown", "must be done or cancelled")
        text(reason, "reason", 1_024)
        record = self._find(checked_id(id), durable=True)
        if record is None or erased(record):
            raise invalid("id", "saga_not_found", f"there is no saga {id!r}")
        body = read_body(record)
        phase = Phase.DONE if how == "done" else Phase.ABORTED
        if body.phase in ENDED:
            if body.phase is phase:
                return to_saga_record(record, body)
            raise invalid("id", "saga_ended", f"saga {id!r} is {body.phase} already")
        self._check_free(record, body)
        key = (self._tenant, body.hold or "")
        hold = None if body.hold is None else self._executor.read(FindHold(key), durable=True)
        context = current()
        beside: tuple[AnyCommand, ...] = ()
        if hold is not None and hold.state is State.HELD:
            kind = ConfirmHold if phase is Phase.DONE else ReleaseHold
            beside = (kind(id=hold.id, tenant=self._tenant, trusted=True, reason=reason, actor=context.actor),)
        elif hold is not None and hold.state is State.CONFIRMED and hold.consumes and phase is Phase.ABORTED:
            raise refusal_of(Refusal(Reason.ALREADY_CONFIRMED, hold.id, found=hold.ended_at))
        now = self._now()  # it may have been parked for months: the index is ordered by its end
        after = next_body(record, body, phase=phase, epoch=body.epoch + 1, lease=0, index_slot=now, resolved=reason)
        return self._write_by_hand(record, step_commands(record, body, after, *beside), after, reason, op)

    def retry(self, id: str, *, reason: str, op: str | None = None) -> SagaRecord:
        """Let a parked saga run again, with its failures counted anew: the next `recover`, in a process that has registered it,
        continues in the phase in which it was parked. Its effect may then run once more, under the same `step.op`.

        One that is not parked and has not ended is returned as it is. `InvalidRequest` with the code `saga_not_retriable`: its hold is
        gone, or was changed by force; then only `resolve` ends it. `VersionConflict`: it has changed meanwhile.
        """
        text(reason, "reason", 1_024)
        record = self._find(checked_id(id), durable=True)
        if record is None or erased(record):
            raise invalid("id", "saga_not_found", f"there is no saga {id!r}")
        body = read_body(record)
        if body.phase in UNFINISHED:
            return to_saga_record(record, body)
        if body.phase in ENDED:
            raise invalid("id", "saga_ended", f"saga {id!r} is {body.phase} already")
        phase = self._phase_to_retry(body)
        if phase is None:
            said = f"saga {id!r} cannot go on: it cannot be read, or its hold is gone or was changed by others. End it by hand"
            raise invalid("id", "saga_not_retriable", said)
        after = next_body(record, body, phase=phase, epoch=body.epoch + 1, lease=0, failures=0, parked_in=None)
        return self._write_by_hand(record, step_commands(record, body, after), after, reason, op)

    def _phase_to_retry(self, body: SagaBody) -> Phase | None:
        """Return the phase in which a parked saga continues; None if the driver could only park it again. If the record does not say in
        which phase it was parked, the hold decides: it has no deadline if the point of no return was passed."""
        key = (self._tenant, body.hold or "")
        hold = None if body.hold is None else self._executor.read(FindHold(key), durable=True)
        phase = body.parked_in
        if phase is None and body.name != UNREADABLE:
            if body.hold is None:
                phase = Phase.RESERVING
            elif hold is not None and hold.state is State.HELD and hold.deadline is None:
                phase = Phase.FINALIZING
        if phase is None:
            return None
        consumes = may_consume(self._executor, self._tenant, replace(body, phase=phase), hold)
        step = next_step(phase, None if hold is None else hold.state, consumes=consumes)
        return None if step is Step.PARK else phase

    def _write_by_hand(
        self, record: Record, commands: list[AnyCommand], after: SagaBody, reason: str, op: str | None
    ) -> SagaRecord:
        """Write a step that an operator has decided, with the operator as actor, not the saga's own."""
        put, *others = commands
        by_hand = replace(put, reason=reason, actor=current().actor, op=op)
        try:
            return to_saga_record(written(record, self._executor.execute_together([by_hand, *others])), after)
        except LeaseLost:
            raise refusal_of(Refusal(Reason.VERSION_CONFLICT, record.id)) from None

    def _recover(self, record: Record) -> str:
        """Recover one saga; returns the count it belongs to. Its errors do not stop the others."""
        try:
            body = decode(record)
        except Unreadable as why:
            return "skipped" if why.newer else self._park_unreadable(record, why)
        if body.phase not in UNFINISHED:
            return "busy"  # it ended after it was listed
        options = self._registered.get(body.name)
        if options is None:
            return "skipped"
        driver: SagaDriver | None = None
        try:
            driver = self._store.lease(options, record, body)
            driver.drive()
        except (SagaBusy, LeaseLost):
            return "busy"
        except Aborted:
            return "aborted"
        except Exception as error:  # noqa: BLE001 - its errors must not stop the others
            log.warning(
                "saga %s failed, will be tried again: %s",
                record.id,
                error,
                extra={"event": "saga_failed", "saga": record.id},
            )
            if driver is not None:
                note_failure(driver, error)
        return "failed" if driver is None or driver.body.phase in UNFINISHED else str(driver.body.phase)

    def _park_unreadable(self, record: Record, why: Unreadable) -> str:
        """Take an unreadable record out of recovery; its text stays as it is."""
        log.warning(
            "saga %s cannot be read, and is parked: %s",
            record.id,
            why,
            extra={"event": "saga_parked", "saga": record.id},
        )
        index = PutRecord(kind=OPEN, id=record.id, body=None, tenant=self._tenant)
        self._executor.execute_together([index, replace(index, kind=PARKED, body="{}")])
        return "parked"

    def _prune(self) -> int:
        """Delete sagas that ended longer ago than the retention, oldest first."""
        rows = self._executor.read(ListRecords(self._tenant, ENDS, "", PRUNED))
        if not rows:
            return 0
        before = self._now() - self._executor.limits.retention
        pruned = 0
        for row in rows:
            if row.slot > before:
                continue  # the index is only roughly in order of time: an older one may follow
            id, version = ended_saga(row)
            record = self._find(id)
            index = PutRecord(kind=ENDS, id=row.id, body=None, tenant=self._tenant)
            if (
                record is None or record.version != version
            ):  # deleted already, or begun again: then it has another index record
                self._executor.execute_together([index])
                continue
            gone = replace(index, kind=KIND, id=id, if_version=version)
            outcomes = self._executor.execute_together([gone, index])
            pruned += isinstance(outcomes[0], Done)
        return pruned
