"""From what users hold in their hands to what commands print: the one place that fills the shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..core.model import Pool, Slot
from ..faces.claim import Claim
from ..kernel.normalise import datetime_of, text_of
from ..kernel.results import Hold, JournalEntry
from .shapes import ClaimDocument, EffectDocument, EntryDocument, HoldDocument, KeyDocument, PoolDocument

if TYPE_CHECKING:
    from ..server import KeyInfo


def pool_document(pool: Pool) -> PoolDocument:
    """A pool for programs."""
    return PoolDocument(pool.id, pool.tenant, pool.total, pool.held, pool.consumed, pool.loose, pool.available, pool.over,
                        pool.on_demand, pool.archived, pool.fence, pool.version)  # fmt: skip


def hold_document(hold: Hold) -> HoldDocument:
    """A hold for programs."""
    place = hold.position
    return msgspec.convert(
        {
            **hold.to_dict(),
            "ticket": hold.ticket,
            "lane": None if place is None else place.lane,
            "seq": None if place is None else place.seq,
            "replayed": hold.replayed,
            "uncovered": hold.uncovered,
        },
        HoldDocument,
    )


def claim_document(claim: Claim) -> ClaimDocument:
    """A claim for programs."""
    return ClaimDocument(
        claim.id, claim.key, claim.type, claim.value, claim.tenant, str(claim.state), claim.hold_id, claim.deadline,
        text_of(claim.deadline), claim.entity, claim.fence, claim.ticket, claim.replayed,
    )  # fmt: skip


def entry_document(entry: JournalEntry) -> EntryDocument:
    """An entry for programs."""
    pools = tuple(
        EffectDocument(effect.pool.id, effect.pool.total, effect.pool.held, effect.pool.consumed, effect.total,
                       effect.held, effect.consumed, effect.pool.loose, effect.loose)
        for effect in entry.pools
    )  # fmt: skip
    return EntryDocument(
        lane=entry.position.lane,
        seq=entry.position.seq,
        slot=entry.slot,
        at=text_of(entry.slot),
        action=str(entry.action),
        subject=entry.subject,
        tenant=entry.tenant,
        actor=entry.actor,
        correlation_id=entry.correlation_id,
        reason=entry.reason,
        op=entry.op,
        forced=entry.forced,
        part=entry.part,
        pools=pools,
        before=entry.before,
        after=entry.after,
        cursor=entry.cursor,
    )


def key_document(key: KeyInfo, text: str | None = None) -> KeyDocument:
    """A key for programs."""
    return KeyDocument(
        key.id, key.name, key.scope, key.tenant, key.state, key.made_at, key.expires_at, key.revoked_at, text
    )


def clock_time(slot: Slot | None, now: Slot | None = None) -> str:
    """A slot for people: short if it is on the same day as `now`, which only the engine can say."""
    at = datetime_of(slot)
    if at is None:
        return "-" if slot is None else str(slot)
    today = datetime_of(now)
    return at.strftime("%Y-%m-%d %H:%M:%S" if today is None or today.date() != at.date() else "%H:%M:%S")
