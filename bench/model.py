"""A model of the throughput on PostgreSQL: service times in, holds per second out.

Theory of operation
-------------------

A batch of b holds costs its process ``batch + hold * b`` of processor time in the engine, and the server ``served_batch +
served_hold * b`` plus ``commit``, the time of a sync; engine and server take turns, because the server's clock and rows
decide. Every call costs its process ``call`` on top: the caller's own code, the way into the queue and back out of it. The
service times are measured with `engine.apply` alone, one batch after the other, except for ``call`` and ``call_batch``: the processor
time of runs with 1 and with 32 callers that the engine's share does not explain. No service time is fitted to a measured rate; the
form of the cycle was chosen with such rates in view.

*How many holds share a batch* is the fixed point of how many wait when one is taken. Tasks that are fewer than the kernel's `SPLIT` all
ask again before the next batch is taken: every batch has all of them, and nothing overlaps; so do threads up to `GATHERED`, for which
a leader waits. More of them form two halves: one is written while the other gets its answers and asks again, so that n callers make
batches of n / 2. Of several processes each does this by itself.

*How long a cycle is.* Tasks in two halves: the engine's time, then the longer of the server's time and the own code of the other half, which
the event loop runs while it waits. Threads: the sum of all, because the thread that has the server's answer waits until the
others let go of the interpreter's lock. Several processes: their batches take turns at the pool's lock, which the ordinary way
keeps for the engine's and the server's time, and the guarded batch for the server's alone; each process has a cycle of its own
besides, and all share the processors. Processor time is stretched as in a queue with as many servers as there are processors,
M/M/c, by the load that the result itself implies: a second fixed point.

*Crowding.* The same work takes more processor time while the other processors are busy too: they share caches, memory and often a core.
``crowded`` is by how much, with all of them busy; measured with the same batches beside neighbours. In between it grows with
the number of other processors that are busy on average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from .postgres.scenarios import PROCESSES, Scenario

SPLIT: Final = 128
"""As in the kernel: with fewer tasks than that, a batch has all of them."""
GATHERED: Final = 32
"""The same for threads, about: with more of them, a leader's patience ends before all have come."""
WITHIN: Final = 0.15
"""The share by which a prediction may differ from the measured rate."""
CITUS: Final = 0.75
"""The rate of a Citus cluster compared with plain PostgreSQL on the same cores, as it was measured once: 0.7 to 0.8."""
BUSY: Final = 0.7
"""The share of its time that a process or a processor may be busy before calls wait for long."""
TURN: Final = 0.05
"""Seconds in which a process of a cluster writes each of its lanes once: most of what a caller waits."""


class Sample(Struct, frozen=True):
    """Batches of one size, by `engine.apply`: seconds per batch."""

    size: int
    wall: float
    cpu: float
    """Of the process."""
    server_cpu: float


class Service(Struct, frozen=True):
    """The service times, in seconds."""

    batch: float
    hold: float
    served_batch: float
    served_hold: float
    commit: float
    call: dict[str, float]
    """Per call, by kind of caller."""
    call_batch: dict[str, float]
    """Per batch, on top of the engine's: waking the leader, a turn of the event loop."""
    server_cpu_batch: float
    server_cpu_hold: float
    processors: int
    locked: float = 1.0
    """The share of the engine's time that falls between lock and commit: 1 in the ordinary way, 0 in a guarded batch."""
    whole_threads: int = 0
    """Up to so many threads are all in every batch: none, before leaders waited for them."""
    crowded: float = 1.0
    """The processor time of a batch while all processors are busy, relative to that of a batch alone."""


class Prediction(Struct, frozen=True):
    """The outcome of the model for one scenario."""

    scenario: str
    batch: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative to the measured rate."""
        return self.predicted / self.measured - 1


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope that differ least from the points, each relative to its own size; neither is negative."""
    weights = [1 / max(value, 1e-9) ** 2 for _, value in points]
    whole = sum(weights)
    mean_x = sum(weight * x for weight, (x, _) in zip(weights, points, strict=True)) / whole
    mean_y = sum(weight * y for weight, (_, y) in zip(weights, points, strict=True)) / whole
    spread = sum(weight * (x - mean_x) ** 2 for weight, (x, _) in zip(weights, points, strict=True))
    common = sum(weight * (x - mean_x) * (y - mean_y) for weight, (x, y) in zip(weights, points, strict=True))
    slope = max(0.0, common / spread)
    return max(0.0, mean_y - slope * mean_x), slope


def service_of(
    samples: Sequence[Sample],
    commit: float,
    calls: dict[str, list[tuple[float, float]]],
    processors: int,
    locked: float = 1.0,
) -> Service:
    """The service times; `calls`: by kind of caller, batch size and processor time per batch of runs with few and with many."""
    batch, hold = line([(one.size, one.cpu) for one in samples])
    waited, served_hold = line([(one.size, one.wall - one.cpu) for one in samples])
    server_cpu_batch, server_cpu_hold = line([(one.size, one.server_cpu) for one in samples])
    whole = {kind: line(points) for kind, points in calls.items()}
    return Service(
        batch, hold, max(0.0, waited - commit), served_hold, commit,
        {kind: max(0.0, per_hold - hold) for kind, (_, per_hold) in whole.items()},
        {kind: max(0.0, per_batch - batch) for kind, (per_batch, _) in whole.items()},
        server_cpu_batch, server_cpu_hold, processors, locked,
    )  # fmt: skip


def predict(service: Service, scenario: Scenario) -> tuple[float, float]:
    """The batch size and the holds per second of a scenario with one pool."""
    each = scenario.callers / scenario.processes
    tasks = scenario.kind == "tasks"
    call = service.call["tasks" if tasks else "threads"]
    size = each if each < max(2, SPLIT if tasks else 1 + service.whole_threads) else each / 2
    if scenario.processes > 1:
        return size, shared(service, scenario.processes, size, call)
    engine = engine_time(service, size) + service.call_batch["tasks" if tasks else "threads"]
    served = served_time(service, size)

    def rate_at(_: float, crowd: float) -> float:
        if tasks and size < each:
            return size / (crowd * engine + max(crowd * served + service.commit, crowd * call * size))
        return size / (crowd * (engine + served + call * size) + service.commit)

    return size, settled(service, cpu_per_hold(service, size, call, "tasks" if tasks else "threads"), rate_at)


def settled(service: Service, per_hold: float, rate_at: Callable[[float, float], float]) -> float:
    """The rate that the load which it implies allows: `rate_at` is told the load of the processors, and by how much crowding stretches
    their time."""
    rate, crowd = 0.0, 1.0
    for _ in range(200):  # each step goes half of the way, so that it settles
        busy = rate * per_hold * crowd
        load = min(0.95, busy / service.processors)
        others = min(1.0, max(0.0, busy - 1) / max(1, service.processors - 1))
        crowd = 1 + (service.crowded - 1) * others
        rate += (rate_at(load, crowd) - rate) / 2
    return min(rate, service.processors / (per_hold * crowd))


def engine_time(service: Service, size: float) -> float:
    """Seconds of the process per batch, without its callers' own."""
    return service.batch + service.hold * size


def served_time(service: Service, size: float) -> float:
    """Seconds of the server per batch, without the sync."""
    return service.served_batch + service.served_hold * size


def cpu_per_hold(service: Service, size: float, call: float, kind: str) -> float:
    """Processor time of a process and of the server together."""
    server = service.server_cpu_batch + service.server_cpu_hold * size
    return call + (service.call_batch[kind] + engine_time(service, size) + server) / size


def shared(service: Service, processes: int, size: float, call: float) -> float:
    """Several processes that take turns at one lock, on processors that they share: the rate that its own load allows."""
    engine, served = engine_time(service, size) + service.call_batch["threads"], served_time(service, size)

    def rate_at(load: float, crowd: float) -> float:
        stretch = crowd / (1 - load**service.processors)
        under_lock = (service.locked * engine + served) * stretch + service.commit
        own_cycle = (engine + served + call * size) * stretch + service.commit
        return min(size / under_lock, processes * size / own_cycle)

    return settled(service, cpu_per_hold(service, size, call, "threads"), rate_at)


class Cluster(Struct, frozen=True):
    """What a rate over very many pools asks of a Citus cluster."""

    per_second: float
    size: float
    """Holds per transaction, of one lane."""
    processes: float
    process_cores: float
    worker_cores: float
    commits: float
    """Per second, on all workers together."""
    wal: float
    """Bytes per second, on all workers together."""


def cluster(service: Service, per_second: float, lanes: int, wal_per_hold: float, turn: float = TURN) -> Cluster:
    """Every process serves lanes of its own, so that calls for one lane meet in one queue; it writes one transaction per lane, one
    after the other, and comes back to the first after `turn` seconds. What has arrived for a lane meanwhile is its next transaction."""
    size = max(1.0, per_second * turn / lanes)
    call = service.call["tasks"] * size + service.call_batch["tasks"]
    own = engine_time(service, size) + call
    transaction = own + served_time(service, size) / CITUS + service.commit
    server = (service.server_cpu_batch / size + service.server_cpu_hold) / CITUS
    commits = per_second / size
    return Cluster(
        per_second, size, commits * transaction / BUSY, commits * own / BUSY, per_second * server / BUSY, commits,
        per_second * wal_per_hold,
    )  # fmt: skip


def compare(service: Service, measured: dict[Scenario, list[float]]) -> list[Prediction]:
    """Each scenario: what the model says, and what was measured."""
    found = []
    for scenario, rates in measured.items():
        size, rate = predict(service, scenario)
        found.append(Prediction(scenario.name, size, rate, median(rates)))
    return found


SCENARIOS: Final = (
    *(Scenario("tasks", count) for count in (1, 8, 32, 256)),
    *(Scenario("threads", count) for count in (1, 8, 32, 256)),
    Scenario("processes", 8 * PROCESSES),
)
CALIBRATED: Final = {
    "tasks": (Scenario("tasks", 1), Scenario("tasks", 32)),
    "threads": (Scenario("threads", 1), Scenario("threads", 32)),
}
"""The runs whose processor time tells what a call costs."""
