"""Dramatiq: ``holds = Holds(broker, url)``, then ``@dramatiq.actor`` above ``@holds("gpu", 1)``."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from math import ceil
from typing import Any

from ..errors import HoldkitError, MissingExtra
from ..kernel.opening import DEFAULT_URL
from . import tasks
from .tasks import current_lease

try:
    import dramatiq
    from dramatiq.asyncio import get_event_loop_thread
    from dramatiq.errors import Retry
    from dramatiq.middleware import Middleware
except ModuleNotFoundError as missing:
    raise MissingExtra("dramatiq", missing) from missing

_message: ContextVar[tuple[str, str] | None] = ContextVar("holdkit_dramatiq_message", default=None)
"""The actor and the message that are being processed."""
FINAL = "holdkit_final"
"""An option of a message: its error is final, so `throws` was set here."""


class Holds(tasks.Holds):
    """Holdkit for the actors of a broker. An actor is run again by Dramatiq's own retries, within its `max_retries`.

    Dramatiq retries every exception; refusals that are final are taken out of that, for all actors of the broker. It schedules
    nothing, so send `sweep_actor` and `recover_actor` messages from your scheduler or from cron.
    """

    def __init__(self, broker: dramatiq.Broker | None = None, url: str = DEFAULT_URL, **options: Any) -> None:
        """Declare the actors `holdkit.sweep` and, if there are sagas, `holdkit.recover`."""
        super().__init__(url, **options)
        broker = broker or dramatiq.get_broker()
        broker.add_middleware(_Lifecycle(self))
        self.sweep_actor = _actor(broker, "holdkit.sweep", self.sweep)
        self.recover_actor = _actor(broker, "holdkit.recover", self.recover_here) if self._sagas else None

    def run_of(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, str | None]:
        """Return the actor's name and the message's id."""
        return _message.get() or super().run_of(function, args)

    def run_again(self, call: tasks.Call, error: HoldkitError, seconds: float) -> Any:
        """Raise Dramatiq's `Retry`. An actor that was called like a function raises the error itself."""
        if _message.get() is None:
            raise error
        raise Retry(str(error), delay=ceil(seconds * 1000)) from error


def _actor(broker: dramatiq.Broker, name: str, work: Callable[[], Any]) -> Any:
    """Declare an actor for scheduled work, without retries: the next message does what this one could not."""

    def run() -> None:
        work()

    async def run_async() -> None:
        await work()

    chosen: Any = run_async if tasks.is_coroutine(work) else run
    return dramatiq.actor(actor_name=name, broker=broker, max_retries=0)(chosen)


class _Lifecycle(Middleware):  # the names of parameters are Dramatiq's
    """Note which message is processed, stop retries of final errors, and close the kernels with the worker."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def before_process_message(self, broker: Any, message: Any) -> None:
        _message.set((message.actor_name, message.message_id))

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        """Mark final errors before `Retries`, which was added earlier, looks at the exception."""
        _message.set(None)
        if isinstance(exception, HoldkitError) and tasks.seconds_until_retry(exception) is None:
            message.options.setdefault("throws", type(exception))
            message.options[FINAL] = True

    def after_skip_message(self, broker: Any, message: Any) -> None:
        _message.set(None)

    def before_nack(self, broker: Any, message: Any) -> None:
        if message.options.pop(FINAL, False):
            message.options.pop("throws", None)  # a class cannot be stored with the message

    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        self._holds.close()
        thread = get_event_loop_thread()
        if thread is not None:
            thread.run_coroutine(self._holds.aclose())


__all__ = ["Holds", "current_lease"]
