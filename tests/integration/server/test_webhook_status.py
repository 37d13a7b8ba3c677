"""What users see of a webhook: its deliveries, why it is failing, when it is tried next, and how it takes a test event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from holdkit.core.model import SECOND
from holdkit.core.reading import FindRecord, JournalRow, entry_of
from holdkit.server.settings import Settings, Upkeep, Webhooks
from holdkit.server.webhooks import runner
from holdkit.server.webhooks.hooks import LEASES
from holdkit.server.webhooks.sender import WebhookSender
from holdkit.testing import FakeClock
from tests.support.receivers import HANG, Receivers, eventually, receivers
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE

NEVER = 3_600.0


def settings(**more: Any) -> Settings:
    delivery = Webhooks(**{"pauses": (NEVER,), "seconds": 5.0, "allowed": frozenset(["127.0.0.1"]), **more})
    return Settings(upkeep=Upkeep(sweep_every=0), webhooks=delivery)


@asynccontextmanager
async def scene(url: str = "memory://", **more: Any) -> AsyncIterator[tuple[InProcessApp, Receivers, dict[str, Any]]]:
    async with receivers() as there, in_process_app(url, settings=settings(**more)) as here:
        made = await here.call("POST", "/v1/webhooks", {"url": there.url("/hook"), "actions": ["pool.created"]})
        assert made.status_code == 201, made.text
        yield here, there, made.json()


async def pool(here: InProcessApp, name: str) -> None:
    assert (await here.call("POST", "/v1/pools", {"id": name, "total": 1})).status_code == 201


async def shown(here: InProcessApp, id: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await here.call("GET", f"/v1/webhooks/{id}")).json()
            if done(found):
                return dict(found)


async def deliveries(here: InProcessApp, id: str, count: int, newest: str | None = None) -> list[dict[str, Any]]:
    """The log, once it has so many attempts, and that of the event as the newest one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await here.call("GET", f"/v1/webhooks/{id}/deliveries")).json()["items"]
            if len(found) >= count and newest in (None, found[0]["event"]):
                return list(found)


def test_a_failing_webhook_says_why_since_when_and_when_it_is_tried_next() -> None:
    async def main() -> None:
        async with scene() as (here, there, hook):
            assert (hook["state"], hook["parked"], hook["encrypted"]) == ("active", 0, False)
            there.plans["/hook"] = lambda _event: 503
            await pool(here, "a")
            failing = await shown(here, hook["id"], lambda found: found["state"] == "failing")
            assert failing["why"] == "the receiver answered 503"
            since, then = (datetime.fromisoformat(failing[name]) for name in ("since", "next_attempt_at"))
            assert timedelta(seconds=NEVER - 1) < then - since < timedelta(seconds=NEVER + 60)
            (listed,) = (await here.call("GET", "/v1/webhooks")).json()["items"]
            assert listed["why"] == failing["why"]

            del there.plans["/hook"]  # it works again, and whoever knows that need not wait for an hour
            assert (await here.call("POST", f"/v1/webhooks/{hook['id']}/replay")).status_code == 202
            await there.until(lambda: there.subjects("/hook") == ["a"])
            works = await shown(here, hook["id"], lambda found: found["state"] == "active")
            assert "why" not in works
            assert "next_attempt_at" not in works
            log = await deliveries(here, hook["id"], 2)
            assert [(one["kind"], one["outcome"], one.get("status")) for one in log] == [
                ("retry", "delivered", 204),
                ("first", "rejected", 503),
            ]
            assert log[0]["event"] == log[1]["event"] == there.taken[0][1]["webhook-id"]
            assert log[1]["why"] == "the receiver answered 503"
            assert all(0 <= one["seconds"] < PATIENCE for one in log)

    asyncio.run(main())


def test_the_log_keeps_the_last_attempts() -> None:
    async def main() -> None:
        async with scene(max_log=5, pauses=()) as (here, there, hook):
            there.plans["/hook"] = lambda event: 500 if event["subject"] == "p7" else 204
            for n in range(9):
                await pool(here, f"p{n}")
            await there.until(lambda: len(there.seen) == 9)
            log = await deliveries(here, hook["id"], 5, there.taken[-1][1]["webhook-id"])
            assert [one["outcome"] for one in log] == ["delivered", "rejected", "delivered", "delivered", "delivered"]
            assert len(log) == 5

    asyncio.run(main())


def test_a_restart_and_another_server_show_the_same_and_keep_the_schedule(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with scene(url) as (here, there, hook):
            there.plans["/hook"] = lambda _event: 500
            await pool(here, "a")
            before = await shown(here, hook["id"], lambda found: found["state"] == "failing")
            log = await deliveries(here, hook["id"], 1)
            async with in_process_app(url, settings=settings()) as other:
                there_too = (await other.call("GET", f"/v1/webhooks/{hook['id']}")).json()
                for name in ("state", "why", "since", "next_attempt_at"):
                    assert there_too[name] == before[name]
                assert await deliveries(other, hook["id"], 1) == log
                await pool(other, "b")
                assert (await other.call("GET", f"/v1/webhooks/{hook['id']}")).json()["next_attempt_at"] == before[
                    "next_attempt_at"
                ]
            assert len(there.seen) == 1, "nobody tries before the time"
            there.plans.clear()
            async with in_process_app(url, settings=settings()) as other:
                await other.call("POST", f"/v1/webhooks/{hook['id']}/replay")
                await there.until(lambda: there.subjects("/hook") == ["a", "b"])

    asyncio.run(main())


def test_a_server_that_stops_leaves_a_whole_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with receivers() as there:
            async with in_process_app(url, settings=settings()) as here:
                made = await here.call("POST", "/v1/webhooks", {"url": there.url("/hook"), "actions": ["pool.created"]})
                for name in "abc":
                    await pool(here, name)
                await there.until(lambda: len(there.taken) == 3)
                before = await deliveries(here, made.json()["id"], 3)
            async with in_process_app(url, settings=settings()) as here:
                assert await deliveries(here, made.json()["id"], 3) == before

    asyncio.run(main())


@pytest.mark.parametrize("turn", [0.0, 60.0])
def test_a_turn_that_ends_early_loses_and_repeats_nothing(turn: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver is not asked again for what it took, and the order stays."""
    monkeypatch.setattr(runner, "TURN", turn)

    async def main() -> None:
        async with scene() as (here, there, _hook):
            commands = [{"type": "create_pool", "id": f"p{n:02}", "total": 1, "op": f"p{n}"} for n in range(50)]
            assert (await here.call("POST", "/v1/batch", {"commands": commands})).status_code == 200
            await there.until(lambda: len(there.taken) >= 50)
            await pool(here, "last")
            await there.until(lambda: "last" in there.subjects("/hook"))
            assert there.subjects("/hook") == [*(f"p{n:02}" for n in range(50)), "last"]

    asyncio.run(main())


def test_a_clock_that_was_set_back_delays_a_retry_by_one_pause_at_most() -> None:
    """The time of the next attempt then lies far in the future."""
    clock = FakeClock(start=1_000_000_000_000_000)

    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings(pauses=(0.2,)), clock=clock) as here:
            await here.call("POST", "/v1/webhooks", {"url": there.url("/hook"), "actions": ["pool.created"]})
            answers = iter([500])

            def answer(_event: dict[str, Any]) -> int:
                clock.set(clock.now() - int(NEVER) * SECOND)
                return next(answers, 204)

            there.plans["/hook"] = answer
            await pool(here, "a")
            await there.until(lambda: there.subjects("/hook") == ["a"])

    asyncio.run(main())


def test_too_many_parked_deliveries_stop_a_webhook_and_none_of_them_comes_twice() -> None:
    async def main() -> None:
        async with scene(max_parked=3, pauses=()) as (here, there, hook):
            there.plans["/hook"] = lambda _event: 500
            for name in "abcdef":
                await pool(here, name)
            stopped = await shown(here, hook["id"], lambda found: found["state"] == "stopped")
            assert stopped["why"] == "3 deliveries are parked, the maximum: the receiver answered 500"
            assert (stopped["parked"], "since" in stopped) == (3, True)
            page = (await here.call("GET", f"/v1/webhooks/{hook['id']}/parked?limit=2")).json()
            rest = (await here.call("GET", f"/v1/webhooks/{hook['id']}/parked?after={page['next']}")).json()
            assert [one["event"]["subject"] for one in page["items"] + rest["items"]] == ["a", "b", "c"]
            assert rest["next"] is None
            del there.plans["/hook"]
            await here.call("POST", f"/v1/webhooks/{hook['id']}/replay")
            await there.until(lambda: len(there.taken) == 6)
            ended = await shown(here, hook["id"], lambda found: found["replay"]["state"] == "ended")
            assert (ended["parked"], ended["replay"]["taken"]) == (0, 3)
            assert sorted(there.subjects("/hook")) == list("abcdef")

    asyncio.run(main())


def test_a_test_event_is_signed_and_reported_and_changes_nothing() -> None:
    async def main() -> None:
        async with scene() as (here, there, hook):
            took = await here.call("POST", f"/v1/webhooks/{hook['id']}/test")
            assert took.status_code == 200, took.text
            assert (took.json()["outcome"], took.json()["status"], took.json()["kind"]) == ("delivered", 204, "test")
            ((_, headers, event),) = there.taken
            assert (event["type"], event["data"]) == ("holdkit.test", {"webhook": hook["id"]})
            assert headers["webhook-id"] == took.json()["event"] == event["id"]
            there.plans["/hook"] = lambda _event: 410
            gone = await here.call("POST", f"/v1/webhooks/{hook['id']}/test")
            assert (gone.json()["outcome"], gone.json()["why"]) == ("gone", "the receiver answered 410")
            assert (await here.call("GET", f"/v1/webhooks/{hook['id']}")).json()["state"] == "active"
            assert [one["kind"] for one in await deliveries(here, hook["id"], 2)] == ["test", "test"]

    asyncio.run(main())


def test_a_test_event_that_is_taken_ends_a_failure_that_nothing_waits_for() -> None:
    async def main() -> None:
        async with scene(pauses=()) as (here, there, hook):
            there.plans["/hook"] = lambda _event: 500
            await pool(here, "a")
            failing = await shown(here, hook["id"], lambda found: found["parked"] == 1)
            assert (failing["state"], "next_attempt_at" in failing) == ("failing", False)
            await here.call("POST", f"/v1/webhooks/{hook['id']}/test")
            assert (await shown(here, hook["id"], lambda _found: True))["state"] == "failing"
            del there.plans["/hook"]
            await here.call("POST", f"/v1/webhooks/{hook['id']}/test")
            assert (await shown(here, hook["id"], lambda _found: True))["state"] == "active"

    asyncio.run(main())


def test_one_test_at_a_time() -> None:
    async def main() -> None:
        async with scene(seconds=1.0) as (here, there, hook):
            there.plans["/hook"] = lambda _event: HANG
            first = asyncio.create_task(here.call("POST", f"/v1/webhooks/{hook['id']}/test"))
            await there.until(lambda: len(there.seen) == 1)
            second = await here.call("POST", f"/v1/webhooks/{hook['id']}/test")
            assert (second.status_code, second.json()["reason"]) == (409, "test_running")
            assert (await first).json()["outcome"] == "answer_timed_out"

    asyncio.run(main())


def test_an_interrupted_replay_continues_when_a_server_starts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with receivers() as there:
            down = there.plans["/hook"] = lambda _event: 500
            slow = settings(pauses=(), seconds=20.0)
            async with in_process_app(url, settings=slow) as here:
                made = await here.call("POST", "/v1/webhooks", {"url": there.url("/hook"), "actions": ["pool.created"]})
                id = made.json()["id"]
                for name in "abc":
                    await pool(here, name)
                await shown(here, id, lambda found: found["parked"] == 3)
                there.plans["/hook"] = lambda event: 204 if event["subject"] == "a" else HANG
                await here.call("POST", f"/v1/webhooks/{id}/replay")
                await there.until(lambda: len(there.seen) == 6)
                await there.until(lambda: there.subjects("/hook") == ["a"])
            assert down is not None
            there.plans.clear()
            async with in_process_app(url, settings=slow) as here:
                ended = await shown(here, id, lambda found: found["replay"]["state"] == "ended")
                assert ended["parked"] == 0
                assert sorted(there.subjects("/hook"))[-2:] == ["b", "c"]

    asyncio.run(main())


def test_an_idle_webhook_has_no_task_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LINGER", 0.01)
    taken, take = set[str](), WebhookSender._take

    def noted(self: WebhookSender, rows: Sequence[JournalRow] | None) -> None:
        take(self, rows)
        taken.update(["the beginning"] if rows is None else [entry_of(row).subject for row in rows])

    monkeypatch.setattr(WebhookSender, "_take", noted)

    async def main() -> None:
        async with scene() as (here, there, _hook):

            async def of_another_tenant(names: str) -> None:
                for name in names:
                    await here.call("POST", "/v1/pools", {"id": name, "total": 1}, tenant="other")
                await eventually(lambda: names[-1] in taken)

            await pool(here, "a")
            await there.until(lambda: there.subjects("/hook") == ["a"])
            await eventually(lambda: "the beginning" in taken)
            (ours,) = here.running.webhook_sender._runners[""].values()
            await of_another_tenant("m")  # the sender has looked at everything before it
            await eventually(lambda: ours._task is None)
            news = ours._news
            await of_another_tenant("bcd")
            assert (ours._task, ours._news) == (None, news)
            await pool(here, "e")
            await there.until(lambda: there.subjects("/hook") == ["a", "e"])

    asyncio.run(main())


def test_removing_a_webhook_leaves_nothing_of_it() -> None:
    async def main() -> None:
        async with scene(pauses=()) as (here, there, hook):
            there.plans["/hook"] = lambda _event: 500
            for name in "abc":
                await pool(here, name)
            await shown(here, hook["id"], lambda found: found["parked"] == 3)
            assert (await here.call("DELETE", f"/v1/webhooks/{hook['id']}")).status_code == 200
            executor = here.running.kernel._executor
            kinds = ("~webhook", "~webhook.status", LEASES)
            left = [await executor.read(FindRecord(("", kind, hook["id"]))) for kind in kinds]
            assert left == [None, None, None]
            for path in ("", "/deliveries", "/parked"):
                assert (await here.call("GET", f"/v1/webhooks/{hook['id']}{path}")).status_code == 404

    asyncio.run(main())


def test_the_verifier_of_standard_webhooks_takes_the_test_event() -> None:
    async def main() -> None:
        bodies: list[tuple[dict[str, str], bytes]] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:]) if value}
            bodies.append((headers, await reader.readexactly(int(headers["content-length"]))))
            writer.write(b"HTTP/1.1 204 X\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, in_process_app(settings=settings()) as here:
            made = (await here.call("POST", "/v1/webhooks", {"url": target})).json()
            await here.call("POST", f"/v1/webhooks/{made['id']}/test")
        headers, body = bodies[0]
        assert Webhook(made["secret"]).verify(body, headers)["type"] == json.loads(body)["type"] == "holdkit.test"

    asyncio.run(main())
