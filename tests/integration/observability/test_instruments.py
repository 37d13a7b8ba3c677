"""Observable instruments: gauges of pools only for those that an allow-list names, and read once for each collection."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

import holdkit
from holdkit.contrib.opentelemetry import measure


class Collected:
    """A meter provider, and what it collects when it is asked."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def values(self) -> dict[tuple[str, Any], float]:
        data = self.reader.get_metrics_data()
        return {
            (metric.name, (point.attributes or {}).get("pool")): point.value
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        }


def test_gauges_of_pools_of_the_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = Collected()
    with holdkit.connect("memory://") as hk:
        for name in ("gpu", "room-1", "secret"):
            hk.create_pool(name, 5)
        hk.hold("gpu", 2, ttl=60)
        engine, asked = hk._executor.engine, count()
        read = engine.read
        monkeypatch.setattr("holdkit.contrib.opentelemetry.instruments.FRESH", 3600.0)
        monkeypatch.setattr(engine, "read", lambda query, **more: (next(asked), read(query, **more))[1])
        measure(hk, pools=["gpu", "room-*"], meter_provider=collected.provider)
        values = collected.values()
        assert (values["holdkit.pool_held", "gpu"], values["holdkit.pool_available", "gpu"]) == (2, 3)
        assert values["holdkit.pool_total", "room-1"] == 5
        assert values["holdkit.pools_incomplete", None] == 0
        assert values["holdkit.queue_depth", None] == 0
        assert {pool for _, pool in values} == {"gpu", "room-1", None}
        assert next(asked) == 2, "one query for the ids, one for the prefix"
    assert collected.values() == {}, "a closed kernel reports nothing"


def test_without_an_allow_list_there_are_none() -> None:
    collected = Collected()
    with holdkit.connect("memory://") as hk:
        hk.create_pool("gpu", 5)
        measure(hk, meter_provider=collected.provider)
        names = {name for name, _ in collected.values()}
    assert "holdkit.queue_depth" in names
    assert not [name for name in names if "pool" in name]
