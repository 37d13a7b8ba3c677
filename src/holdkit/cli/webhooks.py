"""``holdkit webhooks``: deliveries of the journal to URLs. A server sends them, so these commands call one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidRequest
from ..faces._sync.kernel import Kernel
from ..wire.webhooks import DeliveryAnswer, HookAnswer
from .arguments import interval, limit_option
from .options import call_of, call_options, key_option, open_kernel, url_option
from .output import FOUND, OK, Output, as_json
from .words import OfParameter

if TYPE_CHECKING:
    from ..client._sync.webhooks import RemoteWebhooks

HEADS = ("webhook", "state", "parked", "url", "actions", "why")
ATTEMPT_HEADS = ("at", "kind", "outcome", "status", "seconds", "event", "why")

hook_argument = click.argument("hook", metavar="WEBHOOK")


def server_options(function: Any) -> Any:
    """Add the options of commands that call a server."""
    return url_option(key_option(as_json(function)))


@contextmanager
def _open(url: str | None) -> Iterator[RemoteWebhooks]:
    with open_kernel(url) as hk:
        if isinstance(hk, Kernel):
            raise InvalidRequest(
                "webhooks are sent by a server: use --url http://…, and its API key in HOLDKIT_KEY",
                field="url",
                code="server_needed",
            )
        yield hk.server.webhooks


@click.group()
def webhooks() -> None:
    """Webhooks: journal entries that a server delivers to URLs. Needs --url http://… and an admin key.

    \b
    Example:
      holdkit webhooks make https://example.com/hook --action hold.expired
      holdkit webhooks list
    """


@webhooks.command()
@click.argument("target", metavar="TARGET")
@click.option("--action", "actions", multiple=True, help="deliver only this action, such as hold.expired; repeatable")
@call_options
@server_options
def make(url: str | None, in_json: bool, target: str, actions: tuple[str, ...], **call: Any) -> int:
    """Deliver entries to the URL TARGET from now on. Prints the signing secret, which is shown only this once.

    \b
    Example:
      holdkit webhooks make https://example.com/hook --action hold.confirmed --action hold.expired
    """
    with _open(url) as hooks:
        try:
            made = hooks.make(target, actions=actions, **call_of(call))
        except InvalidRequest as wrong:
            raise (OfParameter(wrong, "target") if wrong.field == "url" else wrong) from None
    return _print_secret(made, in_json)


@webhooks.command("list")
@server_options
def list_hooks(url: str | None, in_json: bool) -> int:
    """List all webhooks: their state, and how many deliveries are parked.

    \b
    Example:
      holdkit webhooks list --json
    """
    with _open(url) as hooks:
        return _print(hooks.list(), in_json)


@webhooks.command()
@hook_argument
@server_options
def show(url: str | None, in_json: bool, hook: str) -> int:
    """Show one webhook: why it is failing and when it is tried next, and how far its replay is.

    \b
    Example:
      holdkit webhooks show 3f9a1c…
    """
    with _open(url) as hooks:
        found = hooks.get(hook)
    _print([found], in_json)
    if found.replay is not None and not in_json:
        replay = found.replay
        click.echo(f"replay {replay.state}: {replay.taken} delivered, {replay.failed} failed, of {replay.total}")
    return OK


@webhooks.command()
@hook_argument
@call_options
@server_options
def remove(url: str | None, in_json: bool, hook: str, **call: Any) -> int:
    """Remove a webhook, with what is parked; prints its last state.

    \b
    Example:
      holdkit webhooks remove 3f9a1c…
    """
    with _open(url) as hooks:
        return _print([hooks.remove(hook, **call_of(call))], in_json)


@webhooks.command()
@hook_argument
@click.option("--grace", default="24h", show_default=True, help="how long events are signed with the old secret too")
@call_options
@server_options
def rotate(url: str | None, in_json: bool, hook: str, grace: str, **call: Any) -> int:
    """Give a webhook a new signing secret, and print it.

    \b
    Example:
      holdkit webhooks rotate 3f9a1c… --grace 1h
    """
    with _open(url) as hooks:
        return _print_secret(hooks.rotate(hook, grace=interval(grace), **call_of(call)), in_json)


@webhooks.command()
@hook_argument
@server_options
def deliveries(url: str | None, in_json: bool, hook: str) -> int:
    """List the last attempts at deliveries, the newest first.

    \b
    Example:
      holdkit webhooks deliveries 3f9a1c…
    """
    with _open(url) as hooks:
        found = hooks.deliveries(hook)
    Output(in_json).table(found, ATTEMPT_HEADS, [_attempt(one) for one in found])
    return OK


@webhooks.command()
@hook_argument
@click.option("--after", default="", help="start after this place, which the page before has printed")
@limit_option
@server_options
def parked(url: str | None, in_json: bool, hook: str, after: str, limit: int) -> int:
    """List the deliveries that failed after all attempts, and why. `webhooks replay` retries them.

    \b
    Example:
      holdkit webhooks parked 3f9a1c… --json
    """
    with _open(url) as hooks:
        page = hooks.parked(hook, after=after or None, limit=limit)
    rows = [[f"{one.at:%Y-%m-%d %H:%M:%S}", one.id, one.why] for one in page]
    Output(in_json).table(page, ("at", "event", "why"), rows)
    if page.next is not None:
        click.echo(f"more are parked: continue with --after {page.next}", err=True)
    return OK


@webhooks.command()
@hook_argument
@server_options
def test(url: str | None, in_json: bool, hook: str) -> int:
    """Send a test event now, and report how the receiver took it. Fails (code 6) if it did not accept it.

    \b
    Example:
      holdkit webhooks test 3f9a1c… && echo received
    """
    with _open(url) as hooks:
        attempt = hooks.test(hook)
    Output(in_json).table([attempt], ATTEMPT_HEADS, [_attempt(attempt)])
    return OK if attempt.outcome == "delivered" else FOUND


@webhooks.command()
@hook_argument
@call_options
@server_options
def replay(url: str | None, in_json: bool, hook: str, **call: Any) -> int:
    """Resume a webhook that was stopped, and retry what is parked, in the background: `webhooks show` tells how far that is.

    \b
    Example:
      holdkit webhooks replay 3f9a1c…
    """
    with _open(url) as hooks:
        begun = hooks.replay(hook, **call_of(call))
    Output(in_json).write(begun, f"{begun.total} parked deliveries are being retried")
    return OK


def _print(found: list[HookAnswer], in_json: bool) -> int:
    rows = [
        [one.id, one.state, str(one.parked), one.url, " ".join(one.actions) or "all", one.why or ""] for one in found
    ]
    Output(in_json).table(found, HEADS, rows)
    return OK


def _print_secret(hook: HookAnswer, in_json: bool) -> int:
    Output(in_json).write(hook, hook.secret or "")
    if not in_json:
        click.echo(f"the secret of webhook {hook.id}, which signs its events; it is not shown again", err=True)
    return OK


def _attempt(one: DeliveryAnswer) -> list[str]:
    status = "" if one.status is None else str(one.status)
    at = f"{one.at:%Y-%m-%d %H:%M:%S}"
    return [at, one.kind, one.outcome, status, f"{one.seconds:.3f}", one.event, one.why or ""]
