"""From a URL to a kernel with its faces: `connect` and `connect_async`."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from ..core.validation import invalid
from ..engines.clocks import Clock
from ..engines.port import Engine
from ..kernel.limits import Limits, asked_slots
from ..kernel.opening import DEFAULT_URL, open_engine
from ..kernel.prepare import Randomness

if TYPE_CHECKING:
    from ._async.kernel import AsyncKernel
    from ._sync.kernel import Kernel


def connect(
    url: str | Engine = DEFAULT_URL,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    schema: str | None = None,
    pool_size: int | None = None,
    notify_url: str | None = None,
    randomness: Randomness = os.urandom,
    audit_refusals: bool = False,
) -> Kernel:
    """Open a kernel for threads. `clock` and `randomness` replace those of the machine in tests and simulations.

    Instead of a URL it takes an engine of your own that is open (docs/writing-an-engine.md); closing the kernel closes it.

    On PostgreSQL, `schema` is where the tables are (default: `holdkit`), and `pool_size` is how many connections
    this kernel may open (default: 30). Behind a pooler, `notify_url` is a second URL that leads past it to the same
    database: it is used for notifications only.

    With `audit_refusals` every refused command of this kernel gets an entry in the journal too: `command.refused`.
    """
    from ..kernel._sync.executor import Executor
    from ._sync.kernel import Kernel

    random = _checked(randomness)
    _check_auditing(audit_refusals)
    engine = open_engine(
        url,
        clock=clock,
        limits=asked_slots(limits),
        schema=schema,
        pool_size=pool_size,
        notify_url=notify_url,
    )
    engine.stored.bound(audit_refusals=audit_refusals)
    return Kernel(Executor(engine, random))


async def connect_async(
    url: str | Engine = DEFAULT_URL,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    schema: str | None = None,
    pool_size: int | None = None,
    notify_url: str | None = None,
    randomness: Randomness = os.urandom,
    audit_refusals: bool = False,
) -> AsyncKernel:
    """Open a kernel for the tasks of the running event loop: the same names, awaited."""
    from ..kernel._async.executor import AsyncExecutor
    from ._async.kernel import AsyncKernel

    random = _checked(randomness)
    _check_auditing(audit_refusals)
    slots = asked_slots(limits)
    opening = asyncio.create_task(
        asyncio.to_thread(
            open_engine,
            url,
            clock=clock,
            limits=slots,
            schema=schema,
            pool_size=pool_size,
            notify_url=notify_url,
        )
    )
    try:
        engine = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unclaimed)
        raise
    engine.stored.bound(audit_refusals=audit_refusals)
    return AsyncKernel(AsyncExecutor(engine, random))


def _close_unclaimed(opening: asyncio.Task[Engine]) -> None:
    """Close an engine whose caller was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _check_auditing(audit_refusals: object) -> None:
    if type(audit_refusals) is not bool:
        raise invalid("audit_refusals", "audit_refusals_not_boolean", "must be True or False")


def _checked(randomness: Randomness) -> Randomness:
    if not callable(randomness):
        raise invalid("randomness", "randomness_not_callable", "must be a function such as os.urandom")
    return randomness
