"""What callers get of webhooks: one struct per answer. A secret only in the answer that makes it."""

from __future__ import annotations

import logging
from datetime import datetime

from msgspec import Raw, Struct

from ...errors import EngineError
from ..bodies import NewHook
from ..problems import Problem
from ..request import Answer, Request, answer
from ..webhooks.hooks import Hook, Hooks


class HookAnswer(Struct, kw_only=True, omit_defaults=True):
    """A webhook; its secret only when it is made."""

    id: str
    url: str
    actions: list[str]
    state: str
    why: str | None = None
    secret: str | None = None
    server_time: datetime


class HookPage(Struct):
    """The webhooks of your tenant."""

    items: list[HookAnswer]
    server_time: datetime


class ParkedAnswer(Struct):
    """A delivery that was given up."""

    id: str
    why: str
    event: Raw
    """As it was sent; null if it is too large to be kept here: then a replay reads it in the journal."""


class ParkedPage(Struct):
    """What a webhook could not deliver."""

    items: list[ParkedAnswer]
    server_time: datetime


class ReplayAnswer(Struct):
    """How many parked deliveries were taken, and how many stay parked."""

    taken: int
    parked: int
    server_time: datetime


log = logging.getLogger("holdkit.server")


def _hooks(request: Request) -> Hooks:
    return Hooks(request.kernel.executor, request.caller.tenant)


async def _find(request: Request, *, durable: bool = False) -> Hook:
    hook = await _hooks(request).find(request.names[0], durable=durable)
    if hook is None:
        raise Problem(404, "webhook_not_found", "there is no webhook of this id")
    return hook


def _shown(request: Request, hook: Hook, *, secret: bool = False) -> HookAnswer:
    return HookAnswer(
        id=hook.id,
        url=hook.url,
        actions=list(hook.actions),
        state=hook.state,
        why=hook.why,
        secret=hook.secret if secret else None,
        server_time=request.now(),
    )


async def make_hook(request: Request) -> Answer:
    """The one answer that has the signing secret."""
    wish: NewHook = request.body
    hook = await _hooks(request).make(wish.url, wish.actions, await request.kernel.cursor())
    await request.running.webhook_sender.attend(request.kernel, request.caller.tenant)
    return answer(_shown(request, hook, secret=True), 201)


async def list_hooks(request: Request) -> Answer:
    """Without their secrets."""
    found = [_shown(request, hook) for hook in await _hooks(request).listed()]
    return answer(HookPage(found, request.now()))


async def remove_hook(request: Request) -> Answer:
    """No more deliveries; what is parked is dropped."""
    hook = await _find(request, durable=True)  # that it is gone is an answer
    await _hooks(request).remove(hook.id)
    await request.running.webhook_sender.attend(request.kernel, request.caller.tenant)
    try:
        await request.running.webhook_sender.forget(request.kernel, request.caller.tenant, hook.id)
    except EngineError as left:  # it is removed all the same, and its id is nobody else's
        log.warning("webhook %s is removed: %s", hook.id, left)
    return answer(_shown(request, hook))


async def list_parked(request: Request) -> Answer:
    """What could not be delivered, and why."""
    hook = await _find(request)
    found = [ParkedAnswer(one.id, one.why, Raw(one.body.encode())) for one in await _hooks(request).parked(hook.id)]
    return answer(ParkedPage(found, request.now()))


async def replay_hook(request: Request) -> Answer:
    """Let it go on if it was stopped, and try what is parked once more."""
    hook = await _find(request, durable=True)  # and so is that it goes on
    hooks = _hooks(request)
    if hook.state == "stopped":
        await request.running.webhook_sender.forget(request.kernel, request.caller.tenant, hook.id)
        await hooks.set_state(hook, "active", None)
        await request.running.webhook_sender.attend(request.kernel, request.caller.tenant)
    taken, parked = await request.running.webhook_sender.replay(hooks, hook)
    return answer(ReplayAnswer(taken, parked, request.now()))
