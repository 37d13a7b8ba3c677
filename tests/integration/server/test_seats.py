"""Seats over HTTP: added, listed in pages, searched, removed; and requests that cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from holdkit.server.settings import Rates
from tests.support.servers import QUICK, InProcessApp, in_process_app


def seat(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "section": "stalls", "row": id[0], "number": int(id[1:]), **fields}


def run(work: Any) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            await work(here)

    asyncio.run(main())


def test_seats_are_added_listed_searched_and_removed() -> None:
    async def work(here: InProcessApp) -> None:
        seats = [seat(f"A{number}") for number in range(1, 6)] + [seat("B1", kind="box", rank=-3, position=7)]
        added = await here.call("POST", "/v1/seats", {"seats": seats})
        assert [(one["id"], one["state"]) for one in added.json()["items"]][:1] == [("A1", "available")]
        first = (await here.call("GET", "/v1/seats?section=stalls&limit=4", key="read")).json()
        assert ([one["id"] for one in first["seats"]], first["next"]) == (["A1", "A2", "A3", "A4"], "A4")
        last = (await here.call("GET", "/v1/seats?section=stalls&limit=2&after=A4", key="read")).json()
        assert ([one["id"] for one in last["seats"]], last["next"]) == (["A5", "B1"], None)
        assert last["seats"][1] == seat("B1", kind="box", rank=-3, position=7)
        best = await here.call(
            "POST", "/v1/seats/hold", {"count": 2, "section": "stalls", "ttl": 60}, op="a", key="hold"
        )
        assert best.status_code == 201, best.text
        assert [leg["name"] for leg in best.json()["legs"]] == ["A1", "A2"]
        looked = await here.call("POST", "/v1/items/get", {"ids": ["A1", "A3"], "token": best.json()["token"]})
        assert [one["yours"] for one in looked.json()["items"]] == [True, False]
        short = await here.call(
            "POST", "/v1/seats/hold", {"count": 4, "section": "stalls", "ttl": 60}, op="b", key="hold"
        )
        assert (short.status_code, short.json()["reason"], short.json()["subject"]) == (409, "items_taken", "stalls")
        ended = {"ids": ["A2", "A1"], "token": best.json()["token"], "entity": "order:1"}
        assert (await here.call("POST", "/v1/items/confirm", ended, op="c", key="hold")).json()["state"] == "confirmed"
        gone = await here.call("POST", "/v1/seats/remove", {"section": "stalls", "ids": ["A1"]}, op="d")
        assert (gone.status_code, gone.json()["section"]) == (200, "stalls")
        lost = await here.call("GET", "/v1/seats?section=stalls&after=A1")
        assert (lost.status_code, lost.json()["code"]) == (400, "after_unknown")
        await here.call("POST", "/v1/seats/remove", {"section": "stalls"}, op="e")
        for answer in (
            await here.call("GET", "/v1/seats?section=stalls"),
            await here.call("POST", "/v1/seats/hold", {"count": 1, "section": "stalls", "ttl": 60}, op="f"),
        ):
            assert (answer.status_code, answer.json()["reason"]) == (404, "section_not_found")

    run(work)


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/items", {}, None),
        ("/v1/items", {"ids": ["a"], "seats": [seat("A1")]}, None),
        ("/v1/seats", {"ids": ["a"]}, None),
        ("/v1/seats", {"seats": []}, None),
        ("/v1/seats", {"seats": [seat("A1")] * 1_001}, None),
        ("/v1/seats", {"seats": [seat("A1"), seat("A1", row="B")]}, "item_twice"),
        ("/v1/seats", {"seats": [seat("A1"), seat("B1", row="A")]}, "position_taken"),
        ("/v1/seats", {"seats": [seat("A1", rank=1.5)]}, None),
        ("/v1/seats", {"seats": [seat("A1", rank=2**60)]}, "rank_out_of_range"),
        ("/v1/seats", {"seats": [seat("A1", fabric="red")]}, None),
        ("/v1/seats", {"seats": [seat("A1", number="x")]}, "position_required"),
        ("/v1/seats", {"seats": [seat("A1", section="x" * 201)]}, "section_too_long"),
        ("/v1/seats/hold", {"count": 1, "ttl": 60}, None),
        ("/v1/seats/hold", {"count": 1, "section": "stalls"}, None),
        ("/v1/seats/hold", {"count": 0, "section": "stalls", "ttl": 60}, "count_out_of_range"),
        ("/v1/seats/hold", {"count": 1, "section": "stalls", "ttl": 60, "together": "maybe"}, None),
        ("/v1/seats/hold", {"count": 1, "section": "stalls", "ttl": 60, "adjacent": True}, None),
        ("/v1/items/hold", {"ids": ["a"]}, None),
        ("/v1/items/release", {"ids": ["a"]}, None),
        ("/v1/items/release", {"ids": ["a"], "token": ""}, "token_required"),
        ("/v1/items/confirm", {"hold": "0" * 32, "token": "t"}, None),
        ("/v1/items/free", {"ids": ["a"]}, None),
        ("/v1/items/free", {"ids": ["a"], "reason": " "}, "reason_required"),
        ("/v1/seats/remove", {"section": "stalls", "ids": []}, None),
        ("/v1/items/get", {"ids": ["a"], "token": ""}, "token_required"),
    ],
)
def test_requests_that_cannot_be(path: str, body: Any, code: str | None) -> None:
    async def work(here: InProcessApp) -> None:
        answer = await here.call("POST", path, body, op="a")
        assert answer.status_code == 400, answer.text
        assert code in (None, answer.json()["code"]), answer.text
        assert (await here.call("GET", "/v1/items")).json()["items"] == []

    run(work)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "section_required"),
        ("?section=", "section_required"),
        ("?section=%00", "query_unprintable"),
        ("?section=s&limit=0", None),
        ("?section=s&rows=1", None),
    ],
)
def test_lists_that_cannot_be(query: str, code: str | None) -> None:
    async def work(here: InProcessApp) -> None:
        answer = await here.call("GET", f"/v1/seats{query}")
        assert answer.status_code == 400, answer.text
        assert code in (None, answer.json()["code"]), answer.text

    run(work)


def test_a_search_costs_more_than_a_hold() -> None:
    async def main() -> None:
        async with in_process_app(settings=structs.replace(QUICK, rates=Rates(key=0.001, key_burst=50))) as here:
            body = {"count": 1, "section": "nowhere", "ttl": 60}
            statuses = [
                (await here.call("POST", "/v1/seats/hold", body, op=str(n), key="hold")).status_code for n in range(3)
            ]
            assert statuses == [404, 404, 429]  # 21 tokens each, of 50

    asyncio.run(main())


def test_tenants_have_maps_of_their_own() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/seats", {"seats": [seat("A1")]}, tenant="a")
        await here.call("POST", "/v1/seats", {"seats": [seat("A2")]}, tenant="b")
        listed = (await here.call("GET", "/v1/seats?section=stalls", tenant="a")).json()["seats"]
        assert [one["id"] for one in listed] == ["A1"]
        assert (await here.call("GET", "/v1/seats?section=stalls", tenant="c")).status_code == 404

    run(work)
