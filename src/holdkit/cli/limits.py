"""``holdkit admin limits`` and ``sweep``: what an operator sets and starts, in a database or on a server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import click

from ..core.limits import SPANS
from ..kernel.limits import changes_of, in_seconds
from ..wire.fields import at
from ..wire.system import LimitsAnswer, SweepAnswer
from .options import call_options, chosen_url, database_options, key_option, open_kernel, time_of
from .output import OK, Output

MAX_DIGITS: Final = 32
"""Digits of a number: longer text is refused as malformed, like any other text."""


@click.command()
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="for example retention=90d or max_holds=none"
)
@click.option("--if-version", type=click.IntRange(0), help="only if the limits are at this version")
@call_options
@key_option
@database_options
def limits(
    target: str | None, url: str | None, changes: tuple[str, ...], if_version: int | None, in_json: bool, **call: Any
) -> int:
    """Show the limits that are stored with the data, or change them for all processes. Lowering one cancels no hold.

    \b
    Example:
      holdkit admin limits sqlite:///holds.db
      holdkit admin limits --set retention=90d --reason "auditors ask for a quarter"
    """
    with open_kernel(chosen_url(url, target)) as hk:
        if changes:
            changed = changes_of(dict(map(_change, changes)))
            values: dict[str, Any] = {
                name: timedelta(microseconds=value) if name in SPANS else value for name, value in changed.items()
            }
            found = hk.admin.change_limits(if_version=if_version, **_who(call), **values)
        else:
            found = hk.admin.limits()
        now = time_of(hk)
    values_in_seconds = in_seconds(found)
    lines = [f"{name:<20} {_shown(name, value)}" for name, value in values_in_seconds.items()]
    Output(in_json).write(
        LimitsAnswer(values_in_seconds, found.version, now), *lines, f"{'version':<20} {found.version}"
    )
    return OK


def _change(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: must have the form NAME=VALUE, such as retention=90d")
    if value == "none":
        return name, None
    return name, int(value) if value.isdecimal() and len(value) <= MAX_DIGITS else value


def _who(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("op", "actor", "reason", "correlation_id")}


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "unlimited"
    return str(timedelta(seconds=value)) if name in SPANS else str(value)


@click.command()
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=500, show_default=True, help="maximum number of holds to expire"
)
@key_option
@database_options
def sweep(target: str | None, url: str | None, limit: int, in_json: bool) -> int:
    """Expire holds that are due, earliest deadline first, and prune a little. Safe to run at any time, by any process.

    \b
    Example:
      holdkit sweep --limit 1000
    """
    with open_kernel(chosen_url(url, target)) as hk:
        report = hk.sweep(limit)
    more = "; more are due: run it again" if report.more else ""
    holds, tenants = list(report.holds), list(report.tenants)
    document = SweepAnswer(report.expired, holds, tenants, report.more, at(report.scanned_at))
    Output(in_json).write(document, f"{report.expired} holds expired{more}")
    return OK
