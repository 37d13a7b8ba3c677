"""Every route × every caller who must not pass, generated from the route table: a new route is covered the day it is added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, get_args

import httpx
import pytest
from msgspec.structs import fields

from holdkit import Saga
from holdkit.operations import OPERATIONS, Operation
from holdkit.server.jobs import Job
from holdkit.testing import FakeClock
from holdkit.wire.batches import BatchCommand
from tests.support.servers import QUICK, InProcessApp, in_process_app

NUMBERS = count()
GUARDED = [route for route in OPERATIONS if route.scope is not None]
SMALLER = {"read": None, "hold": "read", "admin": "hold"}
BODIES: dict[str, Any] = {
    "create_pool": {"id": "fresh", "total": 5},
    "resize_pool": {"total": 9},
    "limit_pool": {"per_account": 4},
    "join": {"ttl": 60, "offer_ttl": 60},
    "return_to_pool": {"quantity": 1, "reason": "refund"},
    "hold": {"pool": "theirs", "ttl": 60},
    "consume": {"pool": "theirs"},
    "extend": {"by": 60},
    "reassign": {"account": "customer:9"},
    "leave": {},
    "batch": {"commands": [{"type": "hold", "pool": "theirs", "ttl": 60}]},
    "put_budget": {"budgets": {"tokens": [{"total": 5, "per": "day"}]}},
    "budget_hold": {"client": "c", "estimate": 1, "ttl": 60},
    "budget_consume": {"client": "c", "actual": 1},
    "budget_confirm": {"hold": "0" * 32},
    "claim": {"type": "email", "value": "a@b", "ttl": 60},
    "free_claim": {"type": "email", "value": "theirs", "reason": "closed"},
    "add_items": {"ids": ["seat"]},
    "remove_seats": {"section": "stalls"},
    "free_items": {"ids": ["seat"], "reason": "refund"},
    "show_items": {"ids": ["seat"]},
    "pool_histories": {"pools": ["gpu"]},
    "hold_items": {"ids": ["seat"], "ttl": 60},
    "release_items": {"ids": ["seat"], "token": "a guess"},
    "confirm_items": {"ids": ["seat"], "token": "a guess"},
    "retry_saga": {"reason": "it works again"},
    "resolve_saga": {"how": "done", "reason": "I looked"},
    "add_seats": {"seats": [{"id": "A1", "section": "stalls", "row": "A", "number": 1}]},
    "hold_seats": {"count": 1, "section": "stalls", "ttl": 60},
    "budget_resize": {"client": "c", "budget": "tokens", "total": 5},
    "windows": {"commands": [{"type": "consume", "legs": [{"pool": "~rates/theirs/c/60s@0", "create_with_total": 5}]}]},
    "read_windows": {"pools": ["~rates/theirs/c/60s@0"]},
    "move_cursor": {"cursor": "hkc2.WyIiLFtbMCwwLCIiXV1d", "if_version": 0},
    "put_record": {"body": "{}"},
    "change_limits": {"limits": {"max_legs": 900}},
    "set_quota": {"quota": None},
    "delete_tenant": {"confirm": "acme"},
    "make_key": {"name": "n"},
    "make_webhook": {"url": "http://127.0.0.1:9/"},
}


class Delivery(Saga):
    """A saga for tenant acme to have."""

    name = "errand"

    def reserve(self, intent: Any, step: Any) -> str:
        return "theirs"

    def effect(self, intent: Any, step: Any) -> None:
        return None


def name_of(route: Operation) -> str:
    return f"{route.method} {route.path}"


def path_of(route: Operation, ids: dict[str, str]) -> str:
    path = route.path
    for name, value in ids.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, f"the matrix needs an id for {route.path}"
    return path


async def ask(here: InProcessApp, route: Operation, ids: dict[str, str], **more: Any) -> httpx.Response:
    body = None if route.body is None else BODIES.get(route.name, {})
    op = f"matrix-{next(NUMBERS)}" if route.retry_key else None
    return await here.call(route.method, path_of(route, ids), body, op=op, **more)


def claim_in(hold: dict[str, Any]) -> str:
    """The id of the claim that a hold has."""
    return str(hold["legs"][0]["pool"].removeprefix("~claim/"))


async def done(_job: Job) -> bytes:
    return b"{}"


async def scene(here: InProcessApp) -> dict[str, str]:
    """A pool, a hold, a key and more of tenant acme."""
    await here.call("POST", "/v1/pools", {"id": "theirs", "total": 5}, tenant="acme")
    asked = {"pool": "theirs", "ttl": 60, "account": "theirs"}
    hold = await here.call("POST", "/v1/holds", asked, op="theirs", tenant="acme")
    key = await here.running.keys.make("theirs", scope="read", tenant="acme")
    hook = await here.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/theirs"}, tenant="acme")
    await here.call("PUT", "/v1/budgets/theirs", BODIES["put_budget"], tenant="acme")
    await here.call("PUT", "/v1/cursors/theirs", BODIES["move_cursor"], op="cursor", tenant="acme")
    await here.call("PUT", "/v1/records/note/theirs", BODIES["put_record"], op="record", tenant="acme")
    claim = await here.call("POST", "/v1/claims", {**BODIES["claim"], "value": "theirs"}, op="claim", tenant="acme")
    ids = {"hold": hold.json()["id"], "key": key.info.id, "webhook": hook.json()["id"], "claim": claim_in(claim.json())}
    saga = await here.running.kernel.tenant("acme").sagas.register(Delivery()).begin("errand-of-theirs", {})
    records = {"account": "theirs", "follower": "theirs", "kind": "note", "record": "theirs"}
    ids["job"] = here.running.jobs.start("theirs", "acme", done).id
    return {"pool": "theirs", "budget": "theirs", "saga": saga.id, "tenant": "acme", **records, **ids}


def play(work: Callable[[InProcessApp, dict[str, str]], Coroutine[Any, Any, None]]) -> FakeClock:
    clock = FakeClock(start=1_000_000_000_000_000)

    async def main() -> None:
        async with in_process_app(clock=clock, settings=QUICK) as here:
            await work(here, await scene(here))

    asyncio.run(main())
    return clock


async def state(here: InProcessApp) -> list[Any]:
    """All that tenant acme has."""
    told = await here.call("GET", "/v1/journal", tenant="acme")
    return [entry["position"] for entry in told.json()["items"]]


def test_no_wrong_revoked_or_expired_key_passes_any_route() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        good = await here.key("admin")
        revoked = await here.running.keys.make("revoked", scope="admin")
        await here.running.keys.revoke(revoked.info.id)
        expired = await here.running.keys.make("expired", scope="admin", ttl=1)
        here.running.kernel._executor.engine.clock.advance(1)  # type: ignore[attr-defined]
        await here.running.admission.refresh()
        before = await state(here)
        flipped = good[:-1] + ("A" if good[-1] != "A" else "B")
        unknown = good[:5] + ("aa" if good[5:7] != "aa" else "bb") + good[7:]
        for route in GUARDED:
            silent = await ask(here, route, ids, key=None)
            assert (silent.status_code, silent.json()["reason"]) == (401, "key_required"), name_of(route)
            told = []
            for text in (flipped, unknown, revoked.text, expired.text, "hk_nonsense"):
                answer = await ask(here, route, ids, key=text)
                assert (answer.status_code, answer.json()["reason"]) == (401, "key_refused"), name_of(route)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert text.split("_", 2)[-1] not in answer.text
                said = answer.json()
                told.append({name: value for name, value in said.items() if name not in ("request_id", "server_time")})
            assert all(one == told[0] for one in told), "one can be told from another"
        assert await state(here) == before

    play(work)


def test_no_key_of_too_small_a_scope_passes_any_route() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        before = await state(here)
        for route in GUARDED:
            smaller = SMALLER[route.scope or ""]
            if smaller is not None:
                answer = await ask(here, route, ids, key=smaller, tenant="acme")
                assert (answer.status_code, answer.json()["reason"]) == (403, "scope_too_small"), name_of(route)
        assert await state(here) == before

    play(work)


def test_another_tenants_things_do_not_exist() -> None:
    missing = {
        "pool": "missing",
        "hold": "0" * 32,
        "key": "a" * 16,
        "webhook": "0" * 16,
        "budget": "missing",
        "saga": "missing",
        "claim": "res_" + "1" * 32,
        "follower": "missing",
        "record": "missing",
        "job": "0" * 32,
    }

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        before = await state(here)
        for route in sorted(
            GUARDED, key=lambda route: route.method != "GET"
        ):  # some changes make what reads would find
            if route.name in ("events", "put_budget", "move_cursor", "put_record"):
                continue  # the first never ends: below; the others make what they name, of the rival's own
            answer = await ask(here, route, ids, tenant="rival", key="admin")
            if route.operator:
                assert (answer.status_code, answer.json()["reason"]) == (403, "operator_only"), name_of(route)
            elif "{" in route.path and not route.path.endswith("/history") and route.name != "account_usage":
                unknown = await ask(here, route, {**ids, **missing}, tenant="rival", key="admin")
                assert answer.status_code == unknown.status_code == 404, name_of(route)
                assert answer.json()["reason"] == unknown.json()["reason"], name_of(route)
            else:
                assert ids["hold"] not in answer.text, name_of(route)
                if route.method == "GET":
                    assert "theirs" not in answer.text, name_of(route)
        assert await state(here) == before

    play(work)


FORCE = {"force": True, "reason": "admin_override"}


def test_force_is_for_admins_only() -> None:
    """Every route and every command of a batch that takes `force`; without scope admin nothing is done, with or without a token."""
    taking = [route for route in GUARDED if route.body is not None and "force" in names_of(route.body)]
    assert {route.name for route in taking} == {
        "hold", "consume", "join", "confirm", "release", "extend", "return", "reassign"
    }  # fmt: skip
    commands = {str(kind.__struct_config__.tag): kind for kind in get_args(BatchCommand) if "force" in names_of(kind)}
    assert sorted(commands) == ["confirm", "consume", "extend", "hold", "join", "reassign", "release", "return"]

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        before = await state(here)
        for route in taking:
            body = {**BODIES.get(route.name, {}), **FORCE}
            for more in ({}, {"token": "a guess"}):
                answer = await here.call(
                    "POST", path_of(route, ids), {**body, **more}, op=f"f{next(NUMBERS)}", key="hold", tenant="acme"
                )
                assert (answer.status_code, answer.json()["reason"]) == (403, "scope_too_small"), name_of(route)
        for tag in commands:
            on_pool = {"pool": ids["pool"]} if tag == "join" else {}
            command = {"type": tag, "id": ids["hold"], **BODIES.get(tag, {}), **on_pool, **FORCE}
            answer = await here.call(
                "POST", "/v1/batch", {"commands": [command]}, op=f"f{next(NUMBERS)}", key="hold", tenant="acme"
            )
            assert (answer.status_code, answer.json()["reason"]) == (403, "scope_too_small"), tag
        assert await state(here) == before

    play(work)


def names_of(document: Any) -> set[str]:
    return {field.name for field in fields(document)}


def test_all_tenants_are_for_operators_only() -> None:
    """Every route whose query can ask for all of them; nothing of it reaches a tenant's key, and nothing is done."""
    wide = [route for route in GUARDED if "all_tenants" in {field.name for field in fields(route.query)}]
    assert {route.name for route in wide} == {"journal", "events", "show_cursor", "move_cursor"}

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        before = await state(here)
        for route in wide:
            for scope in ("read", "hold", "admin"):
                if route.scope != "read" and scope == "read":
                    continue
                answer = await ask(here, route, ids, tenant="rival", key=scope, params={"all_tenants": "true"})
                assert (answer.status_code, answer.json()["reason"]) == (403, "operator_only"), name_of(route)
                assert "theirs" not in answer.text
        assert await state(here) == before
        everything = await here.call("GET", "/v1/journal?all_tenants=true", key="read")
        assert {entry["tenant"] for entry in everything.json()["items"]} == {"acme"}

    play(work)


def test_who_changed_keys_and_tenants_is_shown_to_administrators_only() -> None:
    """With every other key the journal refuses, and without the parameter it has nothing of them."""

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        made = (await here.call("POST", "/v1/keys", {"name": "till", "scope": "hold"}, tenant="rival")).json()
        id, secret = made["info"]["id"], made["key"]
        path = "/v1/journal?include_reserved=true&limit=1000"
        for tenant, scope, reason in (
            *(("rival", scope, "operator_only") for scope in ("read", "hold", "admin")),
            *(("", scope, "scope_too_small") for scope in ("read", "hold")),
        ):
            for more in ("", "&order=newest", f"&subject=~key/{id}"):
                answer = await here.call("GET", path + more, tenant=tenant, key=scope)
                assert (answer.status_code, answer.json()["reason"]) == (403, reason), (tenant, scope)
        for more in ("", "&order=newest", f"&subject=~key/{id}"):
            shown = await here.call("GET", path + more, key="admin")
            (told,) = [entry for entry in shown.json()["items"] if entry["subject"] == f"~key/{id}"]
            assert (told["action"], told["after"]["kind"]) == ("record.put", "~key")
            assert "body" not in told["after"]
            assert secret not in shown.text
            assert not {"~key.used", "~cursor", "~webhook.lease"} & {
                e["after"].get("kind") for e in shown.json()["items"]
            }
            hidden = await here.call("GET", (path + more).replace("=true", "=false"), key="admin")
            assert "~key" not in hidden.text
        last = await here.call("GET", "/v1/journal?include_reserved=true&last=5", key="admin")
        assert (last.status_code, last.json()["code"]) == (400, "last_ambiguous")

    play(work)


def test_streams_tell_a_tenant_of_its_own_things_only() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        from holdkit.server.request import Request
        from holdkit.server.streams import Stream, entries

        request = Request({"method": "GET"}, None)  # type: ignore[arg-type]
        await here.key("read", "rival")
        (stored,) = [key for key in await here.running.keys.stored() if key.tenant == "rival"]
        request.caller, request.running = here.running.admission._caller(stored), here.running
        told = await entries(Stream(request), "hkc2.WyIiLFtbMCwwLCIiXV1d")  # the beginning
        assert b"event: hello" in await anext(told)
        await here.call("POST", "/v1/pools", {"id": "ours", "total": 5}, tenant="rival")
        page = await anext(told)
        assert b"ours" in page
        assert b"theirs" not in page
        await told.aclose()

    play(work)


@pytest.mark.parametrize("route", OPERATIONS, ids=name_of)
def test_only_health_and_the_description_are_public(route: Operation) -> None:
    assert (route.scope is None) == (route.name in ("livez", "readyz", "openapi"))
    assert (
        route.method == "GET"
        or route.scope in ("hold", "admin")
        or route.name
        in (
            "show_items",
            "read_windows",
            "pool_histories",
        )
    )


def test_who_may_hold_says_neither_totals_nor_names_what_is_reserved() -> None:
    taken = {"type": "consume", "legs": [{"pool": "~rates/r/c/60s@0", "create_with_total": 10**9}]}
    resized = {"type": "resize_pool", "id": "~budgets/theirs/c/tokens/day@0", "total": 10**9}

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        before = await state(here)
        for number, command in enumerate((taken, resized)):
            answer = await here.call(
                "POST", "/v1/windows", {"commands": [command]}, key="hold", tenant="acme", op=f"w{number}"
            )
            assert (answer.status_code, answer.json()["reason"]) == (403, "scope_too_small")
        for pool in ("~claim/res_" + "0" * 32, "~item/seat", "~nothing", "theirs", "~rates"):
            for command in ({**taken, "legs": [{"pool": pool}]}, {**resized, "id": pool}):
                answer = await here.call("POST", "/v1/windows", {"commands": [command]}, tenant="acme", op=f"x{pool}")
                assert (answer.status_code, answer.json()["code"]) == (400, "pool_reserved"), pool
            looked = await here.call("POST", "/v1/windows/read", {"pools": [pool]}, tenant="acme")
            assert looked.json()["code"] == "pool_reserved"
        for kind in ("~key", "~cursor", "~budget"):
            for method, path, body in (
                ("GET", f"/v1/records/{kind}/theirs", None),
                ("GET", f"/v1/records?kind={kind}", None),
                ("PUT", f"/v1/records/{kind}/theirs", {"body": "{}"}),
            ):
                answer = await here.call(method, path, body, tenant="acme", op="r" if body else None)
                assert (answer.status_code, answer.json()["code"]) == (400, "kind_reserved"), path
        bare = await here.call("POST", "/v1/windows", {"commands": [taken]}, tenant="acme")
        assert bare.json()["reason"] == "idempotency_key_required"
        mixed = await here.call("POST", "/v1/windows", {"commands": [taken, resized]}, tenant="acme")
        assert mixed.json()["code"] == "commands_mixed"
        assert await state(here) == before

    play(work)
