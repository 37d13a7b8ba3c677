"""Batches: several commands in one transaction, each answered as a value."""

from __future__ import annotations

from typing import Any, Final

from ... import errors
from ...core import commands as core
from ...core.model import Pool
from ...core.validation import check, invalid
from ...kernel.answers import Answer as Outcome
from ...kernel.context import actor_text, current
from ...kernel.guarding import op_within
from ...kernel.spelling import normalise
from ...kernel.surface import Hold
from .. import bodies
from ..answers import BatchAnswer, CommandAnswer, PoolNow, hold_now, pool_fields
from ..problems import Problem, facts, plain
from ..request import REPLAYED, Answer, Caller, Request, answer
from .shared import legs_of, need_admin


async def apply_batch(request: Request) -> Answer:
    """200, whatever was refused: each command has its own answer."""
    batch: bodies.Batch = request.body
    key = request.op
    if key is None and any(command.op is None for command in batch.commands):
        raise Problem(400, "idempotency_key_required", "send an Idempotency-Key, or give every command its own op")
    limits = request.kernel.limits
    if len(batch.commands) > limits.max_batch:
        raise invalid("commands", "batch_too_large", f"at most {limits.max_batch} commands are allowed")
    prepared = [_command(command, request.caller, key, index) for index, command in enumerate(batch.commands)]
    for command in prepared:
        check(command, limits)
    outcomes = await request.kernel.desk.do_checked(prepared, atomic=batch.atomic, op=key)
    first = outcomes[0]
    if isinstance(first, errors.OperationConflict) and first.details["subject"] == key:
        raise first  # no command has the key itself for its own: it is the batch that is another
    now = request.now()
    answers = [_answered(one, asked, now) for one, asked in zip(outcomes, prepared, strict=True)]
    replayed = key is not None and all(one.replayed for one in answers)
    return answer(BatchAnswer(answers, now), headers=(REPLAYED,) if replayed else ())


def _command(asked: bodies.BatchCommand, caller: Caller, key: str | None, index: int) -> core.AnyCommand:
    """A command of the core, in its one spelling."""
    around = current()
    frame: dict[str, Any] = {
        "tenant": caller.tenant,
        "op": op_within(key, index, asked.op),
        "actor": caller.actor if asked.actor is None else actor_text(asked.actor),
        "correlation_id": around.correlation_id if asked.correlation_id is None else asked.correlation_id,
        "reason": around.reason if asked.reason is None else asked.reason,
    }
    if isinstance(asked, bodies.NewHold | bodies.NewConsume):
        frame |= {name: getattr(asked, name) for name in ("id", "owner", "entity", "metadata")}
        legs = tuple(legs_of(asked, caller))
        if isinstance(asked, bodies.NewHold):
            return normalise(core.PlaceHold(legs=legs, ttl=asked.ttl, deadline=asked.deadline, **frame))
        return normalise(core.Consume(legs=legs, **frame))
    if isinstance(asked, bodies.BatchCreatePool | bodies.BatchResizePool):
        need_admin(caller, "to make or resize pools")
    if isinstance(asked, bodies.BatchRelease) and asked.force:
        need_admin(caller, "force")
    fields = {name: getattr(asked, name) for name in asked.__struct_fields__ if name not in frame}
    return normalise(_KINDS[type(asked)](**fields, **frame))


_KINDS: Final[dict[type[Any], Any]] = {
    bodies.BatchCreatePool: core.CreatePool,
    bodies.BatchResizePool: core.ResizePool,
    bodies.BatchConfirm: core.ConfirmHold,
    bodies.BatchRelease: core.ReleaseHold,
    bodies.BatchExtend: core.ExtendHold,
    bodies.BatchExpire: core.ExpireHold,
    bodies.BatchReturn: core.ReturnUnits,
}


def _answered(outcome: Outcome, asked: core.AnyCommand, now: Any) -> CommandAnswer:
    if isinstance(outcome, Hold):
        secret = isinstance(asked, core.PlaceHold | core.Consume)
        shown = hold_now(outcome, secret, now)
        return CommandAnswer(status="done", hold=shown, replayed=outcome.replayed)
    if isinstance(outcome, Pool):
        shown_pool = PoolNow(**pool_fields(outcome), server_time=now)
        return CommandAnswer(status="done", pool=shown_pool, replayed=outcome.replayed)
    if isinstance(outcome, errors.Refused):
        return CommandAnswer(
            status="refused",
            reason=outcome.reason,
            detail=plain(outcome),
            transient=outcome.transient,
            replayed=outcome.replayed,
            facts=facts(outcome),
        )
    assert isinstance(outcome, errors.InvalidRequest)
    told = {"field": outcome.field, "code": outcome.code}
    return CommandAnswer(status="refused", reason="invalid_request", detail=plain(outcome), transient=False, facts=told)
