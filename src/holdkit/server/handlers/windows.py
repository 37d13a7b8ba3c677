"""Windows of rates, budgets and calendars that callers describe themselves."""

from __future__ import annotations

from typing import Any

from ...core.commands import AnyCommand, ResizePool
from ...core.validation import invalid
from ...kernel.answers import hold_of
from ...kernel.context import actor_text
from ..answers import PoolAnswer, PoolNow, at, hold_now, pool_fields
from ..problems import Problem
from ..request import REPLAYED, Answer, Request, answer
from ..windowing import (
    BIRTHS,
    LookAtWindows,
    WindowAnswer,
    WindowCommand,
    Windowed,
    WindowList,
    command_of,
    window_pool,
)
from .shared import frame, need_admin


async def decide(request: Request) -> Answer:
    """One command under its retry key; or several windows resized, all or none, for which setting twice is setting once."""
    body: Windowed = request.body
    commands = [_command(request, one) for one in body.commands]
    if any(isinstance(command, (*BIRTHS, ResizePool)) for command in commands):
        need_admin(request.caller, "to say how much a window has")
    if len(commands) > 1:
        return await _all(request, commands)
    (command,) = commands
    if command.op is None:
        raise Problem(400, "idempotency_key_required", "send an Idempotency-Key, so that a retry is safe")
    original = None if body.original is None else _command(request, body.original)
    done = await request.kernel.executor.execute(command, faces=True, original=original)
    now = request.now()
    told = WindowAnswer(decided=at(done.slot), replayed=done.replayed, server_time=now)
    if done.hold is not None:
        told.hold = hold_now(hold_of(done, getattr(command, "owner", None)), now, secret=isinstance(command, BIRTHS))
    if done.pool is not None:
        told.pool = PoolNow(**pool_fields(done.pool), server_time=now)
    return answer(told, 200, (REPLAYED,) if done.replayed else ())


async def _all(request: Request, commands: list[AnyCommand]) -> Answer:
    if not all(isinstance(command, ResizePool) for command in commands):
        raise invalid("commands", "commands_mixed", "only resize_pool may come with others")
    if request.op is not None:
        raise invalid("op", "op_unsupported", "is not needed here: a total that is set twice is the same total")
    await request.kernel.executor.execute_all(commands)
    now = request.now()
    return answer(WindowAnswer(decided=now, server_time=now))


def _command(request: Request, asked: WindowCommand) -> AnyCommand:
    around: dict[str, Any] = frame(request, asked)
    return command_of(asked, {**around, "actor": actor_text(around["actor"]), "tenant": request.caller.tenant})


async def look(request: Request) -> Answer:
    """In the order asked."""
    body: LookAtWindows = request.body
    keys = [(request.caller.tenant, window_pool(id)) for id in body.pools]
    found = await request.kernel.executor.find_pools(keys, durable=body.durable)
    shown = [None if pool is None else PoolAnswer(**pool_fields(pool)) for pool in found]
    return answer(WindowList(shown, request.now()))
