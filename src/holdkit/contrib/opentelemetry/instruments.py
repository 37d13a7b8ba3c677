"""Instruments: plain counters, read when OpenTelemetry asks. Nothing is counted for its sake, so a call costs what it did before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from threading import Lock
from typing import Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter

from ... import AsyncKernel, Kernel
from ...kernel.measures import Measure, allowed_pools, kernel_measures, read_pool_measures

Source: TypeAlias = Callable[[], Iterable[Measure]]
"""Gives the measures of this moment."""
FRESH: Final = 0.5
"""Seconds for which what was read of pools is good enough. A collection takes less, and two are further apart."""
_PREFIX: Final = "holdkit_"


def measure(
    hk: Kernel | AsyncKernel, *, pools: Iterable[str] = (), meter_provider: MeterProvider | None = None
) -> None:
    """Report the counters of a kernel (`hk.admin.stats()`) as observable instruments: `holdkit.queue_depth`, `holdkit.batch_commands.count`,
    …; by default to the global provider. Call it once per provider, which ignores the instruments of a second kernel; a closed kernel
    reports nothing.

    `pools` is an allow-list, as `KernelCollector` of `holdkit.contrib.prometheus` takes it: these pools have gauges
    (`holdkit.pool_available`, …), with their ids as attributes. They are read once for each collection, on the thread that collects.
    """
    executor, allowed = hk._executor, allowed_pools(pools)
    measure_source(lambda: () if executor.closed else kernel_measures(executor.stats), meter_provider)
    recent = Recent(lambda: read_pool_measures(executor, allowed))
    measure_source(lambda: () if executor.closed else recent(), meter_provider)


class Recent:
    """The last measures, kept for `FRESH` seconds: OpenTelemetry asks for each instrument separately, and one read answers them all."""

    def __init__(self, read: Callable[[], list[Measure]]) -> None:
        self._read = read
        self._lock = Lock()
        self._last: list[Measure] = []
        self._until = 0.0

    def __call__(self) -> list[Measure]:
        """Return the measures that were read last; read them again if they are older than `FRESH` seconds."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._last = self._read()
                self._until = time.monotonic() + FRESH
            return self._last


def measure_source(source: Source, meter_provider: MeterProvider | None = None) -> None:
    """Report everything that a source measures. Create an instrument for each measure that it has now."""
    meter = get_meter("holdkit", version("holdkit"), meter_provider)
    for found in source():
        _instrument(meter, source, found)


def _instrument(meter: Meter, source: Source, found: Measure) -> None:
    name = f"holdkit.{found.name.removeprefix(_PREFIX)}"
    if found.kind == "gauge":
        meter.create_observable_gauge(name, [_observing(source, found.name, _values)], description=found.says)
    elif found.kind == "counter":
        meter.create_observable_counter(name, [_observing(source, found.name, _values)], description=found.says)
    else:  # OpenTelemetry has no observable histogram
        meter.create_observable_counter(
            f"{name}.count",
            [_observing(source, found.name, lambda one: [Observation(one.count)])],
            description=found.says,
        )
        meter.create_observable_counter(
            f"{name}.sum", [_observing(source, found.name, lambda one: [Observation(one.sum)])], description=found.says
        )


def _values(measured: Measure) -> list[Observation]:
    return [Observation(value, dict(zip(measured.labels, labels, strict=True))) for labels, value in measured.values]


def _observing(
    source: Source, name: str, read: Callable[[Measure], list[Observation]]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterator[Observation]:
        for measured in source():
            if measured.name == name:
                yield from read(measured)

    return observe
