"""The steps of a history as the commands of the product, as callers and operators would send them."""

from __future__ import annotations

from typing import Any

from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ConfirmHold,
    ExpireHold,
    ExtendHold,
    JoinLine,
    LeaveLine,
    LimitPool,
    PlaceHold,
    ReleaseHold,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    UnarchivePool,
)
from holdkit.core.commands import (
    Consume as ConsumeCommand,
)
from holdkit.core.model import Leg
from tests.support.line_model.steps import (
    Archive,
    CommandStep,
    Confirm,
    Consume,
    Expire,
    Extend,
    Join,
    Leave,
    Limit,
    Place,
    Release,
    ReleaseInTransaction,
    Resize,
    Return,
    ReturnLoose,
    Unarchive,
)


class Sender:
    """Whoever sends the steps of one history: remembers which pool each hold names first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def command(self, step: CommandStep) -> AnyCommand:
        """A step as the command that a caller would send."""
        match step:
            case Place() | Consume() | Join():
                return self._new_hold(step)
            case Confirm():
                amount = self._amount(step.id, step.quantity)
                return ConfirmHold(quantity=amount, overage=step.overage, keep_rest=step.keep_rest, **named(step.id))
            case Release():
                return ReleaseHold(quantity=self._amount(step.id, step.quantity), **named(step.id))
            case ReleaseInTransaction():
                return ReleaseHold(**named(step.id))
            case Leave():
                return LeaveLine(**named(step.id))
            case Extend():
                return ExtendHold(by_slots=step.by, **named(step.id))
            case Expire():
                return ExpireHold(id=hold_id(step.id))
            case Return():
                return ReturnUnits(quantity=self._amount(step.id, step.quantity), **named(step.id))
            case _:
                return pool_command(step)

    def _new_hold(self, step: Place | Consume | Join) -> AnyCommand:
        units = {step.pool: step.quantity} if isinstance(step, Join) else step.legs
        self._first[step.id] = min(units)
        said: dict[str, Any] = {"legs": tuple(Leg(pool, count) for pool, count in units.items()), **named(step.id)}
        said |= {"account": step.account, "force": step.force, "reason": "box office" if step.force else None}
        match step:
            case Consume():
                return ConsumeCommand(**said)
            case Join():
                return JoinLine(ttl_slots=step.ttl, offer_slots=step.offer_ttl, **said)
        offer_ttl = None if step.wait is None else step.offer_ttl
        return PlaceHold(ttl_slots=step.ttl, wait_slots=step.wait, offer_slots=offer_ttl, **said)

    def _amount(self, name: str, quantity: int | None) -> dict[str, int] | None:
        """An amount of the first leg by name. (Of a hold that never was, any: it must not matter.)"""
        return None if quantity is None else {self._first.get(name, "G"): quantity}


def pool_command(step: CommandStep) -> AnyCommand:
    """A step on a pool as the command that an operator would send."""
    match step:
        case ReturnLoose():
            return ReturnToPool(id=step.pool, quantity=step.quantity, account=step.account, force=True, reason="refund")
        case Resize():
            return ResizePool(id=step.pool, total=step.total)
        case Limit():
            return LimitPool(id=step.pool, per_account=step.per_account)
        case Archive():
            return ArchivePool(id=step.pool)
        case Unarchive():
            return UnarchivePool(id=step.pool)
    raise AssertionError(step)


def hold_id(name: str) -> str:
    """A readable name as a 128-bit id that does not look minted."""
    return f"{int.from_bytes(name.encode(), 'big'):032x}"


def name_of(hold: str) -> str:
    """And back."""
    return bytes.fromhex(hold).lstrip(b"\0").decode()


def named(name: str) -> dict[str, Any]:
    """The id of a hold, and its token."""
    return {"id": hold_id(name), "token": f"owner of {name}"}
