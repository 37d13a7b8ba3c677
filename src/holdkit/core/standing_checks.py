"""Validation of commands about a hold that exists, a pool, or a record.

A field that has its default is passed over here, without a call: most commands say little.
"""

from __future__ import annotations

from typing import Final

from .bounds import Limits
from .command_kinds import HoldCommand, PoolCommand
from .commands import (
    ConfirmHold,
    CreatePool,
    ExtendHold,
    LeaveLine,
    LimitPool,
    PutRecord,
    ReleaseHold,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
)
from .model import MAX_QUANTITY
from .values import (
    MAX_ENTITY,
    MAX_ID,
    MAX_OP,
    amounts,
    flag,
    for_faces,
    forced,
    hold_id,
    invalid,
    json_text,
    pool_id,
    pool_label,
    span,
    text,
    whole,
)

MAX_SWEEP: Final = 10_000


def check_confirm(command: ConfirmHold, limits: Limits, faces: bool) -> None:
    check_named(command, limits, faces)
    if command.quantity is not None:
        amounts(command.quantity, some=not command.others_as_held)
    if command.others_as_held is not False:
        for_faces(command.others_as_held, "others_as_held", faces)
    if command.late_overage is not False:
        for_faces(command.late_overage, "late_overage", faces)
    if command.entity is not None:
        text(command.entity, "entity", MAX_ENTITY)
    if command.keep_rest is not False:
        flag(command.keep_rest, "keep_rest")
    if command.overage not in ("reject", "if_available", "up_to_available"):
        raise invalid("overage", "overage_unknown", "must be reject, if_available or up_to_available")


def check_release(command: ReleaseHold, limits: Limits, faces: bool) -> None:
    check_named(command, limits, faces)
    if command.quantity is not None:
        amounts(command.quantity)


def check_return(command: ReturnUnits, limits: Limits, faces: bool) -> None:
    check_named(command, limits, faces)
    amounts(command.quantity)


def check_return_to_pool(command: ReturnToPool, _limits: Limits, faces: bool) -> None:
    pool_id(command.id, "pool", faces=faces)
    whole(command.quantity, "quantity", 1, MAX_QUANTITY)
    forced(command.force, command.reason, "return")
    if not command.force:
        raise invalid("force", "force_required", "a return by pool asks for nobody's token: say force=True, and why")
    if command.account is not None:
        text(command.account, "account", MAX_ENTITY)


def check_leave(command: LeaveLine, limits: Limits, faces: bool) -> None:
    check_named(command, limits, faces)
    if command.placed_op is not None:
        text(command.placed_op, "placed_op", MAX_OP)


def check_named(command: HoldCommand, _limits: Limits, faces: bool) -> None:
    """Check the fields that several commands about a hold share; commands without a check of their own need no other."""
    hold_id(command.id)
    if (force := getattr(command, "force", False)) is not False:
        forced(force, command.reason, command.verb)
    if (account := getattr(command, "account", None)) is not None:
        text(account, "account", MAX_ENTITY)
    if (trusted := getattr(command, "trusted", False)) is not False:
        for_faces(trusted, "trusted", faces)


def check_pool(command: PoolCommand, _limits: Limits, faces: bool) -> None:
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


def check_sweep(command: Sweep, _limits: Limits, _faces: bool) -> None:
    whole(command.limit, "limit", 1, MAX_SWEEP)


def check_extension(command: ExtendHold, limits: Limits, faces: bool) -> None:
    check_named(command, limits, faces)
    if command.forever is not False:
        for_faces(command.forever, "forever", faces)
    given = [name for name in ("by_slots", "ttl_slots", "until") if getattr(command, name) is not None]
    if len(given) + command.forever != 1:
        raise invalid("by", "by_required" if not given else "by_ambiguous", "give exactly one of by, ttl or until")
    if given and command.until is None:
        span(command.ttl_slots if command.by_slots is None else command.by_slots, given[0][:-6], limits)
    elif given and type(command.until) is not int:
        raise invalid("until", "until_malformed", "must be a slot or an aware datetime")


def check_record(command: PutRecord, _limits: Limits, faces: bool) -> None:
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
