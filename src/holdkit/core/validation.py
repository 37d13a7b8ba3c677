"""Validation: every field of every command is checked before anything is decided.

Raises `InvalidRequest` naming the field, with a stable code and the limit. Never echoes a value that may be secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import InvalidRequest, plain
from . import commands
from .bounds import Limits
from .command_kinds import HoldCommand, Placing, kinds_of
from .commands import AnyCommand, JoinLine, PlaceHold
from .face_legs import FaceLeg
from .limits import check_change, for_keys, places_key
from .model import MAX_QUANTITY, MAX_SLOT, Leg
from .outcomes import Invalid
from .standing_checks import (
    check_confirm,
    check_extension,
    check_leave,
    check_named,
    check_pool,
    check_record,
    check_release,
    check_return,
    check_return_to_pool,
    check_sweep,
)
from .trees import SEPARATOR, all_pools
from .values import (
    MAX_ENTITY,
    MAX_OP,
    MAX_TENANT,
    MAX_TEXT,
    MAX_TOKEN,
    answered_total,
    flag,
    forced,
    hold_id,
    invalid,
    metadata,
    plain_id,
    pool_id,
    pool_label,
    span,
    text,
    whole,
    window,
)

__all__ = ["check", "flag", "hold_id", "invalid", "metadata", "pool_id", "text", "whole"]


def check(command: AnyCommand, limits: Limits, *, faces: bool | None = False) -> None:
    """Check every field of a normalised command. Only a command that `faces` have made may name reserved ids; None: its legs say whether
    faces have made some of them."""
    checker = _CHECKERS.get(type(command))
    if checker is None:
        raise invalid("command", "command_unknown", f"{type(command).__name__} is not a command")
    if faces is None:
        faces = combined(command)
    if command.op is not None:
        text(command.op, "op", MAX_OP)
    if command.tenant != "":
        text(command.tenant, "tenant", MAX_TENANT)
    if command.actor is not None:
        text(command.actor, "actor", MAX_TEXT)
    if command.correlation_id is not None:
        text(command.correlation_id, "correlation_id", MAX_TEXT)
    if command.reason is not None:
        text(command.reason, "reason", MAX_TEXT)
    if (token := getattr(command, "token", None)) is not None:
        text(token, "token", MAX_TOKEN)
    checker(command, limits, faces)


def combined(command: AnyCommand) -> bool:
    """Return whether faces have made some of the legs. The others must not use reserved names, and there must be a deadline."""
    legs: Any = command.legs if command.names == "legs" else ()
    if not isinstance(legs, tuple) or (len(legs) == 1 and type(legs[0]) is Leg) or FaceLeg not in map(type, legs):
        return False
    for leg in legs:
        if type(leg) is FaceLeg or not isinstance(leg, Leg):
            continue  # a face's leg, or not a leg at all, which the check that follows refuses
        if str(leg.pool).startswith("~"):
            raise invalid("pool", "pool_reserved", "ids that begin with ~ are reserved")
    if isinstance(command, PlaceHold) and command.ttl_slots is None and command.deadline is None:
        raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
    return True


def _check_place(command: PlaceHold, limits: Limits, faces: bool) -> None:
    _check_birth(command, limits, faces)
    if command.ttl_slots is not None and command.deadline is not None:
        raise invalid("deadline", "deadline_ambiguous", "give a ttl or a deadline, not both")
    if command.ttl_slots is not None:
        if type(command.ttl_slots) is not int or not limits.min_ttl <= command.ttl_slots <= limits.max_ttl:
            span(command.ttl_slots, "ttl", limits)
        if command.ttl_slots > limits.max_claim_ttl and places_key(command.legs):
            raise invalid("ttl", "ttl_too_long", for_keys(limits))
    elif command.deadline is not None:
        if type(command.deadline) is not int:
            raise invalid("deadline", "deadline_malformed", "must be a slot or an aware datetime")
    elif not any(leg.pool.startswith("~") for leg in command.legs):
        raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
    if command.wait_slots is not None or command.offer_slots is not None:
        _check_wait(command)


def _check_join(command: JoinLine, limits: Limits, faces: bool) -> None:
    _check_birth(command, limits, faces)
    _check_line(command.legs)
    for field, slots in (("ttl", command.ttl_slots), ("offer_ttl", command.offer_slots)):
        if slots is None:
            raise invalid(
                field, f"{field}_required", "say how long to wait (ttl), and how long an offer stands (offer_ttl)"
            )
        span(slots, field, limits)


def _check_line(legs: tuple[Leg, ...]) -> None:
    """Check that a hold can wait for these legs."""
    if len(legs) != 1:
        raise invalid("legs", "line_of_several", f"only one pool can be waited for, not {len(legs)} at once")
    leg = legs[0]
    if leg.pool[0] == "~" or SEPARATOR in leg.pool or leg.create_with_total is not None:
        why = "a line stands only at a pool that was created as one, not on demand, and that is below no other"
        raise invalid("pool", "pool_without_line", why)


def _check_wait(command: PlaceHold) -> None:
    """Check a hold that may wait: the kernel says how long a place in line and an offer stand."""
    _check_line(command.legs)
    if command.ttl_slots is None:
        raise invalid("ttl", "ttl_required", "a hold that may wait needs a ttl, which begins with its grant")
    for field, slots in (("wait", command.wait_slots), ("offer_ttl", command.offer_slots)):
        if type(slots) is int and slots < 1:
            raise invalid(field, f"{field}_too_short", "must be more than 0")
        whole(slots, field, 1, MAX_SLOT)


def _check_legs(legs: object, limits: Limits, faces: bool) -> None:
    if not isinstance(legs, tuple) or not legs:
        raise invalid("legs", "legs_required", "at least one pool must be named")
    if len(legs) > limits.max_legs:
        raise invalid("legs", "legs_too_many", f"{len(legs)} legs, at most {limits.max_legs} are allowed")
    seen: set[str] = set()
    below = False
    for leg in legs:
        if not isinstance(leg, Leg):
            raise invalid("legs", "leg_malformed", f"must be a Leg, not {type(leg).__name__}")
        pool_id(leg.pool, "pool", faces=faces)
        whole(leg.quantity, "quantity", 1, MAX_QUANTITY)
        if leg.create_with_total is not None:
            whole(leg.create_with_total, "create_with_total", 0, MAX_QUANTITY)
        label = _check_face_leg(leg, faces) if isinstance(leg, FaceLeg) else None
        if leg.pool in seen:
            name = f"pool {leg.pool!r}" if label is None else repr(label)
            raise invalid("legs", "pool_twice", f"{name} is named twice")
        seen.add(leg.pool)
        if SEPARATOR in leg.pool:
            below = True
    if below and len(all_pools(legs)) > limits.max_legs:
        raise invalid("legs", "legs_too_many", f"move more than {limits.max_legs} pools, with those above them")


def _check_face_leg(leg: FaceLeg, faces: bool) -> str | None:
    """Check the fields that only a leg of a face has."""
    if leg.label is not None:
        pool_label(leg.label, faces=faces)
    if leg.opens is not None or leg.closes is not None:
        window(leg.opens, leg.closes, faces=faces)
    if leg.total is not None or leg.in_use is not None:
        answered_total(leg.total, leg.in_use, faces=faces)
    return leg.label


def _plain(leg: object) -> bool:
    """Return whether a leg is a valid quantity of a valid pool, which is in no tree and not a face's, and nothing else."""
    return (
        type(leg) is Leg
        and type(leg.pool) is str
        and plain_id(leg.pool)
        and type(leg.quantity) is int
        and 0 < leg.quantity <= MAX_QUANTITY
        and leg.create_with_total is None
    )


def _check_birth(command: Placing, limits: Limits, faces: bool) -> None:
    legs: object = command.legs
    if type(legs) is not tuple or len(legs) != 1 or not _plain(legs[0]):  # what is plain is the usual case, and fast
        _check_legs(legs, limits, faces)
    if command.account is not None:
        text(command.account, "account", MAX_ENTITY)
    if command.force is not False:
        forced(command.force, command.reason, "hold")
    if command.id is not None:
        hold_id(command.id)
    if command.entity is not None:
        text(command.entity, "entity", MAX_ENTITY)
    if command.metadata is not None:
        metadata(command.metadata)


_CHECKERS: Final[dict[type[Any], Callable[[Any, Limits, bool], None]]] = {
    **dict.fromkeys(kinds_of(HoldCommand), check_named),
    commands.PlaceHold: _check_place,
    commands.Consume: _check_birth,
    commands.ConfirmHold: check_confirm,
    commands.ReleaseHold: check_release,
    commands.ExtendHold: check_extension,
    commands.ReturnUnits: check_return,
    commands.ReturnToPool: check_return_to_pool,
    commands.JoinLine: _check_join,
    commands.LeaveLine: check_leave,
    **dict.fromkeys((commands.CreatePool, commands.ResizePool, commands.LimitPool, commands.RemovePool), check_pool),
    **dict.fromkeys((commands.ArchivePool, commands.UnarchivePool, commands.FeedLine), check_pool),
    commands.PutRecord: check_record,
    commands.ChangeLimits: check_change,
    commands.Sweep: check_sweep,
}


BY_LIMITS: Final = frozenset(
    {
        "ttl_too_long",
        "ttl_too_short",
        "offer_ttl_too_long",
        "offer_ttl_too_short",
        "by_too_long",
        "by_too_short",
        "legs_too_many",
    }
)
"""The codes with which a stored limit refuses."""


def unfit_for(command: AnyCommand, limits: Limits) -> Invalid | None:
    """Return why a command that was checked under other limits does not fit these; None if it does."""
    try:
        check(command, limits, faces=True)
    except InvalidRequest as error:
        return Invalid(error.field, error.code, plain(error).removeprefix(f"{error.field}: "))
    return None
