from __future__ import annotations

import asyncio
from typing import Any

from holdkit.testing import FakeClock
from tests.support.servers import NOON, InProcessApp, in_process_app, live_server


def run(work: Any, **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(**more) as here:
            await work(here)

    asyncio.run(main())


def test_a_hold_is_placed_and_confirmed_over_a_real_socket() -> None:
    with live_server() as server, server.client() as http:
        assert http.post("/v1/pools", json={"id": "show/42", "total": 5}).status_code == 201
        placed = http.post(
            "/v1/holds", json={"pool": "show/42", "quantity": 2, "ttl": "5m"}, headers={"Idempotency-Key": "a"}
        )
        assert placed.status_code == 201, placed.text
        hold = placed.json()
        assert hold["state"] == "held"
        lane, _, number = hold["position"].partition(".")
        assert (lane, number.isdecimal()) == ("0", True)
        shown = http.get("/v1/pools/show%2F42").json()
        assert (shown["held"], shown["available"]) == (2, 3)
        done = http.post(
            f"/v1/holds/{hold['id']}/confirm",
            json={"token": hold["token"], "entity": "order:9"},
            headers={"Idempotency-Key": "b"},
        )
        assert done.status_code == 200, done.text
        assert done.json()["state"] == "confirmed"
        assert "token" not in done.json()
        assert http.get("/v1/pools/show%2F42").json()["consumed"] == 2


def test_a_refusal_is_a_problem_with_its_numbers() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "gpu", "total": 1})
        no = await here.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="a")
        assert no.status_code == 409
        assert no.headers["content-type"] == "application/problem+json"
        told = no.json()
        assert told["reason"] == "insufficient_capacity"
        assert told["effect"] == "none"
        assert told["transient"] is True
        assert told["shortfalls"] == [{"pool": "gpu", "name": "gpu", "requested": 2, "available": 1, "total": 1}]
        assert told["request_id"] == no.headers["x-request-id"]
        missing = await here.call("POST", "/v1/holds", {"pool": "cpu", "quantity": 2, "ttl": 60}, op="b")
        assert (missing.status_code, missing.json()["reason"]) == (404, "pool_not_found")

    run(work)


def test_an_operator_extends_confirms_and_returns_without_the_token_but_with_a_reason() -> None:
    clock = FakeClock(start=1_000_000_000_000_000)

    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "gpu", "total": 2})
        hold = (await here.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="a")).json()
        at = f"/v1/holds/{hold['id']}"
        calls: list[tuple[str, dict[str, Any], str]] = [
            ("extend", {"by": 30}, "extended"),
            ("confirm", {"quantity": 1, "keep_rest": True}, "partly_confirmed"),
            ("confirm", {"entity": "order:9"}, "confirmed"),
            ("return", {}, "returned"),
        ]
        for number, (verb, body, action) in enumerate(calls):
            stranger = await here.call("POST", f"{at}/{verb}", {**body, "reason": "why"}, op=f"b{number}")
            assert (stranger.status_code, stranger.json()["reason"]) == (403, "not_owner"), verb
            silent = await here.call("POST", f"{at}/{verb}", {**body, "force": True}, op=f"c{number}")
            assert (silent.status_code, silent.json()["field"], silent.json()["code"]) == (
                400,
                "reason",
                "reason_required",
            )
            forced = {**body, "force": True, "reason": "customer called"}
            done = await here.call("POST", f"{at}/{verb}", forced, op=f"d{number}")
            assert done.status_code == 200, done.text
            assert "token" not in done.json()
            again = await here.call("POST", f"{at}/{verb}", forced, op=f"d{number}")
            assert (again.status_code, again.json()["replayed"]) == (200, True)
            last = (await here.call("GET", f"{at}/history")).json()["items"][-1]
            assert (last["action"], last["forced"], last["reason"]) == (f"hold.{action}", True, "customer called")
        ended = (await here.call("GET", at)).json()
        assert (hold["deadline"], ended["deadline"], ended["entity"]) == (
            "2001-09-09T01:47:40.000000Z", "2001-09-09T01:48:10.000000Z", "order:9")  # fmt: skip
        assert ended["legs"] == [
            {"pool": "gpu", "name": "gpu", "quantity": 2, "held": 0, "confirmed": 2, "returned": 2}
        ]

    run(work, clock=clock)


def test_force_does_not_remove_a_deadline_nor_pass_for_a_window() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "gpu", "total": 2})
        hold = (await here.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op="a")).json()
        forced = {"force": True, "reason": "customer called"}
        for more in ({"forever": True}, {"by": 5, "trusted": True}):
            no = await here.call("POST", f"/v1/holds/{hold['id']}/extend", {**forced, **more}, op="b")
            assert (no.status_code, no.json()["reason"]) == (400, "invalid_request"), no.text
        late = await here.call(
            "POST", f"/v1/holds/{hold['id']}/extend", {**forced, "until": "2190-01-01T00:00:00Z"}, op="c"
        )
        assert (late.status_code, late.json()["reason"]) == (409, "lifetime_exceeded")
        confirm = {"type": "confirm", "id": hold["id"], **forced}
        window = await here.call("POST", "/v1/windows", {"commands": [confirm]}, op="d")
        assert (window.status_code, window.json()["reason"]) == (400, "invalid_request"), window.text
        batch = await here.call(
            "POST",
            "/v1/batch",
            {"commands": [{"type": "extend", "id": hold["id"], "by": 5, **forced}, confirm]},
            op="e",
        )
        assert [one["status"] for one in batch.json()["answers"]] == ["done", "done"], batch.text
        entries = (await here.call("GET", f"/v1/holds/{hold['id']}/history")).json()["items"]
        assert [(one["action"], one["forced"]) for one in entries] == [
            ("hold.held", False),
            ("hold.extended", True),
            ("hold.confirmed", True),
        ]

    run(work)


def test_times_are_rfc_3339_and_the_clock_is_the_engines() -> None:
    clock = FakeClock()

    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "gpu", "total": 1})
        held = (await here.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op="a")).json()
        assert held["deadline"] == "1970-01-01T00:01:00.000000Z"
        assert held["server_time"] == "1970-01-01T00:00:00.000000Z"
        clock.advance(60)
        late = await here.call("POST", f"/v1/holds/{held['id']}/confirm", {"token": held["token"]}, op="b")
        assert (late.status_code, late.json()["reason"]) == (409, "hold_expired")
        assert late.json()["deadline"] == "1970-01-01T00:01:00.000000Z"
        assert late.json()["server_time"] == "1970-01-01T00:01:00.000000Z"

    run(work, clock=clock)


def test_every_verb_of_a_hold() -> None:
    clock = FakeClock()

    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "a", "total": 9})
        await here.call("POST", "/v1/pools", {"id": "b", "total": 9})
        legs = [{"pool": "a", "quantity": 3}, {"pool": "b"}]
        placed = await here.call("POST", "/v1/holds", {"legs": legs, "ttl": 60, "metadata": {"n": [1]}}, op="1")
        hold = placed.json()
        assert hold["metadata"] == {"n": [1]}
        mine = {"token": hold["token"]}
        at = f"/v1/holds/{hold['id']}"
        assert (await here.call("POST", f"{at}/extend", {**mine, "by": 60}, op="2")).json()["deadline"] == (
            "1970-01-01T00:02:00.000000Z"
        )
        part = await here.call("POST", f"{at}/confirm", {**mine, "quantity": {"a": 1}, "keep_rest": True}, op="3")
        assert part.json()["legs"][0] == {
            "pool": "a",
            "name": "a",
            "quantity": 3,
            "held": 2,
            "confirmed": 1,
            "returned": 0,
        }
        assert (await here.call("POST", f"{at}/release", {"token": "x"}, op="4")).status_code == 403
        assert (await here.call("POST", f"{at}/expire", {}, op="5")).json()["reason"] == "not_due"
        assert (await here.call("POST", f"{at}/release", mine, op="6")).json()["state"] == "released"
        assert (await here.call("POST", f"{at}/return", mine, op="7")).json()["legs"][0]["returned"] == 1
        spent = await here.call("POST", "/v1/consume", {"pool": "a", "quantity": 2}, op="8")
        assert (spent.status_code, spent.json()["state"]) == (201, "confirmed")
        story = (await here.call("GET", f"{at}/history")).json()["items"]
        assert [one["action"] for one in story] == [
            "hold.held",
            "hold.extended",
            "hold.partly_confirmed",
            "hold.released",
            "hold.returned",
        ]
        assert hold["token"] not in str(story)

    run(work, clock=clock)


def test_a_batch_answers_command_by_command() -> None:
    async def work(here: InProcessApp) -> None:
        commands = [
            {"type": "create_pool", "id": "a", "total": 1},
            {"type": "hold", "pool": "a", "ttl": 60},
            {"type": "hold", "pool": "a", "ttl": 60},
        ]
        first = await here.call("POST", "/v1/batch", {"commands": commands}, op="k")
        assert first.status_code == 200, first.text
        answers = first.json()["answers"]
        assert [one["status"] for one in answers] == ["done", "done", "refused"]
        assert answers[2]["reason"] == "insufficient_capacity"
        none = await here.call("POST", "/v1/batch", {"commands": commands})
        assert (none.status_code, none.json()["reason"]) == (400, "idempotency_key_required")

    run(work)


def test_a_return_that_comes_too_late_says_until_when_it_was_possible() -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "gpu", "total": 1})
        hold = (await here.call("POST", "/v1/consume", {"pool": "gpu"}, op="a")).json()
        clock.advance(400 * 86_400)
        await here.call("POST", "/v1/sweep", {})
        path, body = f"/v1/holds/{hold['id']}/return", {"token": hold["token"]}
        no = await here.call("POST", path, body, op="b")
        assert (no.status_code, no.json()["reason"]) == (410, "hold_retired")
        assert "its units could be returned until 2024-12-19 12:00:00.000+00:00; a hold with" in no.json()["detail"]

    run(work, clock=clock)
