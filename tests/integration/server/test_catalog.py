"""What faces have stored, by name: the same in the kernel, over HTTP and through the client; paged, bounded, and of one tenant only."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from typing import Any

import pytest

import holdkit
from holdkit import Allowance, Seat
from holdkit.core.trees import LAST
from holdkit.server.positions import PlainPositions
from holdkit.server.webhooks.events import envelope
from holdkit.testing import FakeClock
from tests.support.servers import NOON, InProcessApp, in_process_app

BEGIN = "2023-11-15"
"""The date of NOON."""
HOSTILE = ["<b>a</b>", "a/b@c#d%2F", "\u202egnp", "x" * 200]


class Shelf(holdkit.Resource[Any, Any]):
    """A resource with a key of any kind."""

    kind = "shop.shelf"

    def capacity(self, tx: Any, key: Any, window: Any) -> int:
        return 7


async def fill(hk: holdkit.AsyncKernel) -> None:
    """Something of every face."""
    inn = hk.calendar("inn", {"double": 10, "suite": 2})
    await inn.hold({"double": 3, "suite": 1}, date(2023, 11, 16), date(2023, 11, 18), ttl="1h")
    await inn.consume("double", date(2023, 11, 17), date(2023, 11, 18))
    club = hk.calendar("club", {"court": 2}, every="1h")
    await club.consume("court", datetime(2023, 11, 16, 9, tzinfo=UTC), datetime(2023, 11, 16, 11, tzinfo=UTC))
    llm = hk.budget("llm", tokens=Allowance(1_000, per="day"), calls=Allowance(10, per="minute"))
    for client in ("team-a", *HOSTILE):
        await llm.hold(client, {"tokens": 100}, ttl="1m")
    await llm.consume("team-a", {"tokens": 40, "calls": 1})
    await hk.rate("api", Allowance(100, per="minute")).consume("client-7", 5)
    shelf = hk.resource(Shelf())
    for key in ("a/b", ("k", 1), "y" * 300):
        await shelf.hold(key, None, 2, ttl="1m")
    await hk.claims.hold("email", "a@b", ttl="1m")
    await hk.seats.add([Seat(f"s{n}", section, "A", n) for n, section in enumerate(("stalls", "<b>", "gone"))])
    await hk.seats.remove("gone")
    await hk.create_pool("hall", 5)
    await hk.hold("hall", 1, ttl="1m", account="customer:7")


async def get(here: InProcessApp, path: str, **query: Any) -> Any:
    answer = await here.call("GET", path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def play(work: Any, url: str = "memory://") -> None:
    async def main() -> None:
        async with in_process_app(url, clock=FakeClock(start=NOON)) as here:
            await work(here)

    asyncio.run(main())


def test_what_every_face_has_is_listed_by_name() -> None:
    async def work(here: InProcessApp) -> None:
        empty = await get(here, "/v1/faces")
        assert set(empty.values()) - {empty["server_time"]} == {False}
        await fill(here.running.kernel)
        found = await get(here, "/v1/faces")
        assert [name for name, there in found.items() if there is False] == ["sagas"]
        names = {
            face: (await get(here, "/v1/faces/names", face=face))["items"]
            for face in ("calendars", "budgets", "rates", "resources", "sections")
        }
        assert names == {
            "calendars": ["club", "inn"], "budgets": ["llm"], "rates": ["api"], "resources": ["shop.shelf"],
            "sections": ["<b>", "stalls"],
        }  # fmt: skip
        for face, wanted in (("calendars", "club"), ("sections", "<b>")):
            page = await get(here, "/v1/faces/names", face=face, limit=1)
            assert (page["items"], page["next"]) == ([wanted], wanted)
            page = await get(here, "/v1/faces/names", face=face, limit=1, after=page["next"])
            assert page["items"] == [names[face][1]]
            assert (
                page["next"] is None
                or (await get(here, "/v1/faces/names", face=face, after=page["next"]))["items"] == []
            )
        other = await here.call("GET", "/v1/faces", tenant="rival")
        assert not any(value is True for value in other.json().values())
        for face in names:
            other = await here.call("GET", f"/v1/faces/names?face={face}", tenant="rival")
            assert other.json()["items"] == []

    play(work)


def test_a_calendar_is_rooms_by_nights(tmp_path: Any) -> None:
    async def work(here: InProcessApp) -> None:
        await fill(here.running.kernel)
        page = await get(here, "/v1/calendars", name="inn", begin=BEGIN, days=3)
        shown = {
            room["room"]: [(cell["begins"], cell["total"], cell["held"], cell["consumed"], cell["available"]) for cell in room["cells"]]
            for room in page["items"]
        }  # fmt: skip
        assert shown == {
            "double": [("2023-11-16", 10, 3, 0, 7), ("2023-11-17", 10, 3, 1, 6)],
            "suite": [("2023-11-16", 2, 1, 0, 1), ("2023-11-17", 2, 1, 0, 1)],
        }
        assert page["items"][0]["cells"][0]["closes"] == "2023-11-17T00:00:00.000000Z"
        part = await get(here, "/v1/calendars", name="inn", begin="2023-11-17", days=1, limit=1)
        assert ([room["room"] for room in part["items"]], part["next"]) == (["double"], "double")
        assert [cell["begins"] for cell in part["items"][0]["cells"]] == ["2023-11-17"]
        part = await get(here, "/v1/calendars", name="inn", begin="2023-11-20", after="double")
        assert [(room["room"], room["cells"], room["complete"]) for room in part["items"]] == [("suite", [], True)]
        hours = await get(here, "/v1/calendars", name="club", begin=BEGIN)
        assert [cell["begins"] for cell in hours["items"][0]["cells"]] == [
            "2023-11-16T09:00:00Z",
            "2023-11-16T10:00:00Z",
        ]
        assert (await get(here, "/v1/calendars", name="nobody's", begin=BEGIN))["items"] == []
        rival = await here.call("GET", f"/v1/calendars?name=inn&begin={BEGIN}", tenant="rival")
        assert rival.json()["items"] == []
        here.running.kernel._executor.engine.clock.advance(86_400 * 2)  # type: ignore[attr-defined]
        page = await get(here, "/v1/calendars", name="inn", begin=BEGIN)
        free = [[(cell["held"], cell["available"]) for cell in room["cells"]] for room in page["items"]]
        assert free == [[(0, 0), (0, 9)], [(0, 0), (0, 2)]], "nothing is free in a night that is over"
        for wrong in (
            {"begin": "tomorrow"},
            {"begin": "2023-02-30"},
            {"begin": "9999-12-31"},
            {"days": 63},
            {"name": ""},
        ):
            answer = await here.call("GET", "/v1/calendars", params={"name": "inn", "begin": BEGIN, **wrong})
            assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_request"), wrong

    play(work, f"sqlite:///{tmp_path}/holds.db")


def test_a_room_with_more_intervals_than_an_answer_has_says_so() -> None:
    async def work(here: InProcessApp) -> None:
        day = here.running.kernel.calendar("day", {"desk": 1}, every="1m")
        for hour in range(1, 19):
            await day.consume(
                "desk", datetime(2023, 11, 16, hour, tzinfo=UTC), datetime(2023, 11, 16, hour + 1, tzinfo=UTC)
            )
        (room,) = (await get(here, "/v1/calendars", name="day", begin=BEGIN, days=2))["items"]
        assert (len(room["cells"]), room["complete"]) == (1_000, False)

    play(work)


def test_windows_say_what_was_estimated_and_what_was_spent(tmp_path: Any) -> None:
    async def work(here: InProcessApp) -> None:
        await fill(here.running.kernel)
        page = await get(here, "/v1/windows", name="llm", client="team-a")
        shown = [
            (one["budget"], one["per"], one["total"], one["held"], one["consumed"], one["available"])
            for one in page["items"]
        ]
        assert shown == [("calls", "60s", 10, 0, 1, 9), ("tokens", "day", 1_000, 100, 40, 860)]
        assert (page["items"][1]["opens"], page["items"][1]["closes"]) == (
            "2023-11-15T00:00:00.000000Z",
            "2023-11-16T00:00:00.000000Z",
        )
        clients: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await get(here, "/v1/windows", name="llm", after=after, limit=2)
            clients += [one["client"] for one in page["items"]]
            after = page["next"]
        assert len(clients) == 6
        hashed = next(client for client in clients if client.startswith("#"))
        assert set(clients) == {"team-a", *HOSTILE[:3], hashed}
        assert len((await get(here, "/v1/windows", name="llm", client=hashed))["items"]) == 1
        for client in HOSTILE:
            (one,) = (await get(here, "/v1/windows", name="llm", client=client))["items"]
            assert one["client"] in (client, hashed)
        (rate,) = (await get(here, "/v1/windows", face="rates", name="api"))["items"]
        assert (rate["client"], rate["budget"], rate["per"], rate["consumed"]) == ("client-7", "", "60s", 5)
        rival = await here.call("GET", "/v1/windows?name=llm", tenant="rival")
        assert rival.json()["items"] == []

    play(work, f"sqlite:///{tmp_path}/holds.db")


def test_resources_are_shown_by_key_however_long(tmp_path: Any) -> None:
    async def work(here: InProcessApp) -> None:
        await fill(here.running.kernel)
        page = await get(here, "/v1/resources", kind="shop.shelf")
        shown = {(one["key"], one["window"]): (one["total"], one["held"]) for one in page["items"]}
        assert shown == {('"a/b"', "null"): (7, 2), ('["k",1]', "null"): (7, 2), (f'"{"y" * 300}"', "null"): (7, 2)}
        first = await get(here, "/v1/resources", kind="shop.shelf", limit=2)
        rest = await get(here, "/v1/resources", kind="shop.shelf", after=first["next"])
        assert [*first["items"], *rest["items"]] == page["items"]
        assert (await get(here, "/v1/resources", kind="shop.shel"))["items"] == []
        assert (await here.call("GET", "/v1/resources?kind=a%2Fb")).status_code == 400

    play(work, f"sqlite:///{tmp_path}/holds.db")


def test_a_line_is_shown_in_order_and_a_tree_level_by_level() -> None:
    async def work(here: InProcessApp) -> None:
        hk = here.running.kernel
        tree = (
            "venue",
            "venue//a",
            "venue//a!b",
            "venue//a//x",
            "venue//a//y",
            "venue//b",
            f"venue//b//{LAST}",
            "venue//c",
        )
        for id in tree:
            await hk.create_pool(id, 5)
        below = "/v1/pools/venue/children"
        assert [one["id"] for one in (await get(here, below))["items"]] == [
            "venue//a",
            "venue//a!b",
            "venue//b",
            "venue//c",
        ]
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await get(here, below, limit=1, after=after)
            found += [one["id"] for one in page["items"]]
            after = page["next"]
        assert found == ["venue//a", "venue//a!b", "venue//b", "venue//c"]
        deeper = await get(here, "/v1/pools/venue%2F%2Fa/children")
        assert [one["id"] for one in deeper["items"]] == ["venue//a//x", "venue//a//y"]
        assert (await get(here, "/v1/pools/venue%2F%2Fc/children"))["items"] == []
        await hk.consume("venue", 5)
        ids = [f"{number:032x}" for number in (9, 3, 7)]
        for id in ids:
            await hk.join("venue", 1, ttl="1h", offer_ttl="1m", id=id)
        page = await get(here, "/v1/pools/venue/line", limit=2)
        assert ([one["id"] for one in page["items"]], page["next"]) == (ids[:2], 2)
        page = await get(here, "/v1/pools/venue/line", after=page["next"])
        assert ([one["number"] for one in page["items"]], page["next"]) == ([3], None)
        await hk.create_pool("alone", 1)
        assert (await get(here, "/v1/pools/alone/line"))["items"] == []
        for path in ("line", "children"):
            answer = await here.call("GET", f"/v1/pools/venue/{path}", tenant="rival")
            assert (answer.status_code, answer.json()["reason"]) == (404, "pool_not_found")

    play(work)


def test_the_hold_of_a_claim_says_its_key() -> None:
    async def work(here: InProcessApp) -> None:
        hk = here.running.kernel
        await hk.create_pool("hall", 5)
        hold = await hk.hold([("hall", 1), holdkit.claim("email", "<b>@b")], ttl="1m")
        shown = await get(here, f"/v1/holds/{hold.id}")
        assert [leg["name"] for leg in shown["legs"]] == ["hall", "email:<b>@b"]
        (listed,) = (await get(here, "/v1/holds"))["items"]
        assert listed["legs"] == shown["legs"]
        (entry,) = (await get(here, "/v1/journal", action="hold.held"))["items"]
        assert [effect.get("label") for effect in entry["pools"]] == [None, "email:<b>@b"]
        (stored,) = await hk.journal.search(action="hold.held")
        assert b"email:" not in envelope("here", "1", stored, PlainPositions()), "webhooks have no keys of claims"

    play(work)


@pytest.mark.parametrize("strange", [LAST, "\ue000", "!", "~"])
def test_no_name_is_skipped_or_listed_twice(strange: str) -> None:
    """Ids on either side of where a search goes on."""

    async def main() -> None:
        async with await holdkit.connect_async("memory://", clock=FakeClock(start=NOON)) as hk:
            names = sorted({"a", "b", f"a{strange}", f"a/{strange}", f"{strange}a"})
            for name in names:
                await hk.rate(name, Allowance(9, per="day")).consume(strange)
                await hk.rate(name, Allowance(9, per="day")).consume("z")
            found: list[str] = []
            after = ""
            while True:
                page = await hk.admin.catalog.names("rates", after=after, limit=2)
                found += page
                if not page.more:
                    break
                after = page.reached or ""
            assert sorted(found) == names

    asyncio.run(main())
