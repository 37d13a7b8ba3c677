"""The journal: entries, and the cursors of followers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from ..core.entries import Action, RefusedCommand
from ..core.entries import Effect as Moved
from ..core.keyed import CLAIMS, leg_name
from ..kernel.journal import JournalEntry, RawEntry
from ..kernel.times import with_datetimes, without_slots
from .fields import AllTenants, Limit, PositionText, ShowPosition, Tenant, Time, Version, at
from .pools import PoolAnswer, pool_answer

ActionName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [action.value for action in Action]})]
"""What happened. Decoded as text, so that a client accepts the actions of a newer server."""

SEALED: Final = "hks1."
"""How a cursor begins that only the server can read: every one that it gives to a key which is not an operator's."""


class JournalQuery(Struct, forbid_unknown_fields=True):
    """The entries to read: after a cursor, or the last ones; or those that fit, newest first, or oldest first after a cursor."""

    after: str | None = None
    last: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    limit: Limit = 100
    all_tenants: AllTenants = False
    order: Literal["oldest", "newest"] = "oldest"
    before: Annotated[str | None, Meta(description="a cursor: the entries in front of it, newest first")] = None
    action: str | None = None
    subject: Annotated[str | None, Meta(description="the id of a hold or pool, or kind/id of a record")] = None
    actor: str | None = None
    correlation_id: str | None = None
    include_reserved: Annotated[
        bool,
        Meta(
            description="with the changes of API keys, tenants and webhooks, without what their records say; for keys of scope admin "
            "of the default tenant"
        ),
    ] = False
    durable: Annotated[
        bool,
        Meta(
            description="for followers, with `after`: the answer waits until the standbys that commits wait for have these entries"
        ),
    ] = False

    @property
    def searches(self) -> bool:
        """Whether it asks for more than all entries after a cursor."""
        filters = (self.before, self.action, self.subject, self.actor, self.correlation_id)
        return self.order == "newest" or any(one is not None for one in filters)


class HistoryQuery(Struct, forbid_unknown_fields=True):
    """The entries of a history, after a cursor."""

    after: str | None = None
    limit: Limit = 100


class EventsQuery(Struct, forbid_unknown_fields=True):
    """The events to stream."""

    after: str | None = None
    kind: Literal["entries", "summary"] = "entries"
    all_tenants: AllTenants = False


class TallyAnswer(Struct):
    """What an account uses of a pool."""

    account: str
    used: int
    loose: int


class Effect(Struct, omit_defaults=True):
    """A pool after an entry, and how its counters changed. What does not apply to lines, accounts and trees is left out."""

    pool: PoolAnswer
    total: int
    held: int
    consumed: int
    loose: Annotated[int, Meta(description="of the tally, if there is one; else of the pool")]
    waiting: int = 0
    children: int = 0
    used: Annotated[int, Meta(description="of the tally")] = 0
    tally: Annotated[
        TallyAnswer | None, Meta(description="what the account uses after the entry; with 0 used, it is gone")
    ] = None
    label: Annotated[
        str | None, Meta(description="of a claim, its key: the pool is named by a hash; not in webhooks")
    ] = None


class RefusedLeg(Struct, frozen=True, omit_defaults=True):
    """Units of one pool that a refused command asked for, or that were missing above such a pool."""

    pool: str
    name: Annotated[str, Meta(description="what the pool is called: its id, a claim's key, an item's id")]
    quantity: int
    available: Annotated[int | None, Meta(description="of a pool that fell short: what there was, of which total")] = (
        None
    )
    total: int | None = None


class RefusedAnswer(Struct, frozen=True, omit_defaults=True):
    """What a refused command asked for, and why it was refused."""

    command: Annotated[str, Meta(description="`hold`, `confirm`, `resize_pool`, …: its type, as in a batch")]
    reason: Annotated[str, Meta(description="why it was refused")]
    legs: list[RefusedLeg]
    subject: Annotated[
        str | None,
        Meta(description="what the refusal names, if it is not the entry's subject: such as the pool that is missing"),
    ] = None
    found: Annotated[int | None, Meta(description="the number that caused the refusal")] = None
    entity: str | None = None
    account: str | None = None


class EntryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A journal entry."""

    position: PositionText
    cursor: str
    action: ActionName
    at: Time
    subject: str
    actor: Annotated[str | None, Meta(description="who made the change, as the caller says")]
    client_id: Annotated[str | None, Meta(description="the id of the API key that asked, whoever it names as actor")]
    correlation_id: str | None
    reason: str | None
    op: str | None
    forced: bool
    part: bool
    pools: list[Effect]
    before: dict[str, Any]
    after: dict[str, Any]
    refused: Annotated[RefusedAnswer | None, Meta(description="of `command.refused`")] = None
    trace: Annotated[
        str | None, Meta(description="the W3C trace context (`traceparent`) of the call that asked, if it was recorded")
    ] = None
    tenant: Tenant = None


class SentEntry(RawEntry, frozen=True, kw_only=True):
    """An entry as a server sent it. `entry` has neither hold, change nor record, so there is no digest, and `row` has no text."""

    document: EntryAnswer

    @property
    def position_text(self) -> str:
        """The position as the server shows it."""
        return self.document.position

    @property
    def cursor(self) -> str:
        """The cursor behind this entry, which the server reads."""
        return self.document.cursor

    @property
    def before(self) -> dict[str, Any]:
        """What changed, before."""
        return with_datetimes(self.document.before)

    @property
    def after(self) -> dict[str, Any]:
        """The hold, record or limits after the change."""
        return with_datetimes(self.document.after)


def entry_answer(
    entry: JournalEntry, show: ShowPosition, cursor: str, *, with_tenant: bool = False, labels: bool = True
) -> EntryAnswer:
    """Return a journal entry as a document; `show` spells its position for the caller. Without `labels` it has no keys of claims."""
    raw = entry.raw
    stored = raw.entry
    return EntryAnswer(
        position=show(raw.position),
        cursor=cursor,
        action=stored.action.value,
        at=at(stored.slot),
        subject=stored.subject,
        actor=stored.actor,
        client_id=stored.client_id,
        correlation_id=stored.correlation_id,
        reason=stored.reason,
        op=entry.op,
        forced=stored.forced,
        part=stored.part,
        pools=[_effect(effect, labels=labels) for effect in stored.effects],
        before=_shown(raw.before),
        after=_shown(raw.after),
        refused=None if stored.refused is None else _refused(stored.refused),
        trace=stored.trace,
        tenant=stored.tenant if with_tenant else None,
    )


def _effect(effect: Moved, *, labels: bool) -> Effect:
    tally, pool = effect.tally, effect.pool
    return Effect(
        pool_answer(pool),
        effect.total,
        effect.held,
        effect.consumed,
        effect.loose,
        effect.waiting,
        effect.children,
        effect.used,
        None if tally is None else TallyAnswer(tally.account, tally.used, tally.loose),
        pool.label if labels and pool.id.startswith(CLAIMS) else None,
    )


def _refused(refused: RefusedCommand) -> RefusedAnswer:
    legs = [
        RefusedLeg(leg.pool, leg_name(leg.pool, leg.label), leg.quantity, leg.available, leg.total)
        for leg in refused.legs
    ]
    return RefusedAnswer(
        refused.command, refused.reason.value, legs, refused.subject, refused.found, refused.entity, refused.account
    )


def _shown(fields: dict[str, Any]) -> dict[str, Any]:
    shown = {name: at(value) if isinstance(value, datetime) else value for name, value in without_slots(fields).items()}
    metadata = shown.get("metadata")
    return shown | {"metadata": Raw(metadata.encode())} if isinstance(metadata, str) else shown


class EntryPage(Struct):
    """Entries in journal order; `next` is the `after` of the next page. Of a search from the end: newest first, and `next` is the
    `before` of the next page. A search looks at a bounded part of the journal, so a page may be empty and still have a `next`."""

    items: list[EntryAnswer]
    next: Annotated[str | None, Meta(description="a cursor: read on at once; null at the end of the journal")]
    cursor: Annotated[
        str, Meta(description="where the page ended: whoever comes back later for new entries passes it as `after`")
    ]
    server_time: Time


class CursorQuery(Struct, forbid_unknown_fields=True):
    """The position: the end of the journal, or `back` entries earlier in each lane: entries of your tenant or, with an
    operator's key, of all tenants."""

    back: Annotated[int, Meta(ge=0)] = 0


class FollowerQuery(Struct, forbid_unknown_fields=True):
    """Followers of your tenant, or of all tenants."""

    all_tenants: AllTenants = False


class CursorAnswer(Struct):
    """A cursor in the journal."""

    cursor: str
    generation: Annotated[
        str,
        Meta(description="changes when the journal continues from another state: after a promotion, restore or import"),
    ]
    server_time: Time


class KeptCursor(Struct):
    """The stored cursor of a named follower."""

    name: str
    cursor: str
    follower: Annotated[str, Meta(description="the id of the process that stored it, if it gave one")]
    version: int
    at: Annotated[Time, Meta(description="when it was stored")]
    generation: Annotated[str, Meta(description="the generation of the journal in which the cursor was made")]
    server_time: Time


class MoveCursor(Struct, kw_only=True, forbid_unknown_fields=True):
    """Store a cursor, given the version that was read; 0 for a new name."""

    cursor: str
    if_version: Version
    follower: Annotated[
        str,
        Meta(description="a random id of your own, one per run, to recognise your own writes"),
    ] = ""
