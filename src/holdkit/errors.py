"""The exception tree.

There are three kinds of "no", and the classes never mix them:

- `Refused`: the rules refused the request. Nothing happened.
- `InvalidRequest`, `EngineError`, `Overloaded`: the call was wrong, or the machinery failed. Nothing happened.
- `OutcomeUnknown`: the request may or may not have taken effect. Repeat it with the same operation id to find out.

A refusal has a reason of its own and mostly a family, so that a program can catch either::

    Refused
     ├ Unavailable    InsufficientCapacity ─ AlreadyClaimed, ItemsTaken | LineAhead | LineFull | AccountLimit | PoolArchived | WindowClosed
     ├ HoldEnded      HoldExpired | AlreadyConfirmed | AlreadyReleased | HoldRetired
     ├ NotFound       PoolNotFound | HoldNotFound | SectionNotFound
     ├ AlreadyExists  PoolExists | HoldExists
     ├ TableFull      PoolTableFull | HoldTableFull | OperationTableFull
     └ the others

This module knows nothing of HTTP, engines or the core. Every message begins with ``holdkit: ``. It is for developers; `title` is the text
that an application may show to its customers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from .core.outcomes import Shortfall


INCOMPLETE_LINK: Final = "The link is incomplete"
"""The title of a ticket that was cut short or damaged: the customer can do something about it."""


class HoldkitError(Exception):
    """The base of every exception that Holdkit raises on purpose.

    `effect` says whether the failed call may have changed anything: "none" or "unknown". `title` is a short text that a shop may show
    to its customers: it names no id, number or person.
    """

    effect: ClassVar[Literal["none", "unknown"]] = "none"
    title: str = "Something went wrong"

    def __init__(self, message: str) -> None:
        super().__init__(message if message.startswith("holdkit: ") else f"holdkit: {message}")

    def __reduce__(self) -> tuple[Any, ...]:  # keyword-only arguments must survive pickling, for process pools
        return _unpickle, (type(self), self.args, self.__dict__)


def _unpickle(cls: type[HoldkitError], args: tuple[Any, ...], fields: dict[str, Any]) -> HoldkitError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


def plain(error: BaseException) -> str:
    """Return the message without the ``holdkit: `` prefix, to quote it in another message or an answer."""
    return str(error).removeprefix("holdkit: ")


class InvalidRequest(HoldkitError, ValueError):
    """The call itself is wrong. `field` names the argument; `code` is a stable word for programs."""

    title = "The request is not valid"
    index: int | None = None
    """Of a batch: the position of the command that is wrong, from 0."""

    def __init__(self, message: str, *, field: str, code: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.code = field, code
        if code == "ticket_malformed":
            self.title = INCOMPLETE_LINK


class UnknownArgument(InvalidRequest, TypeError):
    """The call has a keyword that it does not know; `field` names it."""


class EngineError(HoldkitError):
    """The machinery failed, and this attempt certainly changed nothing."""

    title = "Please try again in a moment"


class MissingExtra(EngineError, ImportError):
    """A package is not installed that the extra `extra` of Holdkit brings. `name` is the module that was not found."""

    def __init__(self, extra: str, missing: ModuleNotFoundError) -> None:
        super().__init__(f"{missing.name} is not installed: pip install 'holdkit[{extra}]'")
        self.extra, self.name = extra, missing.name


class Overloaded(HoldkitError):
    """The request was turned away before anything was done. Retry it after about `retry_after` seconds."""

    title = "Please try again in a moment"

    def __init__(self, message: str, *, retry_after: float = 0.1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StorageFull(Overloaded):
    """The disk of the server is nearly full, so it stores nothing new. Existing holds can still be ended."""

    title = "Please try again later"


class OutcomeUnknown(HoldkitError):
    """The request may or may not have taken effect. Repeat it with the same operation id until it is done or refused."""

    title = "Please try again in a moment"
    effect: ClassVar[Literal["none", "unknown"]] = "unknown"


class SagaBusy(Overloaded):
    """Another process is driving this saga. `retry_after` is what remains of its lease."""


class SagaParked(HoldkitError):
    """The saga is parked for an operator: inspect it with `sagas.get`, end it with `sagas.resolve`."""

    title = "This needs a closer look"
    effect: ClassVar[Literal["none", "unknown"]] = "unknown"


class SagaCancelled(HoldkitError):
    """An operator cancelled this saga. It does not run again; start a new one under another id."""

    title = "This was cancelled"


class CursorLost(HoldkitError):
    """The journal no longer holds what this cursor has seen (restored, failed over, pruned): choose where to start again.

    `missing` is the least number of entries that were delivered and are now gone, or 0 if that is not known. `position` is the
    lane and the number of an entry that is gone, where that is the reason and is known. `archived_to` is where the entries behind
    the cursor were archived to, if that is why: `holdkit.journal.JournalArchive` reads on from there. A server does not tell its clients
    where: there it is empty.
    """

    title = "No longer available"

    def __init__(
        self,
        message: str,
        *,
        missing: int = 0,
        position: tuple[int, int] | None = None,
        archived_to: str | None = None,
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.position = position
        self.archived_to = archived_to


class PromiseBroken(HoldkitError):
    """A bug in Holdkit: an invariant does not hold. Nothing was written; please report it."""


class Refused(HoldkitError):
    """The rules refused the request, and nothing happened. Each reason has its own subclass, and most reasons have a family.

    Each subclass declares the attributes that belong to it. `details` has the ones that this refusal carries, by name.
    """

    reason: ClassVar[str] = "refused"
    """The stable word for programs."""
    fields: ClassVar[frozenset[str]] = frozenset({"subject"})
    """The names of the attributes that `details` may have."""

    transient: bool = False
    """Whether the same request may succeed later."""
    replayed: bool
    """Whether this is the recorded answer to an earlier call with the same operation id."""
    subject: str = ""
    """What the refusal is about: the id of a pool, hold, operation or record, or a face's own name for it."""
    index: int | None = None
    """Of an atomic batch: the position of the command that was refused, from 0."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.fields |= cls.__annotations__.keys()

    def __init__(self, message: str = "", *, replayed: bool = False, **details: Any) -> None:
        super().__init__(f"{self.reason}: {message}" if message else self.reason)
        if unknown := details.keys() - self.fields:
            raise TypeError(f"{type(self).__name__} declares no attribute {min(unknown)!r}")
        self.replayed = replayed
        self.__dict__.update(details)

    @property
    def details(self) -> dict[str, Any]:
        """The facts behind the refusal."""
        return {name: value for name, value in self.__dict__.items() if name in self.fields}


class Unavailable(Refused):
    """Another caller has what was requested, or it is not for sale: a shop says so and offers something else."""


class InsufficientCapacity(Unavailable):
    """At least one pool has less available than was requested.

    `shortfalls` lists every such pool; `requested`, `available` and `total` are those of the first. A server that is asked with an API
    key limited to other pools lists none, and the refusal then has no `requested`, `available` and `total`.
    """

    reason = "insufficient_capacity"
    title = "Not enough left"
    transient = True
    shortfalls: tuple[Shortfall, ...] = ()
    requested: int
    available: int
    total: int
    retry_after: float | None = None
    """From a rate or a budget: the seconds until the last of the windows that fell short is over."""
    budgets: tuple[str, ...] = ()
    """From `budgets`: the budgets that fell short."""


class AlreadyClaimed(InsufficientCapacity):
    """Another caller has the key.

    A held key becomes free after `remaining` seconds, unless it is extended. A confirmed key is taken for good: the
    refusal is not transient, and `remaining` and `deadline` are None. A key is a pool of one unit.
    """

    reason = "already_claimed"
    title = "Already taken"
    transient = True
    requested: int = 1
    available: int = 0
    total: int = 1
    claim: str
    """The id of the other claim."""
    state: Literal["held", "confirmed"]
    remaining: float | None = None
    deadline: datetime | None = None

    def __init__(self, message: str = "", *, replayed: bool = False, **details: Any) -> None:
        super().__init__(message, replayed=replayed, **details)
        self.transient = details.get("state") != "confirmed"


class ItemsTaken(InsufficientCapacity):
    """Some of the requested items are not available. An item is a pool of one unit; `requested`, `available` and `total` are those of
    the first that is taken."""

    reason = "items_taken"
    title = "Some of these are gone"
    transient = True
    requested: int = 1
    available: int = 0
    total: int = 1
    taken: tuple[str, ...]
    """The ids of the items that are not available, in order."""
    holders: dict[str, str | None]
    """By item id, the id of the hold that has it. Empty from a server, which does not tell it."""


class LineAhead(Unavailable):
    """Other holds (`waiting`) wait in line for the pool and are served first. Join the line, or try later.

    A refusal because of a pool that an API key may not read, as it is limited to others, has no `waiting`.
    """

    reason = "line_ahead"
    title = "Others are waiting"
    transient = True
    waiting: int


class LineFull(Unavailable):
    """The pool's line has `waiting` holds, which is the most that may wait."""

    reason = "line_full"
    title = "The waiting line is full"
    transient = True
    waiting: int


class AccountLimit(Unavailable):
    """The account would have more of a pool than `limit`, the most that one account may have: it uses `used` already.

    `shortfalls` lists every such pool; `requested`, `used` and `limit` are those of the first. A server that is asked with an API key
    limited to other pools lists none, and the refusal then has no `requested`, `used` and `limit`.
    """

    reason = "account_limit"
    title = "Limit per customer reached"
    shortfalls: tuple[Shortfall, ...] = ()
    requested: int
    used: int
    limit: int


class PoolArchived(Unavailable):
    """The pool is archived: it grants nothing until it is unarchived."""

    reason = "pool_archived"
    title = "No longer available"


class WindowClosed(Unavailable):
    """The command was decided at a slot outside its window. A window that has closed stays closed."""

    reason = "window_closed"
    title = "This time is over"
    now: datetime


class HoldEnded(Refused):
    """The hold that was to be ended or changed has ended before."""


class HoldExpired(HoldEnded):
    """The hold reached its deadline first. Its units are free for others."""

    reason = "hold_expired"
    title = "The reservation has expired"
    deadline: datetime | None = None


class AlreadyConfirmed(HoldEnded):
    """The hold was already confirmed. If it was confirmed for your own `entity`, another attempt of yours did it."""

    reason = "already_confirmed"
    title = "Already completed"
    ended_at: datetime
    entity: str | None = None
    """What it was confirmed for."""


class AlreadyReleased(HoldEnded):
    """The hold was already released."""

    reason = "already_released"
    title = "Already cancelled"
    ended_at: datetime


class HoldRetired(HoldEnded):
    """The hold ended longer ago than the retention period. The journal still has its history."""

    reason = "hold_retired"
    title = "Reservation not found"


class NotFound(Refused):
    """What the request names does not exist."""


class PoolNotFound(NotFound):
    """There is no pool with this id."""

    reason = "pool_not_found"
    title = "This does not exist"


class HoldNotFound(NotFound):
    """There is no hold with this id."""

    reason = "hold_not_found"
    title = "Reservation not found"


class SectionNotFound(NotFound):
    """The section has no seats."""

    reason = "section_not_found"
    title = "This does not exist"


class AlreadyExists(Refused):
    """The id that the request chose is in use."""


class PoolExists(AlreadyExists):
    """A pool with this id already exists."""

    reason = "pool_exists"
    title = "This exists already"


class HoldExists(AlreadyExists):
    """A hold with this id already exists."""

    reason = "hold_exists"
    title = "This reservation exists already"


class TableFull(Refused):
    """A limit of the engine is reached. Some stored pools, holds or operations must end first."""


class PoolTableFull(TableFull):
    """The engine's limit on pools is reached."""

    reason = "pool_table_full"
    title = "Please try again later"
    transient = True


class HoldTableFull(TableFull):
    """The engine's limit on live holds is reached."""

    reason = "hold_table_full"
    title = "Please try again later"
    transient = True


class OperationTableFull(TableFull):
    """There is no room to remember this operation id, so the operation was not started."""

    reason = "operation_table_full"
    title = "Please try again later"
    transient = True


class OperationConflict(Refused):
    """The operation id was used before with another payload. Take a new id for a new request."""

    reason = "operation_conflict"
    title = "This was sent twice, with different content"


class AccountRequired(Refused):
    """The pool, or one above it, has a limit per account, and the request names no account."""

    reason = "account_required"
    title = "A customer must be named"


class PoolInUse(Refused):
    """The pool has `in_use` units held or consumed, or somebody waits in its line, or there are pools below it: it cannot be removed."""

    reason = "pool_in_use"
    title = "This is still in use"
    in_use: int


class BelowInUse(Refused):
    """The new total is less than the `in_use` units that are held and consumed."""

    reason = "below_in_use"
    title = "More than this is in use"
    in_use: int


class SlotOverflow(Refused):
    """The deadline is beyond the last slot, 2^63 - 1."""

    reason = "slot_overflow"
    title = "This date is too far away"


class DeadlinePassed(Refused):
    """The requested deadline is not after `now`, when the command was decided."""

    reason = "deadline_passed"
    title = "This time is over"
    now: datetime


class LifetimeExceeded(Refused):
    """The hold would live longer than `max_lifetime` from the moment it was placed."""

    reason = "lifetime_exceeded"
    title = "This cannot be kept for so long"
    max_lifetime: timedelta


class NotOwner(Refused):
    """The token is missing, or is not the one that the hold was placed with."""

    reason = "not_owner"
    title = "This is not your reservation"


class HoldWaiting(Refused):
    """The hold waits in line and has no units yet, so there is nothing to confirm."""

    reason = "hold_waiting"
    title = "It is not your turn yet"
    transient = True
    number: int
    """Its number in the line."""


class QuantityExceedsHold(Refused):
    """The request is for more than the `left` units that the hold has."""

    reason = "quantity_exceeds_hold"
    title = "The reservation has less than this"
    left: int


class QuantityExceedsConsumed(Refused):
    """A return by pool asked for more units (`requested`) than are `loose`.

    `consumed` counts all the units that the pool has consumed. Those of holds that are still kept are returned by hold;
    `loose` counts the others, of the account that was named, or of none.
    """

    reason = "quantity_exceeds_consumed"
    title = "This is more than can be returned"
    requested: int
    loose: int
    consumed: int


class NotDue(Refused):
    """The deadline is still in the future."""

    reason = "not_due"
    title = "The reservation has not expired yet"
    deadline: datetime


class NotConfirmed(Refused):
    """Nothing of this hold was confirmed, so there is nothing to return."""

    reason = "not_confirmed"
    title = "This was not completed"


class VersionConflict(Refused):
    """The record or pool is at another `version` than the caller expected."""

    reason = "version_conflict"
    title = "This was changed in the meantime"
    version: int


class PartOfHold(Refused):
    """The claim or item is a leg of a hold that has others too. Confirm or release `hold` as a whole instead."""

    reason = "part_of_hold"
    title = "This is part of a larger reservation"
    hold: str


class Aborted(Refused):
    """Another command of the same atomic batch was refused, so this one was not applied."""

    reason = "aborted"
    title = "Nothing was changed"
    transient = True


def _reasons(family: type[Refused]) -> dict[str, type[Refused]]:
    """Return the class of each reason below a family. The families themselves have none: no refusal is one of them only."""
    reasons: dict[str, type[Refused]] = {}
    for cls in family.__subclasses__():
        reasons |= {cls.reason: cls, **_reasons(cls)} if "reason" in vars(cls) else _reasons(cls)
    return reasons


REFUSALS: Final[dict[str, type[Refused]]] = _reasons(Refused)
"""The class of each reason."""

__all__ = [  # noqa: PLE0604 - ruff cannot tell that they are strings
    *sorted(name for name, value in globals().items() if isinstance(value, type) and issubclass(value, HoldkitError))
]
