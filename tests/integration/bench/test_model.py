"""The model on service times and rates of a quiet machine, and its pieces."""

from __future__ import annotations

import pytest
from msgspec import structs

from bench.model import SCENARIOS, WITHIN, Sample, Service, cluster, compare, line, predict, service_of
from bench.postgres.scenarios import Scenario

US = 1e-6
QUIET = Service(
    batch=200 * US, hold=21 * US, served_batch=560 * US, served_hold=24 * US, commit=100 * US,
    call={"tasks": 25 * US, "threads": 52 * US}, call_batch={"tasks": 250 * US, "threads": 0.0}, server_cpu_batch=450 * US, server_cpu_hold=24 * US, processors=2,
)  # fmt: skip
"""A machine of two processors, in the ordinary way, before there were guarded batches: rounded from what was measured there with
batches of `engine.apply` and from the processor time of runs with 1 and 32 callers."""
MEASURED = {
    "1 task, 1 pool": 824,
    "1 thread, 1 pool": 1_007,
    "32 tasks, 1 pool": 11_120,
    "256 tasks, 1 pool": 18_837,
    "32 threads, 1 pool": 7_161,
    "256 threads, 1 pool": 9_074,
    "32 threads in 4 processes, 1 pool": 3_526,
}
"""Holds per second in the same runs."""


def test_it_agrees_with_a_quiet_machine() -> None:
    runs = {one: [float(MEASURED[one.name])] for one in SCENARIOS if one.name in MEASURED}
    assert len(runs) == len(MEASURED)
    errors = {one.scenario: one.error for one in compare(QUIET, runs)}
    assert all(abs(error) <= WITHIN for error in errors.values()), errors


def test_a_line_goes_through_its_points() -> None:
    assert line([(1, 3.0), (10, 21.0), (100, 201.0)]) == pytest.approx((1.0, 2.0))
    assert line([(1, 5.0), (10, 5.0)]) == pytest.approx((5.0, 0.0))
    assert line([(1, 5.0), (10, 1.0)])[1] == 0.0, "a cost does not fall with the size"


def test_service_times_are_split_between_process_server_and_call() -> None:
    samples = [
        Sample(size, wall=US * (200 + 20 * size + 500 + 30 * size + 100), cpu=US * (200 + 20 * size), server_cpu=US * (400 + 30 * size))
        for size in (1, 16, 256)
    ]  # fmt: skip
    found = service_of(
        samples, 100 * US, {"tasks": [(1, 290 * US), (21, 1_090 * US)], "threads": [(1, 10 * US), (4, 13 * US)]}, 2
    )
    assert (found.batch, found.hold) == pytest.approx((200 * US, 20 * US))
    assert (found.served_batch, found.served_hold) == pytest.approx((500 * US, 30 * US))
    assert (found.server_cpu_batch, found.server_cpu_hold) == pytest.approx((400 * US, 30 * US))
    assert found.call == pytest.approx({"tasks": 20 * US, "threads": 0.0})
    assert found.call_batch == pytest.approx({"tasks": 50 * US, "threads": 0.0})


def test_batches_of_tasks_have_all_of_them_until_they_split() -> None:
    assert [predict(QUIET, Scenario("tasks", count))[0] for count in (1, 8, 32, 127, 128, 256)] == [
        1, 8, 32, 127, 64, 128,
    ]  # fmt: skip
    assert predict(QUIET, Scenario("threads", 1))[0] == 1
    assert predict(QUIET, Scenario("processes", 32))[0] == 4
    whole = structs.replace(QUIET, whole_threads=32)
    assert [predict(whole, Scenario("threads", count))[0] for count in (1, 2, 32, 64)] == [1, 2, 32, 32]
    assert predict(whole, Scenario("processes", 32))[0] == 8


def test_a_lock_that_is_kept_for_less_serves_more_processes() -> None:
    def rate(locked: float) -> float:
        return predict(structs.replace(QUIET, locked=locked), Scenario("processes", 32))[1]

    assert rate(0.0) > 1.15 * rate(1.0)
    busy = QUIET.processors / (QUIET.call["threads"] + (QUIET.batch + QUIET.server_cpu_batch) / 4 + QUIET.hold)
    assert rate(0.0) < busy, "never more than the processors give"


def test_busy_processors_stretch_what_overlaps() -> None:
    def slowed(scenario: Scenario) -> float:
        alone = structs.replace(QUIET, locked=0.0)
        return predict(structs.replace(alone, crowded=1.4), scenario)[1] / predict(alone, scenario)[1]

    assert slowed(Scenario("tasks", 1)) == 1, "one after the other: the other processor is idle"
    assert all(0.7 < slowed(one) < 1 for one in (Scenario("processes", 32), Scenario("tasks", 256)))


def test_a_cluster_grows_with_the_rate() -> None:
    small, large = (cluster(QUIET, rate, 1_024, 2_000.0) for rate in (10_000.0, 1_000_000.0))
    assert large.wal == 2e9
    assert (small.size, round(large.size, 1)) == (1.0, 48.8)
    assert 5 * small.processes < large.processes < 50 * small.processes, "larger transactions cost less per hold"
    assert large.commits == pytest.approx(1_000_000 / large.size)
    lanes = 1_024 / large.processes
    transaction = (200 + 250 + 100 + 560 / 0.75 + (21 + 25 + 24 / 0.75) * large.size) * US
    assert lanes * transaction == pytest.approx(0.05 * 0.7), (
        "each process writes its lanes once in its turn, with time to spare"
    )
    assert large.process_cores < large.processes
