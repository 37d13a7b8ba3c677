"""Litestar: `Litestar(plugins=[HoldkitPlugin(url)])`, and `hk: RequestKernel` as a handler's parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import HoldkitError, MissingExtra
from ..faces._async.kernel import AsyncKernel
from ..wire.problems import Problem
from .asgi import AsgiHoldkit, identify, kernel_of, operation_of, problem_for

try:
    from litestar import Request, Response, asgi
    from litestar.connection import ASGIConnection
    from litestar.di import NamedDependency, Provide
    from litestar.plugins import InitPlugin
    from litestar.types import Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise MissingExtra("litestar", missing) from missing

if TYPE_CHECKING:
    from litestar.config.app import AppConfig
    from litestar.handlers import ASGIRouteHandler, BaseRouteHandler

    from ..server import Settings


RequestKernel: TypeAlias = NamedDependency[AsyncKernel]
"""The type of a handler's parameter `hk`: the kernel for its request."""
OperationId: TypeAlias = NamedDependency[str | None]
"""The type of a handler's parameter `operation_id`: from the request's `Idempotency-Key`, else None. Pass it on as `op=`."""


class HoldkitPlugin(AsgiHoldkit[ASGIConnection[Any, Any, Any, Any]], InitPlugin):
    """A kernel for a Litestar application. Handlers get it as `hk`, and the operation id of a request as `operation_id`."""

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Open the kernel before everything else that the application opens, and close it after that. Litestar calls this."""
        app_config.lifespan.insert(0, self.lifespan)
        app_config.middleware.append(self.middleware)
        app_config.guards.append(_identify)
        app_config.exception_handlers = {HoldkitError: _answer, Problem: _answer, **app_config.exception_handlers}
        app_config.dependencies.setdefault("hk", Provide(request_kernel))
        app_config.dependencies.setdefault("operation_id", Provide(operation_id))
        return app_config

    def mount(self, path: str, settings: Settings | None = None, *, pepper: bytes | None = None) -> ASGIRouteHandler:
        """Return a route handler that serves Holdkit's HTTP API and its dashboard below `path`. Needs the extra `server`."""
        application: Any = self.server(settings, pepper=pepper)
        below = "/" + path.strip("/")

        @asgi(path, is_mount=True, copy_scope=False)
        async def holdkit_server(scope: Scope, receive: Receive, send: Send) -> None:
            root = scope.get("root_path", "") + below  # Litestar shortens the path only
            await application({**scope, "root_path": root}, receive, send)

        return holdkit_server


async def request_kernel(scope: Scope) -> AsyncKernel:
    """Return the kernel for a request, bound to the request's tenant; its calls are made in the name of the request's actor."""
    return await kernel_of(ASGIConnection(scope))


async def operation_id(scope: Scope) -> str | None:
    """Return a request's operation id, to pass on as `op=`, made of its `Idempotency-Key` and its actor; None without the header."""
    return await operation_of(ASGIConnection(scope))


async def _identify(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Set the actor of a request. This is a guard: Litestar calls it in the handler's own task, before it finds the dependencies."""
    await identify(connection)


def _answer(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    parts = problem_for(request.scope, error)
    media_type = parts.headers.pop("content-type")
    return Response(parts.body, status_code=parts.status, headers=parts.headers, media_type=media_type)


__all__ = ["HoldkitPlugin", "OperationId", "RequestKernel", "operation_id", "request_kernel"]
