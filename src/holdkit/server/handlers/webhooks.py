"""Webhooks: create, read, remove, rotate, test, replay. For scope admin, within the caller's tenant."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from msgspec import Raw
from msgspec.structs import asdict, replace

from ...core.model import SECOND, Slot
from ...core.validation import invalid
from ...errors import EngineError, OperationConflict
from ...kernel.arguments import span
from ...wire.fields import at
from ...wire.problems import REPLAYED, Problem
from ...wire.webhooks import (
    DeliveryAnswer,
    DeliveryPage,
    HookAnswer,
    HookPage,
    NewWebhook,
    ParkedAnswer,
    ParkedPage,
    ParkedQuery,
    ReplayAnswer,
    ReplayStarted,
    ReplayWebhook,
    RotateWebhook,
    TestAnswer,
)
from ..request import Answer, Request, answer
from ..webhooks.addresses import TELLS_TENANT, TargetRefused, check_url
from ..webhooks.events import new_secret
from ..webhooks.hooks import Hook, Hooks, Parked
from ..webhooks.sealing import SecretUnreadable, is_sealed
from ..webhooks.sender import WebhookSender
from ..webhooks.status import Attempt, HookStatus, Replay

log = logging.getLogger("holdkit.server")

LONGEST_GRACE: Final = 30 * 86_400 * SECOND
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of parked events in one page, about."""
TEST_WAIT: Final = 5.0
"""Seconds that a test waits for a slot."""


def _sender(request: Request) -> WebhookSender:
    return request.running.webhook_sender


def _hooks(request: Request) -> Hooks:
    """Return the store of the caller's webhooks; its changes are recorded as the caller's, with the reason that the request gives."""
    hooks = _sender(request).hooks(request.caller.tenant, request.kernel._executor)
    return hooks if request.operation.body is None else hooks.changed_by(**request.call_fields(request.body))


async def _find(request: Request, *, durable: bool = False) -> Hook:
    hook = await _hooks(request).find(request.names[0], durable=durable)
    if hook is None:
        raise Problem(404, "webhook_not_found", "there is no webhook with this id")
    return hook


def _shown(request: Request, hook: Hook, status: HookStatus, secret: str | None = None) -> HookAnswer:
    now, failing = request.kernel._executor.now(), status.failing
    shown = HookAnswer(
        id=hook.id,
        url=hook.url,
        actions=list(hook.actions),
        state=hook.state,
        parked=status.parked,
        replay=None if status.replay is None else _replay(status.replay),
        encrypted=is_sealed(hook.secret),
        secret=secret,
        server_time=request.now(),
    )
    if hook.old_until is not None and now < hook.old_until:
        shown.old_secret_until = at(hook.old_until)
    try:
        _hooks(request).secrets(hook, now)
    except SecretUnreadable as unreadable:  # of this server only, so it is not stored
        shown.state, shown.why = "stopped", str(unreadable)
        return shown
    if hook.state == "stopped":
        shown.why, shown.since = hook.why, None if hook.since is None else at(hook.since)
    elif failing is not None:
        shown.state, shown.why, shown.since = "failing", failing.why, at(failing.since)
        shown.next_attempt_at = None if failing.next_at is None else at(failing.next_at)
    return shown


def _replay(replay: Replay) -> ReplayAnswer:
    return ReplayAnswer(
        state="running" if replay.ended is None else "ended",
        began_at=at(replay.began),
        ended_at=None if replay.ended is None else at(replay.ended),
        total=replay.total,
        taken=replay.taken,
        failed=replay.failed,
    )


def _delivery(attempt: Attempt) -> DeliveryAnswer:
    return DeliveryAnswer(**{**asdict(attempt), "at": at(attempt.at)})


async def make_webhook(request: Request) -> Answer:
    """Create a webhook; only this answer contains the signing secret."""
    body: NewWebhook = request.body
    sender, tenant = _sender(request), request.caller.tenant
    url = check_url(body.url)
    try:
        await sender.check_target(tenant, url)
    except TargetRefused:
        raise invalid("url", "url_not_allowed", f"cannot be called: {TELLS_TENANT}") from None
    if request.op is not None and (made := await _hooks(request).made_under(request.op)) is not None:
        return _made_before(request, made, url, body.actions)
    most = request.running.settings.webhooks.tenant_hooks
    hook, secret = await _hooks(request).make(
        url, body.actions, await request.kernel.journal.cursor(), most, request.op
    )
    await sender.sync(tenant)
    return answer(_shown(request, hook, HookStatus(), secret), 201)


def _made_before(request: Request, hook: Hook, url: str, actions: list[str]) -> Answer:
    """Answer a retry with the webhook that the first request made, and its secret, because the first answer may have been lost."""
    if (hook.url, hook.actions) != (url, tuple(actions)):
        raise OperationConflict("this Idempotency-Key was used to create another webhook: use a new key")
    _check_secret(request, hook)
    (secret, *_) = _hooks(request).secrets(hook, request.kernel._executor.now())
    return answer(_shown(request, hook, HookStatus(), secret), 201, (REPLAYED,))


async def list_webhooks(request: Request) -> Answer:
    """List the webhooks, without their secrets."""
    statuses = await _sender(request).statuses.of_tenant(request.caller.tenant)
    found = await _hooks(request).listed()
    items = [_shown(request, hook, statuses.get(hook.id, HookStatus())) for hook in found]
    return answer(HookPage(items, request.now()))


async def show_webhook(request: Request) -> Answer:
    """Read a webhook, why it is failing, and how far its replay is."""
    hook = await _find(request)
    status = await _sender(request).statuses.find(request.caller.tenant, hook.id)
    return answer(_shown(request, hook, status))


async def remove_webhook(request: Request) -> Answer:
    """Remove a webhook, with its parked deliveries."""
    hook = await _find(request, durable=True)  # the caller relies on the answer that it is gone
    sender, tenant = _sender(request), request.caller.tenant
    status = await sender.statuses.find(tenant, hook.id)
    await sender.replays.end(tenant, hook.id)
    await _hooks(request).remove(hook.id)
    await sender.sync(tenant)
    sender.statuses.forget(tenant, hook.id)
    try:
        await sender.forget(tenant, hook.id)
    except EngineError as left:  # the webhook is removed all the same
        log.warning(
            "webhook %s is removed: %s", hook.id, left, extra={"event": "webhook_removed_with_rest", "webhook": hook.id}
        )
    return answer(_shown(request, hook, status))


async def rotate_webhook(request: Request) -> Answer:
    """Give a webhook a new secret; for a while events are signed with both."""
    body: RotateWebhook = request.body
    hook = await _find(request)
    hooks, tenant, op = _hooks(request), request.caller.tenant, request.op
    grace: Slot = 0 if body.grace == 0 else span(body.grace, "grace")
    if not 0 <= grace <= LONGEST_GRACE:
        raise invalid("grace", "grace_out_of_range", "must be 0 or above, and at most 30 days")
    status = await _sender(request).statuses.find(tenant, hook.id)
    if op is not None and hook.rotated_under == op:  # a retry: the first answer may have been lost
        _check_secret(request, hook)
        secret = hooks.sealer.open(tenant, hook.id, hook.secret)
        return answer(_shown(request, hook, status, secret), 200, (REPLAYED,))
    secret = new_secret()
    until = request.kernel._executor.now() + grace if grace else None
    changed = await hooks.change(hook.id, lambda found: _rotated(hooks, found, secret, until, op))
    if changed is None:
        raise Problem(404, "webhook_not_found", "there is no webhook with this id")
    await _sender(request).sync(tenant)
    return answer(_shown(request, changed, status, secret))


def _rotated(hooks: Hooks, hook: Hook, secret: str, until: Slot | None, op: str | None) -> Hook:
    """Return the webhook with a new secret; the old one also counts until its grace is over."""
    seal, old = hooks.sealer.seal, None
    if until is not None:
        try:
            old = seal(hooks.tenant, hook.id, hooks.sealer.open(hooks.tenant, hook.id, hook.secret))
        except SecretUnreadable:  # it can no longer be used to sign
            until = None
    sealed = seal(hooks.tenant, hook.id, secret)
    return replace(hook, secret=sealed, old_secret=old, old_until=until, rotated_under=op)


async def list_deliveries(request: Request) -> Answer:
    """List the last attempts, the newest first."""
    hook = await _find(request)
    status = await _sender(request).statuses.find(request.caller.tenant, hook.id)
    return answer(DeliveryPage([_delivery(one) for one in reversed(status.attempts)], request.now()))


async def list_parked(request: Request) -> Answer:
    """List the deliveries that failed, and why."""
    query: ParkedQuery = request.query
    hook = await _find(request)
    found: list[Parked] = []
    positions = request.caller.positions
    size, after, ended = 0, query.after and positions.reveal(query.after), False
    while not ended and size < MAX_PAGE_BYTES and len(found) < query.limit:
        page = await _hooks(request).parked(hook.id, after, min(16, query.limit - len(found)))
        ended = not page
        found += page
        size += sum(len(one.body) for one in page)
        after = page[-1].id if page else after
    items = [ParkedAnswer(one.event, at(one.at), one.why, Raw(one.body.encode())) for one in found]
    more = None if ended or not found else positions.hide(found[-1].id)
    return answer(ParkedPage(items, more, request.now()))


async def test_webhook(request: Request) -> Answer:
    """Send a test event, and report how the receiver took it. It stops and resumes nothing."""
    hook = await _find(request)
    _check_secret(request, hook)
    try:
        async with asyncio.timeout(TEST_WAIT + request.running.settings.webhooks.seconds):
            attempt = await _sender(request).test(request.caller.tenant, hook)
    except TimeoutError:
        detail = "other attempts of this tenant take all the time there is: retry later"
        raise Problem(503, "overloaded", detail, retry_after=5.0) from None
    if attempt is None:
        detail = "a test event is being sent to this webhook: retry when it was answered"
        raise Problem(409, "test_running", detail, retry_after=1.0)
    return answer(TestAnswer(**asdict(_delivery(attempt)), server_time=request.now()))


async def replay_webhook(request: Request) -> Answer:
    """Resume the webhook if it was stopped, and retry its parked deliveries, in the background."""
    hook = await _find(request, durable=True)  # the caller relies on the answer that it continues
    _check_secret(request, hook)
    body: ReplayWebhook = request.body
    sender, tenant = _sender(request), request.caller.tenant
    if hook.state == "stopped":
        await sender.forget(tenant, hook.id)
        await _hooks(request).resume(hook.id)
        await sender.sync(tenant)
    elif body.reason is not None:
        await _hooks(request).change(hook.id, lambda found: found)  # so that the journal has the reason
    progress = await sender.replays.begin(_hooks(request), hook)
    sender.retry(tenant, hook.id)
    return answer(ReplayStarted(**asdict(_replay(progress)), server_time=request.now()), 202)


def _check_secret(request: Request, hook: Hook) -> None:
    try:
        _hooks(request).secrets(hook, request.kernel._executor.now())
    except SecretUnreadable as unreadable:
        detail = f"nothing can be sent to this webhook: {unreadable}"
        raise Problem(409, "secret_unreadable", detail, field="webhook", code="secret_unreadable") from None
