from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdkit import Saga
from holdkit.errors import EngineError
from holdkit.testing import FakeClock
from tests.support.servers import InProcessApp, in_process_app

NOW = 1_700_000_000_000_000
EMAIL = {"type": "email", "value": "alice@example.com", "ttl": 300}


def run(work: Any) -> None:
    clock = FakeClock(start=NOW)

    async def main() -> None:
        async with in_process_app(clock=clock) as here:
            await work(here, clock)

    asyncio.run(main())


def test_a_key_is_held_confirmed_found_and_freed() -> None:
    """It is answered like `POST /v1/holds`, and ended like any other hold."""

    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        made = await here.call("POST", "/v1/claims", EMAIL, op="a", key="hold")
        assert made.status_code == 201, made.text
        claim = made.json()
        (leg,) = claim["legs"]
        assert (leg["name"], claim["state"]) == ("email:alice@example.com", "held")
        id = leg["pool"].removeprefix("~claim/")
        again = await here.call("POST", "/v1/claims", EMAIL, op="a", key="hold")
        assert again.json()["token"] == claim["token"]
        assert again.headers["idempotency-replayed"] == "true"
        rival = await here.call("POST", "/v1/claims", EMAIL, op="b", key="hold")
        assert (rival.status_code, rival.json()["reason"]) == (409, "already_claimed")
        assert (rival.json()["claim"], rival.json()["remaining"]) == (id, 300)
        assert (rival.json()["transient"], rival.json()["deadline"]) == (True, claim["deadline"])
        assert claim["token"] not in rival.text
        at = f"/v1/holds/{claim['id']}"
        longer = await here.call("POST", f"{at}/extend", {"token": claim["token"], "by": 60}, op="c")
        assert longer.json()["deadline"] > claim["deadline"]
        thief = await here.call("POST", f"{at}/confirm", {"token": "x", "entity": "user:2"}, op="d")
        assert (thief.status_code, thief.json()["reason"]) == (403, "not_owner")
        done = await here.call("POST", f"{at}/confirm", {"token": claim["token"], "entity": "user:1"}, op="e")
        assert (done.json()["state"], done.json()["entity"]) == ("confirmed", "user:1")
        for query in ("key=email%3Aalice%40example.com", "type=email&value=alice%40example.com", "entity=user%3A1"):
            (found,) = (await here.call("GET", f"/v1/claims?{query}", key="read")).json()["items"]
            assert (found["id"], found["hold"]) == (id, claim["id"]), query
            assert "token" not in found
        assert (await here.call("GET", f"/v1/claims/{id}", key="read")).json()["state"] == "confirmed"
        shown = (await here.call("GET", at, key="read")).json()
        assert (shown["legs"][0]["name"], "token" in shown) == ("email:alice@example.com", False)
        never = await here.call("POST", "/v1/claims", EMAIL, op="b2", key="hold")
        assert (never.status_code, never.json()["reason"], never.json()["state"]) == (
            409,
            "already_claimed",
            "confirmed",
        )
        assert (never.json()["transient"], never.json()["remaining"], never.json()["deadline"]) == (False, None, None)
        again = await here.call("POST", f"{at}/confirm", {"token": claim["token"], "entity": "user:1"}, op="e")
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true"), again.text

    run(work)


def test_an_operator_frees_a_confirmed_key_by_its_name() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        claim = (await here.call("POST", "/v1/claims", EMAIL, op="a")).json()
        await here.call("POST", f"/v1/holds/{claim['id']}/confirm", {"token": claim["token"]}, op="b")
        name = {"type": "email", "value": "alice@example.com"}
        told = [await here.call("POST", "/v1/claims/free", {**name, **more}, op="f", key=key) for key, more in (
            ("hold", {"reason": "closed"}), ("admin", {}), ("admin", {"reason": " "}), ("admin", {"reason": "closed"}),
            ("admin", {"reason": "closed"}),
        )]  # fmt: skip
        assert [one.status_code for one in told] == [403, 400, 400, 200, 200]
        assert (told[3].json()["state"], told[4].headers["idempotency-replayed"]) == ("released", "true")
        fresh = await here.call("POST", "/v1/claims", EMAIL, op="g")
        assert fresh.json()["fence"] > claim["fence"]
        early = await here.call("POST", "/v1/claims/free", {**name, "reason": "closed"}, op="i")
        assert (early.status_code, early.json()["reason"]) == (409, "not_confirmed")
        ended = f"/v1/holds/{fresh.json()['id']}/release"
        let_go = await here.call("POST", ended, {"token": fresh.json()["token"]}, op="h")
        assert let_go.json()["state"] == "released"

    run(work)


def test_a_batch_takes_keys_and_items() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await here.call("POST", "/v1/items", {"ids": ["seat"]})
        await here.call("POST", "/v1/pools", {"id": "show", "total": 1})
        legs = [{"pool": "show"}, {"claim": "email:a@b.c"}, {"item": "seat"}]
        batch = {"commands": [
            {"type": "hold", "legs": legs, "ttl": 60},
            {"type": "hold", "legs": [{"claim": "email:a@b.c"}], "ttl": 60},
            {"type": "consume", "legs": [{"item": "no seat"}]},
        ]}  # fmt: skip
        for replayed in (None, "true"):
            answer = await here.call("POST", "/v1/batch", batch, op="k", key="hold")
            assert (answer.status_code, answer.headers.get("idempotency-replayed")) == (200, replayed), answer.text
            held, taken, missing = answer.json()["answers"]
            assert (held["status"], len(held["hold"]["legs"])) == ("done", 3)
            assert (taken["reason"], taken["transient"], taken["facts"]["subject"]) == (
                "insufficient_capacity", True, "email:a@b.c")  # fmt: skip
            (short,) = taken["facts"]["shortfalls"]
            assert (short["name"], "holder" in short) == ("email:a@b.c", False)
            assert (missing["reason"], missing["facts"]["subject"]) == ("pool_not_found", "no seat")
        behind = {"commands": [{"type": "hold", "legs": [{"pool": "~item/seat"}, {"claim": "email:x"}], "ttl": 60}]}
        no = await here.call("POST", "/v1/batch", behind, op="l")
        assert (no.status_code, no.json()["code"]) == (400, "pool_reserved")

    run(work)


def test_a_claim_that_cannot_be() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        for body, field in (
            ({**EMAIL, "type": "e:mail"}, "type"),
            ({**EMAIL, "value": " "}, "value"),
            ({**EMAIL, "ttl": 90_000}, "ttl"),
            ({**EMAIL, "ttl": 0.5}, "ttl"),
        ):
            no = await here.call("POST", "/v1/claims", body, op="a")
            assert (no.status_code, no.json()["field"]) == (400, field)
        assert (await here.call("GET", "/v1/claims/res_" + "0" * 32)).json()["reason"] == "claim_not_found"
        assert (await here.call("GET", "/v1/claims/nonsense")).status_code == 400
        assert (await here.call("GET", "/v1/claims?type=email")).status_code == 400
        assert (await here.call("GET", "/v1/claims?key=email%3Anobody")).json()["items"] == []

    run(work)


def test_items_are_taken_all_or_none_and_spent() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        ids = ["posting:1", "posting:2", "posting:3"]
        added = await here.call("POST", "/v1/items", {"ids": ids})
        assert [one["state"] for one in added.json()["items"]] == ["available"] * 3
        held = await here.call(
            "POST", "/v1/items/hold", {"ids": ids[:2], "token": "saga-77", "ttl": None}, op="a", key="hold"
        )
        assert held.status_code == 201, held.text
        assert held.json()["deadline"] is None
        rival = await here.call("POST", "/v1/items/hold", {"ids": ids[1:], "ttl": 60}, op="b", key="hold")
        assert (rival.status_code, rival.json()["reason"]) == (409, "items_taken")
        assert rival.json()["taken"] == ["posting:2"]
        spent = await here.call("POST", "/v1/items/confirm", {"ids": ids[:2], "token": "saga-77"}, op="c", key="hold")
        assert spent.json()["state"] == "confirmed"
        looked = await here.call("POST", "/v1/items/get", {"ids": [*ids, "posting:9"]}, key="read")
        assert [one["state"] for one in looked.json()["items"]] == ["confirmed", "confirmed", "available", "missing"]
        third = await here.call("POST", "/v1/items/hold", {"ids": ids[2:], "ttl": 60}, op="d")
        body = {"ids": ids[2:], "token": third.json()["token"]}
        assert (await here.call("POST", "/v1/items/release", body, op="e")).json()["state"] == "released"

    run(work)


class Delivery(Saga):
    """Takes a seat."""

    name = "errand"

    def reserve(self, intent: Any, step: Any) -> str:
        return "seat"

    def effect(self, intent: Any, step: Any) -> str:
        return f"did {intent['what']}"


def test_sagas_can_be_looked_at() -> None:
    async def work(here: InProcessApp, clock: FakeClock) -> None:
        await here.call("POST", "/v1/pools", {"id": "seat", "total": 1})
        deliveries = here.running.kernel.sagas.register(Delivery())
        await deliveries.run("one", {"what": "this"})
        await deliveries.begin("two", {"what": "that"})
        listed = (await here.call("GET", "/v1/sagas", key="read")).json()
        assert [(one["id"], one["phase"]) for one in listed["items"]] == [("one", "done"), ("two", "reserving")]
        one = (await here.call("GET", "/v1/sagas/one", key="read")).json()
        assert (one["result"], one["intent"]) == ("did this", {"what": "this"})
        assert [one["id"] for one in (await here.call("GET", "/v1/sagas?phase=done")).json()["items"]] == ["one"]
        clock.advance(3600)
        assert [one["id"] for one in (await here.call("GET", "/v1/sagas?stuck=true")).json()["items"]] == ["two"]
        assert (await here.call("GET", "/v1/sagas?phase=odd")).status_code == 400
        missing = await here.call("GET", "/v1/sagas/none")
        assert (missing.status_code, missing.json()["reason"]) == (404, "saga_not_found")

    run(work)


def test_some_fields_need_an_admins_key() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        born = {"legs": [{"pool": "new", "quantity": 1, "create_with_total": 5}], "ttl": 60}
        no = await here.call("POST", "/v1/holds", born, op="a", key="hold")
        assert (no.status_code, no.json()["reason"]) == (403, "scope_too_small")
        hold = await here.call("POST", "/v1/holds", born, op="a", key="admin")
        assert hold.status_code == 201
        forced = {"force": True, "reason": "admin_override"}
        at = f"/v1/holds/{hold.json()['id']}/release"
        assert (await here.call("POST", at, forced, op="b", key="hold")).status_code == 403
        for one in (
            {"type": "create_pool", "id": "p", "total": 1},
            {"type": "release", "id": hold.json()["id"], **forced},
        ):
            batch = await here.call("POST", "/v1/batch", {"commands": [one]}, op="c", key="hold")
            assert (batch.status_code, batch.json()["reason"]) == (403, "scope_too_small")
        assert (await here.call("POST", at, forced, op="b", key="admin")).json()["state"] == "released"

    run(work)


def test_claims_and_items_are_listed_page_by_page_and_by_prefix() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        for n in range(5):
            await here.call("POST", "/v1/claims", {**EMAIL, "value": f"u{n}@example.com"}, op=f"c{n}")
        await here.call("POST", "/v1/claims", EMAIL, op="theirs", tenant="acme")
        first = (await here.call("GET", "/v1/claims?limit=3", key="read")).json()
        rest = (await here.call("GET", "/v1/claims", params={"limit": 3, "after": first["next"]}, key="read")).json()
        seen = [claim["value"] for claim in first["items"] + rest["items"]]
        assert sorted(seen) == [f"u{n}@example.com" for n in range(5)]
        assert (len(first["items"]), rest["next"]) == (3, None)
        assert all("token" not in claim for claim in first["items"])
        await here.call("POST", "/v1/items", {"ids": ["seat:a1", "seat:a2", "seat:b1", "voucher:1"]})
        await here.call("POST", "/v1/items/hold", {"ids": ["seat:a2"], "ttl": 60}, op="r")
        seats = (await here.call("GET", "/v1/items?prefix=seat%3A&limit=2", key="read")).json()
        assert [(item["id"], item["state"]) for item in seats["items"]] == [
            ("seat:a1", "available"),
            ("seat:a2", "held"),
        ]
        more = (await here.call("GET", f"/v1/items?prefix=seat%3A&after={seats['next']}", key="read")).json()
        assert [item["id"] for item in more["items"]] == ["seat:b1"]
        assert (await here.call("GET", "/v1/items", key="read", tenant="acme")).json()["items"] == []

    run(work)


def test_items_that_were_added_and_cannot_be_looked_at_are_not_denied() -> None:
    async def work(here: InProcessApp, _clock: FakeClock) -> None:
        await here.key()
        items = type(here.running.kernel.items)
        with pytest.MonkeyPatch.context() as patched:

            async def fail(*_: object, **__: object) -> None:
                raise EngineError("the server is gone")

            patched.setattr(items, "get", fail)
            lost = await here.call("POST", "/v1/items", {"ids": ["A1"]}, op="a")
            assert (lost.status_code, lost.json()["effect"]) == (503, "unknown")
        again = await here.call("POST", "/v1/items", {"ids": ["A1"]}, op="a")
        assert again.json()["items"][0]["state"] == "available"

    run(work)
