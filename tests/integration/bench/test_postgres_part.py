"""The PostgreSQL part of the bench runs, counts what it claims to count, and fails when a run is not what it says."""

from __future__ import annotations

import io
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from bench.by_hand_postgres import LimitRun, limit
from bench.postgres import part
from bench.postgres.scenarios import CALLERS, POOLS, Length, Scenario, scenarios
from bench.postgres.stores import VARIANTS, Variant, expect_whole, template
from bench.postgres.table import by_scenario, figures, goals, print_measured
from bench.rows import BenchFailed
from holdkit.testing.postgres import PostgresServer, ServerAddress
from holdkit.testing.postgres.shared import memory


def measure_long_enough(wanted: list[Scenario], steps: list[str]) -> part.Measured:
    """A slow machine may do nothing that counts in half a second."""
    for seconds in (0.5, 5.0, 50.0):
        steps.clear()
        try:
            return part.measure(memory() or Path(tempfile.gettempdir()), wanted, 1, Length(0.05, seconds), steps.append)
        except BenchFailed as failed:
            if "in the whole run" not in str(failed):
                raise
    raise AssertionError("nothing was measured")


@pytest.mark.slow
def test_every_kind_of_caller_on_every_side(postgres_binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "LIMIT_BATCHES", {1: 3, 8: 2})
    wanted = [Scenario("threads", 1, 1), Scenario("tasks", 4, 3), Scenario("processes", 8, 3)]
    steps: list[str] = []
    measured = measure_long_enough(wanted, steps)
    assert len(steps) == len(measured.runs) + len(measured.limits) == 3 * len(measured.variants) + 2
    assert list(by_scenario(measured)) == [scenario.name for scenario in wanted]
    assert all(run.holds > 1 and 0 < run.p50 <= run.p99 for run in measured.runs)
    assert len(figures(measured)) == (3 if "ours" in measured.variants else 0)
    said = io.StringIO()
    print_measured(Console(file=said, width=200), measured)
    assert "8 threads in 4 processes, 3 pools" in said.getvalue()


def test_a_slower_sync_is_one_that_the_server_takes() -> None:
    assert part.slower(0) == {}
    with PostgresServer(part.slower(1.5)) as server, closing(server.connect()) as connection:
        row = connection.execute(
            "select current_setting('commit_delay'), current_setting('commit_siblings')"
        ).fetchone()
    assert row == ("1500", "0")


def test_a_run_that_lost_a_hold_fails(postgres_server: ServerAddress) -> None:
    dsn = postgres_server.create_database("bench_lost", template(postgres_server, "one statement", 1))
    try:
        limit(dsn, "pool-0", 2, 2)
        expect_whole("row lock", dsn, 4)
        with pytest.raises(BenchFailed):
            expect_whole("row lock", dsn, 5)
    finally:
        postgres_server.drop_database("bench_lost")


def test_a_lone_caller_is_not_spread_over_processes() -> None:
    names = [scenario.name for scenario in scenarios(CALLERS, POOLS)]
    assert len(names) == len(set(names)) == 22
    assert "1 thread, 1,000 pools" in names
    assert not any(name.startswith("1 ") and "processes" in name for name in names)


def test_what_was_promised_is_held_against_the_runs() -> None:
    def ran(scenario: str, variant: Variant, holds: int, p99: float) -> part.PostgresRun:
        return part.PostgresRun(scenario, variant, holds, 1.0, p99 / 2, p99, 0)

    runs = [
        ran("32 tasks, 1 pool", "serializable", 100, 0.4),
        ran("32 tasks, 1 pool", "one statement", 1_000, 0.02),
        ran("32 tasks, 1 pool", "ours", 8_100, 0.004),
        ran("256 tasks, 1 pool", "ours", 20_000, 0.01),
        ran("32 threads, 1 pool", "ours", 5_000, 0.01),
        ran("32 threads in 4 processes, 1 pool", "ours", 4_000, 0.01),
    ]
    found = goals(part.Measured("18", VARIANTS, runs, [LimitRun(256, 50_000, 1.0)]))
    assert [(figure.ratio, figure.reached) for figure in found] == [
        (81.0, True),
        (pytest.approx(0.2), True),
        (0.4, False),
        (0.8, False),
    ]
    assert goals(part.Measured("18", VARIANTS, [], [])) == []
