"""APScheduler 3: ``holds = Holds(scheduler, url)``, then ``scheduler.add_job`` of functions with ``@holds("gpu", 1)``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..core.commands import Ttl
from ..core.validation import invalid
from ..errors import HoldkitError, MissingExtra
from ..kernel.opening import DEFAULT_URL
from . import tasks
from .tasks import current_lease

try:
    from apscheduler.schedulers.base import BaseScheduler
    from apscheduler.schedulers.blocking import BlockingScheduler
except ModuleNotFoundError as missing:
    raise MissingExtra("apscheduler", missing) from missing

STORE: Final = "holdkit"
"""The store of the jobs that this module schedules. In memory: they refer to objects of this process."""
ANY_NUMBER: Final = 1_000_000
"""Of runs of one job at a time. The run that asks for another one has not ended yet; APScheduler drops a run that is one too many."""


class Holds(tasks.Holds):
    """Holdkit for the jobs of a scheduler that runs them in its own process, in threads or on its event loop.

    APScheduler has no retries: a run that has to be repeated is scheduled once more, at most once for each function and arguments.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        url: str = DEFAULT_URL,
        *,
        sweep_every: Ttl | None = "1m",
        recover_every: Ttl | None = "15s",
        **options: Any,
    ) -> None:
        """Schedule `holdkit.sweep` and, if there are sagas, `holdkit.recover`; None: not."""
        super().__init__(url, **options)
        if isinstance(scheduler, BlockingScheduler) and tasks.is_coroutine(
            self.recover_here
        ):  # the background one is one of these
            raise invalid("sagas", "sagas_async", "a saga with coroutine functions needs an AsyncIOScheduler")
        self._scheduler = scheduler
        scheduler.add_jobstore("memory", STORE)
        self._schedule("holdkit.sweep", self.sweep, tasks.seconds_of(sweep_every, "sweep_every"))
        if self._sagas:
            every = tasks.seconds_of(recover_every, "recover_every")
            self._schedule("holdkit.recover", self.recover_here, every)

    def _schedule(self, name: str, work: Callable[[], Any], every: float | None) -> None:
        if every is not None:
            self._scheduler.add_job(
                work,
                "interval",
                seconds=every,
                id=name,
                name=name,
                jobstore=STORE,
                coalesce=True,
                misfire_grace_time=None,
            )

    def run_again(self, call: tasks.Call, error: HoldkitError, seconds: float) -> Any:
        """Schedule one more run. If the scheduler is shut down, raise the error in the job instead."""
        if not self._scheduler.running:
            raise error
        self._scheduler.add_job(
            call.task,
            "date",
            run_date=datetime.now(UTC) + timedelta(seconds=seconds),
            args=call.args,
            kwargs=call.kwargs,
            id=f"again:{id(call.task)}:{call.args!r}:{sorted(call.kwargs.items())!r}",
            replace_existing=True,
            misfire_grace_time=None,
            max_instances=ANY_NUMBER,
            jobstore=STORE,
        )
        return None


__all__ = ["Holds", "current_lease"]
