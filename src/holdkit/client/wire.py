"""Answers as JSON, and the kernel's own types made from them. Each body is decoded once.

No message contains an API key or a token.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import httpx
import msgspec
from msgspec import Raw, Struct

from ..core.model import HeldLeg, Pool, Record, Slot, State, StoredHold
from ..core.outcomes import Receipt, Survives
from ..engines.clocks import RemoteClock, steady
from ..engines.durability import LEVELS
from ..kernel.answers import hold_of
from ..kernel.normalise import moment
from ..kernel.results import Hold, Position
from .problems import Facts


class WireHold(Struct, kw_only=True):
    """A hold, as JSON."""

    id: str
    state: State
    legs: tuple[HeldLeg, ...]
    deadline: Slot | None
    fence: int
    entity: str | None
    held_slot: Slot
    ended_slot: Slot | None
    reason: str | None
    actor: str | None
    correlation_id: str | None
    metadata: Raw
    version: int
    position: Position | None = None
    uncovered: dict[str, int] | None = None
    owner: str | None = None
    replayed: bool = False
    server_time: datetime | None = None


class WirePool(Struct, kw_only=True):
    """A pool, as JSON."""

    id: str
    total: int
    held: int
    consumed: int
    loose: int
    version: int
    fence: int
    on_demand: bool
    archived: bool


class RemoteEntry(Struct, frozen=True, kw_only=True):
    """An entry of the journal, as the server shows it."""

    position: Position
    cursor: str
    action: str
    slot: Slot
    """When it was decided."""
    at: datetime
    """The same as an aware datetime."""
    subject: str
    actor: str | None
    correlation_id: str | None
    reason: str | None
    op: str | None
    forced: bool
    part: bool
    pools: list[dict[str, Any]]
    before: dict[str, Any]
    after: dict[str, Any]
    tenant: str | None = None
    """The tenant, if all tenants were asked for; else it is that of the key."""


class HoldPage(Struct):
    """A page of holds."""

    items: list[WireHold]


class PoolPage(Struct):
    """A page of pools."""

    items: list[WirePool]


class EntryPage(Struct):
    """A page of entries."""

    items: list[RemoteEntry]


class TenantPage(Struct):
    """A page of tenant names."""

    items: list[str]


class WireWindow(Struct, kw_only=True):
    """The result of a command on windows."""

    decided: datetime
    server_time: datetime
    hold: WireHold | None = None
    pool: WirePool | None = None
    replayed: bool = False


class WindowPage(Struct):
    """Pools by window, as far as they exist."""

    items: list[WirePool | None]
    server_time: datetime


class WireRecord(Struct, kw_only=True):
    """A record, as JSON."""

    kind: str
    id: str
    body: str
    version: int
    slot: Slot
    replayed: bool = False


class RecordNow(Struct):
    """One record, if it exists."""

    record: WireRecord | None


class RecordPage(Struct):
    """A page of records."""

    items: list[WireRecord]


class WireCursor(Struct):
    """The stored cursor of a named follower."""

    cursor: str
    follower: str = ""
    version: int = 0
    slot: Slot = 0
    server_time: datetime | None = None


class Timed(Struct):
    """When an answer was given."""

    server_time: datetime


class WireAnswer(Struct, kw_only=True):
    """One answer of a batch."""

    status: str
    hold: WireHold | None = None
    pool: WirePool | None = None
    reason: str = ""
    detail: str = ""
    replayed: bool = False
    facts: Facts = Facts()


class WireBatch(Struct):
    """The answers of a batch."""

    answers: list[WireAnswer]


class WireSweep(Struct):
    """What one sweep did."""

    expired: int
    holds: tuple[str, ...]
    tenants: tuple[str, ...]
    more: bool
    server_time: datetime


class WireLimits(Struct):
    """The limits in force; intervals in seconds."""

    limits: dict[str, int | float | None]
    version: int


read_hold: Final = msgspec.json.Decoder(WireHold).decode
"""Made once, here: msgspec crashes if two threads use a type for the first time at the same moment."""
read_holds: Final = msgspec.json.Decoder(HoldPage).decode
read_pool: Final = msgspec.json.Decoder(WirePool).decode
read_pools: Final = msgspec.json.Decoder(PoolPage).decode
read_entry: Final = msgspec.json.Decoder(RemoteEntry).decode
read_entries: Final = msgspec.json.Decoder(EntryPage).decode
read_tenants: Final = msgspec.json.Decoder(TenantPage).decode
read_batch: Final = msgspec.json.Decoder(WireBatch).decode
read_window: Final = msgspec.json.Decoder(WireWindow).decode
read_windows: Final = msgspec.json.Decoder(WindowPage).decode
read_record: Final = msgspec.json.Decoder(RecordNow).decode
read_records: Final = msgspec.json.Decoder(RecordPage).decode
read_cursor: Final = msgspec.json.Decoder(WireCursor).decode
read_sweep: Final = msgspec.json.Decoder(WireSweep).decode
read_limits: Final = msgspec.json.Decoder(WireLimits).decode
read_time: Final = msgspec.json.Decoder(Timed).decode


def slot_of(at: datetime) -> Slot:
    """A time as a slot, exactly."""
    slot: Slot = moment(at)
    return slot


def hold_from(wire: WireHold, owner: str | None, durability: Survives | None = None) -> Hold:
    """A hold as the kernel would return it."""
    return hold_of(receipt_from(wire, durability), owner)


def durability_of(answer: httpx.Response) -> Survives | None:
    """What an answer survives, as the server says; None if it does not say."""
    level_name = answer.headers.get("holdkit-durability")
    return next((level for level in LEVELS if level == level_name), None)


def receipt_from(wire: WireHold, durability: Survives | None, decided: datetime | None = None) -> Receipt:
    """The result of a change, as the kernel's own executor would return it."""
    metadata = bytes(wire.metadata).decode()
    row = StoredHold(
        tenant="",
        id=wire.id,
        legs=wire.legs,
        owner_hash="",
        held_at=wire.held_slot,
        fence=wire.fence,
        deadline=wire.deadline,
        state=wire.state,
        entity=wire.entity,
        ended_at=wire.ended_slot,
        reason=wire.reason,
        actor=wire.actor,
        correlation_id=wire.correlation_id,
        metadata=None if metadata == "{}" else metadata,
        version=wire.version,
    )
    return Receipt(
        slot=row.held_at if decided is None else slot_of(decided),
        hold=row,
        token=wire.owner,
        uncovered=wire.uncovered,
        replayed=wire.replayed,
        position=wire.position,
        durability=durability,
    )


def pool_from(wire: WirePool, replayed: bool = False) -> Pool:
    """A pool as the kernel would return it."""
    return Pool(
        "", wire.id, wire.total, wire.held, wire.consumed, wire.fence, version=wire.version, on_demand=wire.on_demand,
        loose=wire.loose, archived=wire.archived, replayed=replayed,
    )  # fmt: skip


def record_from(wire: WireRecord) -> Record:
    """A record as the kernel would return it."""
    return Record("", wire.kind, wire.id, wire.body, wire.version, wire.slot, wire.replayed)


def pool_answer(answer: httpx.Response) -> Pool:
    """The pool of an answer."""
    replayed = "idempotency-replayed" in answer.headers
    return pool_from(read_pool(answer.content), replayed)


_BEGAN: Final = "holdkit.began"


def with_send_time(answer: httpx.Response, began: float) -> httpx.Response:
    """Store with an answer when its request was sent, by `steady`."""
    answer.extensions[_BEGAN] = began
    return answer


class ServerClock(RemoteClock):
    """The server's clock, as far as the `server_time` of answers tells. Deadlines are the engine's, so remaining
    times are counted by this clock, whatever the clock of this machine says. Decides nothing."""

    def observe(self, at: datetime, answer: httpx.Response) -> None:
        """An answer says that it was given at this time."""
        began: Any = answer.extensions.get(_BEGAN)
        self.heard(moment(at), steady() if began is None else began)
