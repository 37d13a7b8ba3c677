"""What only FastAPI and Starlette have: actors from dependencies, websockets, applications in applications, a session in the request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, WebSocket
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import holdkit
from holdkit.contrib.fastapi import Holdkit, OperationId, RequestKernel, acting_as, add_problem_handlers
from holdkit.contrib.starlette import request_kernel
from tests.support.frameworks import alchemy_url, make_tables


async def make_lamps(hk: holdkit.AsyncKernel) -> None:
    await hk.create_pool("lamp", 3)


def signed_in(authorization: Annotated[str | None, Header()] = None) -> str:
    if authorization is None:
        raise HTTPException(401, "who are you?")
    return authorization


def current_actor(user: Annotated[str, Depends(signed_in)]) -> holdkit.Actor:
    return holdkit.Actor.user(user)


@pytest.fixture
def served() -> Iterator[Callable[[FastAPI], TestClient]]:
    """A client for an application whose lifespan runs until the test is over."""
    clients: list[TestClient] = []

    def serve(app: FastAPI | Starlette) -> TestClient:
        clients.append(TestClient(app).__enter__())
        return clients[-1]

    yield serve
    for client in reversed(clients):
        client.__exit__(None, None, None)


def test_the_actor_is_whom_a_dependency_has_authenticated(served: Any) -> None:
    app = FastAPI(dependencies=[acting_as(current_actor)])
    Holdkit("memory://", on_open=make_lamps).install(app)

    @app.post("/holds")
    async def hold(op: OperationId, hk: RequestKernel) -> dict[str, Any]:
        hold = await hk.hold("lamp", 1, ttl=60, op=op)
        return {"id": hold.id, "actor": (await hk.history(hold))[0].actor}

    client = served(app)
    assert client.post("/holds").status_code == 401
    keys = {"Idempotency-Key": "k"}
    first = client.post("/holds", headers={"Authorization": "7", **keys}).json()
    again = client.post("/holds", headers={"Authorization": "7", **keys}).json()
    other = client.post("/holds", headers={"Authorization": "8", **keys}).json()
    assert first == again
    assert (first["actor"], other["actor"]) == ("user:7", "user:8")
    assert other["id"] != first["id"], "the answer carries a token: it is for whoever asked"


def test_a_handler_without_async_sees_the_context_too(served: Any) -> None:
    app = FastAPI(dependencies=[acting_as(current_actor)])
    Holdkit("memory://").install(app)

    @app.get("/")
    def plain(_hk: RequestKernel) -> str | None:
        from holdkit.kernel.arguments import current

        return current().actor

    assert served(app).get("/", headers={"Authorization": "7"}).json() == "user:7"


def test_authentication_runs_before_whichever_was_added_first(served: Any) -> None:
    class Backend:
        async def authenticate(self, conn: Any) -> Any:
            return AuthCredentials(["authenticated"]), SimpleUser("ann")

    async def who(request: Request) -> JSONResponse:
        hk = await request_kernel(request)
        hold = await hk.hold("lamp", 1, ttl=60)
        return JSONResponse((await hk.history(hold))[0].actor)

    app = Starlette(routes=[Route("/", who)])
    app.add_middleware(AuthenticationMiddleware, backend=Backend())  # type: ignore[arg-type]
    Holdkit("memory://", on_open=make_lamps, actor=lambda request: f"user:{request.user.display_name}").install(app)
    assert served(app).get("/").json() == "user:ann"


def test_a_lifespan_of_ones_own_runs_inside(served: Any) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, str]]:
        seen.append((await holds.kernel.pool("lamp")).id)
        yield {"shop": "lamps"}
        seen.append("closed" if holds.kernel._executor.closed else "open")

    app = FastAPI(lifespan=lifespan)
    holds = Holdkit("memory://", on_open=make_lamps)
    holds.install(app)

    @app.get("/")
    async def state(request: Request) -> str:
        return str(request.state.shop)

    with TestClient(app) as client:
        assert client.get("/").json() == "lamps"
    assert seen == ["lamp", "open"]


def test_an_application_that_runs_cannot_be_changed(served: Any) -> None:
    app = FastAPI()
    served(app).get("/")
    with pytest.raises(holdkit.InvalidRequest, match="where it is made"):
        Holdkit("memory://").install(app)


def test_an_application_within_answers_with_handlers_of_its_own(served: Any) -> None:
    inner, app = FastAPI(), FastAPI()
    Holdkit("memory://", on_open=make_lamps).install(app)
    add_problem_handlers(inner)
    app.mount("/inner", inner)

    @inner.post("/holds")
    async def hold(hk: RequestKernel) -> None:
        await hk.hold("lamp", 4, ttl=60)

    answer = served(app).post("/inner/holds")
    assert (answer.status_code, answer.json()["available"]) == (409, 3)


def test_an_application_without_a_kernel_says_what_to_do(served: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    add_problem_handlers(app)

    @app.get("/")
    async def hold(hk: RequestKernel) -> None: ...

    assert served(app).get("/").status_code == 503
    assert "call install(app)" in caplog.text


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (lambda: holdkit.errors.PoolNotFound(subject="x"), 1008, "pool_not_found"),
        (lambda: holdkit.Overloaded("full"), 1013, "overloaded"),
        (lambda: holdkit.errors.PromiseBroken("bug"), 1011, "internal_error"),
    ],
)
def test_a_websocket_is_closed_with_the_reason(served: Any, error: Any, code: int, reason: str) -> None:
    app = FastAPI()
    Holdkit("memory://", on_open=make_lamps).install(app)

    @app.websocket("/")
    async def talk(websocket: WebSocket, hk: RequestKernel) -> None:
        await websocket.accept()
        await websocket.send_json((await hk.pool("lamp")).total)
        raise error()

    with served(app).websocket_connect("/") as socket:
        assert socket.receive_json() == 3
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert (closed.value.code, closed.value.reason) == (code, reason)


def test_a_hold_and_an_order_in_one_session(migrated: Callable[..., str], served: Any) -> None:
    """As docs/fastapi.md says: the block commits before the answer is sent, and its error takes both back."""
    url = migrated(lanes=4)
    make_tables(url)
    engine = create_async_engine(alchemy_url(url))
    app = FastAPI()
    Holdkit(url, on_open=make_lamps, sweep_every=None).install(app)

    @app.post("/orders/{name}")
    async def order(name: str, hk: RequestKernel) -> str:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("insert into orders (id) values (:id)"), {"id": name})
            hold = await hk.hold("lamp", 2, ttl="5m", tx=session)
        return hold.id

    @app.get("/orders")
    async def orders(hk: RequestKernel) -> tuple[int, list[str]]:
        async with engine.connect() as connection:
            rows = await connection.execute(text("select id from orders order by id"))
            return (await hk.pool("lamp")).held, [row[0] for row in rows]

    client = served(app)
    assert client.post("/orders/a").status_code == 200
    refused = client.post("/orders/b")
    assert (refused.status_code, refused.json()["reason"]) == (409, "insufficient_capacity")
    assert client.get("/orders").json() == [2, ["a"]]
    client.portal.call(engine.dispose)
