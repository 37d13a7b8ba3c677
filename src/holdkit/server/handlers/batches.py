"""Batches: several commands in one transaction, each with its own answer."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeAlias

from ... import errors
from ...core import commands as core
from ...core.commands import AnyCommand
from ...core.model import Leg, Slot
from ...core.pages import hold_bytes
from ...core.validation import invalid
from ...kernel.answers import Answer as Outcome
from ...kernel.arguments import Context, actor_text, current
from ...kernel.pool import Pool
from ...kernel.prepare import normalise, op_within
from ...kernel.results import Hold
from ...wire import batches as bodies
from ...wire.batches import BatchAnswer, CommandAnswer
from ...wire.fields import Body, at
from ...wire.holds import hold_now
from ...wire.pools import pool_now
from ...wire.problems import REPLAYED, Facts, Problem, detail_of, facts, plain
from ..keys import VERBS
from ..request import Answer, Caller, Request
from .holds import legs_of

SLICE: Final = 100
"""Commands after which a batch that is being prepared gives other requests a turn on the event loop."""


async def batch(request: Request) -> Answer:
    """Apply several commands. Answer 200 even if commands were refused: each command has its own answer."""
    batch: bodies.Batch = request.body
    key = request.op
    if key is None and any(command.op is None for command in batch.commands):
        raise Problem(
            400, "idempotency_key_required", "send an Idempotency-Key header, or give every command its own op"
        )
    most = min(request.running.settings.requests.max_batch, request.kernel._executor.limits.max_batch)
    if len(batch.commands) > most:
        raise invalid("commands", "batch_too_large", f"a batch may have at most {most} commands")
    prepared = await commands_of(batch, request, key)
    outcomes = await request.kernel._executor.execute_prepared(prepared, atomic=batch.atomic, op=key)
    first = outcomes[0]
    if isinstance(first, errors.OperationConflict) and first.subject == key:
        raise first  # commands have derived ids: the conflict is that of the whole batch
    for one, asked in zip(outcomes, prepared, strict=True):
        if isinstance(one, errors.Refused):
            legs = getattr(asked, "legs", ())
            request.running.rollups.refused(request.caller.tenant, one, [leg.pool for leg in legs])
    slot = request.running.clock()
    now = at(slot)
    named = [one for one, asked in zip(outcomes, prepared, strict=True) if asked.names != "legs"]
    request.work.charge_legs(sum([len(one.raw.legs) - 1 for one in named if isinstance(one, Hold)]))
    replayed = key is not None and all(getattr(one, "replayed", False) for one in outcomes)

    def answers() -> BatchAnswer:
        caller = request.caller
        return BatchAnswer(
            [_answered(one, asked, slot, caller) for one, asked in zip(outcomes, prepared, strict=True)], now
        )

    size = sum([hold_bytes(one.raw) if isinstance(one, Hold) else 400 for one in outcomes])
    return await request.running.large_answers.change(request, size, answers, (REPLAYED,) if replayed else ())


def _answered(outcome: Outcome, asked: AnyCommand, now: Slot, caller: Caller) -> CommandAnswer:
    if isinstance(outcome, Hold):
        secret = asked.names == "legs"
        shown = hold_now(outcome, now, caller.show, secret=secret)
        return CommandAnswer(status="done", hold=shown, replayed=outcome.replayed)
    if isinstance(outcome, Pool):
        shown_pool = pool_now(outcome.raw, at(now))
        return CommandAnswer(status="done", pool=shown_pool, replayed=outcome.replayed)
    if isinstance(outcome, errors.Refused):
        outcome = outcome if caller.limit is None else caller.limit.refusal(outcome)
        return CommandAnswer(
            status="refused",
            reason=outcome.reason,
            detail=detail_of(outcome),
            transient=outcome.transient,
            replayed=outcome.replayed,
            facts=Facts(**facts(outcome)),
        )
    assert isinstance(outcome, errors.InvalidRequest)
    return CommandAnswer(
        status="refused",
        reason="invalid_request",
        detail=plain(outcome),
        transient=False,
        facts=Facts(field=outcome.field, code=outcome.code),
    )


Fields: TypeAlias = dict[str, Any]
"""The fields that every command may carry."""


async def commands_of(batch: bodies.Batch, request: Request, key: str | None) -> list[core.AnyCommand]:
    """Build the commands in the order of the batch, in slices; `key` is the idempotency key of the batch."""
    around, caller = current(), request.caller
    found: list[core.AnyCommand] = []
    for index, asked in enumerate(batch.commands):
        if index and not index % SLICE:
            await asyncio.sleep(0)
        fields = _call_fields(asked, request, around, op_within(key, index, asked.op))
        found.append(normalise(_command(asked, caller, fields)))
    return found


def _call_fields(asked: bodies.BatchCommand, request: Request, around: Context, op: str | None) -> Fields:
    return {
        "tenant": request.caller.tenant,
        "op": op,
        "actor": actor_text(request.actor(asked.actor)),
        "correlation_id": around.correlation_id if asked.correlation_id is None else asked.correlation_id,
        "reason": around.reason if asked.reason is None else asked.reason,
    }


def _command(asked: Any, caller: Caller, fields: Fields) -> AnyCommand:
    """Return the command of a document, which has the same fields. It needs the scope of its verb, and `force` needs scope admin."""
    kind, same = _KINDS[type(asked)]
    for name in same:
        fields[name] = getattr(asked, name)
    if VERBS[kind.verb] == "admin":
        caller.need_admin(f"the command {kind.verb}")
    elif fields.get("force"):
        caller.need_admin("force")
    if isinstance(asked, bodies.BatchJoin):
        fields["legs"] = (Leg(asked.pool, asked.quantity),)
    elif kind.names == "legs":
        fields["legs"] = legs_of(asked, caller)
    elif kind is core.ReturnToPool:
        fields["force"] = True  # no token is checked
    command: AnyCommand = kind(**fields)
    return command


_BESIDE: Final = {*Body.__struct_fields__, "op", "legs"}
_KINDS: Final[dict[type[Any], tuple[Any, tuple[str, ...]]]] = {
    document: (kind, tuple({*document.__struct_fields__} & {*kind.__struct_fields__} - _BESIDE))
    for document, kind in ((document, core.COMMANDS[verb]) for verb, document in bodies.DOCUMENTS.items())
}
"""By document: the command, and the fields that both have."""
