"""The same small shop in every ASGI framework: a pool of ten lamps, routes that hold and fail, who asks in a header."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi import Request as FastAPIRequest
from litestar import Litestar, get, post
from litestar import Request as LitestarRequest
from litestar.params import FromQuery
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import holdkit
from holdkit.contrib import litestar as for_litestar
from holdkit.contrib import starlette as for_starlette
from holdkit.contrib.fastapi import Holdkit as FastAPIHoldkit
from holdkit.contrib.fastapi import OperationId, RequestKernel
from holdkit.kernel.arguments import current

ERRORS: dict[str, Callable[[], Exception]] = {
    "overloaded": lambda: holdkit.Overloaded("the queue is full", retry_after=2.5),
    "unknown": lambda: holdkit.OutcomeUnknown("the connection broke"),
    "engine": lambda: holdkit.errors.EngineError("the disk at /secret/path is full"),
    "bug": lambda: holdkit.errors.PromiseBroken("held is -1"),
    "parked": lambda: holdkit.errors.SagaParked("saga 7 is parked"),
}


async def make_lamps(hk: holdkit.AsyncKernel) -> None:
    for kernel in (hk, hk.tenant("acme")):
        await kernel.create_pool("lamp", 10)


class Shop:
    """An application under test: what answers requests, its kernel, and its lifespan."""

    def __init__(self, app: Any, holds: Any, lifespan: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self.app, self.holds, self.lifespan = app, holds, lifespan


async def take(hk: holdkit.AsyncKernel, quantity: int, op: str | None) -> dict[str, Any]:
    hold = await hk.hold("lamp", quantity, ttl=60, op=op)
    return {"id": hold.id, "replayed": hold.replayed}


def said() -> dict[str, Any]:
    """The context of this request, as it is."""
    return {"actor": current().actor, "correlation_id": current().correlation_id}


def starlette_shop(url: str, mounted: Any = None, **options: Any) -> Shop:
    async def hold(request: Request) -> JSONResponse:
        hk = await for_starlette.request_kernel(request)
        op = await for_starlette.operation_id(request)
        return JSONResponse(await take(hk, int(request.query_params["quantity"]), op))

    async def context(request: Request) -> JSONResponse:
        await for_starlette.request_kernel(request)
        return JSONResponse(said())

    async def fail(request: Request) -> JSONResponse:
        raise ERRORS[request.query_params["kind"]]()

    routes = [Route("/holds", hold, methods=["POST"]), Route("/context", context), Route("/fail", fail)]
    app = Starlette(routes=routes)
    holds = for_starlette.Holdkit(url, on_open=make_lamps, **options)
    holds.install(app)
    if mounted is not None:
        holds.mount(app, "/reservations", mounted)
    return Shop(app, holds, lambda: app.router.lifespan_context(app))


def fastapi_shop(url: str, mounted: Any = None, **options: Any) -> Shop:
    app = FastAPI()
    holds = FastAPIHoldkit(url, on_open=make_lamps, **options)
    holds.install(app)

    @app.post("/holds")
    async def hold(hk: RequestKernel, quantity: int, op: OperationId) -> dict[str, Any]:
        return await take(hk, quantity, op)

    @app.get("/context")
    async def context(_hk: RequestKernel) -> dict[str, Any]:
        return said()

    @app.get("/fail")
    async def fail(request: FastAPIRequest) -> None:
        raise ERRORS[request.query_params["kind"]]()

    if mounted is not None:
        holds.mount(app, "/reservations", mounted)
    return Shop(app, holds, lambda: app.router.lifespan_context(app))


def litestar_shop(url: str, mounted: Any = None, **options: Any) -> Shop:
    @post("/holds", status_code=200)
    async def hold(
        hk: for_litestar.RequestKernel, quantity: FromQuery[int], operation_id: for_litestar.OperationId
    ) -> dict[str, Any]:
        return await take(hk, quantity, operation_id)

    @get("/context")
    async def context(hk: for_litestar.RequestKernel) -> dict[str, Any]:
        return said()

    @get("/fail")
    async def fail(request: LitestarRequest[Any, Any, Any]) -> None:
        raise ERRORS[request.query_params["kind"]]()

    plugin = for_litestar.HoldkitPlugin(url, on_open=make_lamps, **options)
    handlers: list[Any] = [hold, context, fail]
    if mounted is not None:
        handlers.append(plugin.mount("/reservations", mounted))
    app = Litestar(
        handlers, plugins=[plugin], openapi_config=None, logging_config=None
    )  # else it configures the root logger, for all later tests
    return Shop(app, plugin, app.lifespan)


SHOPS: list[Callable[..., Shop]] = [starlette_shop, fastapi_shop, litestar_shop]


def facts(body: bytes) -> dict[str, Any]:
    """A problem document without what differs from request to request."""
    document: dict[str, Any] = msgspec.json.decode(body)
    assert document.pop("request_id")
    assert document.pop("server_time")
    return document
