"""Jobs: long tasks that a request starts and does not wait for, with progress, a result, and a way to cancel them.

Theory of operation. One job of a kind runs at a time in this process. Its work is a coroutine that gets the `Job`, and calls
`job.report` often: that is its progress, and the only point where it can be cancelled, so a job never ends in the middle of a step.
Blocking work runs through `job.in_thread`, on a thread of its own, so that it takes none of the kernel's readers; it reports from
that thread. A cancelled or overdue job is asked to stop, and counts as running until its work has really returned: the next job
of the kind cannot begin beside a thread that still reads.

    running ──► done          with its result
       │  └───► failed        with a problem, as an answer would have it
       ▼
    stopping ─► cancelled     (or done, or failed, if the work ended before its next report)

A job belongs to the tenant of the API key that started it, and lives in the process that runs it: a restart ends it, and another
server does not know it. Ended jobs are kept for `job_retention` seconds, and the oldest are dropped first when there are more than
`max_jobs`; no tenant can push out the last one of another.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from ..core.model import Slot
from ..errors import HoldkitError
from ..wire.problems import Problem, problem_of
from ..wire.system import JobState
from .settings import Settings

log = logging.getLogger("holdkit.server")

T = TypeVar("T")
Work: TypeAlias = Callable[["Job"], Awaitable[bytes]]
"""The work of a job; returns its result as JSON."""


class JobStopped(Exception):
    """The job was asked to stop. Its work lets this pass."""


class Job:
    """One long task. `report` may be called from any thread; everything else belongs to the event loop."""

    def __init__(self, kind: str, tenant: str, op: str | None, began: Slot) -> None:
        self.id = secrets.token_hex(16)
        self.kind, self.tenant, self.op, self.began = kind, tenant, op, began
        self.state: JobState = "running"
        self.done, self.total = 0, 0
        """Steps done, and about how many there are; 0 and 0 before the first report."""
        self.ended: Slot | None = None
        self.ended_at = 0.0
        """Its time by the process's monotonic clock."""
        self.result: bytes | None = None
        self.problem: Problem | None = None
        self._stop = False
        self._overdue = False

    def report(self, done: int, total: int) -> None:
        """Report the progress of the work. Raise `JobStopped` if it is to stop."""
        self.done, self.total = done, total
        if self._stop:
            raise JobStopped

    def stop(self, *, overdue: bool = False) -> None:
        """Ask the work to stop at its next report."""
        if self.ended is None and not self._stop:
            self.state, self._stop, self._overdue = "stopping", True, overdue

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread of its own. It must call `report` often."""
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"holdkit-job-{self.kind}")
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        finally:
            thread.shutdown(wait=False)

    async def run(self, work: Work, now: Callable[[], Slot]) -> None:
        """Do the work, and keep its result or its error."""
        state: JobState = "failed"
        try:
            self.result = await work(self)
            state = "done"
        except JobStopped:
            if self._overdue:
                self.problem = Problem(504, "timed_out", "the job took longer than the server's jobs.timeout")
            else:
                state = "cancelled"
        except Exception as error:
            self.problem = problem_of(error)
            if not isinstance(error, HoldkitError | Problem):
                log.exception(
                    "job %s (%s) failed",
                    self.id,
                    self.kind,
                    extra={"event": "job_failed", "job": self.id, "kind": self.kind},
                )
        finally:
            self.state, self.ended, self.ended_at = state, now(), time.monotonic()


class Jobs:
    """The jobs of this process."""

    def __init__(self, settings: Settings, now: Callable[[], Slot]) -> None:
        self._limits, self._now = settings.jobs, now
        self._jobs: dict[str, Job] = {}
        """By id, in the order of their start."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Of the running jobs, by kind."""
        self._closed = False

    def start(self, kind: str, tenant: str, work: Work, *, op: str | None = None) -> Job:
        """Start a job, or return the job that the tenant started under this `op` before. Raise `Problem` if a job of this kind
        is running."""
        self._drop_old()
        known = self.started_by(kind, tenant, op)
        if known is not None:
            return known
        if self._closed:
            raise Problem(
                503, "stopping", "the server is shutting down: retry on another server or later", retry_after=1.0
            )
        if kind in self._tasks:
            detail = f"another job of this kind ({kind}) is running: wait until it has ended, or cancel it"
            raise Problem(409, "job_running", detail, retry_after=5.0, **self._named(kind, tenant))
        job = Job(kind, tenant, op, self._now())
        self._jobs[job.id] = job
        loop = asyncio.get_running_loop()
        overdue = loop.call_later(self._limits.timeout, lambda: job.stop(overdue=True))
        # In an empty context: the deadline and the fields of the request that starts it are not those of the job.
        task = loop.create_task(job.run(work, self._now), name=f"holdkit-job-{kind}", context=contextvars.Context())
        self._tasks[kind] = task

        def ended(_: asyncio.Task[None]) -> None:
            overdue.cancel()
            del self._tasks[kind]

        task.add_done_callback(ended)
        return job

    def started_by(self, kind: str, tenant: str, op: str | None) -> Job | None:
        """Return the job that this operation of a tenant started, if it is kept."""
        for known in self._jobs.values():
            if op is not None and (known.kind, known.tenant, known.op) == (kind, tenant, op):
                return known
        return None

    def _named(self, kind: str, tenant: str) -> dict[str, Any]:
        """Return the id of the running job, for its own tenant only."""
        running = [
            one.id for one in self._jobs.values() if one.kind == kind and one.ended is None and one.tenant == tenant
        ]
        return {"job": running[0]} if running else {}

    def find(self, id: str, tenant: str) -> Job:
        """Return a job of this tenant. Raise a 404 if there is none."""
        self._drop_old()
        job = self._jobs.get(id)
        if job is None or job.tenant != tenant:
            detail = "this server has no job with this id: it was dropped, or another server or an earlier run had it"
            raise Problem(404, "job_not_found", detail)
        return job

    def listed(self, tenant: str) -> list[Job]:
        """Return the jobs of a tenant, the latest first."""
        self._drop_old()
        return [job for job in reversed(self._jobs.values()) if job.tenant == tenant]

    def _drop_old(self) -> None:
        horizon = time.monotonic() - self._limits.retention
        ended = [job for job in self._jobs.values() if job.ended is not None]
        kept = Counter(job.tenant for job in ended)
        surplus = len(ended) - self._limits.max
        for job in ended:  # the oldest first, of the tenant that has the most
            crowding = surplus > 0 and kept[job.tenant] == max(kept.values())
            if crowding or job.ended_at < horizon:
                del self._jobs[job.id]
                kept[job.tenant] -= 1
                surplus -= 1

    async def close(self, seconds: float) -> None:
        """Ask every job to stop, and wait for their work to return."""
        self._closed = True
        for job in self._jobs.values():
            job.stop()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                log.warning(
                    "%s did not stop within %g s",
                    task.get_name(),
                    seconds,
                    extra={"event": "task_unstopped", "task": task.get_name(), "seconds": seconds},
                )
                task.cancel()
