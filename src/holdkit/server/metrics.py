"""The server's counters, and their form for Prometheus. No label contains text from a caller, except the ids of pools that the setting
`metrics.pools` names."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from ..contrib.prometheus import family_of
from ..kernel.group_commit import Stats
from ..kernel.measures import Measure, by_label, counter, gauge, histogram, kernel_measures
from ..wire.stats import Disk

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds."""


class Metrics:
    """The counters of the server."""

    def __init__(self) -> None:
        self.commands: Counter[tuple[str, str]] = Counter()
        """By kind and outcome: done, or the reason of the refusal or error."""
        self.statuses: Counter[int] = Counter()
        self.latencies = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0
        self.requests = 0

    def count(self, kind: str, outcome: str, status: int, seconds: float | None) -> None:
        """Count an answered request. None for a stream: its client decides how long it takes."""
        self.commands[kind, outcome] += 1
        self.statuses[status] += 1
        self.requests += 1
        if seconds is not None:
            self.latencies[bisect_left(BUCKETS, seconds)] += 1
            self.seconds += seconds

    def quantile(self, part: float) -> float:
        """Return the upper bound of the bucket that contains a quantile; 0 without answers."""
        return quantile(self.latencies, part) or 0.0


def quantile(latencies: Sequence[int], part: float) -> float | None:
    """Return the upper bound of the bucket that contains a quantile; None without answers."""
    wanted, reached = part * sum(latencies), 0
    for bound, count in zip((*BUCKETS, 60.0), latencies, strict=False):
        reached += count
        if count and reached >= wanted:
            return bound
    return None


def server_measures(metrics: Metrics, numbers: dict[str, Any], stats: Stats) -> Iterator[Measure]:
    """Yield all measures of a server and of its kernel, in a stable order."""
    requests = tuple((labels, float(count)) for labels, count in sorted(metrics.commands.items()))
    yield Measure("holdkit_requests", "Requests by kind and outcome.", "counter", ("kind", "outcome"), requests)
    yield histogram("holdkit_request_seconds", "Seconds from a request to its answer.", [f"{bound:g}" for bound in BUCKETS],
                    metrics.latencies, round(metrics.seconds, 6))  # fmt: skip
    yield from kernel_measures(stats)
    for name, says, value in _gauges(numbers):
        yield gauge(f"holdkit_{name}", says, value)
    yield from _disk(numbers["disk"])
    yield from _connections(numbers["connections"])
    sweeper, webhooks = numbers["sweeper"], numbers["webhooks"]
    yield counter("holdkit_sweeper_expired", "Holds that the sweeper expired.", sweeper["expired"])
    attempts = {"delivered": 0, **webhooks["outcomes"]}.items()
    yield by_label("counter", "holdkit_webhook_attempts", "Webhook attempts by outcome.", "outcome", attempts)
    yield counter("holdkit_webhook_parked", "Webhook deliveries that were parked.", webhooks["parked"])


def _gauges(numbers: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    sweeper, webhooks = numbers["sweeper"], numbers["webhooks"]
    yield "sweeper_lag_seconds", "Seconds since the last sweep that left no due hold.", sweeper["lag"]
    yield "streams", "Open event streams.", numbers["streams"]
    yield "requests_in_work", "Requests being processed.", numbers["in_work"]
    yield "full_quotas", "Tenants whose storage quota is full, as far as this process knows.", numbers["full_quotas"]
    yield "webhook_attempts_in_work", "Webhook attempts being made.", webhooks["attempts"]
    yield "webhook_attempts_waiting", "Webhook attempts that wait for a slot.", webhooks["waiting"]
    yield "webhook_lookups", "Host names of webhooks being resolved.", webhooks["lookups"]


def _disk(disk: Disk | None) -> Iterator[Measure]:
    if disk is not None:
        yield gauge("holdkit_disk_free_bytes", "Free bytes of the data's disk.", disk.free)
        yield gauge("holdkit_disk_bytes", "Size of the data's disk in bytes.", disk.total)
        yield gauge("holdkit_disk_min_free_bytes", "Free bytes below which nothing new is stored.", disk.min_free)


def _connections(numbers: dict[str, int] | None) -> Iterator[Measure]:
    if numbers is not None:
        yield gauge("holdkit_connections", "Open connections.", numbers["open"])
        yield gauge("holdkit_connections_limit", "Most open connections.", numbers["limit"])
        yield by_label(
            "counter",
            "holdkit_connections_ended",
            "Connections that the server refused because there were too many, or dropped because their client read nothing.",
            "why",
            [(why, numbers[why]) for why in ("refused", "dropped")],
        )


class _Measures(Collector):
    """Hands the measures of one moment to `prometheus_client`."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        return map(family_of, self._measures)


def exposition(measures: Iterable[Measure], accept: bytes = b"") -> tuple[bytes, str]:
    """Return the metrics and their content type: OpenMetrics if the scraper accepts it, else Prometheus's text format."""
    collector = _Measures(measures)
    if b"application/openmetrics-text" in accept:
        found: bytes = openmetrics.generate_latest(collector)  # type: ignore[no-untyped-call]
        return found, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(collector), CONTENT_TYPE_PLAIN_0_0_4
