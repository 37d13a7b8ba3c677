"""Task queues, whichever: a lease as a decorator of a task, which errors run a task again, sweep and saga recovery as tasks.

Theory of operation

*The lease.* ``@holds("gpu", 1)`` wraps a task: the lease is taken before it runs, renewed while it runs, and released when it ends,
however it ends. A worker that is killed loses it at its ttl. What to hold may depend on the task's arguments.

*Running again.* Only errors of Holdkit are handled; every other exception passes through to the queue. `retries` divides ours. A
temporary error runs the task again after a while, through the queue's own retries and within the queue's own limit of them, so a
worker is free meanwhile. A final error fails the task at once. A task that stopped because `lease.check()` reported a lost lease is
run again: it has done a part of its work. A task that returned although its lease was lost keeps its result, and a warning is
logged: its writes were either fenced or are valid.

*Kernels* are opened in the process and event loop that run the task, by its first use: workers are forked after the tasks were
defined.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from .. import errors
from ..core.commands import Ttl
from ..core.model import SECOND
from ..core.validation import invalid
from ..faces._async.kernel import AsyncKernel
from ..faces._sync.kernel import Kernel
from ..faces.saga_records import RecoveryReport
from ..kernel._async.blocks import AsyncLease
from ..kernel._sync.blocks import Lease
from ..kernel.arguments import Actor, What, span
from ..kernel.context import context
from ..kernel.opening import DEFAULT_URL
from .kernels import LoopKernels, ProcessKernel
from .retries import SOON, RunAgain, seconds_until_retry, spread

log = logging.getLogger("holdkit.contrib")

R = TypeVar("R")
Decorator: TypeAlias = Callable[[Callable[..., R]], Callable[..., R]]
MAX_ROUNDS = 1_000
"""Rounds of one sweep: a backlog beyond that is for the next one."""
MAX_SAGAS = 1_000
RECOVERY_FAILED = "recovery of sagas failed, the next one goes on: %s"

_lease: ContextVar[Lease | AsyncLease | None] = ContextVar("holdkit_lease", default=None)


def current_lease() -> Any:
    """Return the lease of the task that runs here. (A parameter called `lease` gets it too.)"""
    lease = _lease.get()
    if lease is None:
        raise invalid("lease", "lease_missing", "there is none here: the task needs @holds(…)")
    return lease


class Call(NamedTuple):
    """One run of a task."""

    task: Callable[..., Any]
    """As the decorator made it."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Plan(NamedTuple):
    """The arguments of a decorator."""

    what: Any
    quantity: int | None
    ttl: Ttl
    wait: Ttl | None
    account: Any
    tenant: Any
    taken: float

    def lease(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the lease for these arguments of the task."""

        def found(given: Any) -> Any:
            return given(*args, **kwargs) if callable(given) else given

        tenant = found(self.tenant)
        if tenant is not None:
            kernel = kernel.tenant(tenant)
        return kernel.lease(found(self.what), self.quantity, ttl=self.ttl, wait=self.wait, account=found(self.account))


class Holds:
    """Holdkit for the tasks of one application. The modules of the queues have the class to use."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        sagas: Iterable[Any] = (),
        on_open: Callable[[Kernel], Any] | None = None,
        **options: Any,
    ) -> None:
        """Keep the options. `recover` drives the `sagas`. `on_open` is called with each kernel for threads when it is opened. `options`
        are those of `holdkit.connect`."""
        self._sagas, self._on_open = (*sagas,), on_open
        self._kernels = ProcessKernel(url, on_open=self._prepare, **options)
        self._loop_kernels = LoopKernels(url, on_open=self._prepare_async, **options)

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of this process, for tasks that are plain functions; the first use opens it."""
        return self._kernels.get()

    async def async_kernel(self) -> AsyncKernel:
        """Return the kernel of this event loop, for tasks that are coroutine functions; the first use opens it."""
        return await self._loop_kernels.get()

    def close(self) -> None:
        """Close the kernel of this process. (It is also closed when the process ends.)"""
        self._kernels.close()

    async def aclose(self) -> None:
        """Close the kernel of this event loop: call it before the loop ends."""
        await self._loop_kernels.aclose()

    def _prepare(self, kernel: Kernel) -> None:
        for saga in self._sagas:
            if not _is_async(saga):
                kernel.sagas.register(saga)
        if self._on_open is not None:
            self._on_open(kernel)

    async def _prepare_async(self, kernel: AsyncKernel) -> None:
        for saga in self._sagas:
            kernel.sagas.register(saga)

    # Decorators

    def __call__(
        self,
        what: What | Callable[..., What],
        quantity: int | None = None,
        *,
        ttl: Ttl = "1m",
        wait: Ttl | None = None,
        account: str | Callable[..., str] | None = None,
        tenant: str | Callable[..., str] | None = None,
        retry_in: Ttl = "30s",
    ) -> Decorator[Any]:
        """Run a task under a lease: ``@holds("gpu", 1)``. The innermost decorator, below the queue's own.

        `what`, `account` and `tenant` may be functions of the task's arguments. `ttl` is how long the units stay taken after a
        worker was killed; the lease is renewed while the task runs. If the units are not free, the task waits in line for `wait`,
        which keeps its worker busy, and is then run again by the queue after about `retry_in`. A parameter called `lease` gets the
        lease; `current_lease()` returns it anywhere.
        """
        span(ttl, "ttl")
        plan = Plan(what, quantity, ttl, wait, account, tenant, span(retry_in, "retry_in") / SECOND)
        return lambda function: self._wrapped(function, plan)

    def retrying(self, function: Callable[..., R]) -> Callable[..., R]:
        """Run a task again, through the queue, if Holdkit turned one of its calls away or refused it for now. `@holds(…)` includes
        this."""
        return self._wrapped(function, None)

    def _wrapped(self, function: Callable[..., Any], plan: Plan | None) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise invalid(
                "task", "task_generator", "is a generator function: its body would run after the lease has ended"
            )
        signature = inspect.signature(function)
        passes = plan is not None and "lease" in signature.parameters
        started = _with_lease(function, signature) if passes else _without_lease(function)
        taken = 30.0 if plan is None else plan.taken

        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

            @wraps(function)
            async def task(*args: Any, **kwargs: Any) -> Any:
                lease = None
                try:
                    with self._context_of(function, args):
                        if plan is None:
                            return await function(*args, **kwargs)
                        async with plan.lease(await self.async_kernel(), args, kwargs) as lease:
                            with _known(lease):
                                return await started(args, kwargs, lease)
                except errors.HoldkitError as error:
                    return self._after(error, lease, taken, Call(task, args, kwargs))
        else:

            @wraps(function)
            def task(*args: Any, **kwargs: Any) -> Any:
                lease = None
                try:
                    with self._context_of(function, args):
                        if plan is None:
                            return function(*args, **kwargs)
                        with plan.lease(self.kernel, args, kwargs) as lease, _known(lease):
                            return started(args, kwargs, lease)
                except errors.HoldkitError as error:
                    return self._after(error, lease, taken, Call(task, args, kwargs))

        if passes:  # queues check arguments against the signature
            others = [one for name, one in signature.parameters.items() if name != "lease"]
            task.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return task

    def _after(self, error: errors.HoldkitError, lease: Any, taken: float, call: Call) -> Any:
        """Run the task again if the error says that it may succeed later; otherwise raise the error."""
        seconds = seconds_until_retry(error, taken=taken)
        if isinstance(error, errors.HoldExpired) and lease is not None and error.subject == lease.hold.id:
            seconds = spread(SOON)
        if seconds is None:
            raise error
        why = getattr(error, "reason", type(error).__name__)  # not its message: that may quote what a caller wrote
        name = _name_of(call.task)
        log.info(
            "%s is run again in %.1f s: %s",
            name,
            seconds,
            why,
            extra={"event": "task_retried", "task": name, "seconds": seconds, "why": why},
        )
        return self.run_again(call, error, seconds)

    @contextmanager
    def _context_of(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[None]:
        name, id = self.run_of(function, args)
        with context(actor=Actor.job(name[:200]), correlation_id=id):
            yield

    # What a queue's own module replaces

    def run_of(self, function: Callable[..., Any], _args: tuple[Any, ...]) -> tuple[str, str | None]:
        """Return the task's name and the id of this run, for the journal."""
        return _name_of(function), None

    def run_again(self, call: Call, error: errors.HoldkitError, seconds: float) -> Any:  # noqa: ARG002  # for those who need it
        """Have the queue run a task again: raise what it understands, or return what the task's run returns."""
        raise RunAgain(error, seconds) from error

    # Scheduled work

    def sweep(self) -> int:
        """Expire due holds and return how many. Log a failure: the next run retries."""
        expired = 0
        try:
            for _ in range(MAX_ROUNDS):
                report = self.kernel.sweep()
                expired += report.expired
                if not report.more:
                    break
        except errors.HoldkitError as failed:
            log.warning("sweep failed, the next one goes on: %s", failed, extra={"event": "scheduled_sweep_failed"})
        return expired

    def recover(self) -> dict[str, int]:
        """Drive up to 1,000 abandoned sagas and return how many ended in each way. The next run drives the others."""
        try:
            return _counted(self.kernel.sagas.recover(MAX_SAGAS))
        except errors.HoldkitError as failed:
            log.warning(RECOVERY_FAILED, failed, extra={"event": "saga_recovery_failed"})
            return {}

    async def recover_async(self) -> dict[str, int]:
        """Drive abandoned sagas on an event loop, as `recover` does: for sagas whose methods are coroutine functions."""
        try:
            return _counted(await (await self.async_kernel()).sagas.recover(MAX_SAGAS))
        except errors.HoldkitError as failed:
            log.warning(RECOVERY_FAILED, failed, extra={"event": "saga_recovery_failed"})
            return {}

    @property
    def recover_here(self) -> Callable[[], Any]:
        """Call `recover_async` if a saga has a coroutine function, else `recover`."""
        return self.recover_async if any(map(_is_async, self._sagas)) else self.recover


@contextmanager
def _known(lease: Any) -> Iterator[None]:
    """Run a block in which `current_lease` returns this lease."""
    token = _lease.set(lease)
    try:
        yield
    finally:
        _lease.reset(token)
    if lease.lost:
        log.warning(
            "the lease %s was lost before its task had ended: others may have had its units meanwhile",
            lease.hold.id,
            extra={"event": "task_lease_lost", "hold": lease.hold.id},
        )


def _with_lease(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Wrap a task so that its parameter `lease`, at any position, gets the lease."""
    place, kind = [*signature.parameters].index("lease"), signature.parameters["lease"].kind
    positional = kind is not inspect.Parameter.KEYWORD_ONLY

    def started(args: tuple[Any, ...], kwargs: dict[str, Any], lease: Any) -> Any:
        if positional and place <= len(args):
            return function(*args[:place], lease, *args[place:], **kwargs)
        return function(*args, **kwargs, lease=lease)

    return started


def _without_lease(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda args, kwargs, _lease: function(*args, **kwargs)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def _counted(report: RecoveryReport) -> dict[str, int]:
    return {name: int(number) for name, number in msgspec.structs.asdict(report).items() if name != "more"}


def _is_async(saga: Any) -> bool:
    return any(
        inspect.iscoroutinefunction(getattr(saga, name, None)) for name in ("reserve", "validate", "effect", "undo")
    )


def is_coroutine(work: Callable[[], Any]) -> bool:
    """Return whether a call of the function must be awaited."""
    return inspect.iscoroutinefunction(work)


def seconds_of(every: Ttl | None, name: str) -> float | None:
    """Return the interval of scheduled work in seconds; None: it never runs."""
    return None if every is None else span(every, name) / SECOND


__all__ = ["Holds", "RunAgain", "current_lease", "seconds_until_retry"]
