"""Batches: several commands in one transaction, each answered as a value."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ... import errors
from ...core.commands import AnyCommand, Consume, PlaceHold
from ...core.model import Pool
from ...core.validation import invalid
from ...kernel.answers import Answer as Outcome
from ...kernel.results import Hold
from .. import batch_bodies as bodies
from ..answers import BatchAnswer, CommandAnswer, PoolNow, hold_now, pool_fields
from ..problems import Problem, facts, plain
from ..request import REPLAYED, Answer, Request, answer
from .batch_commands import commands_of

_BIRTHS: Final = (PlaceHold, Consume)  # a tuple: a union would be built anew for every answer


async def apply_batch(request: Request) -> Answer:
    """200, whatever was refused: each command has its own answer."""
    batch: bodies.Batch = request.body
    key = request.op
    if key is None and any(command.op is None for command in batch.commands):
        raise Problem(400, "idempotency_key_required", "send an Idempotency-Key, or give every command its own op")
    limits = request.kernel.executor.limits
    if len(batch.commands) > limits.max_batch:
        raise invalid("commands", "batch_too_large", f"at most {limits.max_batch} commands are allowed")
    prepared = commands_of(batch, request.caller, key)
    outcomes = await request.kernel.executor.execute_framed(prepared, atomic=batch.atomic, op=key)
    first = outcomes[0]
    if isinstance(first, errors.OperationConflict) and first.subject == key:
        raise first  # no command has the key itself for its own: it is the batch that is another
    now = request.now()
    answers = [_answered(one, asked, now) for one, asked in zip(outcomes, prepared, strict=True)]
    replayed = key is not None and all(one.replayed for one in answers)
    return answer(BatchAnswer(answers, now), headers=(REPLAYED,) if replayed else ())


def _answered(outcome: Outcome, asked: AnyCommand, now: datetime) -> CommandAnswer:
    if isinstance(outcome, Hold):
        secret = isinstance(asked, _BIRTHS)
        shown = hold_now(outcome, now, secret=secret)
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
