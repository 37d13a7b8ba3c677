"""``holdkit run``: hold while a command runs. It renews the hold, forwards signals and the exit code, and always releases.

If the hold is lost, it stops the command. If this process itself is killed, the units come back after the ttl.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack
from typing import Any, Final

import click

from ..core.commands import PlaceHold
from ..errors import InsufficientCapacity, LineAhead
from ..kernel._sync.blocking import waiting_time
from ..kernel._sync.blocks import Lease
from ..kernel.arguments import Call, call_fields, legs_of, span
from .arguments import account_option, leg_option, pass_limits_option, requested_legs, seconds
from .options import call_of, call_options, open_kernel, tenant_options
from .output import LOST, REFUSED, error_document, report_error

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FORWARDED: Final = frozenset({*STOPPING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH})
AWAITED: Final = FORWARDED | {signal.SIGCHLD}
CHECK_EVERY: Final = 0.25
"""Seconds between two checks of the lease, if no signal arrives."""
CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""Both as shells use them."""


@click.command()
@click.option("--pool", help="the pool to hold")
@click.option("--units", type=int, help="how many units  [default: 1]")
@leg_option
@click.option(
    "--ttl",
    default="60s",
    show_default=True,
    help="renewed every third of it; if this process is killed, the units come back after it",
)
@click.option("--wait", help="wait this long for units, instead of failing at once")
@click.option("--grace", default="10s", show_default=True, help="time between SIGTERM and SIGKILL if the hold is lost")
@click.option(
    "--refused-code",
    type=click.IntRange(0, 255),
    default=REFUSED,
    show_default=True,
    help="exit code if there are not enough units",
)
@account_option
@pass_limits_option
@call_options
@tenant_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    url: str | None, tenant: str, in_json: bool, pool: str | None, units: int | None, legs: list[tuple[str, int]],
    ttl: str, wait: str | None, grace: str, refused_code: int, account: str | None, force: bool, command: tuple[str, ...],
    **call: Any,
) -> int:  # fmt: skip
    """Hold while COMMAND runs, and exit with its code. The command gets HOLDKIT_HOLD and HOLDKIT_FENCE in its environment.

    \b
    Example:
      holdkit run --pool gpu --units 1 -- python train.py
      holdkit run --pool gpu --account team:blue --wait 1h -- ./train
    """
    what, quantity = requested_legs(pool, units, legs)
    timeout, grace_seconds = _seconds(wait or "0s", "wait"), _seconds(grace, "grace")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)  # threads that start from here on inherit the mask
    try:
        with open_kernel(url, tenant) as hk, ExitStack() as stack:
            command_fields = call_fields(call_of(call), tenant)
            placing = PlaceHold(
                legs=legs_of(what, quantity),
                ttl_slots=span(seconds(ttl) or 0),
                account=account,
                force=force,
                **command_fields,
            )
            lease = Lease(hk._executor, placing, waiting_time(timeout, Call()))
            acquire(stack, lease)
            return supervise(command, lease, grace_seconds, before)
    except (InsufficientCapacity, LineAhead) as refused:
        report_error(error_document(refused), in_json)
        return refused_code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def acquire(stack: ExitStack, lease: Lease) -> None:
    """Enter the lease on a thread, which may wait in line, while this one waits for signals; all of them are blocked."""
    main, failures = threading.get_ident(), list[BaseException]()

    def enter() -> None:
        try:
            stack.enter_context(lease)
        except BaseException as error:  # noqa: BLE001 - raised below, on the main thread
            failures.append(error)
        finally:
            signal.pthread_kill(main, signal.SIGCHLD)  # no command runs yet, so no other process sends it

    thread = threading.Thread(target=enter, name="holdkit-acquire")
    thread.start()
    received = signal.sigwaitinfo({*STOPPING, signal.SIGCHLD})
    if received.si_signo != signal.SIGCHLD:
        lease.stop_waiting()
    thread.join()
    if received.si_signo != signal.SIGCHLD:
        raise SystemExit(128 + received.si_signo)
    if failures:
        raise failures[0]


def supervise(command: tuple[str, ...], lease: Lease, grace: float, mask: Collection[signal.Signals | int]) -> int:
    """Start the command and wait until it ends."""
    environment = {**os.environ, "HOLDKIT_HOLD": lease.hold.id, "HOLDKIT_FENCE": str(lease.fence)}
    ours = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them; other programs expect the default
    try:
        child = os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=ours)
    except OSError as error:
        click.echo(f"holdkit: cannot run {command[0]}: {error.strerror}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
    kill_at: float | None = None
    while True:
        received = signal.sigtimedwait(AWAITED, CHECK_EVERY)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return LOST if kill_at is not None else code if code >= 0 else 128 - code
        if received is not None and received.si_signo in FORWARDED and received.si_code <= 0:
            os.kill(
                child, received.si_signo
            )  # a signal from the terminal (code above 0) has already reached the command
        if kill_at is None and lease.lost:
            kill_at = time.monotonic() + grace
            click.echo(f"holdkit: hold {lease.hold.id} is lost: stopping the command", err=True)
            os.kill(child, signal.SIGTERM)
        elif kill_at is not None and time.monotonic() >= kill_at:
            os.kill(child, signal.SIGKILL)


def _seconds(text: str, field: str) -> float:
    return max(0.0, span(seconds(text) or 0, field) / 1_000_000)
