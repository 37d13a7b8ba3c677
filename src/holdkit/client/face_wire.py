"""Answers about claims, items, budgets and sagas, as JSON, and the faces' own types made from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..core.audit_rows import Difference
from ..core.model import HeldLeg, Pool, Slot, State, StoredHold
from ..core.outcomes import Survives
from ..core.validation import invalid
from ..engines.clocks import Clock
from ..engines.clocks import read as read_clock
from ..faces.allowances import Allowance, Usage
from ..faces.claim import Claim
from ..faces.keys import CLAIMS, Item
from ..faces.saga_records import SagaRecord
from .wire import slot_of


class WireClaim(Struct, kw_only=True):
    """A claim, as JSON."""

    id: str
    key: str
    state: State
    hold: str | None
    deadline: Slot | None
    entity: str | None
    held_slot: Slot | None
    ended_slot: Slot | None
    correlation_id: str | None
    fence: int
    version: int
    combined: bool
    server_time: datetime
    owner: str | None = None
    replayed: bool = False


class ClaimPage(Struct):
    """A page of claims."""

    items: list[WireClaim]
    server_time: datetime


class ItemPage(Struct):
    """A page of items."""

    items: list[Item]


class UsagePage(Struct):
    """A page of usages."""

    items: list[Usage]


class SagaPage(Struct):
    """A page of sagas."""

    items: list[SagaRecord]


class WireVerify(Struct):
    """The differences that verifying the journal found."""

    found: tuple[Difference, ...]


read_claim: Final = msgspec.json.Decoder(WireClaim).decode
"""Made once, here: msgspec crashes if two threads use a type for the first time at the same moment."""
read_claims: Final = msgspec.json.Decoder(ClaimPage).decode
read_items: Final = msgspec.json.Decoder(ItemPage).decode
read_usages: Final = msgspec.json.Decoder(UsagePage).decode
read_saga: Final = msgspec.json.Decoder(SagaRecord).decode
read_sagas: Final = msgspec.json.Decoder(SagaPage).decode
read_verify: Final = msgspec.json.Decoder(WireVerify).decode


def claim_from(wire: WireClaim, owner: str | None, clock: Clock, durability: Survives | None = None) -> Claim:
    """A claim as the kernel would return it."""
    id = CLAIMS + wire.id
    taken, spent = int(wire.state is State.HELD), int(wire.state is State.CONFIRMED)
    pool = Pool("", id, 1, held=taken, consumed=spent, fence=wire.fence, version=wire.version, on_demand=True,
                label=wire.key, holder=wire.hold, entity=wire.entity)  # fmt: skip
    hold = None if wire.held_slot is None or wire.hold is None else _life(wire, id, taken, spent, wire.held_slot)
    as_of = read_clock(clock, slot_of(wire.server_time))
    return Claim(pool, hold, wire.owner or owner, replayed=wire.replayed, as_of=as_of, durability=durability)


def _life(wire: WireClaim, pool: str, taken: int, spent: int, held_slot: Slot) -> StoredHold:
    ours = HeldLeg(pool, 1, taken, spent)
    others = (HeldLeg("", 1, taken, spent),) if wire.combined else ()  # not sent: one stands for all of them
    return StoredHold(
        tenant="",
        id=wire.hold or "",
        legs=(ours, *others),
        owner_hash="",
        held_at=held_slot,
        fence=wire.fence,
        deadline=wire.deadline,
        state=wire.state,
        entity=wire.entity,
        ended_at=wire.ended_slot,
        correlation_id=wire.correlation_id,
        version=wire.version,
    )


def allowance_json(allowance: Allowance) -> dict[str, Any]:
    """An allowance as JSON has it: its total must be a number, because functions cannot be sent."""
    if not isinstance(allowance, Allowance):
        raise invalid("budgets", "allowance_malformed", f"must be an Allowance, not {type(allowance).__name__}")
    if callable(allowance.total):
        raise invalid("total", "total_not_whole", "must be a whole number: a server cannot call a function of yours")
    period = allowance.period
    zone = None if period.length or allowance.zone is None else period.zone
    return {"total": allowance.total, "per": period.name, **({} if zone is None else {"zone": zone})}
