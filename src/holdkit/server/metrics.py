"""Counters and their Prometheus text format. No label contains text from a caller."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any, Final

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


def exposition(metrics: Metrics, numbers: dict[str, Any]) -> bytes:
    """The Prometheus text format, version 0.0.4."""
    lines = _head("holdkit_requests_total", "counter", "Requests by kind and outcome.")
    lines += [
        f'holdkit_requests_total{{kind="{kind}",outcome="{outcome}"}} {count}'
        for (kind, outcome), count in sorted(metrics.commands.items())
    ]
    lines += _head("holdkit_request_seconds", "histogram", "Seconds from a request to its answer.")
    reached = 0
    for bound, count in zip(BUCKETS, metrics.latencies, strict=False):
        reached += count
        lines.append(f'holdkit_request_seconds_bucket{{le="{bound:g}"}} {reached}')
    lines.append(f'holdkit_request_seconds_bucket{{le="+Inf"}} {metrics.requests}')
    lines.append(f"holdkit_request_seconds_sum {metrics.seconds:.6f}")
    lines.append(f"holdkit_request_seconds_count {metrics.requests}")
    lines += _batches(numbers["batches"])
    for name, kind, help_text, value in (
        ("holdkit_queue_depth", "gauge", "Commands that wait for the group commit.", numbers["queue"]),
        (
            "holdkit_sweeper_lag_seconds",
            "gauge",
            "Seconds since the last sweep that left no due hold.",
            numbers["sweeper"]["lag"],
        ),
        ("holdkit_sweeper_expired_total", "counter", "Holds that the sweeper expired.", numbers["sweeper"]["expired"]),
        ("holdkit_streams", "gauge", "Open event streams.", numbers["streams"]),
        (
            "holdkit_clock_lag_seconds",
            "gauge",
            "Seconds by which the engine's clock is ahead of this machine's.",
            numbers["clock_lag"],
        ),
        ("holdkit_requests_in_work", "gauge", "Requests being processed.", numbers["in_work"]),
    ):
        lines += [*_head(name, kind, help_text), f"{name} {value:g}"]
    lines += _head("holdkit_durability", "gauge", "Durability of committed answers: 1 at the current level.")
    current = numbers["durability"].level
    lines += [f'holdkit_durability{{level="{level}"}} {int(level == current)}' for level in LEVELS]
    return ("\n".join(lines) + "\n").encode()


def _batches(batches: dict[str, Any]) -> list[str]:
    lines = _head("holdkit_batch_commands", "histogram", "Commands per transaction of the group commit.")
    reached = 0
    for power, count in enumerate(batches["sizes"]):
        reached += count
        if power < len(batches["sizes"]) - 1:
            lines.append(f'holdkit_batch_commands_bucket{{le="{2 ** (power + 1) - 1}"}} {reached}')
    lines.append(f'holdkit_batch_commands_bucket{{le="+Inf"}} {reached}')
    return [*lines, f"holdkit_batch_commands_sum {batches['commands']}", f"holdkit_batch_commands_count {reached}"]


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
