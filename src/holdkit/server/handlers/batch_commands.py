"""The commands of a batch, as the core knows them: each in its one spelling, under its operation id. Checks only scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...core import commands as core
from ...kernel.context import Context, actor_text, current
from ...kernel.guarding import op_within
from ...kernel.normalise import normalise
from .. import batch_bodies as bodies
from ..request import Caller
from .shared import legs_of, need_admin

Frame: TypeAlias = dict[str, Any]
"""What every command may carry."""


def commands_of(batch: bodies.Batch, caller: Caller, key: str | None) -> list[core.AnyCommand]:
    """In the order of the batch; `key` is that of the whole."""
    around = current()
    return [
        normalise(_KINDS[type(asked)](asked, caller, _frame(asked, caller, around, op_within(key, index, asked.op))))
        for index, asked in enumerate(batch.commands)
    ]


def _frame(asked: bodies.BatchCommand, caller: Caller, around: Context, op: str | None) -> Frame:
    return {
        "tenant": caller.tenant,
        "op": op,
        "actor": caller.actor if asked.actor is None else actor_text(asked.actor),
        "correlation_id": around.correlation_id if asked.correlation_id is None else asked.correlation_id,
        "reason": around.reason if asked.reason is None else asked.reason,
    }


_POOLS: Final = "to make, resize, remove or archive pools"


def _create_pool(asked: bodies.BatchCreatePool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, _POOLS)
    return core.CreatePool(id=asked.id, total=asked.total, exist_ok=asked.exist_ok, **frame)


def _resize_pool(asked: bodies.BatchResizePool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, _POOLS)
    return core.ResizePool(id=asked.id, total=asked.total, **frame)


def _remove_pool(asked: bodies.BatchRemovePool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, _POOLS)
    return core.RemovePool(id=asked.id, **frame)


def _archive_pool(asked: bodies.BatchArchivePool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, _POOLS)
    return core.ArchivePool(id=asked.id, **frame)


def _unarchive_pool(asked: bodies.BatchUnarchivePool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, _POOLS)
    return core.UnarchivePool(id=asked.id, **frame)


def _hold(asked: bodies.BatchHold, caller: Caller, frame: Frame) -> core.AnyCommand:
    return core.PlaceHold(legs=legs_of(asked, caller), ttl=asked.ttl, deadline=asked.deadline, id=asked.id,
                          owner=asked.owner, entity=asked.entity, metadata=asked.metadata, **frame)  # fmt: skip


def _consume(asked: bodies.BatchConsume, caller: Caller, frame: Frame) -> core.AnyCommand:
    return core.Consume(legs=legs_of(asked, caller), id=asked.id, owner=asked.owner, entity=asked.entity,
                        metadata=asked.metadata, **frame)  # fmt: skip


def _confirm(asked: bodies.BatchConfirm, _caller: Caller, frame: Frame) -> core.AnyCommand:
    return core.ConfirmHold(id=asked.id, owner=asked.owner, entity=asked.entity, quantity=asked.quantity,
                            keep_rest=asked.keep_rest, overage=asked.overage, **frame)  # fmt: skip


def _release(asked: bodies.BatchRelease, caller: Caller, frame: Frame) -> core.AnyCommand:
    if asked.force:
        need_admin(caller, "force")
    return core.ReleaseHold(id=asked.id, owner=asked.owner, quantity=asked.quantity, force=asked.force, **frame)


def _extend(asked: bodies.BatchExtend, _caller: Caller, frame: Frame) -> core.AnyCommand:
    return core.ExtendHold(id=asked.id, owner=asked.owner, by=asked.by, ttl=asked.ttl, until=asked.until, **frame)


def _expire(asked: bodies.BatchExpire, _caller: Caller, frame: Frame) -> core.AnyCommand:
    return core.ExpireHold(id=asked.id, **frame)


def _return(asked: bodies.BatchReturn, caller: Caller, frame: Frame) -> core.AnyCommand:
    if asked.force:
        need_admin(caller, "force")
    return core.ReturnUnits(id=asked.id, owner=asked.owner, quantity=asked.quantity, force=asked.force, **frame)


def _return_to_pool(asked: bodies.BatchReturnToPool, caller: Caller, frame: Frame) -> core.AnyCommand:
    need_admin(caller, "to return units by pool")
    return core.ReturnToPool(id=asked.id, quantity=asked.quantity, force=asked.force, **frame)


_KINDS: Final[dict[type[Any], Callable[[Any, Caller, Frame], core.AnyCommand]]] = {
    bodies.BatchCreatePool: _create_pool,
    bodies.BatchResizePool: _resize_pool,
    bodies.BatchRemovePool: _remove_pool,
    bodies.BatchArchivePool: _archive_pool,
    bodies.BatchUnarchivePool: _unarchive_pool,
    bodies.BatchHold: _hold,
    bodies.BatchConsume: _consume,
    bodies.BatchConfirm: _confirm,
    bodies.BatchRelease: _release,
    bodies.BatchExtend: _extend,
    bodies.BatchExpire: _expire,
    bodies.BatchReturn: _return,
    bodies.BatchReturnToPool: _return_to_pool,
}
