"""Spans: only where somebody records; linked through the journal to the call that held, on every engine, hours later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

import holdkit
from holdkit.contrib.opentelemetry import entry_span, entry_span_async, instrument
from holdkit.contrib.opentelemetry.spans import OpenTelemetryTracer
from holdkit.testing import FakeClock
from tests.support.kernels import Store
from tests.support.threads import PATIENCE


class Recorded:
    """A tracer provider, and the spans that it got."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    def take(self) -> list[ReadableSpan]:
        found = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return found

    def names(self) -> list[str]:
        return [span.name for span in self.take()]


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    made = Recorded()
    yield made
    made.provider.shutdown()


def span_id(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


def links(span: ReadableSpan) -> list[str]:
    return [f"{link.context.span_id:016x}" for link in span.links]


def test_hours_later_an_expiry_is_linked_to_the_request_that_held(store: Store, recorded: Recorded) -> None:
    hk = store.hk._traced(OpenTelemetryTracer(recorded.provider))
    hk.create_pool("gpu", 3)
    assert recorded.names() == [], "nobody records"
    with recorded.tracer.start_as_current_span("request") as request:
        held = hk.hold("gpu", 1, ttl=60, op="once")
        hk.hold("gpu", 1, ttl=60)
    first, second, outer = recorded.take()
    assert [first.name, second.name, outer.name] == ["holdkit hold", "holdkit hold", "request"]
    assert first.parent is not None
    assert first.parent.span_id == request.get_span_context().span_id
    assert dict(first.attributes or {}) == {"holdkit.commands": 1, "holdkit.pools": ("gpu",), "holdkit.hold": held.id}
    unrecorded = hk.hold("gpu", 1, ttl=60)
    assert hk.hold("gpu", 1, ttl=60, op="once").replayed, "the trace is no part of the payload"
    traces = {entry.subject: entry.raw.trace for entry in hk.journal.list() if entry.action == "hold.held"}
    assert traces[held.id] == f"00-{request.get_span_context().trace_id:032x}-{span_id(first)}-03"
    assert traces[unrecorded.id] is None
    hk = store.reopen(store.hk)._traced(OpenTelemetryTracer(recorded.provider))  # another process
    store.clock.advance(3 * 3_600)
    assert hk.sweep().expired == 3
    (sweep,) = recorded.take()
    assert (sweep.name, sorted(links(sweep)), sweep.parent) == (
        "holdkit sweep",
        sorted([span_id(first), span_id(second)]),
        None,
    )
    assert dict(sweep.attributes or {}) == {"holdkit.expired": 3}
    assert hk.admin.verify().ok


def test_refusals_and_errors_are_told_without_what_they_say(recorded: Recorded) -> None:
    with instrument(holdkit.connect("memory://"), tracer_provider=recorded.provider) as hk:
        hk.create_pool("gpu", 1)
        with recorded.tracer.start_as_current_span("request"):
            with pytest.raises(holdkit.InsufficientCapacity):
                hk.hold("gpu", 2, ttl=60, entity="order:ann", account="ann", metadata={"who": "ann"}, actor="user:ann")
            with pytest.raises(holdkit.InvalidRequest):
                hk.hold("gpu", 0, ttl=60, entity="ann")
            hk.claims.hold("email", "ann@example.org", ttl=60)
            hk.apply(
                [
                    holdkit.commands.PlaceHold(legs=(holdkit.Leg("gpu", 2),), ttl=60),
                    holdkit.commands.CreatePool(id="q", total=1),
                ]
            )
            hk.pool("gpu")
        refused, invalid, *others, _ = recorded.take()
        assert dict(refused.attributes or {})["holdkit.refused"] == "insufficient_capacity"
        assert refused.status.status_code is StatusCode.UNSET, "an answer is no failure"
        assert dict(invalid.attributes or {})["error.type"] == "InvalidRequest"
        assert invalid.status.status_code is StatusCode.ERROR
        told = {span.name: dict(span.attributes or {}) for span in others}
        assert told["holdkit batch"] == {"holdkit.commands": 2, "holdkit.pools": ("gpu",), "holdkit.refused": 1}
        assert told["holdkit read"] == {"holdkit.read": "FindPool"}
        assert "ann" not in repr(
            [(span.attributes, span.events, span.status.description) for span in (refused, invalid, *others)]
        )


def test_a_span_that_is_not_sampled_is_not_recorded() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    with instrument(holdkit.connect("memory://"), tracer_provider=provider) as hk:
        hk.create_pool("gpu", 1)
        with provider.get_tracer("application").start_as_current_span("request"):
            hk.hold("gpu", 1, ttl=60)
        assert [entry.raw.trace for entry in hk.journal.list()] == [None, None]


def test_listeners_and_followers_are_linked_to_the_call_that_their_entry_tells_of(recorded: Recorded) -> None:
    clock, heard = FakeClock(), threading.Event()
    with instrument(holdkit.connect("memory://", clock=clock), tracer_provider=recorded.provider) as hk:
        hk.create_pool("gpu", 2)
        inside: list[str | None] = []

        def listen(_entry: holdkit.JournalEntry) -> None:
            inside.append(hk._executor.tracer.trace() if hk._executor.tracer else None)
            heard.set()

        with recorded.tracer.start_as_current_span("request"):
            hk.hold("gpu", 1, ttl=60)
            hk.journal.on("hold.expired", listen)
        held = next(span for span in recorded.take() if span.name == "holdkit hold")
        clock.advance(60)
        hk.create_pool("other", 1)
        hk.hold("gpu", 2, ttl=60)  # notices the expiry
        assert heard.wait(PATIENCE)
        for entry in hk.journal.list():
            with entry_span(hk, entry, "mailer"):
                pass
        hk.close()
    spans = recorded.take()
    (listener,) = [span for span in spans if span.name == "holdkit listener"]
    assert links(listener) == [span_id(held)]
    assert inside[0] is not None
    assert span_id(listener) in inside[0], "what the listener does is below its span"
    followed = [
        (dict(span.attributes or {})["holdkit.action"], links(span)) for span in spans if span.name == "holdkit mailer"
    ]
    assert followed == [("hold.held", [span_id(held)]), ("hold.expired", [span_id(held)])]
    assert {span.name for span in spans} == {"holdkit listener", "holdkit mailer"}, "background reads are nobody's call"


async def _async_entries(recorded: Recorded) -> list[tuple[str, list[str]]]:
    async with instrument(await holdkit.connect_async("memory://"), tracer_provider=recorded.provider) as hk:
        await hk.create_pool("gpu", 2)
        with recorded.tracer.start_as_current_span("request"):
            await hk.hold("gpu", 1, ttl=60)
        for entry in await hk.journal.list():
            async with entry_span_async(hk, entry):
                pass
    return [(span.name, links(span)) for span in recorded.take()]


def test_async_followers_too(recorded: Recorded) -> None:
    held, _, follower = asyncio.run(_async_entries(recorded))
    assert (held[0], follower[0]) == ("holdkit hold", "holdkit follower")
    assert len(follower[1]) == 1


def test_background_work_is_no_part_of_the_call_that_starts_it(recorded: Recorded) -> None:
    async def main() -> list[str]:
        async with await holdkit.connect_async("memory://") as plain:
            hk, heard = instrument(plain, tracer_provider=recorded.provider), asyncio.Event()
            with recorded.tracer.start_as_current_span("a long one"):
                await hk.journal.on("pool.created", lambda _entry: heard.set())
                recorded.take()
                await plain.create_pool("gpu", 1)
                async with asyncio.timeout(PATIENCE):
                    await heard.wait()
                return recorded.names()

    assert asyncio.run(main()) == [], "a task inherits the context of whoever starts it"


def test_a_caller_cannot_choose_the_trace() -> None:
    with holdkit.connect("memory://") as hk:
        commands: list[Any] = [
            holdkit.commands.CreatePool(id="p", total=5, trace="mine"),
            holdkit.commands.PlaceHold(legs=(holdkit.Leg("p"),), ttl=9, trace="x"),
        ]
        hk.apply(commands)
        assert [entry.raw.trace for entry in hk.journal.list()] == [None, None]
