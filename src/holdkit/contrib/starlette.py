"""Starlette: `Holdkit(url).install(app)` gives an application a kernel, each request its context, and each error its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ..core.validation import invalid
from ..errors import HoldkitError, MissingExtra
from ..faces._async.kernel import AsyncKernel
from ..wire.problems import Problem
from .asgi import AsgiHoldkit, kernel_of, operation_of, problem_for

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import HTTPConnection
    from starlette.responses import Response
except ModuleNotFoundError as missing:
    raise MissingExtra("starlette", missing) from missing

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from ..server import Settings

TRY_AGAIN_LATER: Final = 1013
POLICY: Final = 1008
INTERNAL_ERROR: Final = 1011
"""Codes with which a websocket is closed."""


class Holdkit(AsgiHoldkit[HTTPConnection]):
    """A kernel for a Starlette application: ``Holdkit("sqlite:///holds.db").install(app)``."""

    def install(self, app: Starlette) -> None:
        """Open and close the kernel with the application, give each request its context, and answer refusals and errors.

        An application's own lifespan runs inside, so it can use `kernel`. `actor` and `tenant` are asked when a handler needs the
        kernel: whatever authenticates callers has run by then, wherever it was added.
        """
        if app.middleware_stack is not None:
            raise invalid("app", "app_running", "has served requests already: call install(app) where it is made")
        own = app.router.lifespan_context

        @asynccontextmanager
        async def both(host: Any) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self.lifespan(host))
                yield await stack.enter_async_context(own(host))

        app.router.lifespan_context = both
        app.user_middleware.append(Middleware(self.middleware))
        add_problem_handlers(app)

    def mount(
        self, app: Starlette, path: str, settings: Settings | None = None, *, pepper: bytes | None = None
    ) -> None:
        """Serve Holdkit's HTTP API and its dashboard below `path`, on this kernel. Needs the extra `server`.

        Requests there need API keys, as on a server of its own (`holdkit keys make`).
        """
        app.mount(path, self.server(settings, pepper=pepper))


async def request_kernel(request: HTTPConnection) -> AsyncKernel:
    """Return the kernel for a request, bound to the request's tenant; its calls are made in the name of the request's actor."""
    return await kernel_of(request)


async def operation_id(request: HTTPConnection) -> str | None:
    """Return a request's operation id, to pass on as `op=`, made of its `Idempotency-Key` and its actor; None without the header.

    A malformed header is answered with 400.
    """
    return await operation_of(request)


def add_problem_handlers(app: Starlette) -> None:
    """Answer refusals and errors as Holdkit's own server does: status, reason, effect and facts as `application/problem+json`.

    `install` does so for its application; one that is mounted below it has handlers of its own, and needs this call.
    """
    app.add_exception_handler(HoldkitError, _answer)
    app.add_exception_handler(Problem, _answer)


async def _answer(connection: HTTPConnection, error: Exception) -> Any:
    parts = problem_for(connection.scope, error)
    if connection.scope["type"] == "http":
        return Response(parts.body, parts.status, parts.headers)
    socket: WebSocket = connection  # type: ignore[assignment]
    if parts.problem.retry_after is not None:
        code = TRY_AGAIN_LATER
    else:
        code = POLICY if parts.status < 500 else INTERNAL_ERROR
    await socket.close(code, parts.problem.reason)
    return None


__all__ = ["Holdkit", "add_problem_handlers", "operation_id", "request_kernel"]
