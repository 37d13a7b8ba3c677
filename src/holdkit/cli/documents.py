"""What commands print with --json: one frozen Struct per kind of document, and the functions that build them.

docs/cli.md lists the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..core.model import Pool, Slot
from ..engines.doctor import Finding
from ..engines.log.inspection import SegmentSeen, SnapshotSeen
from ..faces.claim import Claim
from ..kernel.normalise import text_of
from ..kernel.results import Hold, JournalEntry

if TYPE_CHECKING:
    from ..server import KeyInfo


class ErrorDocument(Struct, frozen=True):
    """Printed on stderr when a command fails."""

    error: str
    """refused, invalid, unknown, overloaded, failed or usage."""
    message: str
    effect: str
    """none, or unknown: repeat the command with the same operation id."""
    exit_code: int
    reason: str | None = None
    transient: bool | None = None
    details: dict[str, Any] = {}
    field: str | None = None
    code: str | None = None
    retry_after: float | None = None


class PoolDocument(Struct, frozen=True):
    """A pool."""

    id: str
    tenant: str
    total: int
    held: int
    consumed: int
    loose: int
    available: int
    over: bool
    on_demand: bool
    archived: bool
    fence: int
    version: int


class ClaimDocument(Struct, frozen=True):
    """A claim. `ticket` is secret: only `claim reserve` prints it, and commands that were given the ticket."""

    id: str
    key: str
    type: str
    value: str
    tenant: str
    state: str
    hold: str | None
    deadline: Slot | None
    deadline_at: str | None
    entity: str | None
    fence: int
    ticket: str | None
    replayed: bool


class LegDocument(Struct, frozen=True):
    """One leg of a hold."""

    pool: str
    quantity: int
    held: int
    confirmed: int
    returned: int


class HoldDocument(Struct, frozen=True):
    """A hold. `ticket` is secret: only `hold` prints it, and commands that were given the ticket."""

    id: str
    tenant: str
    state: str
    legs: tuple[LegDocument, ...]
    deadline: Slot | None
    deadline_at: str | None
    fence: int
    entity: str | None
    held_slot: Slot
    held_at: str | None
    ended_slot: Slot | None
    ended_at: str | None
    reason: str | None
    actor: str | None
    correlation_id: str | None
    metadata: dict[str, Any]
    version: int
    ticket: str | None = None
    lane: int | None = None
    seq: int | None = None
    """The journal position of the change that this command made; null if it made none."""
    replayed: bool = False
    uncovered: dict[str, int] = {}


class EffectDocument(Struct, frozen=True):
    """A pool after an entry, and how its counters changed."""

    pool: str
    total: int
    held: int
    consumed: int
    total_by: int
    held_by: int
    consumed_by: int
    loose: int
    loose_by: int


class EntryDocument(Struct, frozen=True):
    """A journal entry."""

    lane: int
    seq: int
    slot: Slot
    at: str | None
    action: str
    subject: str
    tenant: str
    actor: str | None
    correlation_id: str | None
    reason: str | None
    op: str | None
    forced: bool
    part: bool
    pools: tuple[EffectDocument, ...]
    before: dict[str, Any]
    after: dict[str, Any]
    cursor: str


class TenantDocument(Struct, frozen=True):
    """A tenant that has pools."""

    tenant: str


class SweepDocument(Struct, frozen=True):
    """The result of a sweep: the holds that it expired, of all tenants, in order of (deadline, id), and their tenants."""

    url: str
    expired: int
    holds: tuple[str, ...]
    tenants: tuple[str, ...]
    more: bool


class LimitsDocument(Struct, frozen=True):
    """The limits that are stored with the data. Intervals are in seconds."""

    url: str
    limits: dict[str, float | int | None]
    version: int


class VerifyDocument(Struct, frozen=True):
    """The result of `verify`."""

    url: str
    ok: bool
    differences: tuple[str, ...]


class RepairDocument(Struct, frozen=True):
    """What `repair` corrected, or with `dry_run` would correct. `left` cannot be corrected from the journal."""

    url: str
    ok: bool
    dry_run: bool
    repaired: tuple[str, ...]
    left: tuple[str, ...]


class TransferDocument(Struct, frozen=True):
    """The result of `export`, `import`, `backup` and `restore`: the URL, the file, and the number of entries."""

    url: str
    file: str
    entries: int


class MigrateDocument(Struct, frozen=True):
    """The schema version after `migrate`."""

    version: int


class LogDocument(Struct, frozen=True):
    """The result of `log check`."""

    directory: str
    ok: bool
    segments: Sequence[SegmentSeen]
    snapshots: Sequence[SnapshotSeen]
    frames: int
    entries: int
    damage: str | None


class SettingDocument(Struct, frozen=True):
    """A setting of the server: its value as one would write it, and where it comes from."""

    name: str
    value: str
    source: str
    """default, file, environment or flag."""
    description: str


class DoctorDocument(Struct, frozen=True):
    """The result of `doctor`; `ok` unless a check failed. `settings` with `--settings` only."""

    ok: bool
    findings: tuple[Finding, ...]
    settings: tuple[SettingDocument, ...] = ()


class WatchDocument(Struct, frozen=True):
    """One refresh of `watch`; `rates` are journal entries per second since the previous one, by action."""

    at: str
    url: str
    pools: tuple[PoolDocument, ...]
    holds: tuple[HoldDocument, ...]
    entries: tuple[EntryDocument, ...]
    rates: dict[str, float]


class ServeDocument(Struct, frozen=True):
    """Printed by `serve` once it accepts connections."""

    listens: str


class KeyDocument(Struct, frozen=True):
    """An API key of the server; `key` is its text, printed only when the key is created or rotated."""

    id: str
    name: str
    scope: str
    tenant: str
    state: str
    made_at: str | None
    expires_at: str | None
    revoked_at: str | None
    key: str | None = None


class BenchDocument(Struct, frozen=True):
    """The result of `bench`. A pair is a hold and its release, each durable."""

    url: str
    pool: str
    threads: int
    seconds: float
    pairs: int
    refused: int
    per_second: float
    p50_ms: float
    p99_ms: float
    largest_batch: int


def pool_document(pool: Pool) -> PoolDocument:
    """A pool as a document."""
    return PoolDocument(pool.id, pool.tenant, pool.total, pool.held, pool.consumed, pool.loose, pool.available, pool.over,
                        pool.on_demand, pool.archived, pool.fence, pool.version)  # fmt: skip


def hold_document(hold: Hold) -> HoldDocument:
    """A hold as a document."""
    position = hold.position
    return msgspec.convert(
        {
            **hold.to_dict(),
            "ticket": hold.ticket,
            "lane": None if position is None else position.lane,
            "seq": None if position is None else position.seq,
            "replayed": hold.replayed,
            "uncovered": hold.uncovered,
        },
        HoldDocument,
    )


def claim_document(claim: Claim) -> ClaimDocument:
    """A claim as a document."""
    return ClaimDocument(
        claim.id, claim.key, claim.type, claim.value, claim.tenant, str(claim.state), claim.hold_id, claim.deadline,
        text_of(claim.deadline), claim.entity, claim.fence, claim.ticket, claim.replayed,
    )  # fmt: skip


def entry_document(entry: JournalEntry) -> EntryDocument:
    """A journal entry as a document."""
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
    """An API key as a document."""
    return KeyDocument(
        key.id, key.name, key.scope, key.tenant, key.state, key.made_at, key.expires_at, key.revoked_at, text
    )
