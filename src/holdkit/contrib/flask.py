"""Flask: `Holdkit(app, url)`, and `hk`, the kernel for the request at hand.

The kernel of a process is opened by the first request that uses it; on SQLite at the beginning of the first request, whatever that does. Opening
writes (`on_open` creates pools), and a request that first uses the kernel inside a transaction of its own has the file's only write lock:
the opening would wait for it, and it for the opening.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from ..core.validation import invalid
from ..errors import HoldkitError, MissingExtra
from ..faces._sync.kernel import Kernel
from ..kernel.arguments import Actor, Context, current
from ..kernel.context import amend, restore
from ..wire.problems import Problem
from .kernels import ProcessKernel
from .requests import answer_to, checked_tenant, operation_id_of, request_id_of

try:
    from flask import Flask, Response, current_app, has_request_context, request, request_started
    from werkzeug.local import LocalProxy
except ModuleNotFoundError as missing:
    raise MissingExtra("flask", missing) from missing

STATE: Final = "holdkit.request"
"""In the environ of a request: its `RequestState`. (`flask.g` may be shared by several requests, in tests.)"""


class RequestState:
    """Carry the id of one request, the context before it and, after its first use, its kernel."""

    def __init__(self, id: str, before: Context) -> None:
        self.id, self.before = id, before
        self.kernel: Kernel | None = None


class Holdkit:
    """The extension. Each process of a server has a kernel of its own, opened by the first request that needs it."""

    def __init__(
        self,
        app: Flask | None = None,
        url: str | None = None,
        *,
        actor: Callable[[], Actor | str | None] | None = None,
        tenant: Callable[[], str | None] | None = None,
        correlation_id: Callable[[], str | None] | None = None,
        on_open: Callable[[Kernel], Any] | None = None,
        sweep_every: float | None = 5.0,
        **options: Any,
    ) -> None:
        """Keep the options. `url` may also be the application's setting `HOLDKIT_URL`. `actor` and `tenant` say who makes a request, and for which
        tenant; `correlation_id` replaces the one from the headers. They are called once per request, when it first uses `hk`.

        `on_open` is called in each process when its kernel is opened: the place to create pools and to register sagas.
        `sweep_every` is in seconds; None starts no sweeper. `options` are those of `holdkit.connect`.
        """
        self._url = url
        self._actor, self._tenant, self._correlation_id = actor, tenant, correlation_id
        self._options: dict[str, Any] = {"on_open": on_open, "sweep_every": sweep_every, **options}
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Give an application a kernel, its requests their context, and its errors their answers."""
        url = self._url or app.config.get("HOLDKIT_URL")
        if not url:
            raise invalid("url", "url_missing", "give Holdkit a URL, or the application a setting HOLDKIT_URL")
        app.extensions["holdkit"] = self, ProcessKernel(url, **self._options)
        request_started.connect(_begin, app)  # before any function of the application
        app.teardown_request(_end)
        app.register_error_handler(HoldkitError, _answer)
        app.register_error_handler(Problem, _answer)

    def kernel(self, app: Flask | None = None) -> Kernel:
        """Return the kernel of this process for all tenants: for work without a request, such as a command."""
        return _extension(app or current_app)[1].get()

    def request_kernel(self) -> Kernel:
        """Return the kernel for the request at hand, bound to its tenant. The first call of a request sets its actor."""
        state = _state()
        if state.kernel is None:
            kernel = self.kernel()
            amend(
                actor=None if self._actor is None else self._actor(),
                correlation_id=None if self._correlation_id is None else self._correlation_id(),
            )
            if self._tenant is not None:
                kernel = kernel.tenant(checked_tenant(self._tenant()))
            state.kernel = kernel
        return state.kernel


def _extension(app: Flask) -> tuple[Holdkit, ProcessKernel]:
    found: tuple[Holdkit, ProcessKernel] | None = app.extensions.get("holdkit")
    if found is None:
        raise invalid("app", "app_unknown", "has no kernel: call Holdkit(app, url), or init_app(app)")
    return found


def _begin(app: Flask, **_more: Any) -> None:
    _open_before_transactions(app)
    state = request.environ[STATE] = RequestState(request_id_of(request.headers.get), current())
    amend(correlation_id=state.id)


def _open_before_transactions(app: Flask) -> None:
    _, kernel = _extension(app)
    if str(kernel.url).startswith("sqlite:"):
        with suppress(Exception):  # a request that uses the kernel tries again, and fails; others need not
            kernel.get()


def _state() -> RequestState:
    if STATE not in request.environ:  # a test that pushes a request's context, and dispatches no request
        _begin(current_app)
    state: RequestState = request.environ[STATE]
    return state


def _end(_error: BaseException | None) -> None:
    state: RequestState | None = request.environ.pop(STATE, None)
    if state is not None:
        restore(state.before)


def _kernel_here() -> Kernel:
    extension, _ = _extension(current_app)
    return extension.request_kernel() if has_request_context() else extension.kernel()


hk: Kernel = LocalProxy(_kernel_here)  # type: ignore[assignment]
"""The kernel for the request at hand, or of the application at hand where there is no request."""


def operation_id() -> str | None:
    """Return the request's operation id, to pass on as `op=`, made of its `Idempotency-Key` and its actor; None without the header."""
    _kernel_here()  # sets the actor
    return operation_id_of(request.headers.get)


def _answer(error: Exception) -> Response:
    kernel = _state().kernel
    parts = answer_to(error, _state().id, kernel)
    return Response(parts.body, parts.status, parts.headers)


__all__ = ["Holdkit", "hk", "operation_id"]
