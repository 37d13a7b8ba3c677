"""Rates, budgets and calendars of client applications: commands on the pools of their windows.

The client chooses the window and the core checks it. The client also sets the total that a new window gets, so creating one
needs scope admin. Beside windows a hold may take units of other pools, claims and items; no other reserved pool can be named
here. A token is only in the answer that creates it.
"""

from __future__ import annotations

from typing import Any

from ...core.commands import AnyCommand, ConfirmHold, Consume, PlaceHold, ReleaseHold, ResizePool
from ...core.face_legs import FaceLeg
from ...core.model import Leg
from ...core.validation import invalid, pool_id
from ...faces.keys import WINDOWED
from ...kernel.arguments import actor_text, amounts_of, hold_id, span
from ...kernel.results import hold_of
from ...kernel.times import moment
from ...wire.fields import at
from ...wire.holds import hold_now
from ...wire.pools import pool_answer, pool_now
from ...wire.problems import REPLAYED, Problem
from ...wire.windows import (
    ReadWindows,
    WindowAnswer,
    WindowCommand,
    WindowConfirm,
    WindowConsume,
    Windowed,
    WindowLeg,
    WindowList,
    WindowRelease,
    WindowResize,
)
from ..request import Answer, Request, answer
from .holds import leg_of


def window_pool(id: str) -> str:
    """Check that the id is that of a window, and not of another reserved pool."""
    if not id.startswith(WINDOWED):
        raise invalid(
            "pool",
            "pool_reserved",
            f"must begin with one of {', '.join(WINDOWED)}: other reserved pools belong to other faces",
        )
    pool_id(id, "pool", faces=True)
    return id


def command_of(asked: WindowCommand, fields: dict[str, Any]) -> AnyCommand:
    """Make the command of the core from the request."""
    if isinstance(asked, WindowResize):
        return ResizePool(id=window_pool(asked.id), total=asked.total, **fields)
    if isinstance(asked, WindowRelease):
        return ReleaseHold(id=asked.id, token=asked.token, **fields)
    if isinstance(asked, WindowConfirm):
        return ConfirmHold(id=asked.id, token=asked.token, entity=asked.entity, quantity=amounts_of(asked.quantity),
                           keep_rest=asked.keep_rest, overage=asked.overage, others_as_held=asked.others_as_held,
                           late_overage=True, **fields)  # fmt: skip
    placing: dict[str, Any] = {
        "legs": _legs(asked.legs),
        "id": None if asked.id is None else hold_id(asked.id),
        "token": asked.token,
        "entity": asked.entity,
        "metadata": asked.metadata,
        "account": asked.account,
        "force": asked.force,
        **fields,
    }
    if isinstance(asked, WindowConsume):
        return Consume(**placing)
    if asked.ttl is None and asked.deadline is None:
        raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
    return PlaceHold(
        ttl_slots=None if asked.ttl is None else span(asked.ttl),
        deadline=None if asked.deadline is None else moment(asked.deadline),
        **placing,
    )


def _legs(legs: list[WindowLeg]) -> tuple[Leg, ...]:
    """Make the legs of a hold on windows. At least one is on a window; others may be anything that a hold may take."""
    if not any(leg.pool is not None and leg.pool.startswith(WINDOWED) for leg in legs):
        window_pool(legs[0].pool or "")
    return tuple([_leg(leg) for leg in legs])


def _leg(leg: WindowLeg) -> Leg:
    if leg.pool is not None and leg.pool.startswith("~"):
        opens = None if leg.opens is None else moment(leg.opens, "opens")
        closes = None if leg.closes is None else moment(leg.closes, "closes")
        return FaceLeg(window_pool(leg.pool), leg.quantity, leg.create_with_total, opens=opens, closes=closes)
    if (leg.opens, leg.closes) != (None, None):
        raise invalid("closes", "closes_reserved", "only the pools behind faces have windows")
    return leg_of(leg)


async def windows(request: Request) -> Answer:
    """Apply one command under its idempotency key; or resize several windows, all or none, which needs no key because it is
    idempotent."""
    body: Windowed = request.body
    commands = [_command(request, one) for one in body.commands]
    if any(command.names in ("legs", "pool") for command in commands):
        request.caller.need_admin("to say how much a window has")
    if len(commands) > 1:
        return await _all(request, commands)
    (command,) = commands
    if command.op is None:
        raise Problem(400, "idempotency_key_required", "send an Idempotency-Key header, so that a retry is safe")
    original = None if body.original is None else _command(request, body.original)
    done = await request.kernel._executor.execute(command, faces=True, original=original)
    slot = request.running.clock()
    now = at(slot)
    result = WindowAnswer(decided=at(done.slot), replayed=done.replayed, server_time=now)
    if done.hold is not None:
        hold = hold_of(done, getattr(command, "token", None))
        result.hold = hold_now(hold, slot, request.caller.show, secret=command.names == "legs")
    if done.pool is not None:
        result.pool = pool_now(done.pool, now)
    return answer(result, 200, (REPLAYED,) if done.replayed else ())


async def _all(request: Request, commands: list[AnyCommand]) -> Answer:
    if not all(isinstance(command, ResizePool) for command in commands):
        raise invalid("commands", "commands_mixed", "only resize_pool commands may be combined")
    if request.op is not None:
        raise invalid("op", "op_unsupported", "must not be given: resizing is idempotent")
    await request.kernel._executor.execute_all(commands)
    now = request.now()
    return answer(WindowAnswer(decided=now, server_time=now))


def _command(request: Request, asked: WindowCommand) -> AnyCommand:
    around: dict[str, Any] = request.call_fields(asked)
    return command_of(asked, {**around, "actor": actor_text(around["actor"]), "tenant": request.caller.tenant})


async def read_windows(request: Request) -> Answer:
    """Read windows, in the requested order."""
    body: ReadWindows = request.body
    keys = [(request.caller.tenant, window_pool(id)) for id in body.pools]
    found = await request.kernel._executor.find_pools(keys, durable=body.durable)
    shown = [None if pool is None else pool_answer(pool) for pool in found]
    return answer(WindowList(shown, request.now()))
