"""procrastinate: ``holds = Holds(app, url)``, then ``@app.task(retry=holds.retry())`` above ``@holds("gpu", 1)``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ..errors import HoldkitError, MissingExtra
from ..kernel.opening import DEFAULT_URL
from . import tasks
from .tasks import RunAgain, current_lease

try:
    from procrastinate import App, BaseRetryStrategy, JobContext, RetryDecision
    from procrastinate.jobs import Job
except ModuleNotFoundError as missing:
    raise MissingExtra("procrastinate", missing) from missing


class Holds(tasks.Holds):
    """Holdkit for the tasks of a procrastinate application. A task is run again by its retry strategy: give it `holds.retry()`."""

    def __init__(
        self,
        app: App,
        url: str = DEFAULT_URL,
        *,
        sweep_cron: str | None = "* * * * *",
        recover_cron: str | None = "* * * * * */15",
        **options: Any,
    ) -> None:
        """Declare the tasks `holdkit.sweep` and, if there are sagas, `holdkit.recover`, periodic ones by these crontab lines, whose
        sixth field is seconds; None: not periodic. A job that waits keeps the next one out of the queue."""
        super().__init__(url, **options)
        self.sweep_task = _declare(app, "holdkit.sweep", self.sweep, sweep_cron)
        self.recover_task = None
        if self._sagas:
            self.recover_task = _declare(app, "holdkit.recover", self.recover_here, recover_cron)

    def retry(self, *, max_attempts: int | None = None, otherwise: BaseRetryStrategy | None = None) -> Retry:
        """Return the retry strategy for tasks of `@holds(…)` and `@holds.retrying`. `otherwise` is asked about exceptions that are not
        Holdkit's; by default they are not retried."""
        return Retry(max_attempts, otherwise)

    def run_of(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, str | None]:
        """Return the task's name; the job's id if the task is passed its context."""
        if args and isinstance(args[0], JobContext):
            job = args[0].job
            return job.task_name, None if job.id is None else f"job-{job.id}"
        return super().run_of(function, args)


class Retry(BaseRetryStrategy):
    """Runs a job again when Holdkit says that it may succeed later."""

    def __init__(self, max_attempts: int | None, otherwise: BaseRetryStrategy | None) -> None:
        self._max_attempts, self._otherwise = max_attempts, otherwise

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return when to run a failed job again; None: not. procrastinate calls this."""
        if not isinstance(exception, RunAgain | HoldkitError):
            asked = self._otherwise
            return None if asked is None else asked.get_retry_decision(exception=exception, job=job)
        if self._max_attempts is not None and job.attempts >= self._max_attempts:
            return None
        seconds = exception.seconds if isinstance(exception, RunAgain) else tasks.seconds_until_retry(exception)
        return None if seconds is None else RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=seconds))


def _declare(app: App, name: str, work: Callable[[], Any], cron: str | None) -> Any:
    def run(timestamp: int | None = None) -> None:  # noqa: ARG001  # procrastinate passes it to periodic tasks
        work()

    async def run_async(timestamp: int | None = None) -> None:  # noqa: ARG001
        await work()

    chosen: Any = run_async if tasks.is_coroutine(work) else run
    declared = app.task(name=name, queueing_lock=name)(chosen)
    return declared if cron is None else app.periodic(cron=cron)(declared)


__all__ = ["Holds", "Retry", "current_lease"]
