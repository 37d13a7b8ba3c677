"""The exception tree.

Three kinds of "no", never mixed: `Refused` (the world said no; certainly no effect), `InvalidRequest`, `EngineError` and
`Overloaded` (the call or the machinery failed; no effect), and `OutcomeUnknown` (it may or may not have happened: ask
again with the same operation id). Knows nothing of HTTP, engines or the core. Every message begins with ``holdkit: ``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal


class HoldkitError(Exception):
    """Everything Holdkit raises on purpose."""

    effect: ClassVar[Literal["none", "unknown"]] = "none"

    def __init__(self, message: str) -> None:
        super().__init__(message if message.startswith("holdkit: ") else f"holdkit: {message}")

    def __reduce__(self) -> tuple[Any, ...]:  # so that worker pools can carry them home whole
        return _thaw, (type(self), self.args, self.__dict__)


def plain(error: BaseException) -> str:
    """Its message without the prefix: for one that quotes it, and for readers who know whose it is."""
    return str(error).removeprefix("holdkit: ")


def _thaw(cls: type[HoldkitError], args: tuple[Any, ...], fields: dict[str, Any]) -> HoldkitError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidRequest(HoldkitError, ValueError):
    """The call itself is wrong: `field` names the argument, `code` is a stable word for programs."""

    def __init__(self, message: str, *, field: str, code: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.code = field, code


class EngineError(HoldkitError):
    """The machinery failed, and this attempt certainly did nothing."""


class Overloaded(HoldkitError):
    """Turned away before anything was done; try again after about `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 0.1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(HoldkitError):
    """It may or may not have happened. Ask again with the same operation id until done or refused."""

    effect: ClassVar[Literal["none", "unknown"]] = "unknown"


class SagaBusy(Overloaded):
    """Somebody else is driving this saga; `retry_after` is what is left of their lease."""


class SagaParked(HoldkitError):
    """The saga was put aside for an operator: look at it with `sagas.get`, end it with `sagas.resolve`."""

    effect: ClassVar[Literal["none", "unknown"]] = "unknown"


class SagaCancelled(HoldkitError):
    """An operator has cancelled this saga for good: it is not run again, to begin anew takes another id."""


class CursorLost(HoldkitError):
    """The journal no longer holds what this cursor had seen (restored, failed over, pruned): start anew on purpose.

    `missing` is how many entries at least are gone that were shown, where that is known; else 0.
    """

    def __init__(self, message: str, *, missing: int = 0) -> None:
        super().__init__(message)
        self.missing = missing


class PromiseBroken(HoldkitError):
    """A bug of ours: an invariant does not hold. Nothing was written; please report it."""


class Refused(HoldkitError):
    """Refused by the rules, with certainly no effect. Each reason has its own subclass.

    `transient` says whether the same request may succeed later; `details` are the facts behind the refusal, and each
    is an attribute too (``refusal.available``).
    """

    reason: ClassVar[str] = "refused"
    transient: bool = False

    def __init__(self, message: str = "", *, replayed: bool = False, **details: Any) -> None:
        super().__init__(f"{self.reason}: {message}" if message else self.reason)
        self.replayed = replayed
        self.details = details

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class OperationConflict(Refused):
    """The operation id was used before with another payload."""

    reason = "operation_conflict"


class OperationTableFull(Refused):
    """No room to remember this operation id, so it was not begun."""

    reason = "operation_table_full"
    transient = True


class PoolExists(Refused):
    """A pool of this id is there already."""

    reason = "pool_exists"


class PoolTableFull(Refused):
    """The engine's bound on pools is reached."""

    reason = "pool_table_full"
    transient = True


class PoolNotFound(Refused):
    """There is no pool of this id."""

    reason = "pool_not_found"


class PoolArchived(Refused):
    """The pool was archived: nothing more is granted on it until it is unarchived."""

    reason = "pool_archived"


class WindowClosed(Refused):
    """The command was decided at a slot outside the window it was meant for. A window that is over stays so."""

    reason = "window_closed"


class PoolInUse(Refused):
    """Something of the pool is held or consumed, so it cannot be removed."""

    reason = "pool_in_use"


class BelowInUse(Refused):
    """The new total would lie under what is held and consumed."""

    reason = "below_in_use"


class SlotOverflow(Refused):
    """The deadline lies beyond the last slot, 2^63 - 1."""

    reason = "slot_overflow"


class DeadlinePassed(Refused):
    """The deadline asked for is not in the future."""

    reason = "deadline_passed"


class LifetimeExceeded(Refused):
    """The hold would live longer than `max_lifetime` from the moment it was placed."""

    reason = "lifetime_exceeded"


class HoldExists(Refused):
    """A hold of this id is there already."""

    reason = "hold_exists"


class HoldTableFull(Refused):
    """The engine's bound on live holds is reached."""

    reason = "hold_table_full"
    transient = True


class InsufficientCapacity(Refused):
    """At least one pool has less available than was asked for; `shortfalls` names every one."""

    reason = "insufficient_capacity"
    transient = True


class HoldNotFound(Refused):
    """There is no hold of this id."""

    reason = "hold_not_found"


class HoldRetired(Refused):
    """The hold ended longer ago than it is kept; its story is in the journal."""

    reason = "hold_retired"


class NotOwner(Refused):
    """The owner token is missing or not the one the hold was placed with."""

    reason = "not_owner"


class AlreadyConfirmed(Refused):
    """The hold was confirmed before."""

    reason = "already_confirmed"


class AlreadyReleased(Refused):
    """The hold was released before."""

    reason = "already_released"


class HoldExpired(Refused):
    """The deadline came first; the units are free for others."""

    reason = "hold_expired"


class QuantityExceedsHold(Refused):
    """More was asked for than the hold has."""

    reason = "quantity_exceeds_hold"


class QuantityExceedsConsumed(Refused):
    """More was to be returned by pool than is `loose` there: the rest of what is `consumed` comes back by its holds."""

    reason = "quantity_exceeds_consumed"


class NotDue(Refused):
    """The deadline lies in the future."""

    reason = "not_due"


class NotConfirmed(Refused):
    """Nothing of this hold was confirmed, so there is nothing to return."""

    reason = "not_confirmed"


class VersionConflict(Refused):
    """The record or pool has another version than the caller had seen."""

    reason = "version_conflict"


class AlreadyClaimed(Refused):
    """Somebody else has the key: `claim` is its id, `state` held or confirmed.

    Of one that is held `remaining` are the seconds until it is free, `deadline` is the slot and `deadline_at` the time at
    which it is. One that was confirmed is taken for ever: all three are None, and the refusal is not transient.
    """

    reason = "already_claimed"
    transient = True

    def __init__(self, message: str = "", *, replayed: bool = False, **details: Any) -> None:
        super().__init__(message, replayed=replayed, **details)
        self.transient = details.get("state") != "confirmed"


class ItemsTaken(Refused):
    """Items that were asked for are not available; `taken` names every one."""

    reason = "items_taken"
    transient = True


class PartOfHold(Refused):
    """The claim or item is a leg of a combined hold, `hold`, and ends with that."""

    reason = "part_of_hold"


class Aborted(Refused):
    """Another command of the same atomic batch was refused, so this one was not applied."""

    reason = "aborted"
    transient = True
