"""Celery: ``holds = Holds(app, url)``, then ``@app.task`` above ``@holds("gpu", 1)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.commands import Ttl
from ..core.validation import invalid
from ..errors import HoldkitError, MissingExtra
from . import tasks
from .tasks import current_lease

try:
    from celery import Celery, current_task
except ModuleNotFoundError as missing:
    raise MissingExtra("celery", missing) from missing


class Holds(tasks.Holds):
    """Holdkit for the tasks of a Celery application. A task is run again by Celery's own `retry`, within its `max_retries`."""

    def __init__(
        self,
        app: Celery,
        url: str | None = None,
        *,
        sweep_every: Ttl | None = "1m",
        recover_every: Ttl | None = "15s",
        sagas: Any = (),
        **options: Any,
    ) -> None:
        """Declare the tasks `holdkit.sweep` and, if there are sagas, `holdkit.recover`, and schedule both in Celery beat; None: not.
        `url` may also be the application's setting `holdkit_url`."""
        url = url or app.conf.get("holdkit_url")
        if not url:
            raise invalid("url", "url_missing", "give Holds a URL, or the application a setting holdkit_url")
        super().__init__(url, sagas=sagas, **options)
        if self.recover_here != self.recover:
            raise invalid(
                "sagas", "sagas_async", "Celery cannot run coroutine functions: give it sagas of plain functions"
            )
        self._declare(app, "holdkit.sweep", self.sweep, tasks.seconds_of(sweep_every, "sweep_every"))
        if self._sagas:
            self._declare(app, "holdkit.recover", self.recover, tasks.seconds_of(recover_every, "recover_every"))

    def _declare(self, app: Celery, name: str, work: Callable[[], Any], every: float | None) -> None:
        def run() -> Any:
            return work()

        declared = app.task(run, name=name, shared=False)
        if every is None:
            return

        def schedule(sender: Celery, **_more: Any) -> None:  # a run that is late is left to the next one
            sender.add_periodic_task(every, declared.s(), name=name, expires=every)

        if app.finalized:  # a task was used before, or the application has started
            schedule(app)
        else:
            app.on_after_finalize.connect(schedule, weak=False)

    def run_of(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, str | None]:
        """Return the task's name and id."""
        if not current_task:
            return super().run_of(function, args)
        return current_task.name, current_task.request.id

    def run_again(self, call: tasks.Call, error: HoldkitError, seconds: float) -> Any:  # noqa: ARG002  # it knows the call
        """Call `Task.retry`. A task that was called like a function, or eagerly, raises the error itself: there is no worker that could wait
        for the slot, and Celery would retry it at once, up to `max_retries` times."""
        if not current_task or current_task.request.called_directly or current_task.request.is_eager:
            raise error
        raise current_task.retry(exc=error, countdown=seconds)


__all__ = ["Holds", "current_lease"]
