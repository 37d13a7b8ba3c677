"""A slow, hostile or dead receiver costs its own tenant only. Each test was an attack that worked."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from holdkit.server.settings import Requests, Settings, Upkeep, Webhooks
from holdkit.server.webhooks.lookups import Lookups
from tests.support.receivers import HANG, Receivers, eventually, receivers
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE

POOLS = ["pool.created"]


def settings(**more: Any) -> Settings:
    delivery = Webhooks(**{"pauses": (), "seconds": 0.5, "allowed": frozenset(["127.0.0.1"]), **more})
    return Settings(upkeep=Upkeep(sweep_every=0), webhooks=delivery)


async def hook(here: InProcessApp, url: str, tenant: str) -> str:
    made = await here.call("POST", "/v1/webhooks", {"url": url, "actions": POOLS}, tenant=tenant)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def pool(here: InProcessApp, name: str, tenant: str) -> None:
    made = await here.call("POST", "/v1/pools", {"id": name, "total": 1}, tenant=tenant)
    assert made.status_code == 201, made.text


async def parked(here: InProcessApp, id: str, tenant: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        while True:
            found = (await here.call("GET", f"/v1/webhooks/{id}/parked", tenant=tenant)).json()["items"]
            if len(found) == count:
                return list(found)


def test_parallel_replays_of_one_tenant_take_nothing_from_another() -> None:
    """More than a hundred attempts that waited for the shared connection pool left it unusable until a restart."""

    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            there.plans["/hangs"] = lambda _event: HANG
            theirs = await hook(here, there.url("/hangs"), "mallory")
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await parked(here, theirs, "mallory", 1)
            replays = [
                asyncio.create_task(here.call("POST", f"/v1/webhooks/{theirs}/replay", tenant="mallory"))
                for _ in range(300)
            ]
            await there.until(lambda: len(there.seen) > 1)
            await pool(here, "during", "quiet")
            await there.until(lambda: there.subjects("/good") == ["during"])
            await asyncio.gather(*replays)
            await pool(here, "after", "quiet")
            await there.until(lambda: there.subjects("/good") == ["during", "after"])

    asyncio.run(main())


def test_a_cookie_of_one_tenants_receiver_is_sent_to_nobody() -> None:
    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            there.headers["/theirs"] = b"Set-Cookie: session=of-mallory; Path=/\r\n"
            await hook(here, there.url("/theirs"), "mallory")
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await there.until(lambda: there.subjects("/theirs") == ["a"])
            await pool(here, "b", "quiet")
            await pool(here, "c", "mallory")
            await there.until(lambda: len(there.taken) == 3)
            assert [headers.get("cookie") for _, headers, _ in there.taken] == [None, None, None]

    asyncio.run(main())


@pytest.mark.parametrize("bound", ["on", "off"])
def test_slow_name_lookups_of_one_tenant_stop_no_other(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """The canary: if a tenant may have all threads, another one starves."""
    lookup, answer = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *args: Any, **more: Any) -> Any:
        if host == "slow.example":
            answer.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "slow")
        return lookup("127.0.0.1" if host == "good.example" else host, *args, **more)

    async def main() -> None:
        allowed = frozenset(["slow.example", "good.example"])
        threads = {} if bound == "on" else {"lookup_threads": 4, "tenant_lookup_threads": 4}
        slow = settings(allowed=allowed, lookup_timeout=0.2, **threads)
        async with receivers() as there, in_process_app(settings=slow) as here:
            await here.key("admin", "mallory")
            try:
                await asyncio.gather(
                    *(hook(here, f"http://slow.example:{there.port}/{n}", "mallory") for n in range(12))
                )
                await hook(here, f"http://good.example:{there.port}/good", "quiet")
                await pool(here, "a", "mallory")
                lookups = here.running.webhook_sender.attempts.lookups.slots
                await eventually(lambda: lookups.busy == (2 if bound == "on" else 4))
                await pool(here, "b", "quiet")
                if bound == "on":
                    await there.until(lambda: there.subjects("/good") == ["b"], 5)
                else:
                    with pytest.raises(TimeoutError):
                        await there.until(lambda: there.subjects("/good") == ["b"], 1)
            finally:
                answer.set()

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(main())


def test_events_that_hang_do_not_keep_a_replay_from_those_behind_them() -> None:
    async def main() -> None:
        quick = Settings(upkeep=Upkeep(sweep_every=0), requests=Requests(timeout=1.0), webhooks=settings().webhooks)
        async with receivers() as there, in_process_app(settings=quick) as here:
            up = False
            there.plans["/hangs"] = lambda event: 204 if up and event["subject"] > "c" else HANG if up else 500
            mine = await hook(here, there.url("/hangs"), "acme")
            for name in "abcdef":
                await pool(here, name, "acme")
            await parked(here, mine, "acme", 6)
            up = True
            await here.call("POST", f"/v1/webhooks/{mine}/replay", tenant="acme")
            await there.until(lambda: sorted(there.subjects("/hangs")) == ["d", "e", "f"], 10)
            left = await parked(here, mine, "acme", 3)
            assert [one["event"]["subject"] for one in left] == ["a", "b", "c"]

    asyncio.run(main())


def hanging(there: Receivers, tenant: str) -> int:
    """How many attempts of a tenant's hooks hang at the receiver."""
    return sum(path.startswith(f"/{tenant}") for path, _ in there.seen)


@pytest.mark.parametrize("bound", ["on", "off"])
def test_receivers_that_hang_take_the_slots_of_their_own_tenant_only(bound: str) -> None:
    """The canary: if a tenant may have all slots, another one starves."""

    async def main() -> None:
        own = {"tenant_attempts": 2, "receiver_attempts": 2} if bound == "on" else {"tenant_attempts": 4}
        few = settings(seconds=20.0, attempts=4, **{"receiver_attempts": 4, **own})
        async with receivers() as there, in_process_app(settings=few) as here:
            for n in range(6):
                there.plans[f"/mallory{n}"] = lambda _event: HANG
                await hook(here, there.url(f"/mallory{n}"), "mallory")
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await there.until(lambda: hanging(there, "mallory") == (2 if bound == "on" else 4))
            await pool(here, "b", "quiet")
            if bound == "on":
                await there.until(lambda: there.subjects("/good") == ["b"])
                assert hanging(there, "mallory") == 2
            else:
                with pytest.raises(TimeoutError):
                    await there.until(lambda: there.subjects("/good") == ["b"], 0.5)

    asyncio.run(main())


def test_all_slots_that_hang_delay_a_tenant_without_one_by_the_time_that_is_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attack: with every slot taken by receivers that never answer, another tenant's event waited until they had timed out."""
    monkeypatch.setattr("holdkit.server.webhooks.slots.CERTAIN_SECONDS", 0.0)
    monkeypatch.setattr("holdkit.server.webhooks.slots.LEAST_WORK_SECONDS", 0.0)

    async def main() -> None:
        all_of_them = settings(
            seconds=120.0, attempts=4, tenant_attempts=4, receiver_attempts=4, pauses=(60.0,), send_timeout=120.0
        )
        async with receivers() as there, in_process_app(settings=all_of_them) as here:
            hooks = [await hook(here, there.url(f"/mallory{n}"), "mallory") for n in range(4)]
            there.plans |= {f"/mallory{n}": lambda _event: HANG for n in range(4)}
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "a", "mallory")
            await there.until(lambda: hanging(there, "mallory") == 4)
            await pool(here, "b", "quiet")
            await there.until(lambda: there.subjects("/good") == ["b"] and there.open == 3)
            assert await whys(here, hooks, "mallory") == [
                "no answer in time, and another tenant waits for the slot of this attempt"
            ], "one attempt was ended for it"

    asyncio.run(main())


async def whys(here: InProcessApp, hooks: list[str], tenant: str) -> list[str]:
    """Why hooks are failing, as soon as one is."""
    async with asyncio.timeout(PATIENCE):
        while True:
            shown = [(await here.call("GET", f"/v1/webhooks/{one}", tenant=tenant)).json() for one in hooks]
            if found := [str(one["why"]) for one in shown if one["state"] == "failing"]:
                return found


async def first_delivery(here: InProcessApp, id: str, tenant: str) -> dict[str, Any]:
    """The only attempt in the log, which is written a moment after the event was parked."""
    async with asyncio.timeout(PATIENCE):
        while True:
            items = (await here.call("GET", f"/v1/webhooks/{id}/deliveries", tenant=tenant)).json()["items"]
            if items:
                (attempt,) = items
                return dict(attempt)


def test_a_tenant_cannot_tell_an_unknown_name_from_one_of_the_inside_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: an admin of a tenant asks for names, and the delivery log says which of them the server's network knows."""
    hanging_up, answers = threading.Event(), {"public": True}

    def lookup(host: Any, *_args: Any, **_more: Any) -> Any:
        if answers["public"]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]
        if host == "hangs.example":
            hanging_up.wait(60)
        if host == "inside.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 443))]
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def main() -> None:
        async with in_process_app(settings=settings(lookup_timeout=0.1)) as here:
            names = ("inside.example", "unknown.example", "hangs.example")
            hooks = [await hook(here, f"https://{name}/", name) for name in names]
            answers["public"] = False
            logs = []
            for name, id in zip(names, hooks, strict=True):
                await pool(here, "a", name)
                await parked(here, id, name, 1)
                attempt = await first_delivery(here, id, name)
                logs.append({key: attempt.get(key) for key in ("outcome", "status", "seconds", "why")})
            says = "the URL must use https, and its host name must lead to public addresses; the server's settings can allow hosts and networks"
            assert logs == [{"outcome": "target_refused", "status": None, "seconds": 0.0, "why": says}] * 3
            stats = (await here.call("GET", "/v1/stats")).json()["webhooks"]["outcomes"]
            assert stats == {"lookup_failed": 1, "lookup_timed_out": 1, "target_refused": 1}, "the operator knows"

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    try:
        asyncio.run(main())
    finally:
        hanging_up.set()


def test_retries_to_dead_receivers_take_nothing_from_first_attempts() -> None:
    """However many tenants have dead receivers."""

    async def main() -> None:
        few = settings(seconds=20.0, pauses=(0.0, 0.0), attempts=2, tenant_attempts=2, receiver_attempts=2)
        async with receivers() as there, in_process_app(settings=few) as here:
            for n in range(6):
                first = iter([500])
                there.plans[f"/dead{n}"] = lambda _event, first=first: next(first, HANG)  # type: ignore[misc]
                await hook(here, there.url(f"/dead{n}"), f"dead{n}")
                await pool(here, "a", f"dead{n}")
                await there.until(lambda n=n: hanging(there, f"dead{n}") == (2 if n < 2 else 1))  # type: ignore[misc]
            await hook(here, there.url("/good"), "quiet")
            await pool(here, "b", "quiet")
            await there.until(lambda: there.subjects("/good") == ["b"])

    asyncio.run(main())


def test_many_parallel_replays_are_one() -> None:
    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            there.plans["/down"] = lambda _event: 500
            mine = await hook(here, there.url("/down"), "acme")
            for name in "abc":
                await pool(here, name, "acme")
            await parked(here, mine, "acme", 3)
            before = len(there.seen)
            answers = await asyncio.gather(
                *(here.call("POST", f"/v1/webhooks/{mine}/replay", tenant="acme") for _ in range(50))
            )
            assert {one.status_code for one in answers} == {202}
            began = {one.json()["began_at"] for one in answers}
            assert len(began) == 1, "all are told of the same one"
            assert {one.json()["total"] for one in answers} == {3}
            await there.until(lambda: len(there.seen) == before + 3)
            ended = await replay_ended(here, mine, "acme")
            assert (ended["replay"]["taken"], ended["replay"]["failed"], ended["parked"]) == (0, 3, 3)
            assert len(there.seen) == before + 3

    asyncio.run(main())


async def replay_ended(here: InProcessApp, id: str, tenant: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            shown = (await here.call("GET", f"/v1/webhooks/{id}", tenant=tenant)).json()
            if shown["replay"]["state"] == "ended":
                return dict(shown)


def test_a_lookup_that_hangs_counts_against_its_tenant_until_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, threads = threading.Event(), list[str]()

    def slow(host: Any, *_args: Any, **_more: Any) -> Any:
        threads.append(host)
        answer.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "slow")

    async def main() -> None:
        lookups = Lookups(8, 2)
        for n in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await lookups.addresses("mallory", f"{n}.example", 443)
        assert threads == ["0.example", "1.example"]
        assert lookups.slots.busy == 2
        answer.set()
        await eventually(lambda: not lookups.slots.busy)
        assert await lookups.addresses("mallory", "127.0.0.1", 443) == ["127.0.0.1"], "an address needs no thread"

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(main())


def test_failures_are_logged_once_in_a_while_per_tenant_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with receivers() as there, in_process_app(settings=settings()) as here:
            for tenant in ("mallory", "quiet"):
                there.plans[f"/{tenant}"] = lambda _event: 500
                mine = await hook(here, there.url(f"/{tenant}"), tenant)
                for name in "abcde":
                    await pool(here, name, tenant)
                await parked(here, mine, tenant, 5)
            stats = (await here.call("GET", "/v1/stats")).json()["webhooks"]
            assert (stats["failed"], stats["parked"], stats["outcomes"]) == (10, 10, {"rejected": 10})

    asyncio.run(main())
    told = [record.getMessage() for record in caplog.records if "an attempt failed" in record.getMessage()]
    assert len(told) == 2, told
    assert "of tenant 'mallory': an attempt failed: the receiver answered 500" in told[0]
    assert "of tenant 'quiet'" in told[1]
