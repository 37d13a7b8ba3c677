"""Spans. A call gets a span only inside a span that is recorded now, or if its trace context (from another process, or from earlier)
says that the caller recorded one. A span never starts a trace by itself, except one that is linked to such a call.

A span has names and numbers, never what can name a person: no entity, account, actor, metadata or message of an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ... import AsyncKernel, JournalEntry, Kernel
from ...errors import Refused
from ...kernel.tracing import Attributes, is_recorded, linked

if TYPE_CHECKING:
    import httpx

K = TypeVar("K", Kernel, AsyncKernel)

NAME: Final = "holdkit"
_propagator: Final = TraceContextTextMapPropagator()


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def tell(self, name: str, value: str | int | bool) -> None:
        """Add an attribute to the span."""
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        """Rename the span."""
        self._span.update_name(name)


class OpenTelemetryTracer:
    """Gives the spans of a kernel to a tracer provider; by default the global one."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(NAME, version("holdkit"), tracer_provider)

    def trace(self) -> str | None:
        """Return the `traceparent` of the span that is recorded now."""
        span = trace.get_current_span()
        if not span.is_recording():
            return None
        its = span.get_span_context()
        return f"00-{its.trace_id:032x}-{its.span_id:016x}-{its.trace_flags:02x}"

    @contextmanager
    def call(self, name: str, attributes: Attributes) -> Iterator[_Span]:
        """Start a span below the one that is recorded now."""
        with self._span(name, SpanKind.INTERNAL, attributes) as span:
            yield span

    @contextmanager
    def linked(self, name: str, traces: Sequence[str], attributes: Attributes) -> Iterator[_Span]:
        """Start a span without a parent, linked to those of other calls."""
        links = [Link(its) for its in map(_span_context, traces)]
        with self._span(name, SpanKind.CONSUMER, attributes, contexts.Context(), links) as span:
            yield span

    @contextmanager
    def received(self, name: str, trace: str, attributes: Attributes) -> Iterator[_Span]:
        """Start a span below that of a caller in another process."""
        above = set_span_in_context(NonRecordingSpan(_span_context(trace)), contexts.Context())
        with self._span(name, SpanKind.SERVER, attributes, above) as span:
            yield span

    @contextmanager
    def detached(self) -> Iterator[None]:
        """Run a block outside of the span that is recorded now."""
        token = contexts.attach(contexts.Context())
        try:
            yield
        finally:
            contexts.detach(token)

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        above: contexts.Context | None = None,
        links: Sequence[Link] = (),
    ) -> Iterator[_Span]:
        with self._tracer.start_as_current_span(
            f"{NAME} {name}", above, kind, attributes, links, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield _Span(span)
            except Refused as refused:  # an answer, not a failure
                span.set_attribute("holdkit.refused", refused.reason)
                raise
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise


def instrument(hk: K, *, tracer_provider: TracerProvider | None = None) -> K:
    """Return the kernel with a span around each call that is made inside a recorded span. It shares everything with the kernel that
    you have; closing one closes both."""
    return hk._traced(OpenTelemetryTracer(tracer_provider))  # noqa: SLF001 - shares queue and engine


def instrument_client(http: httpx.Client | httpx.AsyncClient) -> None:
    """Send the trace context of recorded calls with the requests of an HTTP client; then pass it to `holdkit.client.connect` as
    `http=`. Not needed where httpx is instrumented already."""

    import httpx

    def send_context(request: httpx.Request) -> None:
        if trace.get_current_span().is_recording():
            _propagator.inject(request.headers)

    async def send_context_async(request: httpx.Request) -> None:
        send_context(request)

    hook: Any = send_context_async if isinstance(http, httpx.AsyncClient) else send_context
    http.event_hooks = {**http.event_hooks, "request": [*http.event_hooks["request"], hook]}


@contextmanager
def entry_span(hk: Kernel, entry: JournalEntry, name: str = "follower") -> Iterator[None]:
    """Run the work on a journal entry in a span that is linked to the call that made the entry; for `hk.journal.follow`. Without a span if that
    call was not recorded, or if the kernel is not instrumented."""
    executor = hk._executor
    with linked(executor.tracer, executor.trace_of(entry), name, {"holdkit.action": entry.action.value}):
        yield


@asynccontextmanager
async def entry_span_async(hk: AsyncKernel, entry: JournalEntry, name: str = "follower") -> AsyncIterator[None]:
    """Run the work on an entry of an `AsyncKernel` in a span, as `entry_span` does."""
    executor = hk._executor
    with linked(executor.tracer, await executor.trace_of(entry), name, {"holdkit.action": entry.action.value}):
        yield


def _span_context(traceparent: str) -> SpanContext:
    """Return the span context of a well-formed `traceparent`."""
    assert is_recorded(traceparent), "others are not linked to"
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
