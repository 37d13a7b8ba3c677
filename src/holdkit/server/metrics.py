"""The server's counters, and their form for Prometheus. No label contains text from a caller."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from ..engines.durability import LEVELS

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

    def count(self, kind: str, outcome: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.commands[kind, outcome] += 1
        self.statuses[status] += 1
        self.latencies[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds
        self.requests += 1

    def quantile(self, part: float) -> float:
        """The upper bound of the bucket that contains a quantile; 0 without requests."""
        wanted, reached = part * self.requests, 0
        for bound, count in zip((*BUCKETS, 60.0), self.latencies, strict=True):
            reached += count
            if count and reached >= wanted:
                return bound
        return 0.0


class NumbersCollector(Collector):
    """Hands the counters and the statistics of one moment to `prometheus_client`."""

    def __init__(self, metrics: Metrics, numbers: dict[str, Any]) -> None:
        self._metrics, self._numbers = metrics, numbers

    def collect(self) -> Iterator[Metric]:
        """All metrics, in a stable order."""
        metrics, numbers = self._metrics, self._numbers
        requests = CounterMetricFamily("holdkit_requests", "Requests by kind and outcome.", labels=("kind", "outcome"))
        for labels, count in sorted(metrics.commands.items()):
            requests.add_metric(labels, count)
        yield requests
        yield HistogramMetricFamily(
            "holdkit_request_seconds",
            "Seconds from a request to its answer.",
            buckets=_cumulative([f"{bound:g}" for bound in BUCKETS], metrics.latencies),
            sum_value=round(metrics.seconds, 6),
        )
        batches = numbers["batches"]
        yield HistogramMetricFamily(
            "holdkit_batch_commands",
            "Commands per transaction of the group commit.",
            buckets=_cumulative([str(2 ** (power + 1) - 1) for power in range(len(batches["sizes"]) - 1)], batches["sizes"]),
            sum_value=batches["commands"],
        )  # fmt: skip
        locked = numbers["lock_times"]
        yield HistogramMetricFamily(
            "holdkit_lock_seconds",
            "Seconds from lock to commit, of transactions on PostgreSQL.",
            buckets=_cumulative([f"{bound:g}" for bound in locked.bounds], locked.counts),
            sum_value=round(locked.seconds, 6),
        )
        yield from _guards(numbers["guards"])
        yield from _gauges(numbers)
        yield from _connections(numbers["connections"])
        sweeper, webhooks = numbers["sweeper"], numbers["webhooks"]
        yield CounterMetricFamily("holdkit_sweeper_expired", "Holds that the sweeper expired.", sweeper["expired"])
        attempts = CounterMetricFamily("holdkit_webhook_attempts", "Webhook attempts by outcome.", labels=("outcome",))
        for outcome, count in {"delivered": 0, **webhooks["outcomes"]}.items():
            attempts.add_metric((outcome,), count)
        yield attempts
        yield CounterMetricFamily("holdkit_webhook_parked", "Webhook deliveries that were parked.", webhooks["parked"])
        durability = GaugeMetricFamily(
            "holdkit_durability", "Durability of committed answers: 1 at the current level.", labels=("level",)
        )
        for level in LEVELS:
            durability.add_metric((level,), level == numbers["durability"].level)
        yield durability


def _guards(numbers: dict[str, Any]) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "holdkit_guarded_batches", "Batches that the database decided by a guard.", numbers["batches"]
    )
    yield CounterMetricFamily("holdkit_guarded_passed", "Commands that passed the guard.", numbers["passed"])
    misses = CounterMetricFamily(
        "holdkit_guarded_misses", "Commands that did not pass the guard, by cause.", labels=("cause",)
    )
    for cause, count in numbers["misses"].items():
        misses.add_metric((cause,), count)
    yield misses


def _gauges(numbers: dict[str, Any]) -> Iterator[Metric]:
    for name, says, value in (
        ("queue_depth", "Commands that wait for the group commit.", numbers["queue"]),
        ("sweeper_lag_seconds", "Seconds since the last sweep that left no due hold.", numbers["sweeper"]["lag"]),
        ("streams", "Open event streams.", numbers["streams"]),
        (
            "clock_lag_seconds",
            "Seconds by which the engine's clock is ahead of this machine's.",
            numbers["clock_lag"],
        ),
        ("requests_in_work", "Requests being processed.", numbers["in_work"]),
        ("full_quotas", "Tenants whose storage quota is full, as far as this process knows.", numbers["full_quotas"]),
        ("webhook_attempts_in_work", "Webhook attempts being made.", numbers["webhooks"]["attempts"]),
        ("webhook_attempts_waiting", "Webhook attempts that wait for a slot.", numbers["webhooks"]["waiting"]),
        ("webhook_lookups", "Host names of webhooks being resolved.", numbers["webhooks"]["lookups"]),
    ):
        yield GaugeMetricFamily(f"holdkit_{name}", says, value)


def _connections(numbers: dict[str, int] | None) -> Iterator[Metric]:
    if numbers is not None:
        yield GaugeMetricFamily("holdkit_connections", "Open connections.", numbers["open"])
        yield GaugeMetricFamily("holdkit_connections_limit", "Most open connections.", numbers["limit"])
        ended = CounterMetricFamily(
            "holdkit_connections_ended",
            "Connections that the server refused, closed to make room for another, or dropped because their client read nothing.",
            labels=("why",),
        )
        for why in ("refused", "evicted", "dropped"):
            ended.add_metric((why,), numbers[why])
        yield ended


def _cumulative(bounds: Sequence[str], counts: Sequence[int]) -> list[tuple[str, float]]:
    return list(zip((*bounds, "+Inf"), map(float, accumulate(counts)), strict=True))


def exposition(metrics: Metrics, numbers: dict[str, Any], accept: bytes = b"") -> tuple[bytes, str]:
    """The metrics and their content type: OpenMetrics if the scraper accepts it, else Prometheus's text format."""
    collector = NumbersCollector(metrics, numbers)
    if b"application/openmetrics-text" in accept:
        found: bytes = openmetrics.generate_latest(collector)  # type: ignore[no-untyped-call]
        return found, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(collector), CONTENT_TYPE_PLAIN_0_0_4
