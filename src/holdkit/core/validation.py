"""Validation: every field of every command is checked before anything is decided.

Raises `InvalidRequest` naming the field, with a stable code and the limit. Never echoes a value that may be secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import InvalidRequest, plain
from .commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    Command,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    FeedLine,
    HoldCommand,
    JoinLine,
    LeaveLine,
    LimitPool,
    PlaceHold,
    PoolCommand,
    PutRecord,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from .limits import check_change
from .model import MAX_QUANTITY, MAX_SLOT, SECOND, Leg, Limits
from .outcomes import Invalid
from .trees import SEPARATOR, all_pools
from .values import (
    MAX_ENTITY,
    MAX_ID,
    MAX_OP,
    MAX_TENANT,
    MAX_TEXT,
    MAX_TOKEN,
    amounts,
    answered_total,
    flag,
    for_faces,
    forced,
    hold_id,
    invalid,
    json_text,
    metadata,
    pool_id,
    pool_label,
    text,
    whole,
    window,
)

__all__ = ["check", "flag", "hold_id", "invalid", "metadata", "pool_id", "text", "whole"]

MAX_SWEEP: Final = 10_000


def check(command: AnyCommand, limits: Limits, *, faces: bool = False) -> None:
    """Check every field of a normalised command; only the faces may name reserved ids."""
    checker = _CHECKERS.get(type(command))
    if checker is None:
        raise invalid("command", "command_unknown", f"{type(command).__name__} is not a command")
    _check_context(command)
    checker(command, limits, faces)


def _check_context(command: Command) -> None:
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
    if (owner := getattr(command, "owner", None)) is not None:
        text(owner, "owner", MAX_TOKEN)


def _check_place(command: PlaceHold, limits: Limits, faces: bool) -> None:
    _check_legs(command.legs, limits, faces)
    _check_birth(command)
    _check_deadline(command, limits)
    if command.wait_slots is not None or command.offer_slots is not None:
        _check_wait(command)


def _check_consume(command: Consume, limits: Limits, faces: bool) -> None:
    _check_legs(command.legs, limits, faces)
    _check_birth(command)


def _check_join(command: JoinLine, limits: Limits, faces: bool) -> None:
    _check_legs(command.legs, limits, faces)
    _check_birth(command)
    _check_line(command.legs)
    for field, span in (("ttl", command.ttl_slots), ("offer_ttl", command.offer_slots)):
        if span is None:
            raise invalid(
                field, f"{field}_required", "say how long to wait (ttl), and how long an offer stands (offer_ttl)"
            )
        _check_span(span, field, limits)


def _check_line(legs: tuple[Leg, ...]) -> None:
    """Whether anybody can wait for these legs."""
    if len(legs) != 1:
        raise invalid("legs", "line_of_several", f"only one pool can be waited for, not {len(legs)} at once")
    leg = legs[0]
    if leg.pool[0] == "~" or SEPARATOR in leg.pool or leg.create_with_total is not None:
        why = "a line stands only at a pool made by create_pool, and at none that is below another"
        raise invalid("pool", "pool_without_line", why)


def _check_wait(command: PlaceHold) -> None:
    """A hold that may wait: the kernel says how long a place in line and an offer stand."""
    _check_line(command.legs)
    if command.ttl_slots is None:
        raise invalid("ttl", "ttl_required", "a hold that may wait needs a ttl, which begins with its grant")
    for field in ("wait_slots", "offer_slots"):
        whole(getattr(command, field), field, 1, MAX_SLOT)


def _check_confirm(command: ConfirmHold, limits: Limits, faces: bool) -> None:
    _check_named(command, limits, faces)
    amounts(command.quantity, some=not command.others_as_held)
    for_faces(command.others_as_held, "others_as_held", faces)
    for_faces(command.late_overage, "late_overage", faces)
    _check_entity(command.entity)
    flag(command.keep_rest, "keep_rest")
    forced(command.force, command.reason, "confirm")
    if command.overage not in ("reject", "if_available", "up_to_available"):
        raise invalid("overage", "overage_unknown", "must be reject, if_available or up_to_available")


def _check_release(command: ReleaseHold, limits: Limits, faces: bool) -> None:
    _check_named(command, limits, faces)
    amounts(command.quantity)
    forced(command.force, command.reason, "release")


def _check_return(command: ReturnUnits, limits: Limits, faces: bool) -> None:
    _check_named(command, limits, faces)
    amounts(command.quantity)
    forced(command.force, command.reason, "return")


def _check_return_to_pool(command: ReturnToPool, _limits: Limits, faces: bool) -> None:
    pool_id(command.id, "pool", faces=faces)
    whole(command.quantity, "quantity", 1, MAX_QUANTITY)
    forced(command.force, command.reason, "return")
    if not command.force:
        raise invalid("force", "force_required", "a return by pool asks for nobody's token: say force=True, and why")
    if command.account is not None:
        text(command.account, "account", MAX_ENTITY)


def _check_leave(command: LeaveLine, limits: Limits, faces: bool) -> None:
    _check_named(command, limits, faces)
    if command.placed_op is not None:
        text(command.placed_op, "placed_op", MAX_OP)


def _check_named(command: HoldCommand, _limits: Limits, faces: bool) -> None:
    hold_id(command.id)
    for_faces(getattr(command, "trusted", False), "trusted", faces)


def _check_pool(command: PoolCommand, _limits: Limits, faces: bool) -> None:
    pool_id(command.id, "id", faces=faces)
    if isinstance(command, CreatePool | ResizePool):
        whole(command.total, "total", 0, MAX_QUANTITY)
    if isinstance(command, CreatePool | LimitPool) and command.per_account is not None:
        whole(command.per_account, "per_account", 1, MAX_QUANTITY)
    if isinstance(command, CreatePool):
        flag(command.exist_ok, "exist_ok")
        if command.line not in ("strict", "skip"):
            raise invalid("line", "line_unknown", "must be strict or skip")
        if command.label is not None:
            pool_label(command.label, faces=faces)
        for_faces(command.on_demand, "on_demand", faces, "is for faces: give a leg create_with_total instead")
    elif isinstance(command, ResizePool | LimitPool) and command.if_version is not None:
        whole(command.if_version, "if_version", 1, MAX_QUANTITY)


def _check_sweep(command: Sweep, _limits: Limits, _faces: bool) -> None:
    whole(command.limit, "limit", 1, MAX_SWEEP)


def _check_entity(entity: object) -> None:
    if entity is not None:
        text(entity, "entity", MAX_ENTITY)


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
        if leg.label is not None:
            pool_label(leg.label, faces=faces)
        if leg.opens is not None or leg.closes is not None:
            window(leg.opens, leg.closes, faces=faces)
        if leg.total is not None or leg.in_use is not None:
            answered_total(leg.total, leg.in_use, faces=faces)
        if leg.pool in seen:
            name = f"pool {leg.pool!r}" if leg.label is None else repr(leg.label)
            raise invalid("legs", "pool_twice", f"{name} is named twice")
        seen.add(leg.pool)
        if SEPARATOR in leg.pool:
            below = True
    if below and len(all_pools(legs)) > limits.max_legs:
        raise invalid("legs", "legs_too_many", f"move more than {limits.max_legs} pools, with those above them")


def _check_birth(command: PlaceHold | Consume | JoinLine) -> None:
    if command.account is not None:
        text(command.account, "account", MAX_ENTITY)
    if command.force is not False:
        forced(command.force, command.reason, "hold")
    if command.id is not None:
        hold_id(command.id)
    _check_entity(command.entity)
    if command.metadata is not None:
        metadata(command.metadata)


def _check_deadline(command: PlaceHold, limits: Limits) -> None:
    if command.ttl_slots is not None and command.deadline is not None:
        raise invalid("deadline", "deadline_ambiguous", "give a ttl or a deadline, not both")
    if command.ttl_slots is not None:
        _check_span(command.ttl_slots, "ttl", limits)
    elif command.deadline is not None:
        if type(command.deadline) is not int:
            raise invalid("deadline", "deadline_malformed", "must be a slot or an aware datetime")
    elif not any(leg.pool.startswith("~") for leg in command.legs):
        raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")


def _check_extension(command: ExtendHold, limits: Limits, faces: bool) -> None:
    _check_named(command, limits, faces)
    for_faces(command.forever, "forever", faces)
    forced(command.force, command.reason, "extension")
    given = [name for name in ("by_slots", "ttl_slots", "until") if getattr(command, name) is not None]
    if len(given) + command.forever != 1:
        raise invalid("by", "by_required" if not given else "by_ambiguous", "give exactly one of by, ttl or until")
    if given and command.until is None:
        _check_span(command.ttl_slots if command.by_slots is None else command.by_slots, given[0][:-6], limits)
    elif given and type(command.until) is not int:
        raise invalid("until", "until_malformed", "must be a slot or an aware datetime")


def _check_span(slots: object, field: str, limits: Limits) -> None:
    if type(slots) is not int:
        raise invalid(field, f"{field}_malformed", "must be seconds, a timedelta, or text such as '90s', '5m', '2h'")
    if slots < limits.min_ttl:
        least = "more than 0" if limits.min_ttl <= 1 else f"at least {limits.min_ttl / SECOND:.12g} s"
        raise invalid(field, f"{field}_too_short", f"must be {least}")
    if slots > limits.max_ttl:
        raise invalid(field, f"{field}_too_long", f"must be at most {limits.max_ttl / SECOND:.12g} s")


def _check_record(command: PutRecord, _limits: Limits, faces: bool) -> None:
    kind = text(command.kind, "kind", 64)
    if kind[0] == "~" and not faces:
        raise invalid("kind", "kind_reserved", "kinds that begin with ~ are reserved")
    if "/" in kind:
        raise invalid("kind", "kind_malformed", "must not contain /")
    text(command.id, "id", MAX_ID)
    if command.if_version is not None:
        whole(command.if_version, "if_version", 0, MAX_QUANTITY)
    if command.body is not None:
        json_text(command.body, "body")


_CHECKERS: Final[dict[type[Any], Callable[[Any, Limits, bool], None]]] = {
    PlaceHold: _check_place,
    Consume: _check_consume,
    ConfirmHold: _check_confirm,
    ReleaseHold: _check_release,
    ExtendHold: _check_extension,
    ReturnUnits: _check_return,
    ReturnToPool: _check_return_to_pool,
    ExpireHold: _check_named,
    JoinLine: _check_join,
    LeaveLine: _check_leave,
    **dict.fromkeys((CreatePool, ResizePool, LimitPool, RemovePool, ArchivePool, UnarchivePool, FeedLine), _check_pool),
    PutRecord: _check_record,
    ChangeLimits: check_change,
    Sweep: _check_sweep,
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
"""The codes of what a stored limit refuses."""


def unfit_for(command: AnyCommand, limits: Limits) -> Invalid | None:
    """Why a command that was checked under other limits does not fit these; None if it does."""
    try:
        check(command, limits, faces=True)
    except InvalidRequest as error:
        return Invalid(error.field, error.code, plain(error).removeprefix(f"{error.field}: "))
    return None
