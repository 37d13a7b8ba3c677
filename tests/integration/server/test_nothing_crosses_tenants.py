"""What one tenant does leaves everything that another tenant can read unchanged: no gap, no digest, no length counts a stranger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdkit.errors import InvalidRequest
from holdkit.kernel.pages import decode_cursor
from holdkit.server.request import Request
from holdkit.server.settings import Answers, Settings, Upkeep, Webhooks
from holdkit.server.streams import Stream, entries
from holdkit.testing import FakeClock
from tests.integration.server.test_webhooks import Receiver
from tests.support.servers import QUICK, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

NOON = 1_700_049_600_000_000
OPAQUE = (
    "position",
    "cursor",
    "next",
    "id",
    "token",
    "ticket",
    "subject",
    "holder",
    "op",
    "generation",
    "sse_id",
    "actor",
    "client_id",
    "hold",
)
"""Texts that are random, or keyed: only their length counts."""

Work = Callable[[InProcessApp], Coroutine[Any, Any, Any]]


def play(work: Work, url: str = "memory://") -> Any:
    async def main() -> Any:
        async with in_process_app(url, clock=FakeClock(start=NOON), settings=QUICK, pepper=b"p" * 32) as here:
            return await work(here)

    return asyncio.run(main())


async def stranger(here: InProcessApp, number: int) -> None:
    """Tenant acme makes and removes pools, holds and records of its own."""
    await here.call("POST", "/v1/pools", {"id": f"secret-{number}", "total": 50}, tenant="acme")
    for unit in range(3 + number):
        op = f"acme-{number}-{unit}"
        await here.call("POST", "/v1/holds", {"pool": f"secret-{number}", "ttl": 60}, op=op, tenant="acme")
    await here.call("PUT", f"/v1/records/note/{number}", {"body": "{}"}, op=f"note-{number}", tenant="acme")
    claim = {"type": "email", "value": f"{number}", "ttl": 60}
    await here.call("POST", "/v1/claims", claim, op=f"claim-{number}", tenant="acme")
    await here.call("POST", "/v1/items", {"ids": [f"seat:{number}"]}, tenant="acme")
    await here.call("PUT", "/v1/budgets/llm", {"budgets": {"tokens": [{"total": 99, "per": "day"}]}}, tenant="acme")
    spent = {"client": "c", "actual": 1}
    await here.call("POST", "/v1/budgets/llm/consume", spent, op=f"spent-{number}", tenant="acme")
    await remove_a_granted_pool(here, f"gone-{number}", "acme", holds=3)


async def remove_a_granted_pool(here: InProcessApp, pool: str, tenant: str, holds: int) -> None:
    """Make a pool, grant these holds on it, release them and remove the pool: its fence is the number of holds by then."""
    await here.call("POST", "/v1/pools", {"id": pool, "total": holds}, tenant=tenant)
    for number in range(holds):
        hold = await here.call("POST", "/v1/holds", {"pool": pool, "ttl": 60}, op=f"{pool}-{number}", tenant=tenant)
        path, token = f"/v1/holds/{hold.json()['id']}/release", {"token": hold.json()["token"]}
        await here.call("POST", path, token, op=f"{pool}-{number}-back", tenant=tenant)
    assert (await here.call("DELETE", f"/v1/pools/{pool}", op=f"{pool}-gone", tenant=tenant)).status_code == 200


async def first_event(here: InProcessApp, after: str | None) -> dict[str, Any]:
    """The hello of a stream, and its first packet if it resumes after a cursor: without the times."""
    (key,) = [key for key in await here.running.keys.stored() if key.tenant == "rival"][:1]
    request = Request({"method": "GET"}, None)  # type: ignore[arg-type]
    request.caller, request.running = here.running.admission._caller(key), here.running
    stream = await entries(Stream(request), after)
    packets = [await anext(stream)]
    if after is not None:
        packets.append(await anext(stream))
    await stream.aclose()
    lines = b"".join(packets).decode().split("\n")
    ids = [line[4:] for line in lines if line.startswith("id: ")]
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return {"sse": data, "ids": [{"sse_id": one} for one in ids]}


async def story_of_rival(
    here: InProcessApp, meanwhile: Callable[[InProcessApp, int], Coroutine[Any, Any, None]]
) -> Any:
    """Everything that tenant rival is told, with something happening between any two of its calls."""
    told: list[Any] = []

    async def ask(method: str, path: str, body: Any = None, op: str | None = None, **more: Any) -> Any:
        await meanwhile(here, len(told))
        answer = await here.call(method, path, body, op=op, tenant="rival", **more)
        told.append([answer.status_code, answer.json()])
        return answer.json()

    await ask("GET", "/v1/cursor")
    await ask("POST", "/v1/pools", {"id": "mine", "total": 50})
    hold = await ask("POST", "/v1/holds", {"pool": "mine", "ttl": 60}, op="a")
    await ask("POST", f"/v1/holds/{hold['id']}/confirm", {"token": hold["token"]}, op="b")
    await ask("POST", "/v1/batch", {"commands": [{"type": "consume", "pool": "mine"}] * 2}, op="c")
    page = await ask("GET", "/v1/journal?limit=2")
    await ask("GET", "/v1/journal", params={"after": page["cursor"]})
    await ask("GET", "/v1/journal?last=3")
    await ask("GET", "/v1/journal?last=500")
    end = await ask("GET", "/v1/cursor")
    await ask("GET", "/v1/journal", params={"after": end["cursor"]})
    back = await ask("GET", "/v1/cursor?back=2")
    await ask("GET", "/v1/journal", params={"after": back["cursor"]})
    await ask("GET", "/v1/pools/mine/history?limit=2")
    await ask("GET", f"/v1/holds/{hold['id']}/history")
    await ask("PUT", "/v1/cursors/mailer", {"cursor": page["cursor"], "if_version": 0}, op="d")
    kept = await ask("GET", "/v1/cursors/mailer")
    await ask("GET", "/v1/overview")
    claim = await ask("POST", "/v1/claims", {"type": "email", "value": "a", "ttl": 60}, op="e")
    await ask("POST", f"/v1/holds/{claim['id']}/confirm", {"token": claim["token"], "entity": "user:1"}, op="f")
    await ask("GET", "/v1/claims")
    seats = [{"id": f"seat:{number}", "section": "stalls", "row": "A", "number": number} for number in (1, 2)]
    await ask("POST", "/v1/seats", {"seats": seats})
    await ask("GET", "/v1/seats?section=stalls")
    await ask("POST", "/v1/seats/hold", {"count": 1, "section": "stalls", "ttl": 60}, op="g")
    await ask("PUT", "/v1/budgets/llm", {"budgets": {"tokens": [{"total": 5, "per": "day"}]}})
    await ask("POST", "/v1/budgets/llm/consume", {"client": "c", "actual": 2}, op="h")
    await ask("PUT", "/v1/records/note/n", {"body": "{}"}, op="i")
    await ask("GET", "/v1/webhooks")
    await ask("POST", "/v1/holds", {"pool": "mine", "quantity": 900, "ttl": 60}, op="j")
    await ask("POST", "/v1/pools", {"id": "mine", "total": 50})
    await remove_a_granted_pool(here, "short", "rival", holds=2)
    await ask("POST", "/v1/pools", {"id": "short", "total": 1})
    again = await ask("POST", "/v1/holds", {"pool": "short", "ttl": 60}, op="k")
    assert again["fence"] == 3, "its own removed pools are what a tenant's fences begin above"
    told.append(await first_event(here, None))
    told.append(await first_event(here, kept["cursor"]))
    return told


async def strangers_line(here: InProcessApp, number: int) -> None:
    """Tenant acme joins and leaves lines, and changes limits, of pools and accounts with the rival's names."""
    for id in ("mine", "venue", "venue//stalls"):
        await here.call("POST", "/v1/pools", {"id": id, "total": 2, "exist_ok": True}, tenant="acme")
    for unit in range(3):
        asked = {"ttl": 600, "offer_ttl": 600, "account": "customer:7"}
        await here.call("POST", "/v1/pools/mine/line", asked, op=f"join-{number}-{unit}", tenant="acme")
    taken = {"pool": "venue//stalls", "ttl": 600, "account": "customer:7"}
    await here.call("POST", "/v1/holds", taken, op=f"stalls-{number}", tenant="acme")
    await here.call("PUT", "/v1/pools/mine/per_account", {"per_account": 90 + number}, tenant="acme")


async def line_of_rival(here: InProcessApp, meanwhile: Callable[[InProcessApp, int], Coroutine[Any, Any, None]]) -> Any:
    """The same about lines, accounts and trees."""
    told: list[Any] = []

    async def ask(method: str, path: str, body: Any = None) -> Any:
        await meanwhile(here, len(told))
        op = None if method == "GET" else f"rival-{len(told)}"
        answer = await here.call(method, path, body, op=op, tenant="rival")
        told.append([answer.status_code, answer.json()])
        return answer.json()

    line = {"ttl": 600, "offer_ttl": 600, "account": "customer:7"}
    await ask("POST", "/v1/pools", {"id": "mine", "total": 1, "per_account": 3})
    held = await ask("POST", "/v1/holds", {"pool": "mine", "ttl": 600, "account": "customer:7"})
    first = await ask("POST", "/v1/pools/mine/line", line)
    second = await ask("POST", "/v1/pools/mine/line", line)
    assert second["number"] == 2
    refused = await ask("POST", "/v1/pools/mine/line", line)
    assert (refused["reason"], refused["used"]) == ("account_limit", 3)
    assert (await ask("GET", f"/v1/holds/{second['id']}/place"))["place"] == 2
    await ask("POST", "/v1/holds", {"pool": "mine", "ttl": 60, "account": "customer:8"})
    await ask("GET", "/v1/accounts/customer:7/usage")
    await ask("GET", "/v1/pools/mine")
    await ask("POST", f"/v1/holds/{held['id']}/release", {"token": held["token"]})
    await ask("GET", f"/v1/holds/{first['id']}")
    await ask("GET", f"/v1/holds/{second['id']}/place")
    await ask("GET", f"/v1/holds/{first['id']}/history")
    await ask("POST", "/v1/pools", {"id": "venue", "total": 2})
    await ask("POST", "/v1/pools", {"id": "venue//stalls", "total": 2})
    await ask("POST", "/v1/holds", {"pool": "venue//stalls", "quantity": 3, "ttl": 60})
    await ask("GET", "/v1/pools/venue%2F%2Fstalls")
    await ask("GET", "/v1/pools/mine/history")
    return told


def shape(told: Any, name: str = "") -> Any:
    """What can be learnt from an answer: every number and word; of opaque texts only their length."""
    if isinstance(told, dict):
        return {key: shape(value, key) for key, value in told.items() if key not in ("server_time", "request_id")}
    if isinstance(told, list):
        return [shape(one, name) for one in told]
    return f"{len(told)} characters" if isinstance(told, str) and name in OPAQUE else told


async def nothing(_here: InProcessApp, _number: int) -> None:
    """No stranger does anything."""


@pytest.mark.parametrize("engine", ["memory", "postgres"])
def test_a_strangers_activity_changes_nothing_that_a_tenant_can_read(
    engine: str, request: pytest.FixtureRequest
) -> None:
    postgres = (
        request.getfixturevalue("migrated") if engine == "postgres" else None
    )  # two lanes: the tenants share both
    urls = ["memory://" if postgres is None else postgres(lanes=2) for _ in range(2)]
    alone = shape(play(lambda here: story_of_rival(here, nothing), urls[0]))
    beside = shape(play(lambda here: story_of_rival(here, stranger), urls[1]))
    assert len(alone) == 34
    for told, expected in zip(beside, alone, strict=True):
        assert told == expected


@pytest.mark.parametrize("engine", ["memory", "postgres"])
def test_a_strangers_lines_accounts_and_trees_change_nothing_that_a_tenant_can_read(
    engine: str, request: pytest.FixtureRequest
) -> None:
    postgres = request.getfixturevalue("migrated") if engine == "postgres" else None
    urls = ["memory://" if postgres is None else postgres(lanes=2) for _ in range(2)]
    alone = shape(play(lambda here: line_of_rival(here, nothing), urls[0]))
    beside = shape(play(lambda here: line_of_rival(here, strangers_line), urls[1]))
    assert len(alone) == 18
    for told, expected in zip(beside, alone, strict=True):
        assert told == expected


def test_the_end_of_the_journal_does_not_tell_whether_anybody_wrote() -> None:
    async def work(here: InProcessApp) -> None:
        quiet = [(await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"] for _ in range(2)]
        await stranger(here, 0)
        busy = (await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"]
        assert len({*quiet, busy}) == 3, "equal texts would tell that nothing was written"
        assert {len(text) for text in (*quiet, busy)} == {len(busy)}
        for text in (*quiet, busy):
            with pytest.raises(InvalidRequest):
                decode_cursor(text)  # what an attacker does: no lane, no number, no digest of an entry

    play(work)


def test_positions_are_equal_for_the_same_entry_and_tell_nothing_else() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "mine", "total": 50}, tenant="rival")
        await here.call("POST", "/v1/pools", {"id": "mine", "total": 50}, tenant="acme")
        hold = (await here.call("POST", "/v1/holds", {"pool": "mine", "ttl": 60}, op="a", tenant="rival")).json()
        again = (await here.call("POST", "/v1/holds", {"pool": "mine", "ttl": 60}, op="a", tenant="rival")).json()
        (entry,) = (await here.call("GET", f"/v1/holds/{hold['id']}/history", tenant="rival")).json()["items"]
        page = (await here.call("GET", "/v1/journal", tenant="rival")).json()["items"]
        assert hold["position"] == again["position"] == entry["position"] == page[-1]["position"]
        assert isinstance(hold["position"], str)
        assert len({one["position"] for one in page}) == len(page) == 2
        everything = (await here.call("GET", "/v1/journal?all_tenants=true")).json()["items"]
        assert [one["position"] for one in everything] == ["0.3", "0.6", "0.7"], "an operator sees lane and number"
        assert not {one["position"] for one in page} & {one["position"] for one in everything}

    play(work)


def test_a_foreign_forged_or_truncated_cursor_is_refused() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "mine", "total": 50}, tenant="rival")
        good = (await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"]
        foreign = (await here.call("GET", "/v1/cursor", tenant="acme")).json()["cursor"]
        plain = (await here.call("GET", "/v1/cursor")).json()["cursor"]
        middle = len(good) // 2
        flipped = good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :]
        bad = [
            foreign,
            plain,
            flipped,
            good[:-1],
            good[:-4],
            good + "AAAA",
            good[:6],
            good.replace(".", "\n.", 1),
            good + "\n",
        ]
        for number, text in enumerate([*bad, good + "=", good + "ü", "", "hkc", "x" * 5_000]):
            for method, path, more in (
                ("GET", "/v1/journal", {"params": {"after": text}}),
                ("GET", "/v1/pools/mine/history", {"params": {"after": text}}),
                ("GET", "/v1/events", {"params": {"after": text}}),
                ("PUT", "/v1/cursors/mailer", {"body": {"cursor": text, "if_version": 0}, "op": f"{number}"}),
            ):
                if path == "/v1/events" and not text:
                    continue  # that is a stream from now on
                answer = await here.call(method, path, tenant="rival", **more)
                assert (answer.status_code, answer.json().get("code")) == (400, "cursor_malformed"), (path, text)
        answer = await here.call("GET", "/v1/journal", tenant="rival", params={"after": good})
        assert answer.status_code == 200

    play(work)


def test_a_cursor_outlives_its_server_and_counts_on_another(tmp_path: Any) -> None:
    """The key is derived from the secret that all servers on the database share, stored or given."""
    url = f"sqlite:///{tmp_path}/holds.db"

    async def first(here: InProcessApp) -> str:
        await here.call("POST", "/v1/pools", {"id": "mine", "total": 50}, tenant="rival")
        return str((await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"])

    async def second(here: InProcessApp, cursor: str) -> list[str]:
        await here.call("POST", "/v1/pools", {"id": "more", "total": 50}, tenant="rival")
        page = await here.call("GET", "/v1/journal", tenant="rival", params={"after": cursor})
        return [entry["subject"] for entry in page.json()["items"]]

    cursor = play(first, url)
    assert play(lambda here: second(here, cursor), url) == ["more"]


@pytest.mark.parametrize(("scan", "found"), [(5, 0), (50_000, 2)])
def test_the_search_for_the_last_entries_is_bounded(scan: int, found: int) -> None:
    """Beyond the bound an answer is short: it costs no more than that, however much strangers have written."""

    async def main() -> None:
        async with in_process_app(
            settings=Settings(upkeep=Upkeep(sweep_every=0), answers=Answers(journal_scan=scan))
        ) as here:
            for name in ("a", "b"):
                await here.call("POST", "/v1/pools", {"id": name, "total": 1}, tenant="rival")
            await stranger(here, 9)
            last = (await here.call("GET", "/v1/journal?last=2", tenant="rival")).json()
            assert len(last["items"]) == found
            back = (await here.call("GET", "/v1/cursor?back=2", tenant="rival")).json()["cursor"]
            page = (await here.call("GET", "/v1/journal", tenant="rival", params={"after": back})).json()
            assert len(page["items"]) == found
            await here.call("POST", "/v1/pools", {"id": "c", "total": 1}, tenant="rival")
            page = (await here.call("GET", "/v1/journal", tenant="rival", params={"after": last["cursor"]})).json()
            assert [entry["subject"] for entry in page["items"]] == ["c"], "`cursor` continues at the end"

    asyncio.run(main())


def test_a_cursor_of_another_secret_is_refused(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with in_process_app(url, settings=QUICK, pepper=b"a" * 32) as here:
            cursor = (await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"]
        async with in_process_app(url, settings=QUICK, pepper=b"b" * 32) as here:
            answer = await here.call("GET", "/v1/journal", tenant="rival", params={"after": cursor})
            assert (answer.status_code, answer.json()["code"]) == (400, "cursor_malformed")

    asyncio.run(main())


def test_a_lost_cursor_tells_no_number() -> None:
    """The journal that the cursor saw is gone; the message of the kernel names lane and number, that of the server does not."""

    async def first(here: InProcessApp) -> str:
        await stranger(here, 4)
        return str((await here.call("GET", "/v1/cursor", tenant="rival")).json()["cursor"])

    cursor = play(first)

    async def second(here: InProcessApp) -> None:
        answer = await here.call("GET", "/v1/journal", tenant="rival", params={"after": cursor})
        assert (answer.status_code, answer.json()["reason"]) == (410, "cursor_lost")
        assert not [word for word in answer.json()["detail"].split() if word.strip(".,:;").isdigit()]

    play(second)


def test_webhooks_and_their_parked_events_tell_no_number() -> None:
    async def work(here: InProcessApp, receiver: Receiver, url: str) -> None:
        hook = (await here.call("POST", "/v1/webhooks", {"url": url}, tenant="rival")).json()
        await stranger(here, 2)
        await here.call("POST", "/v1/pools", {"id": "mine", "total": 50}, tenant="rival")
        hold = (await here.call("POST", "/v1/holds", {"pool": "mine", "ttl": 60}, op="a", tenant="rival")).json()
        await receiver.wait(2)
        events = [json.loads(body) for _, body in receiver.taken]
        page = (await here.call("GET", "/v1/journal", tenant="rival")).json()["items"]
        told = [event["data"]["position"] for event in events]
        assert told == [entry["position"] for entry in page]
        assert told[-1] == hold["position"]
        assert {len(event["data"]["cursor"]) for event in events} == {len(page[0]["cursor"])}
        receiver.plan = [500] * 4
        for name in ("b", "c"):
            await here.call("POST", "/v1/pools", {"id": name, "total": 1}, tenant="rival")
        await receiver.wait(4)
        path = f"/v1/webhooks/{hook['id']}/parked"
        async with asyncio.timeout(PATIENCE):
            while len((await here.call("GET", path, tenant="rival")).json()["items"]) < 2:
                pass  # until both are parked
        first = (await here.call("GET", f"{path}?limit=1", tenant="rival")).json()
        assert first["next"].startswith("hks1."), "it contains lane and number"
        second = (await here.call("GET", path, tenant="rival", params={"after": first["next"]})).json()
        subjects = [one["event"]["subject"] for one in (*first["items"], *second["items"])]
        assert subjects == ["b", "c"]
        for bad in (first["next"][:-1], first["next"] + "A", f"{hook['id']}.0000.{1:020}", page[0]["cursor"]):
            answer = await here.call("GET", path, tenant="rival", params={"after": bad})
            assert (answer.status_code, answer.json()["code"]) == (400, "cursor_malformed"), bad

    async def main() -> None:
        receiver = Receiver()
        delivery = Webhooks(pauses=(0.0,), allowed=frozenset(["127.0.0.1"]))
        settings = Settings(upkeep=Upkeep(sweep_every=0), webhooks=delivery)
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
            async with in_process_app(settings=settings) as here:
                await work(here, receiver, url)

    asyncio.run(main())
