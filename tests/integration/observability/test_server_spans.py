"""Spans of the server: below the caller's, down to the journal, and on to the receivers of webhooks."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from holdkit.client import connect_async
from holdkit.contrib.opentelemetry import instrument_client
from holdkit.server.settings import Metrics
from holdkit.testing import FakeClock
from tests.integration.observability.test_spans import Recorded, links, span_id
from tests.support.receivers import eventually, receivers
from tests.support.servers import NOON, QUICK, in_process_app

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_RECORDED = (
    "",
    "00-nonsense",
    PARENT.replace("-01", "-00"),
    PARENT + "x",
    PARENT + "-" * 10_000,
    PARENT.upper(),
    PARENT.replace("00-", "ff-"),
    PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
    PARENT.replace("00f067aa0ba902b7", "0" * 16),
)
"""What says that nobody records, and what is no context at all: a server never begins a trace by itself."""
TRACED = replace(QUICK, metrics=Metrics(opentelemetry=True))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The global providers, as `opentelemetry-instrument` sets them for a whole process."""
    made = Recorded()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    return made


def test_a_request_whose_caller_records_has_a_span_below_it_and_others_have_none(recorded: Recorded) -> None:
    async def main() -> tuple[list[Any], list[Any], list[Any]]:
        async with in_process_app(settings=TRACED) as here:
            await here.call("POST", "/v1/pools", {"id": "gpu", "total": 99})
            body = {"legs": [{"pool": "gpu", "quantity": 1}], "ttl": 60}
            for number, header in enumerate(NOT_RECORDED):
                answer = await here.call("POST", "/v1/holds", body, headers={"traceparent": header}, op=f"{number}")
                assert (answer.status_code, recorded.take()) == (201, []), header
            await here.call("GET", "/v1/pools/none", headers={"traceparent": PARENT})
            refused = recorded.take()
            await here.call("POST", "/v1/holds", body, headers={"traceparent": PARENT}, op="recorded")
            spans = recorded.take()
            return refused, spans, (await here.call("GET", "/v1/journal")).json()["items"]

    refused, spans, entries = asyncio.run(main())
    assert refused[-1].name == "holdkit request show_pool"
    told = dict(refused[-1].attributes)
    assert (told["http.response.status_code"], told["holdkit.refused"]) == (404, "pool_not_found")
    inner, request = spans
    assert (inner.name, request.name) == ("holdkit hold", "holdkit request hold")
    assert f"{request.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert f"{request.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert inner.parent.span_id == request.context.span_id
    traces = [entry.get("trace") for entry in entries if entry["action"] == "hold.held"]
    assert traces == [None] * len(NOT_RECORDED) + [f"00-4bf92f3577b34da6a3ce929d0e0e4736-{span_id(inner)}-01"]


def test_a_client_of_ours_sends_its_trace_and_the_receiver_of_the_webhook_gets_one_that_is_linked(
    recorded: Recorded,
) -> None:
    clock = FakeClock(NOON)

    async def main() -> tuple[list[Any], dict[str, str]]:
        async with receivers() as found, in_process_app(settings=TRACED, clock=clock) as here:
            await here.call("POST", "/v1/pools", {"id": "gpu", "total": 2})
            http = httpx.AsyncClient(transport=httpx.ASGITransport(here.application))
            instrument_client(http)
            client = connect_async("http://localhost", key=await here.key(), http=http)
            with recorded.tracer.start_as_current_span("checkout"):
                await client.hold("gpu", 1, ttl=60)
            hook = {"url": found.url("/a"), "actions": ["hold.expired"]}
            assert (await here.call("POST", "/v1/webhooks", hook, op="w")).status_code == 201
            clock.advance(3_600)
            await here.call("POST", "/v1/sweep", {})
            await found.until(lambda: bool(found.taken))
            await eventually(
                lambda: any(span.name == "holdkit webhook" for span in recorded.exporter.get_finished_spans())
            )
            await client.close()
            await http.aclose()
            return recorded.take(), found.taken[0][1]

    spans, headers = asyncio.run(main())
    held = next(span for span in spans if span.name == "holdkit hold")
    checkout = next(span for span in spans if span.name == "checkout")
    assert held.context.trace_id == checkout.context.trace_id, "one trace, over HTTP"
    (sweep,) = [span for span in spans if span.name == "holdkit sweep"]
    (webhook,) = [span for span in spans if span.name == "holdkit webhook"]
    assert links(sweep) == links(webhook) == [span_id(held)]
    assert held.context.trace_id not in (sweep.context.trace_id, webhook.context.trace_id)
    assert headers["traceparent"].split("-")[2] == span_id(webhook), "the receiver goes on below the attempt"
    assert dict(webhook.attributes)["holdkit.outcome"] == "delivered"


def test_the_counters_of_a_server_are_instruments(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    monkeypatch.setattr("opentelemetry.metrics._internal.get_meter_provider", lambda: provider)

    async def main() -> dict[str, Any]:
        async with in_process_app(settings=TRACED) as here:
            await here.call("GET", "/v1/pools")
            found = reader.get_metrics_data()
            assert found is not None
            return {
                one.name: one for of in found.resource_metrics for scope in of.scope_metrics for one in scope.metrics
            }

    found = asyncio.run(main())
    points = {
        (point.attributes["kind"], point.attributes["outcome"]): point.value
        for point in found["holdkit.requests"].data.data_points
    }
    assert points["list_pools", "done"] == 1
    assert found["holdkit.request_seconds.count"].data.data_points[0].value == 1
    assert {"holdkit.queue_depth", "holdkit.batch_commands.sum", "holdkit.sweeper_lag_seconds"} <= found.keys()
    provider.shutdown()
