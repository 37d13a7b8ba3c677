"""Jobs, and `POST /v1/verify`, which is one: after a timeout its thread once ran on while the guard was lifted, and two calls took
both of the kernel's readers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import holdkit
from holdkit.client import connect
from holdkit.core.audit_rows import Difference
from holdkit.engines import progress
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.sqlite import SqliteEngine
from holdkit.server import Settings
from holdkit.server.handlers.system import first_differences
from holdkit.server.jobs import Job
from holdkit.server.settings import Jobs, Requests, Upkeep
from holdkit.testing import FakeClock
from holdkit.wire.problems import Problem
from tests.support.servers import InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE, wait_until

SHORT = Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), requests=Requests(timeout=0.3))


class SlowVerify:
    """In place of an engine's `verify`: reports until it is let go or told to stop."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.reported = threading.Event()
        self.let_go = threading.Event()
        self.threads: set[str] = set()

    def __call__(self, progress: Any = None) -> Iterator[Difference]:
        self.threads.add(threading.current_thread().name)
        self.begun.release()
        try:
            done = 0
            while not self.let_go.wait(0.005):
                done += 1
                progress(done, 1_000_000)
                self.reported.set()
            yield from ()
        finally:
            self.ended.release()


def play(work: Callable[[InProcessApp, SlowVerify], Coroutine[Any, Any, None]], settings: Settings = SHORT) -> None:
    async def main() -> None:
        slow = SlowVerify()
        async with in_process_app(settings=settings) as here:
            here.running.kernel._executor.engine.verify = slow  # type: ignore[method-assign, assignment]
            try:
                await work(here, slow)
            finally:
                slow.let_go.set()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def ended(here: InProcessApp, id: str) -> dict[str, Any]:
    """A job, once no job runs."""
    running = list(here.running.jobs._tasks.values())
    if running:
        await asyncio.wait(running)
    found: dict[str, Any] = (await here.call("GET", f"/v1/jobs/{id}")).json()
    return found


def test_however_long_it_takes_reads_go_on() -> None:
    async def work(here: InProcessApp, slow: SlowVerify) -> None:
        started = await here.call("POST", "/v1/verify")
        assert started.status_code == 202
        assert started.headers["location"] == f"/v1/jobs/{started.json()['id']}"
        await asyncio.to_thread(slow.begun.acquire)
        for _ in range(2):
            refused = await here.call("POST", "/v1/verify")
            assert (refused.status_code, refused.json()["reason"]) == (409, "job_running")
            assert (refused.json()["job"], refused.json()["effect"]) == (started.json()["id"], "none")
        assert (await here.call("GET", "/v1/pools")).status_code == 200
        assert not any(name.startswith("holdkit-reader") for name in slow.threads)
        slow.let_go.set()
        done = await ended(here, started.json()["id"])
        assert (done["state"], done["result"]["ok"]) == ("done", True)

    play(work)


def test_an_erasure_is_a_job_for_operators() -> None:
    async def work(here: InProcessApp) -> None:
        kernel = here.running.kernel
        tenant = kernel.tenant("acme")
        for hk in (kernel, tenant):
            await hk.create_pool("show", 10)
            await hk.hold("show", 1, ttl=600, entity="user:7", account="customer:7")
        bad: list[tuple[dict[str, Any], str]] = [
            ({}, "reason_required"), ({"reason": "r", "value": ""}, "entity_required"), ({"reason": "r", "by": "claim"}, "claim_malformed"),
            ({"reason": "r", "value": "erased:0011"}, "already_erased"),
        ]  # fmt: skip
        for change, code in bad:
            refused = await here.call("POST", "/v1/erase", {"by": "entity", "value": "7", **change})
            assert (refused.status_code, refused.json()["code"]) == (400, code)
        asked = {"by": "entity", "value": "user:7", "reason": "request 1"}
        counted = await ended(here, (await here.call("POST", "/v1/erase", {**asked, "dry_run": True})).json()["id"])
        assert counted["result"]["erased"]["dry_run"]
        assert await kernel.holds(entity="user:7")
        done = await ended(here, (await here.call("POST", "/v1/erase", asked)).json()["id"])
        erased = done["result"]["erased"]
        assert (done["state"], done["result"]["found"], erased["holds"], erased["accounts"]) == (
            "done",
            True,
            1,
            ["customer:7"],
        )
        assert (await kernel.journal.list())[-1].reason == "request 1"
        assert not await kernel.holds(entity="user:7")
        assert await tenant.holds(entity="user:7"), "another tenant's"
        await ended(here, (await here.call("POST", "/v1/erase", {**asked, "tenant": "acme"})).json()["id"])
        assert not await tenant.holds(entity="user:7")
        again = await ended(here, (await here.call("POST", "/v1/erase", asked)).json()["id"])
        assert not again["result"]["found"]

    async def main() -> None:
        async with in_process_app(settings=SHORT) as here:
            await work(here)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_its_progress_can_be_asked_for_and_it_stops_when_cancelled() -> None:
    async def work(here: InProcessApp, slow: SlowVerify) -> None:
        id = (await here.call("POST", "/v1/verify")).json()["id"]
        await asyncio.to_thread(slow.reported.wait)
        seen = (await here.call("GET", f"/v1/jobs/{id}")).json()
        assert (seen["kind"], seen["state"], seen["total"], seen["result"]) == ("verify", "running", 1_000_000, None)
        assert seen["done"] > 0
        cancelled = (await here.call("DELETE", f"/v1/jobs/{id}")).json()
        assert cancelled["state"] in ("stopping", "cancelled")
        assert (await ended(here, id))["state"] == "cancelled"
        assert slow.ended.acquire(timeout=PATIENCE), "its thread has left"
        again = (await here.call("DELETE", f"/v1/jobs/{id}")).json()
        assert again["state"] == "cancelled"
        assert [one["id"] for one in (await here.call("GET", "/v1/jobs")).json()["items"]] == [id]

    play(work)


def test_a_job_counts_as_running_until_its_thread_has_left() -> None:
    """Canary of the old fault: the guard must not be lifted while something still reads."""

    async def work(here: InProcessApp, slow: SlowVerify) -> None:
        stuck, go = threading.Event(), threading.Event()

        def deaf(progress: Any = None) -> Iterator[Difference]:
            stuck.set()
            go.wait(PATIENCE)
            progress(1, 2)
            yield from ()

        here.running.kernel._executor.engine.verify = deaf  # type: ignore[method-assign, assignment]
        id = (await here.call("POST", "/v1/verify")).json()["id"]
        await asyncio.to_thread(stuck.wait)
        assert (await here.call("DELETE", f"/v1/jobs/{id}")).json()["state"] == "stopping"
        assert (await here.call("POST", "/v1/verify")).json()["reason"] == "job_running"
        go.set()
        assert (await ended(here, id))["state"] == "cancelled"
        here.running.kernel._executor.engine.verify = slow  # type: ignore[method-assign, assignment]
        assert (await here.call("POST", "/v1/verify")).status_code == 202

    play(work)


def test_a_job_that_takes_too_long_is_stopped() -> None:
    async def work(here: InProcessApp, slow: SlowVerify) -> None:
        id = (await here.call("POST", "/v1/verify")).json()["id"]
        overdue = await ended(here, id)
        assert (overdue["state"], overdue["problem"]["reason"]) == ("failed", "timed_out")
        assert slow.ended.acquire(timeout=PATIENCE)

    play(work, Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), jobs=Jobs(timeout=0.05)))


def test_a_server_that_stops_ends_its_jobs_first() -> None:
    slow = SlowVerify()

    async def main() -> None:
        async with in_process_app(settings=SHORT) as here:
            here.running.kernel._executor.engine.verify = slow  # type: ignore[method-assign, assignment]
            await here.call("POST", "/v1/verify")
            await asyncio.to_thread(slow.begun.acquire)
        assert slow.ended.acquire(blocking=False)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_repeated_request_finds_the_job_it_started() -> None:
    async def work(here: InProcessApp, slow: SlowVerify) -> None:
        first = await here.call("POST", "/v1/verify", op="mine")
        again = await here.call("POST", "/v1/verify", op="mine")
        other = await here.call("POST", "/v1/verify", op="other")
        assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
        assert first.json()["id"] == again.json()["id"]
        slow.let_go.set()
        await ended(here, first.json()["id"])
        assert (await here.call("POST", "/v1/verify", op="mine")).json()["state"] == "done"

    play(work)


def test_jobs_are_their_tenants_own_bounded_and_forgotten() -> None:
    settings = Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), jobs=Jobs(max=3))

    async def work(here: InProcessApp, _: SlowVerify) -> None:
        jobs = here.running.jobs

        async def quick(job: Job) -> bytes:
            job.report(1, 1)
            return b"{}"

        async def run(tenant: str) -> str:
            job = jobs.start("quick", tenant, quick)
            await asyncio.wait(list(jobs._tasks.values()))
            return job.id

        theirs = await run("acme")
        assert (await here.call("GET", f"/v1/jobs/{theirs}", tenant="rival")).json()["reason"] == "job_not_found"
        assert (await here.call("DELETE", f"/v1/jobs/{theirs}", tenant="rival")).status_code == 404
        assert (await here.call("GET", "/v1/jobs", tenant="rival")).json()["items"] == []
        assert (await here.call("GET", f"/v1/jobs/{theirs}", tenant="acme")).json()["state"] == "done"
        ours = [await run("") for _ in range(10)]
        kept = [one.id for one in jobs.listed("")]
        assert kept == ours[: -len(kept) - 1 : -1], "the latest, latest first"
        assert len(kept) <= 3
        assert [one.id for one in jobs.listed("acme")] == [theirs], "another tenant's many jobs push out none of these"

    play(work, settings)

    async def forgetful(here: InProcessApp, slow: SlowVerify) -> None:
        slow.let_go.set()
        id = (await here.call("POST", "/v1/verify")).json()["id"]
        assert (await ended(here, id))["reason"] == "job_not_found"

    play(forgetful, Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), jobs=Jobs(retention=0)))


def test_what_a_job_fails_by_is_its_problem(caplog: pytest.LogCaptureFixture) -> None:
    async def work(here: InProcessApp, _: SlowVerify) -> None:
        async def refused(job: Job) -> bytes:
            raise Problem(403, "scope_too_small", "too small")

        async def broken(job: Job) -> bytes:
            raise ZeroDivisionError("secret")

        for work, reason in ((refused, "scope_too_small"), (broken, "internal_error")):
            job = here.running.jobs.start("bad", "", work)
            failed = await ended(here, job.id)
            assert (failed["state"], failed["problem"]["reason"]) == ("failed", reason)
            assert "secret" not in str(failed)

    play(work)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_client_waits_for_it_with_progress_and_cancels_it_when_interrupted(
    engine: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "memory://" if engine == "memory" else f"sqlite:///{tmp_path / 'holds.db'}"
    with (
        live_server(url) as server,
        connect(server.url, key=server.admin) as hk,
        server.client() as http,
    ):
        hk.create_pool("a", 5)
        assert hk.admin.verify().ok
        monkeypatch.setattr(progress, "OFTEN", 1)
        slow = SlowVerify()
        kind = MemoryEngine if engine == "memory" else SqliteEngine
        monkeypatch.setattr(kind, "verify", lambda _self, progress=None: slow(progress))

        def interrupt(done: int, total: int) -> None:
            assert 0 < done < total == 1_000_000
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            hk.admin.verify(progress=interrupt)
        wait_until(lambda: http.get("/v1/jobs").json()["items"][0]["state"] == "cancelled")


def test_only_the_first_differences_are_kept() -> None:
    class Damaged:
        closed = False

        def verify(self, progress: Any = None) -> Any:
            try:
                while True:
                    yield Difference("holds", "x" * 600, "legs", "a", "b")
            finally:
                self.closed = True

    damaged = Damaged()
    assert len(first_differences(damaged, lambda *_: None)) == 1_000  # type: ignore[arg-type]
    assert damaged.closed


def test_an_erasure_rewrites_the_archive_that_the_server_knows(tmp_path: Path) -> None:
    url, to = f"sqlite:///{tmp_path}/holds.db", tmp_path / "archive"
    clock = FakeClock(1_700_000_000_000_000)
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("show", 10)
        hk.release(hk.hold("show", 1, ttl=600, entity="user:7"))
        hk.admin.resize_pool("show", 9)
        clock.advance(9 * 86_400)
        hk.admin.archive(before="1d", to=to)
    asked = {"by": "entity", "value": "user:7", "reason": "request 1"}

    async def main() -> None:
        async with in_process_app(url, settings=SHORT, clock=clock) as here:
            failed = await ended(here, (await here.call("POST", "/v1/erase", asked)).json()["id"])
            assert failed["state"] == "failed"
            assert str(to) in failed["problem"]["detail"]
        async with in_process_app(
            url, settings=structs.replace(SHORT, journal=structs.replace(SHORT.journal, archive=str(to))), clock=clock
        ) as here:
            done = await ended(here, (await here.call("POST", "/v1/erase", asked)).json()["id"])
            assert (done["state"], done["result"]["erased"]["entries"]) == ("done", 2)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    with holdkit.connect(url, clock=clock) as hk:
        assert hk.admin.verify(archive=to).ok
