"""Who asks, and for which request: set once per request, and recorded with everything that the request does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from ...kernel.arguments import Actor
from ...kernel.context import context
from ..requests import request_id_of


class HoldkitMiddleware:
    """Set the actor, which is the user if `AuthenticationMiddleware` ran before, and the correlation id, from ``X-Request-Id`` or the
    trace of the request."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self.get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        if self._async:
            return self._answer(request)
        with context(actor=_actor(getattr(request, "user", None)), correlation_id=request_id_of(request.headers.get)):
            return self.get_response(request)

    async def _answer(self, request: Any) -> Any:
        user = await request.auser() if hasattr(request, "auser") else None
        with context(actor=_actor(user), correlation_id=request_id_of(request.headers.get)):
            return await self.get_response(request)


def _actor(user: Any) -> Actor | None:
    """Return the user as an actor; None without authentication, so that the view may set one."""
    if user is None:
        return None
    return Actor.user(str(user.pk)) if user.is_authenticated else Actor.anonymous()
