"""Compact journal rows: the commonest entries without what the server can fill in.

Theory of operation. An entry is everything that `fold` needs. Most of that a client knows only after it has read the pool: the slot, the
fence, the counters after the change. A statement that decides by a guard knows it only on the server. So PostgreSQL stores an entry of the
commonest kinds in two parts. Its *body* has what the asking command determines, and can be encoded before anything is locked. Its *columns*
have the other values, as numbers, which are also smaller than JSON. `expand` joins the two parts. Only whole entries leave the engine, and
no reader can tell how an entry was stored.

*Plain* entries have a compact form, all others are stored whole:

- exactly one effect, on a pool without label, window, account limit, line, children, and not on demand;
- `hold.held` of a new hold with one leg, for no account;
- `hold.confirmed`, `hold.released` and `hold.expired` of such a hold, all of its units at once, if it has no reason and no last operation
  from before.

`compact` compares every field of the entry: either `expand` restores an equal entry, or there is no compact form. A test changes each field
of each struct in turn and fails if a field is not compared. The checksum covers the body. `verify` finds a column that was changed by hand,
because the entry then does not follow from the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ...core.codec import encode_entry
from ...core.entries import Action, Change, Effect, Entry
from ...core.fields import says_more
from ...core.model import HeldLeg, Pool, Slot, State, StoredHold
from ...core.reading import JournalRow
from .driver import Row

HELD: Final = Action.HOLD_HELD
CONFIRMED: Final = Action.HOLD_CONFIRMED
EXPIRED: Final = Action.HOLD_EXPIRED
_STATES: Final = {
    CONFIRMED: State.CONFIRMED,
    Action.HOLD_RELEASED: State.RELEASED,
    EXPIRED: State.EXPIRED,
}
_LIVE: Final = State.HELD
_FINGERPRINT: Final = 32
"""Letters of a fingerprint, in front of the operation id in a hold's `last_op`."""
SYSTEM: Final = "system"
_CLOCKWORK: Final = (SYSTEM, None, None, None, False, None)
"""Actor, reason, operation id, client, force and trace of every expiry."""


class CompactBody(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of an entry that the asking command determines, as its text is stored."""

    action: Action = HELD
    owner_hash: str | None = None
    """Of a new hold, as are the next two."""
    entity: str | None = None
    metadata: str | None = None
    actor: str | None = None
    """Of the entry; of a new hold too. Of an expiry left out: it is `system`."""
    correlation_id: str | None = None
    """Of the entry; of a new hold too. Of an expiry it is the hold's, which is a column."""
    reason: str | None = None
    op: str | None = None
    forced: bool = False
    client_id: str | None = None
    fingerprint: str | None = None
    """Of the command that ended the hold; with `op` it is the hold's `last_op`."""
    trace: str | None = None


encode_body: Final = msgspec.json.Encoder().encode
decode_body: Final = msgspec.json.Decoder(CompactBody).decode
EXPIRY_BODY: Final = encode_body(CompactBody(EXPIRED))
"""Of every expiry."""


class CompactColumns(NamedTuple):
    """The columns of a compact row, in the order of every statement that writes or reads them; all null in a row with a whole
    entry."""

    units: int
    slot: Slot
    total: int
    held: int
    consumed: int
    loose: int | None
    """None: 0, as in the next two."""
    floor: int | None
    last_number: int | None
    fence: int
    version: int
    deadline: Slot | None
    revision: int | None
    """None: the entry creates the hold."""
    pool: str
    entity: str | None
    correlation_id: str | None


WHOLE: Final[Row] = (None,) * len(CompactColumns._fields)
"""The columns of a row with a whole entry."""
_POOL: Final = CompactColumns._fields.index("pool")
_BEHIND: Final = 5 + len(CompactColumns._fields)
"""The first column behind these, in the rows that a statement reads."""


CompactRow: TypeAlias = tuple[bytes, Row]
"""The body of a compact entry, and its columns in the order of `CompactColumns`; tenant and subject are columns of every row."""


def compact(entry: Entry) -> CompactRow | None:
    """Return the compact form of an entry, or None if it has none."""
    effects = entry.effects
    if (
        len(effects) != 1
        or entry.part
        or entry.removed
        or entry.record is not None
        or entry.refused is not None
        or not _is_plain(effects[0], entry)
    ):
        return None
    return _held(entry, effects[0]) if entry.action is HELD else _ended(entry, effects[0])


def _is_plain(effect: Effect, entry: Entry) -> bool:
    """Return whether the effect is on a plain pool. (Field by field, here and below: whole structs or tuples take longer to build than to
    compare.)
    """
    pool = effect.pool
    return not (
        effect.tally is not None
        or effect.total
        or effect.loose
        or effect.waiting
        or effect.children
        or effect.used
        or pool.tenant != entry.tenant
        or pool.slot != entry.slot
        or pool.label is not None
        or pool.on_demand
        or pool.waiting
        or pool.children
        or pool.closes is not None
        or pool.per_account is not None
        or pool.archived
        or pool.holder is not None
        or pool.entity is not None
        or pool.line != "strict"
        or pool.least is not None
        or pool.replayed
    )


_hold_says_more: Final = says_more(
    StoredHold, ("deadline", "state", "entity", "actor", "correlation_id", "metadata", "version")
)
_change_says_more: Final = says_more(Change, ("deadline", "was_deadline", "entity", "ended_at", "reason", "last_op"))


def _held(entry: Entry, effect: Effect) -> CompactRow | None:
    hold, pool = entry.hold, effect.pool
    if hold is None or entry.change is not None or effect.consumed or len(hold.legs) != 1:
        return None
    leg = hold.legs[0]
    units = leg.quantity
    if (
        leg.pool != pool.id
        or leg.held != units
        or effect.held != units
        or leg.confirmed
        or leg.returned
        or hold.id != entry.subject
        or hold.tenant != entry.tenant
        or hold.held_at != entry.slot
        or hold.fence != pool.fence
        or hold.state is not _LIVE
        or hold.version != 1
        or hold.actor != entry.actor
        or hold.correlation_id != entry.correlation_id
        or _hold_says_more(hold)
    ):
        return None
    body = CompactBody(HELD, hold.owner_hash, entity=hold.entity, metadata=hold.metadata, actor=entry.actor, reason=entry.reason,
                       correlation_id=entry.correlation_id, op=entry.op, forced=entry.forced, client_id=entry.client_id,
                       trace=entry.trace)  # fmt: skip
    return encode_body(body), _columns(entry, pool, units, hold.deadline)


def _ended(entry: Entry, effect: Effect) -> CompactRow | None:
    change, action = entry.change, entry.action
    if change is None or entry.hold is not None or len(change.legs) != 1:
        return None
    state = _STATES.get(action)
    leg, expired = change.legs[0], action is EXPIRED
    units = leg.quantity
    spent = units if action is CONFIRMED else 0
    if (
        leg.pool != effect.pool.id
        or leg.held
        or leg.confirmed != spent
        or leg.returned
        or effect.held != -units
        or effect.consumed != spent
        or change.state is not state  # None: an action without a compact form
        or change.was is not _LIVE
        or change.deadline != change.was_deadline
        or change.ended_at != (change.deadline if expired else entry.slot)
        or change.reason != entry.reason
        or _change_says_more(change)
    ):
        return None
    last_op, fingerprint = change.last_op, None
    if last_op is not None:
        fingerprint = last_op[:_FINGERPRINT]
        if entry.op is None or len(fingerprint) != _FINGERPRINT or last_op[_FINGERPRINT:] != entry.op:
            return None
    if not expired:
        body = CompactBody(action, actor=entry.actor, correlation_id=entry.correlation_id, reason=entry.reason, op=entry.op,
                           forced=entry.forced, client_id=entry.client_id, fingerprint=fingerprint, trace=entry.trace)  # fmt: skip
        return encode_body(body), _columns(entry, effect.pool, units, change.deadline, revision=change.version,
                                           entity=change.entity)  # fmt: skip
    if (entry.actor, entry.reason, entry.op, entry.client_id, entry.forced, entry.trace) != _CLOCKWORK:
        return None
    correlation_id = entry.correlation_id
    return EXPIRY_BODY, _columns(entry, effect.pool, units, change.deadline, revision=change.version, entity=change.entity,
                                 correlation_id=correlation_id)  # fmt: skip


def _columns(
    entry: Entry,
    pool: Pool,
    units: int,
    deadline: Slot | None,
    *,
    revision: int | None = None,
    entity: str | None = None,
    correlation_id: str | None = None,
) -> Row:
    return (units, entry.slot, pool.total, pool.held, pool.consumed, pool.loose or None, pool.floor or None,
            pool.last_number or None, pool.fence, pool.version, deadline, revision, pool.id, entity,
            correlation_id)  # fmt: skip


def expand(tenant: str, subject: str, text: str | bytes, columns: Sequence[Any]) -> Entry:
    """Return the whole entry of a compact row. Raise `msgspec.DecodeError` for a row that cannot be one."""
    its = CompactColumns(*columns)
    body = decode_body(text)
    if None in (its.units, its.slot, its.total, its.held, its.consumed, its.fence, its.version):
        raise msgspec.ValidationError("a column of the compact entry is null")
    pool = Pool(tenant, its.pool, its.total, its.held, its.consumed, fence=its.fence, slot=its.slot, version=its.version,
                loose=its.loose or 0, floor=its.floor or 0, last_number=its.last_number or 0)  # fmt: skip
    if body.action is HELD:
        return _expand_held(tenant, subject, body, its, pool)
    return _expand_ended(tenant, subject, body, its, pool)


def _expand_held(tenant: str, subject: str, body: CompactBody, its: CompactColumns, pool: Pool) -> Entry:
    if body.owner_hash is None or (its.revision, its.entity, its.correlation_id) != (None, None, None):
        raise msgspec.ValidationError(
            "a new hold has an owner, and these columns are null: revision, entity, correlation_id"
        )
    legs = (HeldLeg(its.pool, its.units, its.units),)
    hold = StoredHold(tenant, subject, legs, body.owner_hash, its.slot, fence=its.fence, deadline=its.deadline, entity=body.entity,
                      actor=body.actor, correlation_id=body.correlation_id, metadata=body.metadata)  # fmt: skip
    return Entry(its.slot, HELD, subject, tenant, (Effect(pool, held=its.units),), hold=hold, actor=body.actor,
                 correlation_id=body.correlation_id, reason=body.reason, op=body.op, forced=body.forced,
                 client_id=body.client_id, trace=body.trace)  # fmt: skip


def _expand_ended(tenant: str, subject: str, body: CompactBody, its: CompactColumns, pool: Pool) -> Entry:
    action, state = body.action, _STATES.get(body.action)
    if state is None or its.revision is None or (body.fingerprint is not None and body.op is None):
        raise msgspec.ValidationError("what ends a hold has a revision, and a fingerprint only with an operation id")
    spent, expired = its.units if action is CONFIRMED else 0, action is EXPIRED
    if its.correlation_id is not None and not expired:
        raise msgspec.ValidationError("only an expiry has its correlation id as a column")
    change = Change(state, _LIVE, its.revision, (HeldLeg(its.pool, its.units, 0, spent),), deadline=its.deadline,
                    was_deadline=its.deadline, entity=its.entity, ended_at=its.deadline if expired else its.slot, reason=body.reason,
                    last_op=None if body.fingerprint is None or body.op is None else body.fingerprint + body.op)  # fmt: skip
    return Entry(its.slot, action, subject, tenant, (Effect(pool, held=-its.units, consumed=spent),), change=change,
                 actor=SYSTEM if expired else body.actor,
                 correlation_id=its.correlation_id if expired else body.correlation_id, reason=body.reason, op=body.op,
                 forced=body.forced, client_id=body.client_id, trace=body.trace)  # fmt: skip


def is_compact(columns: Sequence[Any]) -> bool:
    """Return whether these columns belong to a compact row."""
    return columns[_POOL] is not None


def journal_row(row: Row) -> JournalRow:
    """Return a stored row as a journal row with a whole entry. The row has seq, body, lane, tenant, subject, the columns of
    `CompactColumns`, and perhaps more columns behind these.
    """
    seq, body, lane, tenant, subject, *columns = row[:_BEHIND]
    text = encode_entry(expand(tenant, subject, body, columns)) if is_compact(columns) else body
    return JournalRow(seq, text, lane)
