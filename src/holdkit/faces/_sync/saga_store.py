# Generated from ../_async/saga_store.py by tools/gen_sync.py: do not edit.
"""The sagas of one tenant: reading them, beginning them, and taking their leases.

A lease is taken by compare-and-set and runs out by the engine's clock, never by the caller's: see
`kernel.record_lease`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeAlias

from ...core.codec import canonical_json
from ...core.commands import Ttl
from ...core.model import SECOND, Record, Slot
from ...core.pages import Page, record_bytes
from ...core.reading import FindRecord, ListRecords, ReadClock, ReadHistory, entry_of
from ...core.validation import invalid, whole
from ...errors import HoldkitError, OperationConflict, OutcomeUnknown, SagaBusy, SagaCancelled, SagaParked, plain
from ...kernel._sync.executor import Executor
from ...kernel.arguments import current, span
from ...kernel.pages import SizedPage
from ...kernel.record_lease import LeaseLost, LeaseWatch
from ..saga import SagaOptions
from ..saga_records import (
    FORMAT,
    KIND,
    OPEN,
    PARKED,
    SagaBody,
    SagaEvent,
    SagaRecord,
    Unreadable,
    checked_id,
    decode,
    erased,
    is_news,
    next_body,
    saga_event,
    slot_or_write,
    to_saga_record,
    unreadable_body,
)
from ..saga_steps import UNFINISHED, Phase
from .saga_driving import Aborted, SagaDriver, write_step

Listed: TypeAlias = SizedPage[SagaRecord]
PAGE = 200
HISTORY_PAGE = 500
HISTORY_READS = 20
"""Entries in one read of a history, and the most reads of one call."""


class SagaReads:
    """Read the sagas of one tenant; write nothing."""

    def __init__(self, executor: Executor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant
        self._watch = LeaseWatch()

    def get(self, id: str) -> SagaRecord | None:
        """Return a saga, or None. A saga that ended longer ago than the retention has been deleted; one that was erased is not shown."""
        record = self._find(checked_id(id))
        return None if record is None or erased(record) else to_saga_record(record, read_body(record))

    def list(self, *, phase: Phase | str | None = None, after: str | None = None, limit: int = 100) -> Listed:
        """Return sagas in order of id, all or those in one phase."""
        whole(limit, "limit", 1, 1_000)
        if phase is not None and phase not in [*Phase]:
            raise invalid("phase", "phase_unknown", f"must be one of {', '.join(Phase)}")
        if after is not None:
            checked_id(after)
        kind = OPEN if phase in UNFINISHED else PARKED if phase == Phase.PARKED else KIND
        found = Listed()
        for record in self._walk(kind, after or ""):
            seen = to_saga_record(record, read_body(record))
            if phase is None or seen.phase == phase:
                self._add(found, seen, record, limit)
                if found.more:
                    found.next = found[-1].id
                    break
        return found

    def _add(self, found: Listed, seen: SagaRecord, record: Record, limit: int) -> None:
        """Add a saga to a page, if there is room for it."""
        most, with_it = self._executor.page_bytes, found.size + record_bytes(record)
        if found and most is not None and with_it > most:
            found.more = True
            return
        found.append(seen)
        found.size, found.more = with_it, len(found) == limit

    def stuck(self, older_than: Ttl = "5m", *, limit: int = 100) -> Listed:
        """Return the sagas that need an operator: parked ones, and unfinished ones that have been in their phase for longer than
        `older_than`."""
        whole(limit, "limit", 1, 1_000)
        oldest = span(older_than, "older_than")
        now = self._now()
        found = Listed()
        for kind in (PARKED, OPEN):
            for record in self._walk(kind, ""):
                body = read_body(record)
                if kind == PARKED or slot_or_write(body.since, record) + oldest <= now:
                    self._add(found, to_saga_record(record, body), record, limit)
                if found.more:
                    return found
        return found

    def history(self, id: str, *, limit: int = 1_000) -> Page[SagaEvent]:
        """Return what happened to a saga, from the journal, in order; also after it was deleted. Renewals of its lease are left out.
        `more`: there is more than `limit`, or than one call reads."""
        whole(limit, "limit", 1, 1_000)
        subject, after = f"{KIND}/{checked_id(id)}", dict[int, int]()
        events: Page[SagaEvent] = Page()
        for _ in range(HISTORY_READS):
            query = ReadHistory(self._tenant, subject, HISTORY_PAGE, after, self._executor.page_bytes)
            rows = self._executor.read(query)
            for row in rows:
                event = saga_event(entry_of(row))
                if event is not None and is_news(event, events[-1] if events else None):
                    events.append(event)
            events.more = rows.more or len(events) > limit
            if not rows or not rows.more or len(events) > limit:
                break
            after = {rows[-1].lane: rows[-1].seq}
        del events[limit:]
        return events

    def _now(self) -> Slot:
        return self._executor.read(ReadClock())

    def _find(self, id: str, tx: Any = None, *, durable: bool = False) -> Record | None:
        return self._executor.read(FindRecord((self._tenant, KIND, id)), tx, durable=durable)

    def _walk(self, kind: str, after: str) -> Iterator[Record]:
        """Yield the sagas that a kind of index record lists, in order of id. (A saga that changes meanwhile may be missed, or seen as it
        was.)"""
        while True:
            page = self._executor.read(ListRecords(self._tenant, kind, after, PAGE, self._executor.page_bytes))
            for row in page:
                record = row if kind == KIND else self._find(row.id)
                if record is not None and not erased(record):
                    yield record
            if not page.more:
                return
            after = page[-1].id

    def _check_free(self, record: Record, body: SagaBody) -> None:
        """Raise `SagaBusy` while another driver has the lease."""
        length = body.lease if body.phase in UNFINISHED else 0
        left = self._watch.remaining(record, length, self._now()) if length else 0
        if left > 0:
            raise SagaBusy(f"saga {record.id!r} is being driven by another driver", retry_after=left / SECOND)


def read_body(record: Record) -> SagaBody:
    """Return the body of a record; if it cannot be read, return what can be shown."""
    try:
        return decode(record)
    except Unreadable as why:
        return unreadable_body(record, why)


log = logging.getLogger("holdkit")


class SagaStore(SagaReads):
    """Begins sagas and takes their leases."""

    def begin(self, options: SagaOptions, id: str, intent: Any, tx: Any) -> SagaRecord:
        """Write the record and no more. A saga that was begun before is returned, if name and intent are the same."""
        record = self._existing(id, tx)
        if record is None:
            begun = self._create(options, id, intent, 0, tx)
            if begun is not None:
                return to_saga_record(*begun)
            record = self._existing(id, tx)
            if record is None:
                raise SagaBusy(f"saga {id!r} was just begun, ended and deleted by another driver")
        body = read_body(record)
        _check_same(body, options, id, intent)
        return to_saga_record(record, body)

    def _existing(self, id: str, tx: Any = None) -> Record | None:
        """Return the record of a saga that was begun before, or None. Reads durably, since an answer rests on it."""
        record = self._find(id, tx)
        if record is not None and erased(record):
            raise OperationConflict(f"saga {id!r} has ended, and its data was erased: use a new id", subject=id)
        return None if record is None else self._find(id, tx, durable=True)

    def _create(
        self, options: SagaOptions, id: str, intent: Any, lease: Slot, tx: Any = None
    ) -> tuple[Record, SagaBody] | None:
        """Create the record of a new saga; return None if there is one already."""
        context = current()
        body = SagaBody(format=FORMAT, name=options.name, intent=intent, phase=Phase.RESERVING, epoch=1 if lease else 0,
                        lease=lease, actor=context.actor, correlation_id=context.correlation_id)  # fmt: skip
        missing = Record(self._tenant, KIND, id, "", 0, 0)
        try:
            return write_step(self._executor, missing, None, body, tx=tx), body
        except LeaseLost:
            return None

    def _take(self, options: SagaOptions, id: str, intent: Any) -> SagaDriver | SagaRecord:
        """Take the lease of this saga, beginning the saga if necessary, and return a driver; if the saga is done, return its record."""
        record = self._existing(id)
        if record is None:
            begun = self._create(options, id, intent, options.lease)
            if begun is not None:
                return SagaDriver(self._executor, options, *begun)
            record = self._existing(id)
            if record is None:
                raise SagaBusy(f"saga {id!r} was just begun, ended and deleted by another driver")
        body = read_body(record)
        _check_same(body, options, id, intent)
        if body.phase is Phase.DONE:
            return to_saga_record(record, body)
        if body.phase is Phase.PARKED:
            raise _parked(id, body)
        if (
            body.phase is Phase.ABORTED and body.resolved is not None
        ):  # its effect may have happened: no retry runs it again
            raise SagaCancelled(
                f"saga {id!r} was cancelled by an operator ({body.resolved}): use another id to begin again"
            )
        return self.lease(options, record, body)

    def lease(self, options: SagaOptions, record: Record, body: SagaBody) -> SagaDriver:
        """Take the lease if it is free; a former driver can then write nothing more."""
        self._check_free(record, body)
        ours = next_body(record, body, epoch=body.epoch + 1, lease=options.lease)
        if body.phase is Phase.ABORTED:  # it was aborted because nothing of its last hold is held or consumed
            ours = next_body(record, ours, phase=Phase.RESERVING, hold=None)
        try:
            return SagaDriver(self._executor, options, write_step(self._executor, record, body, ours), ours)
        except LeaseLost:
            raise SagaBusy(f"saga {record.id!r} was just taken by another driver") from None

    def run(self, options: SagaOptions, id: str, intent: Any) -> SagaRecord:
        """Take the lease and drive the saga; returns its record, or raises what stopped it."""
        taken = self._take(options, id, intent)
        if isinstance(taken, SagaRecord):
            return taken
        try:
            taken.drive()
        except Aborted as aborted:
            aborted.why.add_note(f"saga {id!r} is aborted")
            raise aborted.why from aborted.why.__cause__
        except LeaseLost:
            raise OutcomeUnknown(
                f"saga {id!r} was taken over by another driver: run it again with the same id"
            ) from None
        except Exception as error:
            note_failure(taken, error)
            if taken.body.phase is not Phase.PARKED:
                raise OutcomeUnknown(f"saga {id!r} has not ended, recovery will continue it: {plain(error)}") from error
        if taken.body.phase is Phase.PARKED:
            raise _parked(id, taken.body)
        return to_saga_record(taken.record, taken.body)


def _parked(id: str, body: SagaBody) -> SagaParked:
    said = "" if body.error is None else f" ({body.error.kind}: {body.error.message})"
    return SagaParked(f"saga {id!r} is parked{said}: an operator must resolve it")


def _check_same(body: SagaBody, options: SagaOptions, id: str, intent: Any) -> None:
    if body.name != options.name or canonical_json(body.intent) != canonical_json(intent):  # in Python True == 1 == 1.0
        raise OperationConflict(f"saga {id!r} was begun with another name or intent: use a new id", subject=id)


def note_failure(driver: SagaDriver, error: Exception) -> None:
    """Record a failure if the engine can write it; else the lease simply runs out."""
    try:
        driver.record_failure(error)
    except (HoldkitError, LeaseLost) as also:
        log.warning(
            "saga %s failed, and that could not be written: %s",
            driver.record.id,
            also,
            extra={"event": "saga_failure_unwritten", "saga": driver.record.id},
        )
