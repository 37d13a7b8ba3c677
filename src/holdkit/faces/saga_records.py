"""A saga's record: what is stored of it, what users see of it, and the ids derived from it.

Each saga is one record, which keeps counting its version when the saga is run again: a driver that slept meanwhile can
write nothing. Beside it, small index records list which sagas are unfinished, parked or ended, so that recovery does
not read the finished ones. All kinds begin with `~`, so only this face can write them. Decides nothing.

Some times are those of the write itself, which the engine decides when it commits. The body leaves such a time out,
and the record's own slot stands for it; the next write, which moves that slot, copies the time into the body.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.codec import canonical_json
from ..core.commands import AnyCommand, PutRecord
from ..core.entries import Entry
from ..core.model import Record, Slot
from ..core.personal import ERASED_DOCUMENT
from ..core.values import invalid, metadata, text
from ..errors import InvalidRequest
from ..kernel.one_line import MAX_NAMES, line, moment_text, shortened, summary
from ..kernel.times import datetime_of
from .saga_steps import ENDED, UNFINISHED, Phase

KIND: Final = "~saga"
OPEN: Final = "~saga.open"
PARKED: Final = "~saga.parked"
ENDS: Final = "~saga.ended"
FORMAT: Final = 1
MAX_SAGA_ID: Final = 200
UNREADABLE: Final = "?"
"""The name of a saga that cannot be read."""
MAX_ERROR: Final = 500
MAX_RESULT: Final = 64 * 1024

_control: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SagaError(Struct, frozen=True):
    """What went wrong last: class and message of an exception, and nothing else of it."""

    kind: str
    message: str


class SagaBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A saga as it is stored."""

    format: int
    name: str
    intent: Any
    phase: Phase
    begun_at: Slot | None = None
    """None: at the write of this body."""
    since: Slot | None = None
    """When this phase began; None: at the write of this body."""
    index_slot: Slot = msgspec.field(default=0, name="place")
    """Of an ended saga: the slot that its index record is ordered by. At or shortly before its end."""
    attempt: int = 0
    epoch: int = 0
    hold: str | None = None
    lease: Slot = 0
    """How long from the record's slot the driver has the lease; 0: the lease is free."""
    failures: int = 0
    error: SagaError | None = None
    result: Any = None
    actor: str | None = None
    correlation_id: str | None = None
    resolved: str | None = None
    parked_in: Phase | None = None
    """Of a parked saga: the phase in which it was parked. Records of earlier releases leave it out."""


class SagaRecord(Struct, frozen=True, kw_only=True):
    """A saga as users see it: its phase, until when a driver has it, what went wrong last."""

    id: str
    name: str
    intent: Any
    phase: Phase
    attempt: int
    """How many attempts there were to reserve; the hold's id is derived from it."""
    epoch: int
    """Grows with every driver."""
    hold: str | None
    """The id of the last attempt's hold."""
    result: Any
    """What the effect returned."""
    failures: int
    error: SagaError | None
    begun_at: datetime
    since: datetime
    """When its phase began: of a saga that is done or aborted, when it ended."""
    leased_until: datetime | None
    """Until when a driver has the lease, by the engine's clock; None: the lease is free."""
    resolved: str | None = None
    """Why an operator ended it; None if no operator did."""

    def __repr__(self) -> str:
        return line(
            "SagaRecord",
            shortened(self.id, MAX_NAMES),
            str(self.phase),
            None if self.error is None else self.error.kind,
        )


class SagaEvent(Struct, frozen=True, kw_only=True):
    """What one journal entry says of a saga."""

    at: datetime
    phase: Phase
    attempt: int
    failures: int
    hold: str | None
    error: SagaError | None
    resolved: str | None
    actor: str | None
    client_id: str | None
    """The API key that asked, if a server wrote it."""
    reason: str | None
    op: str | None

    def __repr__(self) -> str:
        return line("SagaEvent", moment_text(self.at), str(self.phase), self.actor and f"by {self.actor}", self.reason)


class RecoveryReport(Struct, frozen=True):
    """What one call of `recover` did."""

    done: int = 0
    aborted: int = 0
    parked: int = 0
    failed: int = 0
    """The next recovery tries them again."""
    busy: int = 0
    """Another driver has their lease."""
    skipped: int = 0
    """No saga of that name is registered here, or a later release wrote them."""
    pruned: int = 0
    """Ended longer ago than the retention, and deleted."""
    more: bool = False
    """Recovery stopped at `limit`."""

    __repr__ = summary


class Unreadable(Exception):
    """A record that is not a readable saga; `newer` if a later release wrote it."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        super().__init__(message)
        self.newer = newer


def erased(record: Record) -> bool:
    """Return whether an erasure has replaced the record of an ended saga. Such a record is never shown, and its id stays taken."""
    return record.body == ERASED_DOCUMENT


def encode(body: SagaBody) -> str:
    """Encode a body as JSON text."""
    return canonical_json(body)


def decode(record: Record) -> SagaBody:
    """Decode the body of a record, or raise `Unreadable`."""
    try:
        if _format.decode(record.body).format > FORMAT:
            raise Unreadable("written by a later release", newer=True)
        return _body.decode(record.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"not the record of a saga ({type(error).__name__})") from None


class _Format(Struct, frozen=True):
    format: int


_format: Final = msgspec.json.Decoder(_Format)
_body: Final = msgspec.json.Decoder(SagaBody)


def to_saga_record(record: Record, body: SagaBody) -> SagaRecord:
    """Return what users see of a record."""
    return SagaRecord(
        id=record.id,
        name=body.name,
        intent=body.intent,
        phase=body.phase,
        attempt=body.attempt,
        epoch=body.epoch,
        hold=body.hold,
        result=body.result,
        failures=body.failures,
        error=body.error,
        begun_at=datetime_of(slot_or_write(body.begun_at, record)),
        since=datetime_of(slot_or_write(body.since, record)),
        leased_until=datetime_of(record.slot + body.lease) if body.lease and body.phase in UNFINISHED else None,
        resolved=body.resolved,
    )


def saga_event(entry: Entry) -> SagaEvent | None:
    """Return what an entry about a saga's record says; None if the record was removed, or cannot be read."""
    try:
        body = None if entry.record is None else decode(entry.record)
    except Unreadable:
        return None
    if body is None:
        return None
    return SagaEvent(
        at=datetime_of(entry.slot),
        phase=body.phase,
        attempt=body.attempt,
        failures=body.failures,
        hold=body.hold,
        error=body.error,
        resolved=body.resolved,
        actor=entry.actor,
        client_id=entry.client_id,
        reason=entry.reason,
        op=entry.op,
    )


def is_news(event: SagaEvent, before: SagaEvent | None) -> bool:
    """Return whether an event says more than the one before it: the renewal of a lease does not."""
    return before is None or any(getattr(event, name) != getattr(before, name) for name in _TOLD)


_TOLD: Final = ("phase", "attempt", "failures", "hold", "error", "resolved")


def slot_or_write(slot: Slot | None, record: Record) -> Slot:
    """Return a time of the body: if it was left out, that of the record's write."""
    return record.slot if slot is None else slot


def next_body(record: Record, body: SagaBody, **changes: Any) -> SagaBody:
    """Return the body of the next write. A phase that continues keeps its beginning; a phase that changes begins with that write."""
    after = replace(body, **changes)
    since = slot_or_write(body.since, record) if after.phase is body.phase else None
    return replace(after, begun_at=slot_or_write(body.begun_at, record), since=since)


def unreadable_body(record: Record, why: Unreadable) -> SagaBody:
    """Return what can be shown of a saga that cannot be read: it is parked, and its intent is the stored text."""
    error = SagaError("Unreadable", str(why))
    return SagaBody(format=FORMAT, name=UNREADABLE, intent=record.body, phase=Phase.PARKED, error=error)


def index_of(body: SagaBody, saga_id: str) -> tuple[str, str]:
    """Return kind and id of a saga's index record; ended ones are in order of time, so that the oldest are deleted first."""
    if body.phase in ENDED:
        return ENDS, f"{body.index_slot:020d}/{saga_id}"
    return (OPEN if body.phase in UNFINISHED else PARKED), saga_id


def ended_saga(row: Record) -> tuple[str, int]:
    """Return the saga that an `ENDS` record names, and the version at which it ended. It ended at the slot of that record."""
    return row.id.partition("/")[2], _end.decode(row.body).version


class _End(Struct, frozen=True):
    version: int


_end: Final = msgspec.json.Decoder(_End)


def hold_id_of(tenant: str, saga_id: str, attempt: int) -> str:
    """Return the id of an attempt's hold: equal for every driver, different for every attempt."""
    hashed = hashlib.blake2b(
        canonical_json([tenant, saga_id, attempt]).encode(), digest_size=16, person=b"holdkit.saga"
    )
    digits = hashed.hexdigest()
    return f"{digits[:12]}8{digits[13:]}"  # UUID version 8, ours: its age must not be read from it


def op_of(saga_id: str, attempt: int) -> str:
    """Return the operation id for what the effect calls: equal however often this attempt's effect runs."""
    return f"saga:{saga_id}:{attempt}"


def error_of(error: BaseException) -> SagaError:
    """Return what is stored of an exception."""
    return SagaError(type(error).__name__[:MAX_ERROR], _control.sub(" ", str(error))[:MAX_ERROR])


def checked_id(value: object) -> str:
    """Check a saga's id, 1 to 200 characters, and return it."""
    return text(value, "id", MAX_SAGA_ID)


def checked_intent(value: Any) -> Any:
    """Check the intent, and return a copy as JSON has it: at most 16 KiB, 31 levels, finite numbers."""
    try:
        metadata({"intent": value})
    except InvalidRequest as error:
        said = str(error).partition("metadata: ")[2]
        raise invalid("intent", error.code.replace("metadata", "intent"), said) from None
    return msgspec.json.decode(canonical_json(value))


def storable_result(value: Any) -> Any:
    """Return what is stored of the effect's result; None if JSON cannot express it. (The effect has happened all the same.)"""
    try:
        said = canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return msgspec.json.decode(said) if len(said) <= MAX_RESULT else None


# Steps


def step_commands(record: Record, before: SagaBody | None, after: SagaBody, *beside: AnyCommand) -> list[AnyCommand]:
    """Return the commands of one step: the record at the version that was read, its index records, and what the step does; all or none."""
    fields: dict[str, Any] = {"tenant": record.tenant, "actor": after.actor, "correlation_id": after.correlation_id}
    put = PutRecord(kind=KIND, id=record.id, body=encode(after), if_version=record.version, **fields)
    commands: list[AnyCommand] = [put]
    index = index_of(after, record.id)
    gone = None if before is None else index_of(before, record.id)
    if gone != index:
        if gone is not None:
            commands.append(PutRecord(kind=gone[0], id=gone[1], body=None, **fields))
        body = canonical_json(_End(record.version + 1)) if index[0] == ENDS else "{}"
        commands.append(PutRecord(kind=index[0], id=index[1], body=body, **fields))
    return [*commands, *beside]
