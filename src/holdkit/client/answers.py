"""Answers of the server: its documents decoded, and the kernel's own types made from them. Each body is decoded once.

The documents are those of `holdkit.wire`; fields that a newer server adds are ignored. No message contains a key or a token."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import httpx
from msgspec import structs

from ..core.entries import Action, AskedLeg, Effect, Entry, RefusedCommand
from ..core.keyed import CLAIMS, label_of
from ..core.model import SECOND, HeldLeg, Leg, Record, Slot, State, StoredHold
from ..core.model import Pool as StoredPool
from ..core.outcomes import Position, Reason, Receipt, Survives
from ..core.outstanding import Tally
from ..core.pages import Page
from ..core.reading import JournalRow
from ..core.validation import invalid
from ..engines.clocks import Clock, RemoteClock, steady
from ..engines.clocks import read as read_clock
from ..engines.durability import LEVELS
from ..engines.port import GuardStats
from ..faces.allowances import Allowance, Usage
from ..faces.claim import Claim
from ..faces.saga_records import SagaEvent, SagaRecord
from ..kernel.group_commit import Stats
from ..kernel.journal import JournalEntry
from ..kernel.limits import LimitsInForce, from_seconds
from ..kernel.pool import Pool
from ..kernel.results import Hold, hold_of
from ..kernel.times import moment
from ..wire.budgets import AllowanceBody, UsageAnswer
from ..wire.claims import ClaimAnswer
from ..wire.fields import decoder
from ..wire.holds import HoldAnswer, HoldNow
from ..wire.journal import Effect as EffectAnswer
from ..wire.journal import EntryAnswer, RefusedAnswer, SentEntry
from ..wire.pools import PoolAnswer
from ..wire.records import RecordAnswer
from ..wire.sagas import SagaAnswer, SagaHistory
from ..wire.stats import Stats as StatsAnswer
from ..wire.system import LimitsAnswer

read_pool: Final = decoder(PoolAnswer).decode
"""Made once, here: msgspec crashes if two threads use a type for the first time at the same moment."""
read_entry: Final = decoder(EntryAnswer).decode


def slot_of(at: datetime) -> Slot:
    """Return a time as a slot, exactly."""
    return int(moment(at))


def slot_or_none(at: datetime | None) -> Slot | None:
    """Return a time as a slot, if there is one."""
    return None if at is None else slot_of(at)


def durability_of(answer: httpx.Response) -> Survives | None:
    """Return what an answer survives, as the server says; None if it does not say."""
    level_name = answer.headers.get("holdkit-durability")
    return next((level for level in LEVELS if level == level_name), None)


def row_from(document: HoldAnswer) -> StoredHold:
    """Return a hold as the kernel stores it, without the hash of its token."""
    metadata = bytes(document.metadata).decode()
    return StoredHold(
        tenant="",
        id=document.id,
        legs=tuple([HeldLeg(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned) for leg in document.legs]),
        owner_hash="",
        held_at=slot_or_none(document.held_at),
        fence=document.fence,
        deadline=slot_or_none(document.deadline),
        state=document.state,
        entity=document.entity,
        ended_at=slot_or_none(document.ended_at),
        reason=document.reason,
        actor=document.actor,
        correlation_id=document.correlation_id,
        metadata=None if metadata == "{}" else metadata,
        version=document.version,
        account=document.account,
        joined_at=slot_or_none(document.joined_at),
        number=document.number,
        offer_ttl=None if document.offer_ttl is None else round(document.offer_ttl * SECOND),
    )


def receipt_from(document: HoldNow, durability: Survives | None, decided: datetime | None = None) -> Receipt:
    """Return the result of a change, as the kernel's own executor would return it."""
    return Receipt(
        slot=slot_or_none(decided or document.held_at or document.joined_at) or 0,
        hold=row_from(document),
        token=document.token,
        uncovered=document.uncovered,
        replayed=document.replayed,
        position=position_from(document.position),
        durability=durability,
        position_text=document.position,
    )


def position_from(shown: str | None) -> Position | None:
    """Return lane and number, which the server shows only to an operator's key."""
    lane, dot, seq = (shown or "").partition(".")
    return Position(int(lane), int(seq)) if dot else None


def hold_from(
    document: HoldNow, token: str | None, durability: Survives | None = None, request: tuple[Leg, ...] = ()
) -> Hold:
    """Return a hold as the kernel would. The legs of the request that placed it have the names of keys."""
    return hold_of(receipt_from(document, durability), token, request)


def stored_pool(document: PoolAnswer, replayed: bool = False) -> StoredPool:
    """Return the stored pool behind a document."""
    return StoredPool(
        "", document.id, document.total, document.held, document.consumed, document.fence, version=document.version,
        on_demand=document.on_demand, loose=document.loose, archived=document.archived, waiting=document.waiting,
        children=document.children, per_account=document.per_account, line=document.line, least=document.bookable,
        closes=None if document.closes is None else slot_of(document.closes), replayed=replayed,
    )  # fmt: skip


def pool_from(document: PoolAnswer, replayed: bool = False) -> Pool:
    """Return a pool as the kernel would return it."""
    return Pool(stored_pool(document, replayed))


def pool_in(answer: httpx.Response) -> Pool:
    """Return the pool of an answer."""
    return pool_from(read_pool(answer.content), "idempotency-replayed" in answer.headers)


def record_from(document: RecordAnswer) -> Record:
    """Return a record as the kernel would return it."""
    return Record(
        "", document.kind, document.id, document.body, document.version, slot_of(document.at), document.replayed
    )


def limits_from(document: LimitsAnswer) -> LimitsInForce:
    """Return the limits of an answer."""
    return from_seconds(document.limits, document.version)


def usage_from(document: UsageAnswer) -> Usage:
    """Return the usage of a window as the face would return it."""
    return Usage(**{name: getattr(document, name) for name in Usage.__struct_fields__})


def entry_from(document: EntryAnswer) -> JournalEntry:
    """Return a journal entry as the kernel would return it. What only a newer server knows stays text."""
    at = position_from(document.position) or Position(0, 0)
    refused = None if document.refused is None else _refused_from(document.refused, document.op)
    entry = Entry(
        slot=slot_of(document.at),
        action=_ACTIONS.get(document.action, document.action),  # type: ignore[arg-type]
        subject=document.subject,
        tenant=document.tenant or "",
        effects=tuple([_effect_from(effect) for effect in document.pools]),
        actor=document.actor,
        correlation_id=document.correlation_id,
        reason=document.reason,
        op=document.op if refused is None else None,
        forced=document.forced,
        part=document.part,
        client_id=document.client_id,
        refused=refused,
        trace=document.trace,
    )
    return JournalEntry(SentEntry(entry, JournalRow(at.seq, "", at.lane), document=document))


_ACTIONS: Final[dict[str, Action]] = {str(action): action for action in Action}
_REASONS: Final[dict[str, Reason]] = {str(reason): reason for reason in Reason}


def _effect_from(document: EffectAnswer) -> Effect:
    pool, tally = stored_pool(document.pool), document.tally
    return Effect(
        structs.replace(pool, label=document.label), document.total, document.held, document.consumed, document.loose,
        document.waiting, document.children, document.used,
        None if tally is None else Tally(tally.account, tally.used, tally.loose),
    )  # fmt: skip


def _refused_from(document: RefusedAnswer, op: str | None) -> RefusedCommand:
    legs = [
        AskedLeg(one.pool, one.quantity, label_of(one.pool, one.name), one.available, one.total)
        for one in document.legs
    ]
    return RefusedCommand(
        document.command,
        _REASONS.get(document.reason, document.reason),  # type: ignore[arg-type]
        document.subject,
        tuple(legs),
        document.found,
        document.entity,
        document.account,
        op,
    )


def stats_from(document: StatsAnswer, generation: str) -> Stats:
    """Return what the group commit of the server's process has done, as a kernel would return it."""
    batches, guards = document.batches, GuardStats(**structs.asdict(document.guards))
    return Stats(batches.count, batches.commands, batches.largest, tuple(batches.sizes), document.queue, document.durability,
                 document.clock_lag, document.lock_times, guards, generation)  # fmt: skip


def saga_history_from(document: SagaHistory) -> Page[SagaEvent]:
    """Return the history of a saga as the face would return it."""
    names = SagaEvent.__struct_fields__
    events = Page(SagaEvent(**{name: getattr(one, name) for name in names}) for one in document.items)
    events.more = document.more
    return events


def saga_from(document: SagaAnswer) -> SagaRecord:
    """Return a saga as the face would return it."""
    return SagaRecord(**{name: getattr(document, name) for name in SagaRecord.__struct_fields__})


def claim_from(document: ClaimAnswer, clock: Clock) -> Claim:
    """Return a claim as the face would return it."""
    id = CLAIMS + document.id
    taken, spent = int(document.state is State.HELD), int(document.state is State.CONFIRMED)
    pool = StoredPool("", id, 1, held=taken, consumed=spent, fence=document.fence, version=document.version, on_demand=True,
                label=document.key, holder=document.hold, entity=document.entity)  # fmt: skip
    hold = None
    if document.held_at is not None and document.hold is not None:
        hold = _life(document, id, taken, spent, slot_of(document.held_at))
    return Claim(pool, hold, read_clock(clock, slot_of(document.server_time)))


def _life(document: ClaimAnswer, pool: str, taken: int, spent: int, held_at: Slot) -> StoredHold:
    ours = HeldLeg(pool, 1, taken, spent)
    others = (HeldLeg("", 1, taken, spent),) if document.combined else ()  # not sent: one stands for all of them
    return StoredHold(
        tenant="",
        id=document.hold or "",
        legs=(ours, *others),
        owner_hash="",
        held_at=held_at,
        fence=document.fence,
        deadline=slot_or_none(document.deadline),
        state=document.state,
        entity=document.entity,
        ended_at=slot_or_none(document.ended_at),
        correlation_id=document.correlation_id,
        version=document.version,
    )


def allowance_body(allowance: Allowance) -> AllowanceBody:
    """Return an allowance as a request has it: its total must be a number, because functions cannot be sent."""
    if not isinstance(allowance, Allowance):
        raise invalid("budgets", "allowance_malformed", f"must be an Allowance, not {type(allowance).__name__}")
    if callable(allowance.total):
        raise invalid("total", "total_not_whole", "must be a whole number: a server cannot call a function of yours")
    period = allowance.period
    zone = None if period.length or allowance.zone is None else period.zone
    return AllowanceBody(total=allowance.total, per=period.name, zone=zone)


_BEGAN: Final = "holdkit.began"


def with_send_time(answer: httpx.Response, began: float) -> httpx.Response:
    """Store with an answer when its request was sent, by `steady`."""
    answer.extensions[_BEGAN] = began
    return answer


class ServerClock(RemoteClock):
    """The server's clock, estimated from the `server_time` of answers. Deadlines are the engine's, so remaining times are counted by this
    clock, whatever the clock of this machine says. Decides nothing."""

    def observe(self, at: datetime, answer: httpx.Response) -> None:
        """Note that an answer gave the server's time."""
        began: Any = answer.extensions.get(_BEGAN)
        self.heard(moment(at), steady() if began is None else began)
