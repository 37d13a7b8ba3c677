"""A saga that waits for a person is ended over HTTP: once, with a reason, by an admin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdkit
from holdkit import Saga
from holdkit.core.commands import PutRecord
from holdkit.core.reading import FindRecord
from holdkit.errors import SagaParked
from holdkit.faces._async.sagas import AsyncSagas
from holdkit.testing import FakeClock
from tests.support.servers import InProcessApp, in_process_app


class Doomed(Saga):
    """Takes a seat, and fails behind the point of no return."""

    name = "doomed"
    max_attempts = 1

    def reserve(self, intent: Any, step: Any) -> str:
        return "seat"

    def effect(self, intent: Any, step: Any) -> None:
        raise ValueError("the card was refused")


async def park(here: InProcessApp, saga: str) -> None:
    with pytest.raises(SagaParked):
        await here.running.kernel.sagas.register(Doomed()).run(saga, {})


def run(work: Callable[[InProcessApp, FakeClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = FakeClock(start=1_000_000_000_000_000)
        async with in_process_app(clock=clock) as here:
            await here.call("POST", "/v1/pools", {"id": "seat", "total": 5})
            await work(here, clock)

    asyncio.run(main())


def body(how: str) -> dict[str, Any]:
    return {"how": how, "reason": "I called the bank"}


@pytest.mark.parametrize(("how", "phase", "consumed"), [("done", "done", 1), ("cancelled", "aborted", 0)])
def test_a_parked_saga_is_ended_with_what_it_holds(how: str, phase: str, consumed: int) -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "order/9")
        path = "/v1/sagas/order%2F9/resolve"
        done = await here.call("POST", path, {**body(how), "actor": "user:7"}, op="r")
        assert (done.status_code, done.json()["phase"]) == (200, phase)
        assert done.json()["resolved"] == "I called the bank"
        pool = (await here.call("GET", "/v1/pools/seat")).json()
        assert (pool["held"], pool["consumed"]) == (0, consumed)
        story = (await here.call("GET", f"/v1/holds/{done.json()['hold']}/history")).json()["items"]
        assert (story[-1]["reason"], story[-1]["actor"]) == ("I called the bank", "user:7")
        assert (await here.call("GET", "/v1/sagas?stuck=true")).json()["items"] == []
        assert (await here.running.kernel.admin.verify()).ok

    run(work)


@pytest.mark.parametrize("how", ["done", "cancelled"])
def test_the_end_of_a_saga_is_told_and_its_retention_begins_there(how: str) -> None:
    async def work(here: InProcessApp, clock: FakeClock) -> None:
        await park(here, "a")
        clock.advance(29 * 86_400)
        done = await here.call("POST", "/v1/sagas/a/resolve", body(how), op="r")
        assert (done.json()["begun_at"], done.json()["since"]) == (
            "2001-09-09T01:46:40.000000Z",
            "2001-10-08T01:46:40.000000Z",
        )
        clock.advance(2 * 86_400)
        assert (await here.running.kernel.sagas.recover()).pruned == 0
        seen = (await here.call("GET", "/v1/sagas/a")).json()
        assert (seen["phase"], seen["since"]) == (done.json()["phase"], "2001-10-08T01:46:40.000000Z")
        clock.advance(28 * 86_400)
        assert (await here.running.kernel.sagas.recover()).pruned == 1
        assert (await here.call("GET", "/v1/sagas/a")).status_code == 404

    run(work)


def test_a_repetition_changes_nothing_and_another_end_is_refused() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "a")
        path = "/v1/sagas/a/resolve"
        first = await here.call("POST", path, body("cancelled"), op="r")
        before = (await here.call("GET", "/v1/journal")).json()["items"]
        again = await here.call("POST", path, body("cancelled"), op="r")
        assert again.json() == {**first.json(), "server_time": again.json()["server_time"]}
        other = await here.call("POST", path, body("done"), op="s")
        assert (other.status_code, other.json()["reason"], other.json()["effect"]) == (409, "saga_ended", "none")
        assert (await here.call("GET", "/v1/journal")).json()["items"] == before
        elsewhere = await here.call("POST", "/v1/consume", {"pool": "seat"}, op="r")
        assert (elsewhere.status_code, elsewhere.json()["reason"]) == (422, "operation_conflict")

    run(work)


def test_one_that_is_driven_or_missing_is_left_alone() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        class Attempts(Doomed):
            async def effect(self, intent: Any, step: Any) -> str:  # type: ignore[override]
                busy = await here.call("POST", "/v1/sagas/b/resolve", body("cancelled"), op="r")
                assert (busy.status_code, busy.json()["effect"]) == (503, "none")
                assert int(busy.headers["retry-after"]) == 30
                return str(busy.json()["reason"])

        done = await here.running.kernel.sagas.register(Attempts()).run("b", {})
        assert (done.phase, done.result) == ("done", "saga_busy")
        missing = await here.call("POST", "/v1/sagas/none/resolve", body("done"), op="t")
        assert (missing.status_code, missing.json()["reason"]) == (404, "saga_not_found")

    run(work)


def test_one_that_moved_on_between_look_and_write_is_refused() -> None:
    class Outrun(AsyncSagas):
        """Somebody else is faster, each time."""

        async def _check_free(self, record: Any, body: Any) -> None:
            await AsyncSagas(self._executor, self._tenant).resolve(record.id, "cancelled", reason="I was first")

    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "a")
        kernel = here.running.kernel
        with pytest.raises(holdkit.errors.VersionConflict):
            await Outrun(kernel._executor, "").resolve("a", "done", reason="I called the bank")
        ended = await kernel.sagas.get("a")
        assert ended is not None
        assert (ended.phase, ended.resolved) == ("aborted", "I was first")
        assert (await kernel.pool("seat")).available == 5

    run(work)


@pytest.mark.parametrize(
    ("body", "field"),
    [({"how": "done"}, "reason"), ({"how": "done", "reason": ""}, "reason"), ({"how": "odd", "reason": "x"}, "how")],
)
def test_a_reason_and_a_known_end_are_asked_for(body: dict[str, Any], field: str) -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "a")
        no = await here.call("POST", "/v1/sagas/a/resolve", body, op="r")
        assert no.status_code == 400
        assert field in no.text
        assert (await here.call("GET", "/v1/sagas/a")).json()["phase"] == "parked"

    run(work)


def test_a_parked_saga_runs_again_and_its_history_tells_of_it() -> None:
    class Repaired(Doomed):
        works = False

        async def effect(self, intent: Any, step: Any) -> str:  # type: ignore[override]
            if not self.works:
                raise ValueError("the card was refused")
            return step.op  # type: ignore[no-any-return]

    async def work(here: InProcessApp, clock: FakeClock) -> None:
        sagas, saga = here.running.kernel.sagas, Repaired()
        with pytest.raises(SagaParked):
            await sagas.register(saga).run("a/1", {})
        path, asked = "/v1/sagas/a%2F1", {"reason": "the terminal was repaired"}
        clock.advance(3_600)
        for _ in range(2):  # the second is a retry
            again = await here.call("POST", f"{path}/retry", asked, op="again")
            assert (again.status_code, again.json()["phase"], again.json()["failures"]) == (200, "finalizing", 0)
        saga.works = True
        assert (await sagas.recover()).done == 1
        assert (await here.call("GET", path)).json()["result"] == "saga:a/1:1", "the effect has its former operation id"
        story = (await here.call("GET", f"{path}/history")).json()
        phases = ["reserving", "reserving", "finalizing", "parked", "finalizing", "done"]
        assert ([one["phase"] for one in story["items"]], story["more"]) == (phases, False)
        parked, retried = story["items"][3:5]
        assert parked["error"] == {"kind": "ValueError", "message": "the card was refused"}
        assert (retried["reason"], retried["op"]) == ("the terminal was repaired", "again")
        assert retried["actor"] == f"api_client:{retried['client_id']}"
        first = (await here.call("GET", f"{path}/history?limit=2")).json()
        assert (first["items"], first["more"]) == (story["items"][:2], True)
        ended = await here.call("POST", f"{path}/retry", asked, op="late")
        assert (ended.status_code, ended.json()["reason"]) == (409, "saga_ended")
        for method, missing in (("GET", "history"), ("POST", "retry")):
            body = None if method == "GET" else asked
            none = await here.call(method, f"/v1/sagas/none/{missing}", body, op="none" if body else None)
            assert (none.status_code, none.json()["reason"]) == (404, "saga_not_found")

    run(work)


@pytest.mark.parametrize("end", ["release", "confirm"])
def test_a_parked_saga_whose_hold_was_ended_by_force_is_only_retried_if_it_can_end(end: str) -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "a")
        hold = (await here.call("GET", "/v1/sagas/a")).json()["hold"]
        await here.call("POST", f"/v1/holds/{hold}/{end}", {"force": True, "reason": "by hand"}, op="f")
        again = await here.call("POST", "/v1/sagas/a/retry", {"reason": "try"}, op="again")
        if end == "release":  # its effect may have happened, and nothing is held for it any more
            assert (again.status_code, again.json()["reason"]) == (409, "saga_not_retriable")
            assert (await here.call("GET", "/v1/sagas/a")).json()["phase"] == "parked"
        else:
            assert (again.status_code, again.json()["phase"]) == (200, "finalizing")
            assert (await here.running.kernel.sagas.recover()).done == 1
        assert (await here.running.kernel.admin.verify()).ok

    run(work)


def test_a_saga_that_an_earlier_release_parked_is_retried_if_its_hold_tells_the_phase() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await park(here, "a")
        executor = here.running.kernel._executor
        stored = await executor.read(FindRecord(("", "~saga", "a")))
        assert stored is not None
        assert '"parked_in":"finalizing"' in stored.body
        former = stored.body.replace('"parked_in":"finalizing"', '"unknown":1')
        await executor.execute(PutRecord(kind="~saga", id="a", body=former), faces=True)
        again = await here.call("POST", "/v1/sagas/a/retry", {"reason": "try"}, op="again")
        assert (again.status_code, again.json()["phase"]) == (200, "finalizing")
        await executor.execute(PutRecord(kind="~saga", id="a", body='"nonsense"'), faces=True)
        refused = await here.call("POST", "/v1/sagas/a/retry", {"reason": "try"}, op="third")
        assert (refused.status_code, refused.json()["reason"]) == (409, "saga_not_retriable")

    run(work)
