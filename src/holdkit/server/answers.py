"""The documents that the server answers, one struct each. An owner token is only in the answer that creates it."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ..core.audit_rows import Difference
from ..core.model import Pool, Slot, StoredHold
from ..kernel.normalise import EPOCH, datetime_of
from ..kernel.results import Hold, JournalEntry
from .keys import KeyInfo

encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_EMPTY: Final = Raw(b"{}")
_LAST: Final = datetime.max.replace(tzinfo=EPOCH.tzinfo)


@lru_cache(maxsize=64)
def at(slot: Slot) -> datetime:
    """A slot as a datetime; one beyond the calendar becomes its last moment. Cached, because the commands of a batch share a
    few slots."""
    return datetime_of(slot) or _LAST


class PoolAnswer(Struct, kw_only=True):
    """A pool as it is now; expired legs count as returned."""

    id: str
    total: int
    held: int
    consumed: int
    loose: Annotated[int, Meta(description="consumed units that belong to no hold that is still kept")]
    available: int
    over: bool
    version: int
    fence: int
    on_demand: bool
    archived: bool


class PoolNow(PoolAnswer, kw_only=True):
    """One pool, and the time of the answer."""

    server_time: datetime


def pool_fields(pool: Pool) -> dict[str, Any]:
    """The fields of a pool."""
    return {
        "id": pool.id,
        "total": pool.total,
        "held": pool.held,
        "consumed": pool.consumed,
        "loose": pool.loose,
        "available": pool.available,
        "over": pool.over,
        "version": pool.version,
        "fence": pool.fence,
        "on_demand": pool.on_demand,
        "archived": pool.archived,
    }


class LegAnswer(Struct):
    """One leg of a hold."""

    pool: str
    quantity: int
    held: int
    confirmed: int
    returned: int


class PositionAnswer(Struct):
    """A position in the journal."""

    lane: int
    seq: int


class HoldAnswer(Struct, kw_only=True):
    """A hold, without its owner token."""

    id: str
    state: str
    legs: list[LegAnswer]
    deadline: Slot | None
    deadline_at: datetime | None
    fence: int
    entity: str | None
    held_slot: Slot
    held_at: datetime
    ended_slot: Slot | None
    ended_at: datetime | None
    reason: str | None
    actor: str | None
    correlation_id: str | None
    metadata: Raw
    version: int


class HoldNow(HoldAnswer, kw_only=True, omit_defaults=True):
    """One hold, and the result of the call."""

    position: PositionAnswer | None = None
    uncovered: dict[str, int] | None = None
    owner: str | None = None
    ticket: str | None = None
    replayed: bool = False
    server_time: datetime


def hold_fields(row: StoredHold) -> dict[str, Any]:
    """The fields of a hold."""
    return {
        "id": row.id,
        "state": row.state.value,
        "legs": [LegAnswer(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned) for leg in row.legs],
        "deadline": row.deadline,
        "deadline_at": None if row.deadline is None else at(row.deadline),
        "fence": row.fence,
        "entity": row.entity,
        "held_slot": row.held_at,
        "held_at": at(row.held_at),
        "ended_slot": row.ended_at,
        "ended_at": None if row.ended_at is None else at(row.ended_at),
        "reason": row.reason,
        "actor": row.actor,
        "correlation_id": row.correlation_id,
        "metadata": _EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        "version": row.version,
    }


def hold_now(hold: Hold, now: datetime, *, secret: bool) -> HoldNow:
    """A hold that a call just changed; with `secret`, including its token. Written out without an intermediate dict, because
    a batch makes up to a thousand of them."""
    row, position = hold.row, hold.position
    return HoldNow(
        id=row.id,
        state=row.state.value,
        legs=[LegAnswer(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned) for leg in row.legs],
        deadline=row.deadline,
        deadline_at=None if row.deadline is None else at(row.deadline),
        fence=row.fence,
        entity=row.entity,
        held_slot=row.held_at,
        held_at=at(row.held_at),
        ended_slot=row.ended_at,
        ended_at=None if row.ended_at is None else at(row.ended_at),
        reason=row.reason,
        actor=row.actor,
        correlation_id=row.correlation_id,
        metadata=_EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        version=row.version,
        position=None if position is None else PositionAnswer(position.lane, position.seq),
        uncovered=hold.uncovered or None,
        owner=hold.owner if secret else None,
        ticket=hold.ticket if secret else None,
        replayed=hold.replayed,
        server_time=now,
    )


class Effect(Struct):
    """A pool after an entry, and how its counters changed."""

    pool: PoolAnswer
    total: int
    held: int
    consumed: int
    loose: int


class EntryAnswer(Struct, kw_only=True):
    """A journal entry."""

    position: PositionAnswer
    cursor: str
    action: str
    slot: Slot
    at: datetime
    subject: str
    actor: str | None
    correlation_id: str | None
    reason: str | None
    op: str | None
    forced: bool
    part: bool
    pools: list[Effect]
    before: dict[str, Any]
    after: dict[str, Any]
    tenant: Annotated[str | UnsetType, Meta(description="the tenant; only in answers about all tenants")] = UNSET


def entry_answer(entry: JournalEntry, cursor: str | None = None, *, with_tenant: bool = False) -> EntryAnswer:
    """A journal entry as a document."""
    return EntryAnswer(
        position=PositionAnswer(entry.position.lane, entry.position.seq),
        cursor=entry.cursor if cursor is None else cursor,
        action=entry.action.value,
        slot=entry.slot,
        at=at(entry.slot),
        subject=entry.subject,
        actor=entry.actor,
        correlation_id=entry.correlation_id,
        reason=entry.reason,
        op=entry.op,
        forced=entry.forced,
        part=entry.part,
        pools=[
            Effect(PoolAnswer(**pool_fields(effect.pool)), effect.total, effect.held, effect.consumed, effect.loose)
            for effect in entry.pools
        ],
        before=entry.before,
        after=_shown(entry.after),
        tenant=entry.tenant if with_tenant else UNSET,
    )


def _shown(fields: dict[str, Any]) -> dict[str, Any]:
    metadata = fields.get("metadata")
    shown = {name: value for name, value in fields.items() if name != "tenant"}
    return shown | {"metadata": Raw(metadata.encode())} if isinstance(metadata, str) else shown


class PoolPage(Struct):
    """Pools in order of id; `next` is the `after` of the next page."""

    items: list[PoolAnswer]
    next: str | None
    server_time: datetime


class HoldPage(Struct):
    """Holds in order of id; `next` is the `after` of the next page."""

    items: list[HoldAnswer]
    next: str | None
    server_time: datetime


class EntryPage(Struct):
    """Entries in journal order; `next` is the `after` of the next page."""

    items: list[EntryAnswer]
    next: str | None
    server_time: datetime


class CommandAnswer(Struct, kw_only=True, omit_defaults=True):
    """The result of one command of a batch: a hold, a pool, or a refusal."""

    status: str
    hold: HoldNow | None = None
    pool: PoolNow | None = None
    reason: str | None = None
    detail: str | None = None
    transient: bool | None = None
    replayed: bool = False
    facts: dict[str, Any] | None = None


class BatchAnswer(Struct):
    """One answer per command, in order."""

    answers: list[CommandAnswer]
    server_time: datetime


class SweepAnswer(Struct):
    """The result of a sweep of all tenants."""

    expired: int
    holds: list[str]
    """The holds that it expired, in order of (deadline, id)."""
    tenants: list[str]
    """The tenant of each of them."""
    more: bool
    server_time: datetime


class LimitsAnswer(Struct):
    """The limits that are stored with the data; intervals in seconds."""

    limits: dict[str, float | int | None]
    version: int
    server_time: datetime


class VerifyAnswer(Struct):
    """Whether every row matches the journal."""

    ok: bool
    differences: list[str]
    found: list[Difference]
    """The same differences, with their parts as fields."""
    server_time: datetime


class TenantPage(Struct):
    """Names of tenants in order; `next` is the `after` of the next page."""

    items: list[str]
    next: str | None
    server_time: datetime


class KeyAnswer(Struct):
    """An API key that was just created or rotated: `key` is shown only this once."""

    info: KeyInfo
    key: str
    server_time: datetime


class KeyPage(Struct):
    """The API keys of your tenant."""

    items: list[KeyInfo]
    server_time: datetime


class WhoAmI(Struct, kw_only=True):
    """The caller that an API key belongs to, and what it may do."""

    id: str
    scope: str
    tenant: str
    operator: bool
    """Whether it may call routes that cover all tenants."""
    open: bool
    """Whether this server accepts requests without an API key."""
    server_time: datetime


class Overview(Struct, kw_only=True):
    """Sums over all pools, and the fullest pools."""

    sums: dict[str, int]
    complete: bool
    fullest: list[PoolAnswer]
    server_time: datetime
