"""Prometheus: a collector for a kernel that is embedded in your program. (A server has `GET /metrics`.)

``REGISTRY.register(KernelCollector(hk, pools=["gpu", "room-*"]))``. Needs ``pip install 'holdkit[prometheus]'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .. import AsyncKernel, Kernel
from ..errors import MissingExtra
from ..kernel.measures import Measure, allowed_pools, kernel_measures, read_pool_measures

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise MissingExtra("prometheus", missing) from missing

_FAMILIES: Final = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


def family_of(measure: Measure) -> Metric:
    """Convert a measure to a metric family of `prometheus_client`."""
    if measure.kind == "histogram":
        return HistogramMetricFamily(measure.name, measure.says, buckets=list(measure.buckets), sum_value=measure.sum)
    family: Metric = _FAMILIES[measure.kind](measure.name, measure.says, labels=measure.labels)
    for labels, value in measure.values:
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # both have it, `Metric` does not
    return family


class KernelCollector(Collector):
    """The counters of a kernel (`hk.admin.stats()`), and gauges of the pools that an allow-list names.

    `pools`: ids, or beginnings of ids before a `*`; of a tenant `TENANT::POOL`. Their ids become labels, so name only what is
    bounded and no secret; at most 500 pools are shown. They are read at each scrape, on the thread that scrapes. The kernel's own
    tenant does not matter: what a process counts, it counts for all. A second kernel needs a registry of its own.
    """

    def __init__(self, hk: Kernel | AsyncKernel, *, pools: Iterable[str] = ()) -> None:
        self._executor, self._allowed = hk._executor, allowed_pools(pools)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, in a stable order; none of a closed kernel."""
        executor = self._executor
        if executor.closed:
            return
        yield from map(family_of, kernel_measures(executor.stats))
        yield from map(family_of, read_pool_measures(executor, self._allowed))


__all__ = ["KernelCollector", "family_of"]
