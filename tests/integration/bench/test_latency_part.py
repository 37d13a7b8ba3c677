"""The open loop: which rates, who is asked, and what is compared."""

from __future__ import annotations

from pathlib import Path

from bench.model import Prediction
from bench.plots import plot_latency, plot_model, plot_rates, plot_targets
from bench.postgres.callers import Calls
from bench.postgres.latency import Latencies, cell, figures, kept_up, rates_of
from bench.postgres.part import Measured
from bench.postgres.runs import PostgresRun, Used, summary
from bench.postgres.scenarios import Interval, Scenario
from bench.postgres.stores import Variant

from .test_targets import judged


def ran(variant: Variant, rate: float, p99: float, *, in_time: bool = True) -> PostgresRun:
    return PostgresRun("32 tasks, 1 pool", variant, 100, 1.0, p99 / 2, p99, 0, p99 * 2, rate=rate, in_time=in_time)


def test_all_meet_shares_of_what_each_can_do() -> None:
    assert rates_of({"one statement": 1_000.0, "one each": 7.0, "ours": 4_000.0}) == [
        250, 500, 750, 900, 1_000, 2_000, 3_000, 3_600, 4_000,
    ]  # fmt: skip


def test_a_variant_that_is_overloaded_in_most_rounds_is_not_asked_more() -> None:
    runs = [ran("ours", 100, 0.01), ran("one each", 100, 0.1, in_time=False), ran("one each", 100, 0.1)]
    assert kept_up(runs, "ours")
    assert kept_up(runs, "one each"), "in one of two rounds only"
    assert not kept_up([*runs, ran("one each", 200, 1.0, in_time=False)], "one each")
    assert kept_up([], "redis")


def test_only_rates_that_both_answer_are_compared(tmp_path: Path) -> None:
    runs = [ran("one statement", 100, 0.01), ran("ours", 100, 0.002)]
    runs += [ran("one statement", 200, 0.5, in_time=False), ran("ours", 200, 0.003)]
    measured = Latencies("18", {"one statement": 200.0, "ours": 1_000.0}, runs)
    (found,) = figures(measured)
    assert found.name == "p99 at 100 arrivals/s, beside one statement"
    assert round(found.ratio or 0, 3) == 0.2
    assert cell(runs[2:3]) == "250.0 / 500.0 / 1000.0, overloaded in 1 of 1"
    plot_latency(tmp_path / "latency.png", measured)
    plot_targets(tmp_path / "targets.png", judged())
    plot_rates(tmp_path / "rates.png", Measured("18", ("one statement", "ours"), runs, []))
    plot_model(tmp_path / "model.png", [Prediction("32 tasks, 1 pool", 32.0, 900.0, 1_000.0)])
    sizes = [(tmp_path / f"{name}.png").stat().st_size for name in ("latency", "targets", "rates", "model")]
    assert all(size > 5_000 for size in sizes), sizes


def test_latencies_of_an_open_loop_are_those_of_all_that_were_scheduled() -> None:
    interval = Interval(0.0, 1.0, 2.0)
    early, answered, late = (1.5, 0.9), (1.9, 0.5), (4.0, 2.5)
    calls = Calls([early] + [answered] * 10 + [late] * 2, 0)
    used = [Used(0.0, 0.0, 0), Used(1.1, 2.2, 5_500)]
    found = summary(Scenario("tasks", 32), "ours", interval, calls, used, 7.0, rate=12.0)
    assert (found.holds, found.p50, found.in_time) == (11, 0.5, True)
    assert found.p99 > 2.4, "those that were answered after the end count"
    assert (round(found.cpu, 6), round(found.server_cpu, 6), found.wal, found.stored) == (0.1, 0.2, 500.0, 7.0)
    closed = summary(Scenario("tasks", 32), "ours", interval, calls, used, 7.0)
    assert (closed.holds, closed.p999 > 0.89) == (11, True), "those that ended in time, whenever they began"
    overloaded = summary(
        Scenario("tasks", 32), "ours", interval, Calls([answered] * 10 + [late] * 2, 0), used, 7.0, 12.0
    )
    assert not overloaded.in_time
