"""What a request costs: never more than a burst, and little if the kernel has not seen it. Over every route, with numbers of any size."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import inspect, structs

import holdkit
from holdkit.core.bounds import Limits
from holdkit.operations import OPERATIONS, Operation
from holdkit.server.limits import Bucket, Cost, cost_of
from holdkit.server.routes import STREAMED
from holdkit.server.settings import Rates, Requests
from holdkit.testing import FakeClock
from holdkit.wire.items import HoldSeats
from tests.integration.server.test_authorization_matrix import BODIES, name_of, path_of, scene
from tests.support.receivers import eventually
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app
from tests.support.watched_engine import WatchedEngine, queued

FROZEN = structs.replace(
    QUICK, rates=Rates(key=1e-9, tenant=1e-9, tenant_bytes=1, refusal_delay=0.0), requests=Requests(timeout=60.0)
)
"""Buckets that are not filled again, so that their levels tell what was charged."""
NUMBERS = (0, -1, 10**15, 2**63, 10**399, -(10**398), 1e300)
BEFORE_THE_KERNEL = {400, 401, 405, 413, 415, 422, 429}
OPS = count()


def play(work: Any, url: str = "memory://", settings: Any = FROZEN) -> None:
    async def main() -> None:
        clock = FakeClock(start=NOON)
        async with in_process_app(url, settings=settings, clock=clock) as here:
            ids = await scene(here)
            refill(here)
            await work(here, ids)

    asyncio.run(main())


@pytest.mark.parametrize("seats", [10**15, 10**399])
def test_a_count_that_is_refused_locks_nobody_out(seats: int) -> None:
    """The attack: any key of scope hold, once; then every key of the tenant was answered 429 until a restart."""

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        asked = {"count": seats, "section": "stalls", "ttl": 60}
        told = await here.call("POST", "/v1/seats/hold", asked, op="1", key="hold", tenant="acme")
        assert (told.status_code, told.json()["code"]) == (400, "count_out_of_range")
        assert charged(here) == 1
        assert (await here.call("GET", "/v1/pools", key="hold", tenant="acme")).status_code == 200

    play(work)


def test_a_count_counts_as_no_more_seats_than_a_request_may_have() -> None:
    """Before anything has checked it."""
    (hold_seats,) = [operation for operation in OPERATIONS if operation.name == "hold_seats"]
    assert [
        cost_of(hold_seats, HoldSeats(count=seats, section="stalls", ttl=60), 100)
        for seats in (-5, 7, 1_000, 1_001, 10**399)
    ] == [
        Cost(commands=1, elements=0, tokens=21),
        Cost(commands=7, elements=0, tokens=27),
        *[Cost(commands=1_000, elements=0, tokens=1_020)] * 3,
    ]


# Bodies with a number in one place


def example(kind: inspect.Type) -> Any:
    """A value of this type, as small as it can be."""
    match kind:
        case inspect.StructType():
            fields = {one.encode_name: example(one.type) for one in kind.fields if one.required}
            return fields if kind.tag_field is None else {kind.tag_field: kind.tag, **fields}
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return [example(kind.item_type)]
        case inspect.DictType():
            return {"k": example(kind.value_type)}
        case inspect.UnionType():
            return example(kind.types[0])
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.Metadata():
            return example(kind.type)
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return False
        case inspect.NoneType():
            return None
        case inspect.DateTimeType():
            return "2030-01-01T00:00:00Z"
    return "x"


def planted(kind: inspect.Type, number: float) -> Iterator[tuple[str, Any]]:
    """Values of this type with the number in one place, each with the name of the place."""
    if isinstance(kind, inspect.Metadata):
        yield from planted(kind.type, number)
        return
    yield "", number
    if isinstance(kind, inspect.StructType):
        for one in kind.fields:
            for name, value in planted(one.type, number):
                yield f".{one.encode_name}{name}", {**example(kind), one.encode_name: value}
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        for name, value in planted(kind.item_type, number):
            yield f"[]{name}", [value] * 40
    elif isinstance(kind, inspect.DictType | inspect.AnyType):
        for name, value in planted(getattr(kind, "value_type", inspect.IntType()), number):
            yield f".*{name}", {"k": value}
    elif isinstance(kind, inspect.UnionType):
        for variant in kind.types:
            if not isinstance(variant, inspect.IntType | inspect.FloatType | inspect.NoneType):
                yield from ((name, value) for name, value in planted(variant, number) if name)


def bodies(route: Operation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Bodies of a route with one number of any size in one place."""
    kind = inspect.type_info(route.body)
    assert isinstance(kind, inspect.StructType)
    for field in kind.fields:
        for number in NUMBERS:
            for name, value in planted(field.type, number):
                what = f"{number:.3g}" if isinstance(number, float) else str(number)[:20]
                body = {**BODIES.get(route.name, {}), field.encode_name: value}
                body.pop(ALONE.get(field.encode_name, ""), None)
                yield f"{field.encode_name}{name}={what}", body


ALONE = {"deadline": "ttl", "until": "by"}
"""Fields of which a body may have one only."""


def elements(value: Any) -> int:
    """How many elements all lists of a body have."""
    if isinstance(value, list):
        return len(value) + sum(map(elements, value))
    return sum(map(elements, value.values())) if isinstance(value, dict) else 0


# What was charged


def buckets(here: InProcessApp) -> list[tuple[Bucket, int]]:
    """The buckets of keys and tenants, each with its burst."""
    rates = here.running.limits
    return [(bucket, limit._burst) for limit in (rates._keys, rates._tenants) for bucket in limit._buckets.values()]


def refill(here: InProcessApp) -> None:
    for bucket, burst in buckets(here):
        bucket.level = burst


def charged(here: InProcessApp) -> float:
    """The most that was taken from any bucket."""
    return round(max((burst - bucket.level for bucket, burst in buckets(here)), default=0.0), 6)


async def cost(
    here: InProcessApp, method: str, path: str, body: Any = None, **more: Any
) -> tuple[httpx.Response, float]:
    """Send one request while all buckets are full; its answer, and what it has cost."""
    refill(here)
    answer = await here.call(method, path, body, op=f"cost-{next(OPS)}", **more)
    return answer, charged(here)


def check(answer: httpx.Response, taken: float, body: Any, what: str) -> None:
    """What every request promises."""
    assert answer.status_code < 500 or answer.json()["reason"] in ("overloaded", "stopping"), (what, answer.text)
    assert 0 <= taken <= FROZEN.rates.key_burst, what
    if answer.status_code in BEFORE_THE_KERNEL:
        assert taken <= 1 + elements(body) / 20, (what, taken)


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_no_number_in_any_field_of_any_body_costs_more_than_the_request_is_worth(
    engine: str, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    """The attack: a count of 10^15 that is refused with 400, and has taken 10^15 tokens from every key of the tenant."""

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        tried, answers = 0, set[int]()
        for route in OPERATIONS:
            if route.body is None:
                continue
            for what, body in bodies(route):
                tenant = "" if route.operator else "acme"
                answer, taken = await cost(here, route.method, path_of(route, ids), body, tenant=tenant)
                check(answer, taken, body, f"{name_of(route)} {what}")
                answers.add(answer.status_code)
                tried += 1
        assert tried > 3_000
        assert {200, 201, 400, 404, 409} <= answers, "some pass, and some are refused by the kernel"
        assert (await here.call("GET", "/v1/keys")).status_code == 200

    url = request.getfixturevalue("migrated")() if engine == "postgres" else f"sqlite:///{tmp_path / 'holds.db'}"
    play(work, "memory://" if engine == "memory" else url)


def test_no_number_in_any_query_or_path_costs_more_than_a_token() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        tried = 0
        for route in OPERATIONS:
            if route.name in STREAMED:
                continue
            tenant = "" if route.operator else "acme"
            body = None if route.body is None else BODIES.get(route.name, {})
            strange = [path_of(route, {**ids, name: "9" * 400}) for name in ids if "{" + name + "}" in route.path]
            plain = path_of(route, ids) if route.method == "GET" else ""
            queries = [
                f"{plain}?{field.encode_name}={number}"
                for field in inspect.type_info(route.query).fields  # type: ignore[attr-defined]
                for number in NUMBERS
                if plain
            ]
            for path in (*strange, *queries):
                answer, taken = await cost(here, route.method, path, body, tenant=tenant)
                check(answer, taken, body, f"{route.method} {path[:200]}")
                tried += 1
        assert tried > 300

    play(work)


def test_what_never_reaches_a_handler_costs_a_token_at_most() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        body = {"legs": [{"pool": "p"}] * 900, "ttl": 60}
        read, hold = {"key": "read", "tenant": "acme"}, {"key": "hold", "tenant": "acme"}
        text = {"content": msgspec.json.encode(body), "headers": {"content-type": "text/plain"}}
        asked: list[tuple[int, float, str, str, Any, dict[str, Any]]] = [
            (401, 0, "POST", "/v1/holds", body, {"key": None}),
            (401, 0, "POST", "/v1/holds", body, {"key": "hk_" + "a" * 40}),
            (403, 0, "POST", "/v1/holds", body, read),
            (403, 0, "POST", "/v1/sweep", {}, {"key": "admin", "tenant": "acme"}),
            (404, 0, "POST", "/v1/nothing", body, hold),
            (405, 0, "DELETE", "/v1/holds", body, hold),
            (413, 1, "POST", "/v1/holds", {"legs": [{"pool": "p" * 300}] * 900}, hold),
            (415, 1, "POST", "/v1/holds", None, {**hold, **text}),
            (400, 1, "POST", "/v1/holds", {"nonsense": [1] * 900}, hold),
            (400, 46, "POST", "/v1/holds", {**body, "ttl": "soon"}, hold),
        ]
        for status, most, method, path, sent, more in asked:
            answer, taken = await cost(here, method, path, sent, **more)
            assert (answer.status_code, taken) == (status, most), (method, path, answer.text)

    play(work)


ACME = {"key": "hold", "tenant": "acme"}


def test_what_a_limited_key_may_not_do_costs_what_was_decoded() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        commands = [{"type": "hold", "pool": "theirs", "ttl": 60}] * 900
        for limit in ({"pools": ["mine"]}, {"verbs": ["confirm"]}):
            key = await here.key("hold", "acme", **limit)
            answer, taken = await cost(here, "POST", "/v1/batch", {"commands": commands}, key=key)
            assert (answer.status_code, answer.json()["reason"], taken) == (403, "key_limited", 46)

    play(work)


def test_what_the_kernel_decides_costs_what_its_commands_cost_refused_or_not() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        commands = [{"type": "hold", "pool": "theirs", "quantity": 3, "ttl": 60}] * 30
        answer, taken = await cost(here, "POST", "/v1/batch", {"commands": commands}, **ACME)
        assert (answer.status_code, taken) == (200, 30), "of which most were refused"
        answer, taken = await cost(
            here, "POST", "/v1/batch", {"commands": [*commands, {**commands[0], "ttl": "soon"}]}, **ACME
        )
        assert (answer.status_code, taken) == (400, 2.55)
        wide = {"legs": [{"pool": f"no-such-pool-{n}"} for n in range(30)], "ttl": 60}
        answer, taken = await cost(here, "POST", "/v1/holds", wide, **ACME)
        assert (answer.status_code, taken) == (404, 30)
        refill(here)
        path, asked = "/v1/holds", {"pool": "theirs", "ttl": 60}
        assert (await here.call("POST", path, asked, op="same", **ACME)).status_code == 201
        assert (await here.call("POST", path, {**asked, "ttl": 61}, op="same", **ACME)).status_code == 422
        assert charged(here) == 2

    play(work)


def test_a_search_of_seats_and_the_bytes_of_a_body_cost_tokens() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        admin = {"tenant": "acme"}
        seats = [{"id": f"s{n}", "section": "stalls", "row": "A", "number": n} for n in range(40)]
        answer, taken = await cost(here, "POST", "/v1/seats", {"seats": seats}, **admin)
        assert (answer.status_code, taken) == (200, 60)
        answer, taken = await cost(here, "POST", "/v1/seats/hold", {"count": 7, "section": "stalls", "ttl": 60}, **ACME)
        assert (answer.status_code, taken) == (201, 27)
        answer, taken = await cost(
            here, "POST", "/v1/seats/hold", {"count": 99, "section": "stalls", "ttl": 60}, **ACME
        )
        assert (answer.status_code, taken) == (409, 119)
        answer, taken = await cost(here, "POST", "/v1/seats/hold", {"count": 7, "section": "no", "ttl": 60}, **ACME)
        assert (answer.status_code, taken) == (404, 27)
        answer, taken = await cost(here, "PUT", "/v1/records/note/long", {"body": '"' + "x" * 40_000 + '"'}, **ACME)
        assert (answer.status_code, taken) == (200, 10), "a token, and one for each whole 4 KiB"

    play(work)


def test_budgets_cost_a_token_for_each_window_done_or_refused() -> None:
    """The body has an amount, and the stored set the windows that it takes."""

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        windows = [{"total": 50, "per": per} for per in ("minute", "hour", "day", "week")]
        stored = {"budgets": dict.fromkeys(("tokens", "requests"), windows)}
        assert (await here.call("PUT", "/v1/budgets/wide", stored, tenant="acme")).status_code == 200

        async def ask(verb: str, **body: Any) -> tuple[dict[str, Any], int, float]:
            answer, taken = await cost(here, "POST", f"/v1/budgets/wide/{verb}", body, **ACME)
            return answer.json(), answer.status_code, taken

        both = {"tokens": 2, "requests": 1}
        held, *paid = await ask("hold", client="c", estimate=both, ttl=60)
        assert paid == [201, 8]
        assert (await ask("hold", client="c", estimate={"tokens": 51}, ttl=60))[1:] == (409, 4)
        assert (await ask("hold", client="c", estimate={**both, "other": 1}, ttl=60))[1:] == (400, 1)
        assert (await ask("consume", client="c", actual=both))[1:] == (201, 8)
        assert (await ask("confirm", hold=held["id"], token=held["token"]))[1:] == (200, 8)

    play(work)


def test_a_read_of_many_pools_costs_a_token_for_each() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        asked = {"pools": [f"p{n}" for n in range(90)]}
        answer, taken = await cost(here, "POST", "/v1/stats/pools", asked, key="read", tenant="acme")
        assert (answer.status_code, taken) == (200, 90)

    play(work)


def test_a_tenant_is_charged_the_bytes_of_all_bodies() -> None:
    few = structs.replace(FROZEN, rates=structs.replace(FROZEN.rates, tenant_bytes_burst=100_000))

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        note = {"body": '"' + "x" * 60_000 + '"'}
        assert (await here.call("PUT", "/v1/records/note/a", note, op="1", **ACME)).status_code == 200
        told = await here.call("PUT", "/v1/records/note/b", note, op="2", **ACME)
        assert (told.status_code, told.json()["reason"], told.json()["effect"]) == (429, "rate_exceeded", "none")
        assert (
            "the tenant exceeds its rate of 1 bytes per second: this request costs 60015 bytes, and can be sent again"
            in (told.json()["detail"])
        )
        small = {"body": '"x"'}
        assert (await here.call("PUT", "/v1/records/note/c", small, op="3", **ACME)).status_code == 200, (
            "a short one passes"
        )
        assert (await here.call("PUT", "/v1/records/note/d", note, op="4", key="hold")).status_code == 200

    play(work, settings=few)


def test_debt_is_at_most_one_burst_however_many_requests_are_answered_at_once() -> None:
    few = structs.replace(FROZEN, rates=structs.replace(FROZEN.rates, key_burst=100, tenant_burst=100))

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        legs = [{"pool": f"p{n}"} for n in range(90)]
        for leg in legs:
            refill(here)
            await here.call("POST", "/v1/pools", {"id": leg["pool"], "total": 50}, tenant="acme")
        refill(here)
        held = (await here.call("POST", "/v1/holds", {"legs": legs, "ttl": 60}, op="wide", **ACME)).json()
        refill(here)
        extend: list[Coroutine[Any, Any, httpx.Response]] = [
            here.call("POST", f"/v1/holds/{held['id']}/extend", {"token": held["token"], "by": 1}, op=f"e{n}", **ACME)
            for n in range(20)
        ]
        assert {one.status_code for one in await asyncio.gather(*extend)} == {200}
        assert {round(burst - bucket.level, 6) for bucket, burst in buckets(here) if bucket.level < burst} == {200.0}
        told = await here.call("GET", "/v1/pools", **ACME)
        assert told.status_code == 429
        assert told.json()["retry_after"] == pytest.approx(101e9)

    play(work, settings=few)


def test_an_operator_always_reaches_keys_tenants_and_limits() -> None:
    """Whatever the keys of the default tenant have used up: rates, and requests at a time."""
    few = structs.replace(FROZEN, requests=structs.replace(FROZEN.requests, max=4, max_of_tenant=2))

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        limited = await here.key("hold")
        await here.key("admin")
        running = here.running
        limits = running.limits
        limits.in_work, limits.in_work_of[""] = 4, 2
        for bucket, burst in buckets(here):
            bucket.level = -burst
        for limit in (limits._keys, limits._tenants, limits.bytes):
            for id in ("", "acme", *(key.id for key in await running.keys.listed())):
                limit._buckets[id] = Bucket(-limit._burst, 0.0)
        assert (await here.call("GET", "/v1/pools")).status_code == 429
        assert (await here.call("GET", "/v1/keys")).status_code == 200
        made = await here.call("POST", "/v1/keys", {"name": "spare", "scope": "hold"})
        assert made.status_code == 201
        assert (await here.call("DELETE", f"/v1/keys/{made.json()['info']['id']}")).status_code == 200
        assert (await here.call("POST", "/v1/tenants/acme/disable", {"reason": "noise"})).status_code == 200
        assert (await here.call("GET", "/v1/limits")).status_code == 200
        assert (await here.call("POST", "/v1/limits", {"limits": {"max_legs": 900}})).status_code == 200
        assert (await here.call("GET", "/v1/keys", key="admin", tenant="globex")).status_code == 503, "not an operator"
        assert (await here.call("GET", "/v1/keys", key=limited)).status_code == 403
        limits.in_work = 0
        limits.in_work_of.clear()
        limits.idle.set()

    play(work, settings=few)


def test_an_operator_waits_for_no_turn_of_costly_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: a hold key of the default tenant extends a hold of many legs, and keeps as many costly requests waiting as it may."""
    monkeypatch.setattr("holdkit.server.fairness.ACTIVE", 1_000.0)

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        pacing = here.running.limits.pacing
        made = await here.call("POST", "/v1/keys", {"name": "spare", "scope": "hold"})
        assert (await here.call("POST", "/v1/pools", {"id": "busy", "total": 1}, tenant="acme")).status_code == 201
        pacing.touched("", 1_000)
        began = await pacing.begin("")
        waiting = [asyncio.create_task(pacing.begin("")) for _ in range(FROZEN.rates.max_costly)]
        await asyncio.sleep(0)
        assert (await here.call("POST", "/v1/pools", {"id": "theirs", "total": 1})).status_code == 503
        assert (await here.call("DELETE", f"/v1/keys/{made.json()['info']['id']}")).status_code == 200
        assert (await here.call("POST", "/v1/tenants/acme/disable", {"reason": "noise"})).status_code == 200
        assert (await here.call("POST", "/v1/limits", {"limits": {"max_legs": 900}})).status_code == 200
        for turn in waiting:
            turn.cancel()
        pacing.end("", began)

    play(work)


def test_an_operator_finds_room_in_a_queue_that_others_of_its_tenant_have_filled() -> None:
    """The attack: hold keys of the default tenant send batches of a thousand commands, which fill the queue again and again."""
    engine = WatchedEngine(FakeClock(start=NOON), Limits(max_queue=10))

    async def main() -> None:
        async with await holdkit.connect_async(engine) as kernel, in_process_app(kernel, settings=FROZEN) as here:  # type: ignore[arg-type]
            made = await here.call("POST", "/v1/keys", {"name": "flood", "scope": "hold"})
            await here.call("POST", "/v1/pools", {"id": "p", "total": 50})

            def hold(op: str) -> Coroutine[Any, Any, httpx.Response]:
                return here.call("POST", "/v1/holds", {"pool": "p", "ttl": 60}, op=op, key=made.json()["key"])

            engine.gate.clear()
            engine.entered = threading.Semaphore(0)
            holds = [asyncio.create_task(hold("first"))]
            await asyncio.to_thread(engine.wait_entered)  # from now on calls are queued
            holds += [asyncio.create_task(hold(f"more-{number}")) for number in range(10)]
            await eventually(lambda: queued(kernel) == 10)
            refused = await hold("late")
            assert (refused.status_code, refused.json()["reason"]) == (503, "overloaded")
            changes = [
                asyncio.create_task(here.call("DELETE", f"/v1/keys/{made.json()['info']['id']}")),
                asyncio.create_task(here.call("POST", "/v1/tenants/acme/disable", {"reason": "noise"})),
            ]
            await eventually(lambda: queued(kernel) == 12 or any(change.done() for change in changes))
            engine.gate.set()
            assert [(await change).status_code for change in changes] == [200, 200]
            assert {(await held).status_code for held in holds} == {201}

    asyncio.run(main())
