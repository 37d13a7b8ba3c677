"""``holdkit sagas``: see where they are, and end by hand those that wait for an operator. They run where their code is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import click

from ..errors import InvalidRequest
from ..faces.saga_records import SagaRecord
from ..faces.saga_steps import Phase
from ..kernel.context import context
from ..wire.sagas import saga_answer, saga_event_answer
from .arguments import goes_on, interval, limit_option
from .options import Opened, call_options, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time

HEADS = ("saga", "name", "phase", "since", "failures", "hold", "error")


@click.group()
def sagas() -> None:
    """Sagas: work in steps that finishes after any crash. Those that are parked wait for you.

    \b
    Example:
      holdkit sagas list --stuck
      holdkit sagas resolve order:9 done --reason "the bank confirms the payment"
    """


@sagas.command("list")
@click.option("--phase", type=click.Choice([str(phase) for phase in Phase]), help="only sagas in this phase")
@click.option("--stuck", is_flag=True, help="only those that somebody should look at: parked, or too long in one phase")
@click.option("--older-than", default="5m", show_default=True, help="with --stuck: the minimum time in one phase")
@click.option("--after", default="", help="start after this id")
@limit_option
@tenant_options
def list_sagas(
    url: str | None, tenant: str, in_json: bool, phase: str | None, stuck: bool, older_than: str, after: str, limit: int
) -> int:
    """List sagas in order of id, all, those in one phase, or those that need somebody.

    \b
    Example:
      holdkit sagas list --phase parked --json
    """
    if stuck and (phase is not None or after):
        raise click.UsageError("--stuck takes neither --phase nor --after")
    with open_kernel(url, tenant) as hk:
        if stuck:
            return _print(hk, hk.sagas.stuck(interval(older_than), limit=limit), in_json)
        found = hk.sagas.list(phase=phase, after=after or None, limit=limit)
        goes_on(found, limit, found[-1].id if found else "")
        return _print(hk, found, in_json)


@sagas.command()
@click.argument("saga")
@tenant_options
def show(url: str | None, tenant: str, in_json: bool, saga: str) -> int:
    """Show one saga.

    \b
    Example:
      holdkit sagas show order:9 --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.sagas.get(saga)
        if found is None:
            raise InvalidRequest(
                f"there is no saga {saga!r}, or it ended longer ago than the retention period",
                field="saga",
                code="saga_not_found",
            )
        return _print(hk, [found], in_json)


@sagas.command()
@click.argument("saga")
@click.argument("how", type=click.Choice(["done", "cancelled"]))
@call_options
@tenant_options
def resolve(
    url: str | None, tenant: str, in_json: bool, saga: str, how: Literal["done", "cancelled"], **call: Any
) -> int:
    """End a saga by hand, for good: done confirms what it holds, cancelled releases it; needs --reason. For somebody who has found out
    whether its effect has happened.

    \b
    Example:
      holdkit sagas resolve order:9 cancelled --reason "the bank knows nothing of it"
    """
    if not call["reason"]:
        raise click.UsageError("--reason is missing: it says how you found out, and is recorded")
    who = {name: call[name] for name in ("actor", "correlation_id")}
    with open_kernel(url, tenant) as hk, context(**who):
        return _print(hk, [hk.sagas.resolve(saga, how, reason=call["reason"], op=call["op"])], in_json)


@sagas.command()
@click.argument("saga")
@call_options
@tenant_options
def retry(url: str | None, tenant: str, in_json: bool, saga: str, **call: Any) -> int:
    """Let a parked saga run again, in a process that has its code, with its failures counted anew; needs --reason.

    \b
    Example:
      holdkit sagas retry order:9 --reason "the bank answers again"
    """
    if not call["reason"]:
        raise click.UsageError("--reason is missing: it says why it may work now, and is recorded")
    who = {name: call[name] for name in ("actor", "correlation_id")}
    with open_kernel(url, tenant) as hk, context(**who):
        return _print(hk, [hk.sagas.retry(saga, reason=call["reason"], op=call["op"])], in_json)


@sagas.command()
@click.argument("saga")
@limit_option
@tenant_options
def history(url: str | None, tenant: str, in_json: bool, saga: str, limit: int) -> int:
    """Show what happened to a saga, from the journal, in order; also after it was deleted.

    \b
    Example:
      holdkit sagas history order:9
    """
    with open_kernel(url, tenant) as hk:
        found = hk.sagas.history(saga, limit=limit)
    rows = [
        [clock_time(one.at), str(one.phase), str(one.attempt), one.actor or "", one.reason or "",
         "" if one.error is None else one.error.message]
        for one in found
    ]  # fmt: skip
    heads = ("at", "phase", "attempt", "actor", "reason", "error")
    Output(in_json).table([saga_event_answer(one) for one in found], heads, rows)
    if found.more:
        click.echo("there is more: use a larger --limit, or holdkit journal search", err=True)
    return OK


def _print(hk: Opened, found: Sequence[SagaRecord], in_json: bool) -> int:
    now = time_of(hk)
    rows = [
        [
            one.id,
            one.name,
            str(one.phase),
            clock_time(one.since),
            str(one.failures),
            one.hold or "",
            "" if one.error is None else one.error.message,
        ]
        for one in found
    ]
    Output(in_json).table([saga_answer(one, now) for one in found], HEADS, rows)
    return OK
