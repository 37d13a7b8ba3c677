"""Lines, accounts and trees over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from holdkit.operations import OPERATIONS
from holdkit.testing import FakeClock
from tests.integration.server.test_authorization_matrix import BODIES
from tests.integration.server.test_webhooks import scene as webhook_scene
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app, live_server

NUMBERS = count()
LINE: dict[str, Any] = {"ttl": "2h", "offer_ttl": "10m"}


def play(work: Callable[[InProcessApp], Coroutine[Any, Any, None]], **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(settings=QUICK, **more) as here:
            await work(here)

    asyncio.run(main())


async def do(here: InProcessApp, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
    op = None if method == "GET" else f"line-{next(NUMBERS)}"
    answer = await here.call(method, path, body, **{"op": op, **more})
    return answer.status_code, answer.json()


async def full_pool(here: InProcessApp, **more: Any) -> Any:
    """A pool of two, and the hold that has both."""
    status, _ = await do(here, "POST", "/v1/pools", {"id": "show", "total": 2}, **more)
    assert status == 201
    status, held = await do(here, "POST", "/v1/holds", {"pool": "show", "quantity": 2, "ttl": "5m"}, **more)
    assert status == 201
    return held


def test_a_buyer_joins_learns_its_place_is_offered_units_and_confirms() -> None:
    async def work(here: InProcessApp) -> None:
        held = await full_pool(here)
        asked = {**LINE, "quantity": 2, "account": "customer:7"}
        status, first = await do(here, "POST", "/v1/pools/show/line", asked, op="first")
        assert (status, first["state"], first["number"], first["fence"]) == (201, "waiting", 1, 0)
        assert (first["held_at"], first["legs"][0]["held"]) == (None, 0)
        assert first["offer_ttl"] == 600.0
        assert (first["joined_at"], first["deadline"]) == ("2023-11-15T12:00:00.000000Z", "2023-11-15T14:00:00.000000Z")
        assert first["account"] == "customer:7"
        assert first["ticket"]
        _, again = await do(here, "POST", "/v1/pools/show/line", asked, op="first")
        assert (again["token"], again["replayed"]) == (first["token"], True)
        _, second = await do(here, "POST", "/v1/pools/show/line", LINE)
        _, place = await do(here, "GET", f"/v1/holds/{second['id']}/place")
        assert (place["hold"], place["state"], place["place"]) == (second["id"], "waiting", 2)
        _, pool = await do(here, "GET", "/v1/pools/show")
        assert (pool["waiting"], pool["bookable"], pool["line"], pool["per_account"]) == (2, 0, "strict", None)
        early = await do(here, "POST", f"/v1/holds/{first['id']}/confirm", {"token": first["token"]})
        assert (early[0], early[1]["reason"], early[1]["number"]) == (409, "hold_waiting", 1)
        assert early[1]["transient"] is True
        ticket = {"Holdkit-Ticket": held["ticket"]}
        assert (await do(here, "POST", "/v1/holds/-/release", {}, headers=ticket))[0] == 200
        overtaking = await do(here, "POST", "/v1/holds", {"pool": "show", "ttl": 60})
        assert (overtaking[0], overtaking[1]["reason"]) == (409, "insufficient_capacity")
        ticket = {"Holdkit-Ticket": first["ticket"]}
        _, offered = await do(here, "GET", "/v1/holds/-/place", headers=ticket)
        assert (offered["state"], offered["place"], offered["deadline"]) == (
            "held",
            None,
            "2023-11-15T12:10:00.000000Z",
        )
        _, done = await do(here, "POST", "/v1/holds/-/confirm", {"entity": "order:9"}, headers=ticket)
        assert (done["state"], done["entity"], done["fence"]) == ("confirmed", "order:9", 2)
        _, left = await do(here, "POST", f"/v1/holds/{second['id']}/release", {"token": second["token"]})
        assert (left["state"], left["held_at"]) == ("released", None)
        listed = (await do(here, "GET", "/v1/holds?state=waiting"))[1]["items"]
        assert listed == []
        _, told = await do(here, "GET", f"/v1/holds/{first['id']}/history")
        assert [one["action"] for one in told["items"]] == ["hold.waiting", "hold.offered", "hold.confirmed"]
        joined = told["items"][0]["pools"][0]
        assert (joined["waiting"], joined["used"]) == (1, 2)
        assert joined["tally"] == {"account": "customer:7", "used": 2, "loose": 0}
        assert told["items"][1]["pools"][0]["waiting"] == -1

    play(work, clock=FakeClock(start=NOON))


def test_what_is_wrong_with_a_wait_is_named_as_in_the_request() -> None:
    async def work(here: InProcessApp) -> None:
        await full_pool(here)
        for change, field, code in (
            ({"wait": -1}, "wait", "wait_too_short"),
            ({"wait": 0}, "wait", "wait_too_short"),
            ({"offer_ttl": 0}, "offer_ttl", "offer_ttl_too_short"),
            ({"offer_ttl": None}, "wait", "wait_incomplete"),
            ({"wait": "soon"}, "wait", "wait_malformed"),
        ):
            body = {"pool": "show", "ttl": 60, "wait": 30, "offer_ttl": 10, **change}
            status, told = await do(here, "POST", "/v1/holds", body)
            assert (status, told["field"], told["code"]) == (400, field, code), change
            assert "slots" not in told["detail"]

    play(work)


def test_overage_of_a_hold_without_an_account_is_refused_where_a_limit_was_set_since() -> None:
    async def work(here: InProcessApp) -> None:
        await do(here, "POST", "/v1/pools", {"id": "show", "total": 5})
        _, held = await do(here, "POST", "/v1/holds", {"pool": "show", "ttl": 60})
        await do(here, "PUT", "/v1/pools/show/per_account", {"per_account": 3})
        body = {"token": held["token"], "quantity": 2, "overage": "if_available"}
        status, told = await do(here, "POST", f"/v1/holds/{held['id']}/confirm", body)
        assert (status, told["reason"]) == (409, "account_required")
        assert "this hold is for none" in told["detail"]
        (route,) = [one for one in OPERATIONS if one.name == "confirm"]
        assert told["reason"] in route.reasons, "the OpenAPI document names it"

    play(work)


def test_nobody_overtakes_and_the_refusal_tells_the_length_of_the_line() -> None:
    async def work(here: InProcessApp) -> None:
        await do(here, "POST", "/v1/pools", {"id": "show", "total": 3})
        await do(here, "POST", "/v1/consume", {"pool": "show", "quantity": 1})
        await do(here, "POST", "/v1/pools/show/line", {**LINE, "quantity": 3})
        for path, body in (("/v1/holds", {"pool": "show", "ttl": 60}), ("/v1/consume", {"pool": "show"})):
            status, told = await do(here, "POST", path, body)
            assert (status, told["reason"], told["waiting"], told["transient"]) == (409, "line_ahead", 1, True), path
        status, told = await do(here, "POST", "/v1/pools/show/line", {**LINE, "quantity": 4})
        assert (status, told["reason"], told["requested"], told["total"]) == (409, "insufficient_capacity", 4, 3)

    play(work)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"ttl": None}, "ttl", "field_malformed"),
        ({"ttl": 0}, "ttl", "ttl_too_short"),
        ({"offer_ttl": "31d"}, "offer_ttl", "offer_ttl_too_long"),
        ({"quantity": 0}, "quantity", "quantity_out_of_range"),
        ({"account": ""}, "account", "account_required"),
        ({"pool": "show"}, "pool", "field_unknown"),
        ({"legs": []}, "legs", "field_unknown"),
        ({"force": True}, "reason", "reason_required"),
    ],
)
def test_what_is_wrong_with_a_join_is_named(change: dict[str, Any], field: str, code: str) -> None:
    async def work(here: InProcessApp) -> None:
        await full_pool(here)
        status, told = await do(here, "POST", "/v1/pools/show/line", {**LINE, **change})
        assert (status, told["reason"]) == (400, "invalid_request"), told
        assert (told["field"], told["code"]) == (field, code)
        assert (await do(here, "GET", "/v1/pools/show"))[1]["waiting"] == 0

    play(work)


def test_no_line_stands_below_another_pool() -> None:
    async def work(here: InProcessApp) -> None:
        await do(here, "POST", "/v1/pools", {"id": "venue", "total": 2})
        await do(here, "POST", "/v1/pools", {"id": "venue//stalls", "total": 2})
        status, told = await do(here, "POST", "/v1/pools/venue%2F%2Fstalls/line", LINE)
        assert (status, told["field"], told["code"]) == (400, "pool", "pool_without_line")

    play(work)


def test_limits_per_account_are_refused_with_their_numbers_and_passed_by_force() -> None:
    async def work(here: InProcessApp) -> None:
        _, made = await do(here, "POST", "/v1/pools", {"id": "show", "total": 50, "per_account": 4, "line": "skip"})
        assert (made["per_account"], made["line"], made["bookable"]) == (4, "skip", 50)
        status, told = await do(here, "POST", "/v1/holds", {"pool": "show", "ttl": 60})
        assert (status, told["reason"], told["subject"]) == (409, "account_required", "show")
        buyer = {"pool": "show", "account": "customer:7"}
        status, held = await do(here, "POST", "/v1/holds", {**buyer, "quantity": 3, "ttl": 60})
        assert (status, held["account"]) == (201, "customer:7")
        for used, path, body in (
            (3, "/v1/holds", {**buyer, "quantity": 2, "ttl": 60}),
            (5, "/v1/consume", {**buyer, "quantity": 2}),
            (7, "/v1/pools/show/line", {**LINE, "account": "customer:7", "quantity": 2}),
        ):
            status, told = await do(here, "POST", path, body)
            assert (status, told["reason"], told["transient"]) == (409, "account_limit", False), path
            assert (told["requested"], told["used"], told["limit"]) == (2, used, 4), path
            forced = {**body, "force": True, "reason": "box office"}
            small = await do(here, "POST", path, forced, key="hold")
            assert (small[0], small[1]["reason"]) == (403, "scope_too_small"), path
            assert (await do(here, "POST", path, forced))[0] == 201, path
        _, usage = await do(here, "GET", "/v1/accounts/customer%3A7/usage")
        assert usage["items"] == [{"pool": "show", "used": 9, "limit": 4}]
        tag = (await here.call("GET", "/v1/pools/show")).headers["etag"]
        path = "/v1/pools/show/per_account"
        status, told = await do(here, "PUT", path, {"per_account": 1}, headers={"If-Match": '"1.0"'})
        assert (status, told["reason"]) == (412, "version_conflict")
        _, changed = await do(here, "PUT", path, {"per_account": None}, headers={"If-Match": tag})
        assert changed["per_account"] is None
        assert (await do(here, "PUT", path, {}))[1]["code"] == "field_required", "no limit must be said, not left out"
        assert (await do(here, "POST", "/v1/holds", {**buyer, "quantity": 2, "ttl": 60}))[0] == 201

    play(work)


def test_usage_comes_in_pages_and_every_level_counts() -> None:
    async def work(here: InProcessApp) -> None:
        for id in ("venue", "venue//stalls", "venue//circle", "cloakroom"):
            await do(here, "POST", "/v1/pools", {"id": id, "total": 9})
        legs = [{"pool": "venue//stalls", "quantity": 2}, {"pool": "venue//circle"}, {"pool": "cloakroom"}]
        assert (await do(here, "POST", "/v1/holds", {"legs": legs, "ttl": 60, "account": "a/b"}))[0] == 201
        found, after = [], ""
        for _ in range(3):
            _, page = await do(here, "GET", f"/v1/accounts/a%2Fb/usage?limit=2&after={after}")
            found += [(one["pool"], one["used"]) for one in page["items"]]
            if page["next"] is None:
                break
            after = page["next"].replace("/", "%2F")
        assert found == [("cloakroom", 1), ("venue", 3), ("venue//circle", 1), ("venue//stalls", 2)]
        assert (await do(here, "GET", "/v1/accounts/nobody/usage"))[1]["items"] == []
        status, told = await do(here, "GET", f"/v1/accounts/{'x' * 300}/usage")
        assert (status, told["field"]) == (400, "account")

    play(work)


def test_a_hold_below_a_full_pool_is_refused_and_every_level_is_listed() -> None:
    async def work(here: InProcessApp) -> None:
        await do(here, "POST", "/v1/pools", {"id": "venue", "total": 3})
        await do(here, "POST", "/v1/pools", {"id": "venue//stalls", "total": 2})
        status, told = await do(here, "POST", "/v1/holds", {"pool": "venue//stalls", "quantity": 4, "ttl": 60})
        assert (status, told["reason"]) == (409, "insufficient_capacity")
        assert [(one["pool"], one["available"]) for one in told["shortfalls"]] == [("venue//stalls", 2), ("venue", 3)]
        await do(here, "POST", "/v1/holds", {"pool": "venue", "quantity": 2, "ttl": 60})
        _, stalls = await do(here, "GET", "/v1/pools/venue%2F%2Fstalls")
        assert (stalls["available"], stalls["bookable"]) == (2, 1)
        assert (await do(here, "GET", "/v1/pools/venue"))[1]["children"] == 1
        status, told = await do(here, "DELETE", "/v1/pools/venue")
        assert (status, told["reason"]) == (409, "pool_in_use")
        status, told = await do(here, "POST", "/v1/pools", {"id": "hall//stalls", "total": 2})
        assert (status, told["reason"], told["subject"]) == (404, "pool_not_found", "hall")

    play(work)


def test_every_route_of_a_pool_takes_an_id_with_slashes() -> None:
    """Over a real socket: the server splits the path before it decodes it."""
    routes = [route for route in OPERATIONS if "{pool}" in route.path]
    assert len(routes) >= 9
    with live_server() as server, server.client() as http:
        http.post("/v1/pools", json={"id": "venue", "total": 5})
        for route in sorted(routes, key=lambda route: route.method == "DELETE"):
            id = "venue//stalls" if route.name != "join" else "a/b"
            http.post("/v1/pools", json={"id": id, "total": 5, "exist_ok": True})
            path = route.path.replace("{pool}", id.replace("/", "%2F"))
            answer = http.request(
                route.method, path, headers={"Idempotency-Key": f"{route.name}-1"} if route.retry_key else {},
                **({} if route.body is None else {"json": BODIES.get(route.name, {})}),
            )  # fmt: skip
            told = answer.json()
            if route.name == "return_to_pool":
                assert (answer.status_code, told["subject"]) == (409, id)
            elif route.name == "pool_history":
                assert told["items"][0]["subject"] == id
            elif route.name in ("list_line", "list_children"):
                assert (answer.status_code, told["items"]) == (200, []), told
            else:
                assert answer.status_code == route.status, (route.name, told)
                assert (told["legs"][0]["pool"] if route.name == "join" else told["id"]) == id
        for path in ("/v1/pools/venue//stalls", "/v1/pools/venue%2F/stalls"):
            assert http.get(path).status_code == 404, "slashes that are not encoded separate segments"


def test_a_batch_joins_limits_and_holds_for_an_account() -> None:
    async def work(here: InProcessApp) -> None:
        commands = [
            {"type": "create_pool", "id": "show", "total": 2, "per_account": 1, "line": "skip"},
            {"type": "hold", "pool": "show", "quantity": 2, "ttl": 60, "account": "a"},
            {"type": "limit_pool", "id": "show", "per_account": 2},
            {"type": "hold", "pool": "show", "quantity": 2, "ttl": 60, "account": "a"},
            {"type": "join", "pool": "show", "account": "b", **LINE},
            {"type": "consume", "pool": "show", "quantity": 9, "account": "b", "force": True, "reason": "r"},
        ]
        _, told = await do(here, "POST", "/v1/batch", {"commands": commands})
        answers = told["answers"]
        assert [one.get("reason") for one in answers] == [
            None,
            "account_limit",
            None,
            None,
            None,
            "insufficient_capacity",
        ]
        assert (answers[1]["facts"]["used"], answers[1]["facts"]["limit"]) == (0, 1)
        assert (answers[2]["pool"]["per_account"], answers[2]["pool"]["line"]) == (2, "skip")
        joined = answers[4]["hold"]
        assert (joined["state"], joined["number"]) == ("waiting", 1)
        assert joined["ticket"]
        for command in (commands[2], commands[5]):
            status, no = await do(here, "POST", "/v1/batch", {"commands": [command]}, key="hold")
            assert (status, no["reason"]) == (403, "scope_too_small")

    play(work)


def test_units_of_an_account_come_back_by_pool() -> None:
    clock = FakeClock(start=NOON)

    async def work(here: InProcessApp) -> None:
        await do(here, "POST", "/v1/pools", {"id": "show", "total": 5})
        await do(here, "POST", "/v1/consume", {"pool": "show", "quantity": 3, "account": "a"})
        clock.advance(401 * 86_400)
        await here.running.kernel.sweep()
        asked = {"quantity": 2, "reason": "refund"}
        status, told = await do(here, "POST", "/v1/pools/show/free", asked)
        assert (status, told["reason"], told["loose"]) == (409, "quantity_exceeds_consumed", 0)
        status, told = await do(here, "POST", "/v1/pools/show/free", {**asked, "account": "a"})
        assert (status, told["consumed"]) == (200, 1)
        assert (await do(here, "GET", "/v1/accounts/a/usage"))[1]["items"][0]["used"] == 1

    play(work, clock=clock)


def test_a_key_for_a_child_holds_there_and_sees_no_more() -> None:
    async def work(here: InProcessApp) -> None:
        for id in ("venue", "venue//stalls", "show"):
            await do(here, "POST", "/v1/pools", {"id": id, "total": 2})
        made = await here.running.keys.make("stalls", scope="hold", pools=["venue//stalls"])
        await here.running.admission.refresh()
        key = made.text
        buyer = {"ttl": 60, "account": "a"}
        assert (await do(here, "POST", "/v1/holds", {"pool": "venue//stalls", **buyer}, key=key))[0] == 201
        for pool in ("venue", "show"):
            assert (await do(here, "POST", "/v1/holds", {"pool": pool, **buyer}, key=key))[1]["reason"] == "key_limited"
        assert (await do(here, "POST", "/v1/pools/show/line", LINE, key=key))[1]["reason"] == "key_limited"
        _, told = await do(here, "POST", "/v1/holds", {"pool": "venue//stalls", "quantity": 2, **buyer}, key=key)
        assert [one["pool"] for one in told["shortfalls"]] == ["venue//stalls"]
        await do(here, "POST", "/v1/holds", {"pool": "show", "quantity": 2, **buyer})
        _, mine = await do(here, "GET", "/v1/accounts/a/usage", key=key)
        assert [one["pool"] for one in mine["items"]] == ["venue//stalls"]
        _, waiter = await do(here, "POST", "/v1/pools/show/line", LINE)
        for path in ("place", "place/events"):
            _, no = await do(here, "GET", f"/v1/holds/{waiter['id']}/{path}", key=key)
            assert no["reason"] == "key_limited", path

    play(work)


# What follows from it elsewhere


def test_a_webhook_tells_of_an_offer() -> None:
    async def main() -> None:
        async with webhook_scene() as (here, receiver, hook):
            url = hook["url"]
            await do(here, "DELETE", f"/v1/webhooks/{hook['id']}")
            await do(here, "POST", "/v1/webhooks", {"url": url, "actions": ["hold.offered"]})
            held = await full_pool(here)
            _, waiter = await do(here, "POST", "/v1/pools/show/line", {**LINE, "account": "customer:7"})
            await do(here, "POST", f"/v1/holds/{held['id']}/release", {"token": held["token"]})
            await receiver.wait(1)
            headers, body = receiver.taken[-1]
            event = json.loads(body)
            assert (event["type"], event["subject"]) == ("holdkit.hold.offered", waiter["id"])
            assert event["data"]["after"]["state"] == "held"
            assert waiter["token"].encode() not in body
            assert headers["webhook-signature"].startswith("v1,")

    asyncio.run(main())


def test_waiters_count_as_holds_of_a_quota() -> None:
    async def work(here: InProcessApp) -> None:
        await full_pool(here, tenant="acme")
        kernel = here.running.kernel.tenant("acme")
        before = (await kernel.admin.usage()).live_holds
        assert (await do(here, "POST", "/v1/pools/show/line", LINE, tenant="acme"))[0] == 201
        assert (await kernel.admin.usage()).live_holds == before + 1
        await do(here, "PUT", "/v1/tenants/acme/quota", {"quota": {"rows": 1}})
        here.running.quotas._recent.clear()
        await here.running.quotas.usage("acme")
        status, told = await do(here, "POST", "/v1/pools/show/line", LINE, tenant="acme")
        assert (status, told["reason"]) == (403, "storage_quota_exceeded")

    play(work)
