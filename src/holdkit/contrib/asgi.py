"""A kernel in an ASGI application, whatever its framework: it lives as long as the application, and every request has its context.

Theory of operation

*The kernel* is opened by the application's lifespan and closed at its end, so it belongs to the process and the event loop that
serve requests: every worker of a server has one of its own, a server that forks its workers forks before there is a kernel, and a
reloaded worker closes its kernel in order. There is none at import time, and asking for it then says so.

*The context of a request* (`holdkit.context`) is begun by a middleware, in the task that runs the request, with a correlation id.
Who acts and for which tenant is found out when a handler first asks for the kernel: by then the application has authenticated the
caller, and an error raised there is answered like any error of a handler. (Litestar finds several dependencies in tasks of their
own, whose context the handler would not see; there, a guard sets the actor before.) The middleware restores the context that was there
before, so nothing reaches the next request, also where a server or a test runs several requests in one task.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from ..core.validation import invalid
from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from ..faces.opening import connect_async
from ..kernel.arguments import Actor, current
from ..kernel.context import amend, restore
from ..kernel.opening import DEFAULT_URL
from ..wire.problems import Problem
from .requests import ProblemParts, answer_to, checked_tenant, operation_id_of, request_id_of

if TYPE_CHECKING:
    from ..server import Application, Settings

C = TypeVar("C")
"""The framework's request."""
T = TypeVar("T")
MaybeAwaited: TypeAlias = T | Awaitable[T]
ASGI: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

STATE: Final = "holdkit.request"
"""In the scope of a request: its `RequestState`."""


class RequestState:
    """Carry the id of one request and, after its first use, its kernel."""

    __slots__ = ("holdkit", "id", "identified", "kernel", "opened")

    def __init__(self, holdkit: AsgiHoldkit[Any], id: str, opened: AsyncKernel | None) -> None:
        self.holdkit, self.id = holdkit, id
        self.opened = opened
        """The kernel of the application; None if its lifespan was not entered."""
        self.identified = False
        """Whether its actor was set."""
        self.kernel: AsyncKernel | None = None
        """The kernel for the request's tenant."""


class AsgiHoldkit(Generic[C]):
    """A kernel for an application, opened and closed with it. The modules of the frameworks have the class to use."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        actor: Callable[[C], MaybeAwaited[Actor | str | None]] | None = None,
        tenant: Callable[[C], MaybeAwaited[str | None]] | None = None,
        correlation_id: Callable[[C], MaybeAwaited[str | None]] | None = None,
        on_open: Callable[[AsyncKernel], Awaitable[Any]] | None = None,
        sweep_every: float | None = 5.0,
        **options: Any,
    ) -> None:
        """Keep the options. `actor` and `tenant` say who makes a request, and for which tenant; `correlation_id` replaces the one from the headers.
        They are called once per request, at the latest when it first asks for the kernel, and may be coroutine functions.

        `on_open` is awaited before the first request: the place to create pools and to register sagas. `sweep_every` is in
        seconds; None starts no sweeper. `options` are those of `holdkit.connect_async`.
        """
        self._url, self._options = url, options
        self._actor, self._tenant, self._correlation_id = actor, tenant, correlation_id
        self._on_open, self._sweep_every = on_open, sweep_every
        self._kernel: AsyncKernel | None = None
        self._servers: list[Application] = []

    @property
    def kernel(self) -> AsyncKernel:
        """Return the kernel for all tenants: for work without a request, such as a background task."""
        if self._kernel is None:
            raise EngineError(
                "the kernel is open while the application runs, and it is not running: its lifespan was not entered. "
                "Call install(app), or enter holdkit.lifespan() in your own lifespan; in tests, enter the test client's block"
            )
        return self._kernel

    @asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """Open the kernel, its sweeper and what was mounted; close them at the end."""
        if self._kernel is not None:
            raise invalid("lifespan", "lifespan_entered", "was entered already: an application runs once at a time")
        async with AsyncExitStack() as stack:
            kernel = await stack.enter_async_context(await connect_async(self._url, **self._options))
            self._kernel = kernel
            stack.callback(self._forget)
            if self._on_open is not None:
                await self._on_open(kernel)
            for server in self._servers:
                await stack.enter_async_context(server.lifespan())
            swept = any(server.settings.upkeep.sweep_every for server in self._servers)
            if self._sweep_every is not None and not swept:
                await stack.enter_async_context(kernel.sweeper(every=self._sweep_every))
            yield

    def _forget(self) -> None:
        self._kernel = None

    def server(self, settings: Settings | None = None, *, pepper: bytes | None = None) -> Application:
        """Return Holdkit's HTTP API and dashboard on this kernel, as an ASGI application to mount. It runs while the application does."""
        from ..server import app

        made = app(lambda: self.kernel, settings=settings, pepper=pepper)
        self._servers.append(made)
        return made

    def middleware(self, app: ASGI) -> ASGI:
        """Wrap an application so that every request has its context."""

        async def with_context(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] not in ("http", "websocket"):
                await app(scope, receive, send)
                return
            before = current()
            scope[STATE] = state = RequestState(self, request_id_of(Headers(scope).get), self._kernel)
            amend(correlation_id=state.id)
            try:
                await app(scope, receive, send)
            finally:
                restore(before)

        return with_context

    async def identify(self, request: C, state: RequestState) -> None:
        """Set the actor of a request, once. It must run in the task of the handler, or the handler would not see it."""
        if state.identified:
            return
        amend(
            actor=None if self._actor is None else await _awaited(self._actor(request)),
            correlation_id=None if self._correlation_id is None else await _awaited(self._correlation_id(request)),
        )
        state.identified = True  # not before: a caller who was turned away does not become anonymous

    async def request_kernel(self, request: C, state: RequestState) -> AsyncKernel:
        """Return the kernel for a request, bound to its tenant."""
        if state.kernel is None:
            kernel = state.opened
            if kernel is None:
                raise Problem(503, "not_started", "the application is not running: its lifespan was not entered")
            await self.identify(request, state)
            if self._tenant is not None:
                kernel = kernel.tenant(checked_tenant(await _awaited(self._tenant(request))))
            state.kernel = kernel
        return state.kernel


def state_of(scope: Any) -> RequestState:
    """Return the state that the middleware has stored in the scope of a request."""
    state = scope.get(STATE)
    if not isinstance(state, RequestState):
        raise EngineError("this application has no kernel: call install(app) where the application is made")
    return state


async def kernel_of(request: Any) -> AsyncKernel:
    """Return the kernel for a request of any framework whose requests have a `scope`."""
    state = state_of(request.scope)
    return await state.holdkit.request_kernel(request, state)


async def identify(request: Any) -> None:
    """Set the actor of a request of any framework whose requests have a `scope`."""
    state = state_of(request.scope)
    await state.holdkit.identify(request, state)


async def operation_of(request: Any) -> str | None:
    """Return a request's operation id, made of its `Idempotency-Key` and its actor; None without the header."""
    await identify(request)
    headers = Headers(request.scope)
    if headers.count("idempotency-key") > 1:
        raise Problem(400, "header_twice", "the header idempotency-key may be sent only once")
    return operation_id_of(headers.get)


def problem_for(scope: Any, error: Exception) -> ProblemParts:
    """Return the answer to an error that a handler raised."""
    state = scope.get(STATE)
    if not isinstance(state, RequestState):
        return answer_to(error, request_id_of(Headers(scope).get), None)
    return answer_to(error, state.id, state.opened)


class Headers:
    """The headers of an ASGI scope. If a header occurs twice, the first one counts."""

    def __init__(self, scope: Any) -> None:
        self._raw: list[tuple[bytes, bytes]] = scope["headers"]

    def get(self, name: str) -> str | None:
        """Return a header by its name in small letters."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._raw if key.lower() == wanted), None)

    def count(self, name: str) -> int:
        """Return how often a header was sent."""
        return sum(key.lower() == name.encode() for key, _ in self._raw)


async def _awaited(value: MaybeAwaited[T]) -> T:
    return await value if inspect.isawaitable(value) else value
