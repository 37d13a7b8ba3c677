"""Jobs: list, read, cancel. For scope admin, within the caller's tenant."""

from __future__ import annotations

from msgspec import Raw

from ...wire.fields import Time, at
from ...wire.system import JobAnswer, JobPage, JobProblem
from ..jobs import Job
from ..request import Answer, Request, answer


def job_answer(job: Job, now: Time, *, result: bool = True) -> JobAnswer:
    """Return a job as a document."""
    problem = None if job.problem is None else JobProblem(job.problem.reason, job.problem.detail)
    return JobAnswer(
        id=job.id,
        kind=job.kind,
        state=job.state,
        done=job.done,
        total=job.total,
        began_at=at(job.began),
        ended_at=None if job.ended is None else at(job.ended),
        result=Raw(job.result) if result and job.result is not None else None,
        problem=problem,
        server_time=now,
    )


def started(request: Request, job: Job) -> Answer:
    """Answer for a route that started a job: 202, and the job's URL."""
    location = (b"location", f"/v1/jobs/{job.id}".encode())
    return answer(job_answer(job, request.now()), 202, (location,))


async def list_jobs(request: Request) -> Answer:
    """List the jobs that this server runs or still keeps, without their results."""
    now = request.now()
    found = [job_answer(job, now, result=False) for job in request.running.jobs.listed(request.caller.tenant)]
    return answer(JobPage(found, now))


async def show_job(request: Request) -> Answer:
    """Answer with one job, with its result."""
    job = request.running.jobs.find(request.names[0], request.caller.tenant)
    return answer(job_answer(job, request.now()))


async def cancel_job(request: Request) -> Answer:
    """Ask a job to stop at its next step; no effect if it has ended."""
    job = request.running.jobs.find(request.names[0], request.caller.tenant)
    job.stop()
    return answer(job_answer(job, request.now()))
