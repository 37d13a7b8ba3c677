"""Holds, as calls return them: frozen.

The token and the ticket never appear in a repr, in JSON or in a dict made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from ..core.codec import ticket
from ..core.face_legs import FaceLeg
from ..core.fold import reconstruct as fold_history
from ..core.keyed import ITEMS, leg_name
from ..core.model import LIVE, Leg, Slot, State, StoredHold
from ..core.model import Record as StoredRecord
from ..core.outcomes import Done, Outcome, Position, Receipt, Reply, Survives
from ..core.seen import expired_at
from ..core.validation import invalid
from ..engines.port import Applied
from .journal import JournalEntry
from .one_line import MAX_LENGTH, MAX_NAMES, amount, amounts, line, moment_text, shortened
from .pages import JournalPage, Page
from .times import datetime_of, moment, text_of

__all__ = [
    "HeldLeg",
    "Hold",
    "JournalEntry",
    "JournalPage",
    "Page",
    "Position",
    "Record",
]


class HeldLeg(Struct, frozen=True, gc=False):
    """The units that a hold has of one pool: `quantity` was granted, `held` is outstanding, the others are confirmed, returned or released."""

    pool: str
    name: str
    """What the pool is called: the pool's id, an item's id, `inn/double/2027-07-03` of a calendar; of a claim `type:value` if the
    call named the key, else the claim's id."""
    quantity: int
    held: int
    confirmed: int
    returned: int

    @property
    def consumed(self) -> int:
        """Confirmed and not returned: what the pool counts as long as it exists."""
        return self.confirmed - self.returned

    def to_dict(self) -> dict[str, Any]:
        """Return the leg, ready for JSON."""
        return {**msgspec.structs.asdict(self), "consumed": self.consumed}

    def __repr__(self) -> str:
        units = f"quantity={self.quantity} held={self.held} consumed={self.consumed}"
        return line("HeldLeg", shortened(self.name, MAX_NAMES), units)


class Hold:
    """A hold as it was when this answer was given. Immutable; ask again with `get` for the present."""

    __slots__ = ("_done", "_request", "raw", "token")

    raw: StoredHold
    """What is stored, with times as slots."""
    token: str | None
    """The token, where this call gave or knew it: keep it secret, pass it on as `ticket`."""
    _done: Receipt | None
    _request: tuple[Leg, ...]
    """The legs of the request that placed it, if they are known: they have the names of keys."""

    def __init__(
        self,
        raw: StoredHold,
        token: str | None = None,
        done: Receipt | None = None,
        request: tuple[Leg, ...] = (),
    ) -> None:
        _put_raw(self, raw)
        _put_token(self, token)
        _put_done(self, done)
        _put_request(self, request)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Hold is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Hold is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Hold, (self.raw, self.token, self._done, self._request))

    @property
    def id(self) -> str:
        """32 hex digits."""
        return self.raw.id

    @property
    def tenant(self) -> str:
        """The tenant it belongs to; empty for the default tenant."""
        return self.raw.tenant

    @property
    def legs(self) -> tuple[HeldLeg, ...]:
        """The units that it has of each pool."""
        labels = named_keys(self._request)
        return tuple(
            [
                HeldLeg(
                    leg.pool,
                    leg_name(leg.pool, labels.get(leg.pool)),
                    leg.quantity,
                    leg.held,
                    leg.confirmed,
                    leg.returned,
                )
                for leg in self.raw.legs
            ]
        )

    @property
    def items(self) -> tuple[str, ...]:
        """The ids of its items."""
        return tuple([leg_name(leg.pool) for leg in self.raw.legs if leg.pool.startswith(ITEMS)])

    @property
    def state(self) -> State:
        """waiting, held, confirmed, released or expired."""
        return self.raw.state

    @property
    def deadline(self) -> datetime | None:
        """When it is no longer alive; while it waits in line, the end of waiting. None if it has no deadline."""
        return datetime_of(self.raw.deadline)

    @property
    def ticket(self) -> str:
        """One text with id and token, to pass to another process. Secret, like the token.

        Raises `InvalidRequest` (`ticket_unknown`) if the token is not known: on a hold that was read.
        """
        if self.token is None:
            raise invalid(
                "hold",
                "ticket_unknown",
                "was read, and reading gives no token: keep the ticket of the answer that placed it",
            )
        return ticket(self.raw.id, self.token)

    @property
    def fence(self) -> int:
        """Grows with every grant on a pool, so that a downstream system can refuse a stale holder. 0 while it waits in line."""
        return self.raw.fence

    @property
    def entity(self) -> str | None:
        """What it was confirmed for."""
        return self.raw.entity

    @property
    def account(self) -> str | None:
        """The account in whose tallies its units count."""
        return self.raw.account

    @property
    def joined_at(self) -> datetime | None:
        """When it joined the line; None if it never waited."""
        return datetime_of(self.raw.joined_at)

    @property
    def held_at(self) -> datetime | None:
        """When it was granted; None while it waits in line."""
        return datetime_of(self.raw.held_at)

    @property
    def ended_at(self) -> datetime | None:
        """When it ended: the deadline, if it expired; None while it is alive."""
        return datetime_of(self.raw.ended_at)

    @property
    def reason(self) -> str | None:
        """Why it was last changed, if a reason was given."""
        return self.raw.reason

    @property
    def actor(self) -> str | None:
        """Who placed it."""
        return self.raw.actor

    @property
    def correlation_id(self) -> str | None:
        """The caller's own id for correlating logs."""
        return self.raw.correlation_id

    @property
    def metadata(self) -> dict[str, Any]:
        """The caller's JSON object."""
        return {} if self.raw.metadata is None else msgspec.json.decode(self.raw.metadata, type=dict[str, Any])

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.raw.version

    @property
    def uncovered(self) -> dict[str, int]:
        """Overage that no pool could cover, by the name of its leg."""
        if self._done is None or not self._done.uncovered:
            return {}
        names = {leg.pool: leg.name for leg in self.legs}
        return {names.get(pool, pool): amount for pool, amount in self._done.uncovered.items()}

    @property
    def replayed(self) -> bool:
        """Whether this answer was recorded earlier under the same operation id."""
        return self._done is not None and self._done.replayed

    @property
    def durability(self) -> Survives | None:
        """The failures that this answer survives, known when the kernel answered: `local`, `synchronous`,
        `asynchronous_standby`, `unsafe`, or `process` for nothing at all. `stats.durability` has the details. None where it
        was only read, and in a transaction of your own: that is durable as you commit it."""
        return None if self._done is None else self._done.durability

    @property
    def position(self) -> str | None:
        """The position of this change in the journal, to compare with that of an entry or a webhook's event: equal for the same
        entry. Texts from a server have no order. None if nothing was written."""
        if self._done is None or self._done.position_text is not None:
            return None if self._done is None else self._done.position_text
        return None if self._done.position is None else str(self._done.position)

    def to_dict(self) -> dict[str, Any]:
        """Return the hold, ready for JSON: without the secrets, and without what is true of one answer only."""
        raw = self.raw
        return {
            "id": raw.id,
            "tenant": raw.tenant,
            "state": str(raw.state),
            "legs": [leg.to_dict() for leg in self.legs],
            "items": list(self.items),
            "deadline": text_of(raw.deadline),
            "held_at": text_of(raw.held_at),
            "ended_at": text_of(raw.ended_at),
            "joined_at": text_of(raw.joined_at),
            "fence": raw.fence,
            "entity": raw.entity,
            "account": raw.account,
            "reason": raw.reason,
            "actor": raw.actor,
            "correlation_id": raw.correlation_id,
            "metadata": self.metadata,
            "version": raw.version,
        }

    def __repr__(self) -> str:
        state, deadline = self.raw.state, self.deadline
        until = f"until {moment_text(deadline)}" if deadline is not None and state in LIVE else ""
        room = MAX_LENGTH - len(f"<Hold {self.raw.id} {state} {{}} {until}>")
        named = [(leg.name, _amount_of(leg, state)) for leg in self.legs]
        return line("Hold", self.raw.id, str(state), amounts(named, min(room, MAX_NAMES)), until)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hold) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((self.raw.tenant, self.raw.id, self.raw.version))


_put_done, _put_request, _put_raw, _put_token = (
    vars(Hold)[name].__set__ for name in ("_done", "_request", "raw", "token")
)  # past the frozen `__setattr__`, in one step each


receipt_of: Callable[[Hold], Receipt | None] = vars(Hold)["_done"].__get__
"""The outcome behind a hold, with its position and its uncovered overage by pool; None if it was read."""
_request_of: Callable[[Hold], tuple[Leg, ...]] = vars(Hold)["_request"].__get__


def hold_of(done: Receipt, token: str | None, request: tuple[Leg, ...] = ()) -> Hold:
    """Return the hold of a done outcome. A recorded token takes precedence over the one just minted for the retry. The legs of the
    request that placed it have the names of keys."""
    assert done.hold is not None
    return Hold(done.hold, token if done.token is None else done.token, done, request)


def replies_of(applied: Applied, survives: Survives | None) -> list[list[Reply]]:
    """Return the outcomes of a batch as its callers get them: done ones as a `Receipt`."""
    if not applied.positions:
        return [[_reply(outcome, None, survives) for outcome in group] for group in applied.outcomes]
    positions = applied.positions
    return [
        [_reply(group[0], positions[index][0], survives)]  # the usual case: a loop would take as long again
        if len(group) == 1
        else [_reply(outcome, position, survives) for outcome, position in zip(group, positions[index], strict=True)]
        for index, group in enumerate(applied.outcomes)
    ]


def _reply(outcome: Outcome, position: Position | None, survives: Survives | None) -> Reply:
    if not isinstance(outcome, Done):
        return outcome
    return Receipt(outcome.slot, outcome.hold, outcome.pool, outcome.record, outcome.token, outcome.uncovered,
                   outcome.swept, outcome.more, outcome.replayed, outcome.refusal, position, survives)  # fmt: skip


class Record(Struct, frozen=True, gc=False):
    """A small document beside the holds, as it was when this answer was given."""

    tenant: str
    kind: str
    id: str
    body: str
    """JSON text."""
    version: int
    """Grows with every write."""
    at: datetime
    """When it was written."""
    replayed: bool = False
    """Whether this answer was recorded earlier under the same operation id."""

    def __repr__(self) -> str:
        return line("Record", f"{shortened(self.kind + '/' + self.id, MAX_NAMES)} version={self.version}")


def shown_record(stored: StoredRecord, *, replayed: bool = False) -> Record:
    """Return a stored record as users see it."""
    return Record(
        stored.tenant,
        stored.kind,
        stored.id,
        stored.body,
        stored.version,
        datetime_of(stored.slot),
        replayed or stored.replayed,
    )


def requested_legs(hold: object) -> tuple[Leg, ...]:
    """Return the legs of the request that placed a hold, if this is a `Hold` that knows them."""
    return _request_of(hold) if type(hold) is Hold else ()


def named_keys(request: Iterable[Leg]) -> dict[str, str]:
    """Return the names of the keys and items that the legs of a request have, by pool."""
    return {leg.pool: leg.label for leg in request if isinstance(leg, FaceLeg) and leg.label}


def _amount_of(leg: HeldLeg, state: State) -> str:
    """Return the amount of a leg: consumed units once the hold is confirmed, held ones before."""
    if state is State.CONFIRMED:
        return amount(leg.consumed, leg.quantity)
    return amount(leg.held, leg.quantity) if state is State.HELD else str(leg.quantity)


def reconstruct(history: Iterable[JournalEntry], *, at: Slot | datetime | None = None) -> Hold | None:
    """Fold one hold's history into the hold; None if its first entry is missing, or if a server sent the history: its entries are not
    complete.

    A hold whose deadline has passed is expired, whether or not an entry records it: by the engine's clock when the history was read, or at
    the time that you give.
    """
    entries = list(history)
    row = fold_history([item.raw.entry for item in entries])
    if row is None:
        return None
    now = max(max(item.raw.as_of, item.raw.slot) for item in entries) if at is None else moment(at, "at")
    return Hold(expired_at(row, now))
