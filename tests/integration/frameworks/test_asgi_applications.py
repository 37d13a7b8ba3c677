"""Starlette, FastAPI and Litestar with a kernel: contexts, answers to errors, tenants, retries, and our server mounted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.kernel.arguments import current
from holdkit.server import Settings
from holdkit.server.settings import Upkeep
from tests.integration.frameworks.asgi_applications import ERRORS, SHOPS, Shop, facts, make_lamps
from tests.support.servers import in_process_app
from tests.support.threads import PATIENCE

pytestmark = pytest.mark.anyio
OPEN = Settings(open=True, upkeep=Upkeep(sweep_every=0))
Make = Callable[..., Shop]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=SHOPS, ids=lambda shop: shop.__name__.removesuffix("_shop"))
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


@asynccontextmanager
async def running(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with shop.lifespan(), client(shop) as http:
        yield http


def client(shop: Shop) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(shop.app, raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def actor_from_header(request: Any) -> str | None:
    name = request.headers.get("x-user")
    return None if name is None else f"user:{name}"


async def test_a_refusal_is_answered_as_our_own_server_does(make: Make) -> None:
    async with running(make("memory://")) as http, in_process_app() as ours:
        await ours.call("POST", "/v1/pools", {"id": "lamp", "total": 10})
        theirs = await http.post("/holds?quantity=11")
        wanted = await ours.call("POST", "/v1/holds", {"pool": "lamp", "quantity": 11, "ttl": 60}, op="a")
    assert (theirs.status_code, theirs.headers["content-type"]) == (409, "application/problem+json")
    assert facts(theirs.content) == facts(wanted.content)
    assert facts(theirs.content)["shortfalls"][0]["available"] == 10
    for name in ("cache-control", "x-content-type-options"):
        assert theirs.headers[name] == wanted.headers[name]
    assert theirs.headers["x-request-id"] == theirs.json()["request_id"]


@pytest.mark.parametrize(
    ("kind", "status", "reason", "effect", "retry_after"),
    [
        ("overloaded", 503, "overloaded", "none", "3"),
        ("unknown", 503, "outcome_unknown", "unknown", "1"),
        ("engine", 503, "engine_error", "none", "1"),
        ("bug", 500, "internal_error", "unknown", None),
        ("parked", 409, "saga_parked", "unknown", None),
    ],
)
async def test_errors(make: Make, kind: str, status: int, reason: str, effect: str, retry_after: str | None) -> None:
    assert kind in ERRORS
    async with running(make("memory://")) as http:
        answer = await http.get(f"/fail?kind={kind}")
    assert (answer.status_code, answer.json()["reason"], answer.json()["effect"]) == (status, reason, effect)
    assert answer.headers.get("retry-after") == retry_after
    assert "/secret/path" not in answer.text


async def test_a_malformed_call_is_400_with_its_field(make: Make) -> None:
    async with running(make("memory://")) as http:
        answer = await http.post("/holds?quantity=0")
    assert (answer.status_code, answer.json()["reason"], answer.json()["field"]) == (400, "invalid_request", "quantity")


async def test_the_journal_says_who_and_in_which_request(make: Make) -> None:
    shop = make("memory://", actor=actor_from_header)
    async with running(shop) as http:
        await http.post("/holds?quantity=1", headers={"X-User": "7", "X-Request-Id": "req-81"})
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        await http.post("/holds?quantity=1", headers={"traceparent": trace})
        entries = [entry for entry in await shop.holds.kernel.journal.list() if entry.action == "hold.held"]
    assert [(entry.actor, entry.correlation_id) for entry in entries] == [
        ("user:7", "req-81"),
        (None, "4bf92f3577b34da6a3ce929d0e0e4736"),
    ]


async def test_nothing_reaches_the_next_request(make: Make) -> None:
    """The client here runs every request in this very task: what one leaves behind, the next would inherit."""
    async with running(make("memory://", actor=actor_from_header)) as http:
        before = current()
        first = (await http.get("/context", headers={"X-User": "7", "X-Request-Id": "a"})).json()
        second = (await http.get("/context")).json()
        assert current() == before
    assert first == {"actor": "user:7", "correlation_id": "a"}
    assert second["actor"] is None
    assert second["correlation_id"] not in (None, "a")


async def test_requests_at_once_keep_their_contexts_apart(make: Make) -> None:
    async with running(make("memory://", actor=actor_from_header)) as http:
        asked = [http.get("/context", headers={"X-User": str(n), "X-Request-Id": f"r{n}"}) for n in range(20)]
        answers = [answer.json() for answer in await asyncio.gather(*asked)]
    assert answers == [{"actor": f"user:{n}", "correlation_id": f"r{n}"} for n in range(20)]


@pytest.mark.parametrize("hostile", ["a b", "x" * 65, "é", "<script>", ""])
async def test_an_id_that_is_not_fit_for_a_log_is_replaced(make: Make, hostile: str) -> None:
    async with running(make("memory://")) as http:
        answer = await http.get("/context", headers=[(b"x-request-id", hostile.encode("latin-1"))])
    assert answer.json()["correlation_id"] not in (hostile, None)


async def test_an_application_may_take_its_correlation_id_from_elsewhere(make: Make) -> None:
    async with running(make("memory://", correlation_id=lambda request: request.headers["x-order"])) as http:
        answer = await http.get("/context", headers={"X-Order": "order:9"})
    assert answer.json()["correlation_id"] == "order:9"


async def test_a_malformed_actor_is_answered_and_nothing_is_done(make: Make) -> None:
    shop = make("memory://", actor=lambda request: "robot")
    async with running(shop) as http:
        answer = await http.post("/holds?quantity=1")
        assert (await shop.holds.kernel.pool("lamp")).held == 0
    assert (answer.status_code, answer.json()["field"]) == (400, "actor")


async def test_each_tenant_has_its_own(make: Make) -> None:
    async def tenant(request: Any) -> str | None:
        return request.headers.get("x-tenant")  # type: ignore[no-any-return]

    shop = make("memory://", tenant=tenant)
    async with running(shop) as http:
        assert (await http.post("/holds?quantity=4", headers={"X-Tenant": "acme"})).status_code == 200
        assert (await shop.holds.kernel.tenant("acme").pool("lamp")).held == 4
        assert (await shop.holds.kernel.pool("lamp")).held == 0
        nobody = await http.post("/holds?quantity=4")
        other = await http.post("/holds?quantity=4", headers={"X-Tenant": "globex"})
        assert (await shop.holds.kernel.pool("lamp")).held == 0, "never the default tenant's by default"
    assert (nobody.status_code, nobody.json()["code"]) == (400, "tenant_required")
    assert (other.status_code, other.json()["reason"]) == (404, "pool_not_found")


async def test_a_retry_key_belongs_to_its_actor(make: Make) -> None:
    async with running(make("memory://", actor=actor_from_header)) as http:
        mine = {"X-User": "7", "Idempotency-Key": "k1"}
        first = (await http.post("/holds?quantity=1", headers=mine)).json()
        again = (await http.post("/holds?quantity=1", headers=mine)).json()
        theirs = (await http.post("/holds?quantity=1", headers={**mine, "X-User": "8"})).json()
        other = await http.post("/holds?quantity=2", headers=mine)
        twice = await http.post("/holds?quantity=1", headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
        malformed = await http.post("/holds?quantity=1", headers={"Idempotency-Key": "x" * 201})
        long = (
            await http.post("/holds?quantity=1", headers={"X-User": "7" * 200, "Idempotency-Key": "k" * 200})
        ).json()
    assert again == {"id": first["id"], "replayed": True}
    assert (theirs["id"] != first["id"], theirs["replayed"]) == (True, False)
    assert (other.status_code, other.json()["reason"]) == (422, "operation_conflict")
    assert (malformed.status_code, malformed.json()["reason"]) == (400, "idempotency_key_malformed")
    assert (twice.status_code, twice.json()["reason"]) == (400, "header_twice")
    assert long["replayed"] is False


async def test_without_a_lifespan_it_says_so(make: Make) -> None:
    shop = make("memory://")
    async with client(shop) as http:
        answer = await http.post("/holds?quantity=1")
    assert (answer.status_code, answer.json()["reason"]) == (503, "not_started")
    with pytest.raises(holdkit.errors.EngineError, match="lifespan"):
        shop.holds.kernel  # noqa: B018


async def test_it_can_be_started_again_but_not_twice_at_once(make: Make, tmp_path: Path) -> None:
    shop = make(f"sqlite:///{tmp_path}/holds.db", sweep_every=None)
    shop.holds._on_open = None
    async with await holdkit.connect_async(f"sqlite:///{tmp_path}/holds.db") as hk:
        await make_lamps(hk)
    for quantity in (1, 2):
        async with running(shop) as http:
            assert (await http.post(f"/holds?quantity={quantity}")).status_code == 200
            kernel = shop.holds.kernel
            with pytest.raises(holdkit.InvalidRequest, match="once at a time"):
                async with shop.holds.lifespan():
                    pass
            assert not kernel._executor.closed
        assert kernel._executor.closed
    async with running(shop):
        assert (await shop.holds.kernel.pool("lamp")).held == 3


async def test_a_failing_start_closes_the_kernel(make: Make) -> None:
    opened: list[holdkit.AsyncKernel] = []

    async def fail(hk: holdkit.AsyncKernel) -> None:
        opened.append(hk)
        raise LookupError("no seats yet")

    shop = make("memory://")
    shop.holds._on_open = fail
    with pytest.raises(LookupError):
        async with shop.holds.lifespan():
            pass
    assert opened[0]._executor.closed
    shop.holds._on_open = None
    async with running(shop) as http:
        assert (await http.get("/context")).status_code == 200


async def test_it_sweeps_while_it_runs(make: Make) -> None:
    shop = make("memory://", sweep_every=0.01)
    async with running(shop):
        await shop.holds.kernel.hold("lamp", 3, ttl=0.001)
        swept = [entry async for entry in following(shop.holds.kernel, "hold.expired")]
    assert len(swept) == 1


async def following(hk: holdkit.AsyncKernel, action: str) -> AsyncIterator[Any]:
    async with asyncio.timeout(PATIENCE):
        async for entry in hk.journal.follow("test"):
            if entry.action == action:
                yield entry
                return


async def test_server_and_dashboard_are_mounted_on_the_same_kernel(make: Make) -> None:
    shop = make("memory://", mounted=OPEN)
    async with client(shop) as http:
        early = await http.get("/reservations/v1/pools")
        assert (early.status_code, early.json()["reason"]) == (503, "not_started")
    async with running(shop) as http:
        await http.post("/holds?quantity=4")
        assert (await http.get("/reservations/v1/pools/lamp")).json()["held"] == 4
        made = await http.post("/reservations/v1/pools", json={"id": "a/b%", "total": 5})
        assert made.status_code == 201, made.text
        assert (await http.get("/reservations/v1/pools/a%2Fb%25")).json()["available"] == 5
        page = await http.get("/reservations/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        bare = await http.get("/reservations", follow_redirects=True)
        assert (bare.status_code, bare.url.path) == (200, "/reservations/")
        assert (await http.get("/v1/pools")).status_code == 404
        missing = await http.get("/reservations/v1/pools/none")
        assert (missing.status_code, missing.json()["reason"]) == (404, "pool_not_found")
