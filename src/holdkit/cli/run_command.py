"""``holdkit run``: hold while a command runs. Renews, passes signals and the exit code on, always releases.

The command is stopped if the hold is lost. Should this process be killed outright, the ttl gives the units back.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any, Final

import click

from ..errors import InsufficientCapacity
from ..kernel._sync.blocks import Lease
from ..kernel.normalise import span
from .holds import asked, leg_option, seconds
from .options import call_of, call_options, kernel, of_tenant
from .output import LOST, REFUSED, complain, error_document

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON: Final = frozenset({*STOPPING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH})
AWAITED: Final = PASSED_ON | {signal.SIGCHLD}
LOOK: Final = 0.25
"""Seconds after which the lease is looked at, if no signal comes."""
CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""Both as shells say it."""


@click.command()
@click.option("--pool", help="what to hold")
@click.option("--units", type=int, help="how many of it  [default: 1]")
@leg_option
@click.option(
    "--ttl", default="60s", show_default=True, help="renewed every third of it; a killed run holds on so long"
)
@click.option("--wait", help="wait so long for room, instead of being refused at once")
@click.option("--grace", default="10s", show_default=True, help="between SIGTERM and SIGKILL, if the hold is lost")
@click.option(
    "--refused-code", type=click.IntRange(0, 255), default=REFUSED, show_default=True, help="if there is no room"
)
@call_options
@of_tenant
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    url: str | None, tenant: str, in_json: bool, pool: str | None, units: int | None, legs: list[tuple[str, int]],
    ttl: str, wait: str | None, grace: str, refused_code: int, command: tuple[str, ...], **call: Any,
) -> int:  # fmt: skip
    """Hold while COMMAND runs, and leave with its exit code. It finds HOLDKIT_HOLD and HOLDKIT_FENCE in its environment.

    \b
    Example:
      holdkit run --pool gpu --units 1 -- python train.py
    """
    if wait is not None and call["op"] is not None:
        raise click.UsageError(
            "--wait asks anew, and an operation id is settled by the first refusal: give one of them"
        )
    what, quantity = asked(pool, units, legs)
    patience, last_words = _seconds(wait or "0s", "wait"), _seconds(grace, "grace")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)  # also for the threads that are started from here on
    try:
        with kernel(url, tenant) as hk, ExitStack() as held:
            place = lambda: hk.lease(what, quantity, ttl=seconds(ttl) or 0, **call_of(call))  # noqa: E731
            lease = enter(held, place, patience)
            return accompany(command, lease, last_words, before)
    except InsufficientCapacity as refused:
        complain(error_document(refused), in_json)
        return refused_code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def enter(held: ExitStack, place: Callable[[], Lease], patience: float) -> Lease:
    """The lease, as soon as there is room."""
    until = time.monotonic() + patience
    while True:
        try:
            return held.enter_context(place())
        except InsufficientCapacity:
            left = until - time.monotonic()
            if left <= 0:
                raise
            struck = signal.sigtimedwait(STOPPING, min(left, random.uniform(0.1, 0.5)))
            if struck is not None:
                raise SystemExit(128 + struck.si_signo) from None


def accompany(command: tuple[str, ...], lease: Lease, grace: float, mask: Collection[signal.Signals | int]) -> int:
    """Start the command, and stay with it until it ends."""
    environment = {**os.environ, "HOLDKIT_HOLD": lease.hold.id, "HOLDKIT_FENCE": str(lease.fence)}
    ours = (signal.SIGPIPE, signal.SIGXFSZ)  # which Python ignores, and programs do not expect to be ignored
    try:
        child = os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=ours)
    except OSError as error:
        click.echo(f"holdkit: cannot run {command[0]}: {error.strerror}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
    kill_at: float | None = None
    while True:
        struck = signal.sigtimedwait(AWAITED, LOOK)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return LOST if kill_at is not None else code if code >= 0 else 128 - code
        if struck is not None and struck.si_signo in PASSED_ON and struck.si_code <= 0:
            os.kill(child, struck.si_signo)  # one from the terminal (a code above 0) the command has had already
        if kill_at is None and lease.lost:
            kill_at = time.monotonic() + grace
            click.echo(f"holdkit: the hold {lease.hold.id} is lost: stopping the command", err=True)
            os.kill(child, signal.SIGTERM)
        elif kill_at is not None and time.monotonic() >= kill_at:
            os.kill(child, signal.SIGKILL)


def _seconds(text: str, field: str) -> float:
    return max(0.0, span(seconds(text) or 0, field) / 1_000_000)
