"""Spans of requests: one around each whose caller records it, or that the host has a recorded span around. The kernel's spans are below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..kernel.tracing import Tracer, is_recorded
from .dispatch import dispatch
from .request import Receive, Scope, Send

if TYPE_CHECKING:
    from .application import Application

TRACEPARENT: Final = "traceparent"


async def dispatch_traced(application: Application, tracer: Tracer, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, in a span if the caller or this process records one. A stream has none, because its client may keep it open."""
    headers = dict(scope["headers"])
    given = headers.get(TRACEPARENT.encode(), b"").decode("latin-1")
    begun = {"http.request.method": scope["method"]}
    if b"text/event-stream" in headers.get(b"accept", b""):
        span = None
    elif tracer.trace() is not None:
        span = tracer.call("request", begun)
    else:
        span = tracer.received("request", given, begun) if is_recorded(given) else None
    if span is None:
        await dispatch(application, scope, receive, send)
        return
    with span as told:
        request, outcome, status = await dispatch(application, scope, receive, send)
        told.rename(f"holdkit request {request.kind}")
        told.tell("http.response.status_code", status)
        told.tell("holdkit.request_id", request.id)
        if outcome != "done":
            told.tell("holdkit.refused", outcome)
