"""API keys that are limited to pools and to verbs: every route, every batch command, every list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import holdkit
from holdkit.core.reading import ListUsage, Query
from holdkit.engines.sqlite.engine import SqliteEngine
from holdkit.operations import OPERATIONS
from holdkit.server.key_limits import RULES, KeyLimit
from holdkit.server.keys import VERBS, StoredKey
from holdkit.wire.journal import SEALED
from tests.integration.server.test_authorization_matrix import GUARDED, ask, name_of, scene
from tests.support.servers import QUICK, InProcessApp, in_process_app

NUMBERS = count()
ANY_KEY = {"whoami", "list_pools", "list_holds", "account_usage", "search"}
"""Kinds that no limit to pools refuses: their answers are narrowed."""


def play(work: Callable[[InProcessApp], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with in_process_app(settings=QUICK) as here:
            await work(here)

    asyncio.run(main())


async def limited(here: InProcessApp, scope: str = "admin", tenant: str = "acme", **limits: Any) -> str:
    made = await here.running.keys.make("limited", scope=scope, tenant=tenant, **limits)  # type: ignore[arg-type]
    await here.running.admission.refresh()
    return made.text


async def do(here: InProcessApp, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
    op = None if method == "GET" else f"limited-{next(NUMBERS)}"
    answer = await here.call(method, path, body, op=op, tenant="acme", **more)
    told = answer.json()
    return answer.status_code, told.get("reason") if answer.status_code >= 400 else told


def test_no_route_passes_a_key_that_is_limited_to_other_pools() -> None:
    """Generated from the route table: a new route is refused until it has a rule."""

    async def work(here: InProcessApp) -> None:
        ids = await scene(here)
        key = await limited(here, pools=["elsewhere:"])
        whole = await here.key("admin", "acme")
        before = (await here.call("GET", "/v1/journal?limit=1000", key=whole)).json()["items"]
        seen = 0
        for route in GUARDED:
            answer = await ask(here, route, ids, key=key)
            if route.name in ANY_KEY:
                assert answer.status_code == 200, name_of(route)
                assert ids["hold"] not in answer.text
                assert "theirs" not in answer.text
            else:
                assert (answer.status_code, answer.json()["reason"]) == (403, "key_limited"), name_of(route)
            seen += 1
        assert seen > 60
        after = (await here.call("GET", "/v1/journal?limit=1000", key=whole)).json()["items"]
        assert [one["position"] for one in after] == [one["position"] for one in before]

    play(work)


def test_no_route_passes_a_key_without_its_verb() -> None:
    async def work(here: InProcessApp) -> None:
        ids = await scene(here)
        reader = await limited(here, verbs=["read"])
        expirer = await limited(here, verbs=["expire"])
        for route in GUARDED:
            rule = RULES.get(route.name)
            reading = rule is not None and rule.verb == "read"
            if route.name in ("whoami", "events", "expire"):
                continue  # every key may ask who it is; a stream does not end; below
            answer = await ask(here, route, ids, key=expirer)
            assert (answer.status_code, answer.json()["reason"]) == (403, "key_limited"), name_of(route)
            answer = await ask(here, route, ids, key=reader)
            assert (answer.status_code == 403) != reading, name_of(route)
        answer = await here.call("POST", f"/v1/holds/{ids['hold']}/expire", key=expirer)
        assert (answer.status_code, answer.json()["reason"]) == (409, "not_due")
        answer = await here.call("POST", f"/v1/holds/{ids['hold']}/expire", key=reader)
        assert answer.json()["reason"] == "key_limited"

    play(work)


def test_every_rule_belongs_to_a_route_and_every_verb_is_known() -> None:
    kinds = {route.name for route in OPERATIONS}
    assert set(RULES) <= kinds
    assert {rule.verb for rule in RULES.values()} - {""} == set(VERBS)
    for route in GUARDED:
        rule = RULES.get(route.name)
        if rule is not None and rule.verb:
            assert not route.operator, route.name
            assert (VERBS[rule.verb] == "admin") == (route.scope == "admin"), route.name


async def two_worlds(here: InProcessApp) -> dict[str, Any]:
    """Pools and holds within `show:` and outside, and one hold that has a leg on each side."""
    for pool in ("show:1", "show:2", "tour:1", "show"):
        await do(here, "POST", "/v1/pools", {"id": pool, "total": 50})
    holds: dict[str, Any] = {}
    for name, pools in (("inside", ["show:1"]), ("outside", ["tour:1"]), ("both", ["show:1", "tour:1"])):
        legs = [{"pool": pool} for pool in pools]
        holds[name] = (await do(here, "POST", "/v1/holds", {"legs": legs, "ttl": 600}))[1]
    return holds


def test_a_key_limited_to_pools_does_its_work_within_them_and_nowhere_else() -> None:
    async def work(here: InProcessApp) -> None:
        holds = await two_worlds(here)
        key = await limited(here, scope="hold", pools=["show:"])
        inside = (await do(here, "POST", "/v1/holds", {"pool": "show:1", "ttl": 60}, key=key))[1]
        token = {"token": inside["token"]}
        assert (await do(here, "POST", f"/v1/holds/{inside['id']}/extend", {**token, "by": 9}, key=key))[0] == 200
        moved = {**token, "account": "customer:9"}
        assert (await do(here, "POST", f"/v1/holds/{inside['id']}/reassign", moved, key=key))[1][
            "account"
        ] == "customer:9"
        assert (await do(here, "POST", f"/v1/holds/{inside['id']}/confirm", token, key=key))[0] == 200
        assert (await do(here, "POST", f"/v1/holds/{inside['id']}/return", token, key=key))[0] == 200
        assert (await do(here, "POST", "/v1/consume", {"pool": "show:2"}, key=key))[0] == 201
        for pool in ("tour:1", "show", "sho", "~claim/x", ""):
            for path in ("/v1/holds", "/v1/consume"):
                body = {"legs": [{"pool": "show:1"}, {"pool": pool}]} | ({"ttl": 60} if path == "/v1/holds" else {})
                assert await do(here, "POST", path, body, key=key) == (403, "key_limited"), pool
        for leg in ({"claim": "email:a"}, {"item": "seat"}):
            body = {"legs": [{"pool": "show:1"}, leg], "ttl": 60}
            assert await do(here, "POST", "/v1/holds", body, key=key) == (403, "key_limited"), leg
        for name in ("outside", "both"):
            hold = holds[name]
            more: dict[str, Any] = {"extend": {"by": 9}, "reassign": {"account": "customer:9"}}
            for verb in ("confirm", "release", "extend", "expire", "return", "reassign"):
                body = {} if verb == "expire" else {"token": hold["token"], **more.get(verb, {})}
                for path in (hold["id"], hold["id"].upper(), str(UUID(hold["id"]))):
                    told = await do(here, "POST", f"/v1/holds/{path}/{verb}", body, key=key)
                    assert told == (403, "key_limited"), (name, verb, path)
                told = await do(
                    here, "POST", f"/v1/holds/-/{verb}", body, key=key, headers={"Holdkit-Ticket": hold["ticket"]}
                )
                assert told == (403, "key_limited"), (name, verb)
            assert await do(here, "GET", f"/v1/holds/{hold['id']}", key=key) == (403, "key_limited")
            assert await do(here, "GET", f"/v1/holds/{hold['id']}/history", key=key) == (403, "key_limited")
            assert (await do(here, "GET", f"/v1/holds/{hold['id']}"))[1]["state"] == "held"
        assert await do(here, "GET", f"/v1/holds/{'0' * 32}", key=key) == (404, "hold_not_found")

    play(work)


def test_a_batch_is_checked_command_by_command() -> None:
    async def work(here: InProcessApp) -> None:
        holds = await two_worlds(here)
        key = await limited(here, pools=["show:"], verbs=["hold", "join", "confirm", "release", "create_pool"])
        good = {"type": "hold", "pool": "show:1", "ttl": 60}
        own = {"type": "hold", "pool": "show:1", "ttl": 60, "id": "0123456789abcdef0123456789abcdef", "token": "t" * 16}
        done = {"type": "confirm", "id": own["id"], "token": own["token"]}
        place: dict[str, Any] = {"type": "join", "ttl": 60, "offer_ttl": 60}
        joined = {**place, "pool": "show:1", "id": "1" * 32, "token": "t" * 16}
        left = {"type": "release", "id": joined["id"], "token": joined["token"]}
        batch = {"commands": [good, own, done, {**place, "pool": "show:1"}, joined, left]}
        status, told = await do(here, "POST", "/v1/batch", batch, key=key)
        assert (status, [one["status"] for one in told["answers"]]) == (200, ["done"] * 6)
        refused = {**own, "id": "2" * 32, "quantity": 1_000}
        for bad in (
            {**place, "pool": "tour:1"},
            {**place, "pool": "tour:1", "id": own["id"]},
            {**place, "pool": "tour:1", "id": holds["inside"]["id"]},
            {"type": "hold", "pool": "tour:1", "ttl": 60},
            {"type": "hold", "legs": [{"pool": "show:1"}, {"pool": "tour:1"}], "ttl": 60},
            {"type": "release", "id": holds["outside"]["id"], "token": holds["outside"]["token"]},
            {"type": "release", "id": holds["both"]["id"], "token": holds["both"]["token"]},
            {"type": "create_pool", "id": "tour:2", "total": 1},
            {"type": "consume", "pool": "show:1"},
            {"type": "resize_pool", "id": "show:1", "total": 1},
        ):
            batch = {"commands": [good, refused, bad]}
            assert await do(here, "POST", "/v1/batch", batch, key=key) == (403, "key_limited"), bad
        escaping = {"commands": [refused, {**place, "pool": "tour:1", "id": refused["id"]}]}
        assert await do(here, "POST", "/v1/batch", escaping, key=key) == (403, "key_limited")
        made = {"type": "create_pool", "id": "show:3", "total": 1}
        assert (await do(here, "POST", "/v1/batch", {"commands": [made]}, key=key))[1]["answers"][0]["status"] == "done"
        born = {"legs": [{"pool": "show:9", "create_with_total": 5}], "ttl": 60}
        assert (await do(here, "POST", "/v1/holds", born, key=key))[0] == 201
        holder = await limited(here, verbs=["hold"])
        assert await do(here, "POST", "/v1/holds", born, key=holder) == (403, "key_limited"), "it would make a pool"

    play(work)


def test_lists_show_what_the_key_may_see_page_by_page() -> None:
    async def work(here: InProcessApp) -> None:
        holds = await two_worlds(here)
        key = await limited(here, scope="read", pools=["tour:", "show:", "show:1", "zoo"])

        async def pools(**params: Any) -> list[str]:
            found: list[str] = []
            after: str | None = ""
            while after is not None:
                page = (await do(here, "GET", "/v1/pools", key=key, params={"after": after, **params}))[1]
                found += [pool["id"] for pool in page["items"]]
                after = page["next"]
            return found

        for limit in (1, 2, 3, 100):
            assert await pools(limit=limit) == ["show:1", "show:2", "tour:1"]
            assert await pools(limit=limit, contains="O") == ["show:1", "show:2", "tour:1"]
            assert await pools(limit=limit, contains=":1") == ["show:1", "tour:1"]
            assert await pools(limit=limit, prefix="show") == ["show:1", "show:2"]
            assert await pools(limit=limit, prefix="show:2") == ["show:2"]
            assert await pools(limit=limit, prefix="a") == []
        shows = await limited(here, scope="read", pools=["show:"])
        listed = (await do(here, "GET", "/v1/holds", key=shows))[1]["items"]
        assert [hold["id"] for hold in listed] == [holds["inside"]["id"]]
        listed = (await do(here, "GET", "/v1/holds?pool=tour:1", key=shows))[1]["items"]
        assert listed == []
        me = (await do(here, "GET", "/v1/whoami", key=key))[1]
        assert (me["pools"], me["verbs"], me["operator"]) == (["tour:", "show:", "show:1", "zoo"], [], False)

    play(work)


def test_the_pages_of_an_accounts_usage_name_no_pool_that_the_key_may_not_see() -> None:
    async def work(here: InProcessApp) -> None:
        await two_worlds(here)
        for pool in ("arena:1", "show:1", "show:2", "tour:1"):
            await do(here, "POST", "/v1/pools", {"id": pool, "total": 5, "exist_ok": True})
            body = {"pool": pool, "ttl": 60, "account": "customer:7"}
            assert (await do(here, "POST", "/v1/holds", body))[0] == 201
        key = await limited(here, scope="read", pools=["show:"])
        for limit in (1, 2, 3):
            found: list[str] = []
            after: str | None = ""
            while after is not None:
                params = {"after": after, "limit": limit}
                page = (await do(here, "GET", "/v1/accounts/customer:7/usage", key=key, params=params))[1]
                found += [one["pool"] for one in page["items"]]
                after = page["next"]
                assert after in (None, "show:1", "show:2")
            assert found == ["show:1", "show:2"], limit

    play(work)


class CountedReads(SqliteEngine):
    """An engine that remembers what it was asked."""

    asked: list[Query[Any]]

    def read(self, query: Query[Any], *, durable: bool = False) -> Any:
        """Answer a query."""
        self.asked.append(query)
        return super().read(query, durable=durable)


def test_a_page_of_an_accounts_usage_is_one_query_however_many_pools_are_hidden(tmp_path: Path) -> None:
    async def work() -> None:
        engine = CountedReads(tmp_path / "holds.db")
        engine.asked = []
        async with await holdkit.connect_async(engine) as kernel, in_process_app(kernel, settings=QUICK) as here:  # type: ignore[arg-type]
            acme = kernel.tenant("acme")
            hidden = [f"{side}:{number}" for side in "az" for number in range(150)]
            shown = ["show:1", "show:2"]
            await acme.apply([holdkit.commands.CreatePool(id=pool, total=5) for pool in (*hidden, *shown)])
            await acme.apply(
                [holdkit.commands.Consume(legs=(holdkit.Leg(pool, 1),), account="x") for pool in (*hidden, *shown)]
            )
            key = await limited(here, scope="read", pools=["show:", "zoo", "b"])
            for after, pool, end in (("", "show:1", "show:1"), ("show:1", "show:2", "show:2"), ("show:2", None, None)):
                engine.asked.clear()
                params = {"limit": 1, "after": after}
                page = (await do(here, "GET", "/v1/accounts/x/usage", key=key, params=params))[1]
                assert ([one["pool"] for one in page["items"]], page["next"]) == ([] if pool is None else [pool], end)
                assert len([query for query in engine.asked if isinstance(query, ListUsage)]) == 1

    asyncio.run(work())


def test_a_limited_key_of_the_default_tenant_is_no_operator() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "show:1", "total": 5})
        for limits in ({"pools": ["show:"]}, {"verbs": ["read", "hold"]}):
            key = await limited(here, "admin", "", **limits)
            answer = await here.call("GET", "/v1/tenants", key=key)
            assert (answer.status_code, answer.json()["reason"]) == (403, "key_limited")
            answer = await here.call("GET", "/v1/journal?all_tenants=true", key=key)
            assert answer.status_code == 403
            assert not (await here.call("GET", "/v1/whoami", key=key)).json()["operator"]
            hold = await here.call("POST", "/v1/holds", {"pool": "show:1", "ttl": 60}, key=key, op=str(limits))
            assert "." not in hold.json()["position"], "lane and number count entries that the key may not see"

    play(work)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"pools": [""]}, "pools_required"),
        ({"pools": ["~item/"]}, "pools_reserved"),
        ({"pools": [f"p{n}" for n in range(21)]}, "pools_too_many"),
        ({"verbs": ["fly"]}, "verb_unknown"),
        ({"verbs": ["create_pool"]}, "verb_beyond_scope"),
        ({"scope": "read", "verbs": ["hold"]}, "verb_beyond_scope"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(body: dict[str, Any], code: str) -> None:
    async def work(here: InProcessApp) -> None:
        answer = await here.call("POST", "/v1/keys", {"name": "k", **body}, tenant="acme")
        assert (answer.status_code, answer.json()["code"]) == (400, code)

    play(work)


def test_a_limit_is_listed_and_outlives_a_rotation() -> None:
    async def work(here: InProcessApp) -> None:
        body = {"name": "checkout", "pools": ["show:"], "verbs": ["hold", "confirm"]}
        made = (await here.call("POST", "/v1/keys", body, tenant="acme")).json()["info"]
        assert (made["pools"], made["verbs"]) == (["show:"], ["hold", "confirm"])
        turned = (await here.call("POST", f"/v1/keys/{made['id']}/rotate", {}, tenant="acme")).json()
        assert (turned["info"]["pools"], turned["info"]["verbs"]) == (["show:"], ["hold", "confirm"])
        (listed,) = [
            key
            for key in (await here.call("GET", "/v1/keys", tenant="acme")).json()["items"]
            if key["id"] == made["id"]
        ]
        assert listed["pools"] == ["show:"]
        await do(here, "POST", "/v1/pools", {"id": "show:1", "total": 5})
        assert (await do(here, "POST", "/v1/holds", {"pool": "show:1", "ttl": 60}, key=turned["key"]))[0] == 201
        assert await do(here, "GET", "/v1/pools", key=turned["key"]) == (403, "key_limited")

    play(work)


def test_prefixes_are_narrowed() -> None:
    def narrowed(pools: tuple[str, ...], prefix: str) -> tuple[str, ...]:
        key = StoredKey(id="k", scope="read", name="n", secret_hash="", made_at=0, pools=pools)
        return KeyLimit(key).narrowed(prefix)

    assert narrowed(("b", "a", "ab"), "") == ("a", "b")
    assert narrowed(("b", "ab"), "abc") == ("abc",)
    assert narrowed(("b", "ab"), "a") == ("ab",)
    assert narrowed(("b", "ab"), "c") == ()
    assert narrowed((), "c") == ("c",)


def test_where_a_list_of_holds_goes_on_is_sealed_for_a_limited_key() -> None:
    """It may be the id of a hold that the key may not see."""

    async def work(here: InProcessApp) -> None:
        first, hidden, second = (digit * 32 for digit in "123")
        for pool, id in (("show:1", first), ("tour:1", hidden), ("show:2", second)):
            await do(here, "POST", "/v1/pools", {"id": pool, "total": 50})
            assert (await do(here, "POST", "/v1/holds", {"pool": pool, "ttl": 60, "id": id}))[0] == 201
        key = await limited(here, scope="read", pools=["show:"])
        begin = (await here.call("GET", "/v1/holds?limit=1", key=key)).json()
        assert [one["id"] for one in begin["items"]] == [first]
        assert begin["next"].startswith(SEALED)
        assert not [id for id in (first, hidden, second) if id in begin["next"]]
        rest = (await here.call("GET", f"/v1/holds?after={begin['next']}", key=key)).json()
        assert [one["id"] for one in rest["items"]] == [second]
        whole = (await here.call("GET", "/v1/holds?limit=1", tenant="acme")).json()
        assert whole["next"] == first, "another key sees the id itself"

    play(work)
