"""Webhooks: create, list, remove, replay. For scope admin, within the caller's tenant."""

from __future__ import annotations

import logging

from msgspec import Raw

from ...errors import EngineError
from ...wire.webhooks import HookAnswer, HookPage, NewWebhook, ParkedAnswer, ParkedPage, ReplayAnswer
from ..problems import Problem
from ..request import Answer, Request, answer
from ..webhooks.hooks import Hook, Hooks

log = logging.getLogger("holdkit.server")


def _hooks(request: Request) -> Hooks:
    return Hooks(request.kernel.executor, request.caller.tenant)


async def _find(request: Request, *, durable: bool = False) -> Hook:
    hook = await _hooks(request).find(request.names[0], durable=durable)
    if hook is None:
        raise Problem(404, "webhook_not_found", "there is no webhook with this id")
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
    """Create a webhook; only this answer contains the signing secret."""
    body: NewWebhook = request.body
    hook = await _hooks(request).make(body.url, body.actions, await request.kernel.cursor())
    await request.running.webhook_sender.sync(request.kernel, request.caller.tenant)
    return answer(_shown(request, hook, secret=True), 201)


async def list_hooks(request: Request) -> Answer:
    """List the webhooks, without their secrets."""
    found = [_shown(request, hook) for hook in await _hooks(request).listed()]
    return answer(HookPage(found, request.now()))


async def remove_hook(request: Request) -> Answer:
    """Remove a webhook, with its parked deliveries."""
    hook = await _find(request, durable=True)  # the caller relies on the answer that it is gone
    await _hooks(request).remove(hook.id)
    await request.running.webhook_sender.sync(request.kernel, request.caller.tenant)
    try:
        await request.running.webhook_sender.forget(request.kernel, request.caller.tenant, hook.id)
    except EngineError as left:  # the webhook is removed all the same, and its id is never reused
        log.warning("webhook %s is removed: %s", hook.id, left)
    return answer(_shown(request, hook))


async def list_parked(request: Request) -> Answer:
    """List the deliveries that failed, and why."""
    hook = await _find(request)
    found = [ParkedAnswer(one.id, one.why, Raw(one.body.encode())) for one in await _hooks(request).parked(hook.id)]
    return answer(ParkedPage(found, request.now()))


async def replay_hook(request: Request) -> Answer:
    """Resume the webhook if it was stopped, and retry its parked deliveries."""
    hook = await _find(request, durable=True)  # the caller relies on the answer that it continues
    hooks = _hooks(request)
    if hook.state == "stopped":
        await request.running.webhook_sender.forget(request.kernel, request.caller.tenant, hook.id)
        await hooks.set_state(hook, "active", None)
        await request.running.webhook_sender.sync(request.kernel, request.caller.tenant)
    taken, parked = await request.running.webhook_sender.replay(hooks, hook)
    return answer(ReplayAnswer(taken, parked, request.now()))
