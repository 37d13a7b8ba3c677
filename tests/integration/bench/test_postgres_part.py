"""The PostgreSQL part of the bench runs, counts what it claims to count, and fails when a run is not what it says."""

from __future__ import annotations

import asyncio
import io
import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter

import pytest
from rich.console import Console

import holdkit
from bench.by_hand_postgres import limit
from bench.by_hand_redis import PROGRAM
from bench.postgres import part, runs
from bench.postgres.callers import Calls, run_arrivals, schedule
from bench.postgres.scenarios import CALLERS, WIDE, Interval, Length, Scenario, scenarios
from bench.postgres.stores import Variant, expect_whole
from bench.postgres.table import by_scenario, figures, print_measured
from bench.postgres.worker import note_batches
from bench.revision import Revision
from bench.rows import BenchFailed
from bench.usage import cpu_time, tree_cpu_time
from holdkit.engines.port import GuardStats
from holdkit.kernel.group_commit import Stats
from holdkit.testing.postgres import PostgresServer, ServerAddress
from holdkit.testing.postgres.shared import memory


@pytest.mark.slow
def test_every_kind_of_caller_on_every_side(postgres_binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "LIMIT_BATCHES", {1: 3, 8: 2})
    wanted = [
        Scenario("threads", 1),
        Scenario("tasks", 8, 3, "lifecycle"),
        Scenario("processes", 8, 3),
        Scenario("threads", 1, work="tx"),
    ]
    steps: list[str] = []
    place = memory() or Path(tempfile.gettempdir())
    measured = part.measure(place, wanted, 1, Length(0.05, 0.2), steps.append)
    assert len(steps) == len(measured.runs) + len(measured.limits)
    found = by_scenario(measured)
    assert list(found) == [scenario.name for scenario in wanted]
    redis = [] if shutil.which(PROGRAM) is None else ["redis"]
    assert [list(variants) for variants in found.values()] == [
        ["serializable", "row lock", "one statement", *redis, "ordinary", "ours"],
        ["one statement", "one each", *redis, "ordinary", "ours"],
        ["serializable", "row lock", "one statement", "one each", *redis, "ordinary", "ours"],
        ["one statement", "ours"],
    ]
    assert all(run.holds > 1 and 0 < run.p50 <= run.p99 <= run.p999 for run in measured.runs)
    assert all(run.wal > 500 and run.stored > 100 for run in measured.runs if run.variant != "redis")
    ours = [run for run in measured.runs if run.variant == "ours"]
    assert all(run.batch >= 1 for run in ours if "tx=" not in run.scenario)
    assert {run.guarded for run in measured.runs if run.variant == "ordinary"} == {0.0}
    assert {run.batch for run in measured.runs if run.variant not in ("ordinary", "ours")} == {0.0}
    assert len(figures(measured)) == 4 + 2 + 3 + 3 * len(redis)
    said = io.StringIO()
    print_measured(Console(file=said, width=300), measured)
    assert "8 threads in 4 processes, 3 pools" in said.getvalue()


def test_another_revision_is_compared_with_this_one_alone() -> None:
    scenarios_ = [Scenario("threads", 1), Scenario("tasks", 8, 3), Scenario("threads", 1, work="tx")]
    other = Revision("old", Path("elsewhere"), sys.executable)
    assert [part.variants_of(scenario, other, redis=True) for scenario in scenarios_] == [["before", "ours"]] * 3
    sides: list[tuple[Variant, float]] = [("before", 1.0), ("ours", 2.0)]
    measured = part.Measured("15", ("before", "ours"), [
        runs.PostgresRun(scenario.name, variant, 100, seconds, 0.001, 0.002, 0)
        for scenario in scenarios_ for variant, seconds in sides
    ], [])  # fmt: skip
    compared = figures(measured)
    assert [figure.against for figure in compared] == ["the other revision"] * 3
    assert [figure.worse for figure in compared] == [False, True, False], (
        "a lone caller's figure is the latency, the same here"
    )
    said = io.StringIO()
    print_measured(Console(file=said, width=300), measured)
    assert "0.50×" in said.getvalue()


def test_what_a_kernel_says_about_its_batches() -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("a", 5)
        calls = note_batches(Calls([], 0), hk.admin.stats(), "hold")
        assert (calls.batch, calls.guarded) == (1.0, 0.0)

    stats = Stats(batches=2, commands=10, largest=5, guards=GuardStats(passed=9))
    calls = note_batches(Calls([(0.0, 0.0)] * 10, 0), stats, "hold")
    assert (calls.batch, calls.guarded) == (5.0, 0.9)


def test_arrivals_come_when_the_schedule_says_and_count_from_then() -> None:
    """A store that answers nothing for a while makes the closed loop ask once; the schedule goes on, and so do the latencies."""
    interval = Interval(begin := perf_counter() + 0.01, begin, begin + 0.3)

    class Slow:
        """Answers all calls together, at the end."""

        async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> None:
            await asyncio.sleep(max(0.0, interval.until - perf_counter()))

        async def confirm(self, held: object, /, *, op: str) -> None: ...
        async def close(self) -> None: ...

    calls = asyncio.run(run_arrivals(Slow(), 1_000, ["a"], interval, "seed"))
    took = [took for _, took in calls.done]
    planned = list(schedule(random.Random("seed"), 1_000, interval))
    assert 200 < len(planned) == len(took) < 400
    assert sum(took) / len(took) >= 0.1, "each waits for the rest of the interval: half of it, on average"
    assert all(end - took in planned or min(abs(end - took - at) for at in planned) < 1e-6 for end, took in calls.done)


def test_a_slower_sync_is_one_that_the_server_takes() -> None:
    assert runs.slower(0) == {}
    with PostgresServer(runs.slower(1.5)) as server, closing(server.connect()) as connection:
        row = connection.execute(
            "select current_setting('commit_delay'), current_setting('commit_siblings')"
        ).fetchone()
    assert row == ("1500", "0")


def test_a_run_that_lost_a_hold_fails(postgres_server: ServerAddress) -> None:
    dsn = postgres_server.create_database("bench_lost", postgres_server.template("bench_by_hand", part.prepare_by_hand))
    try:
        limit(dsn, "pool-0", 2, 2)
        expect_whole("row lock", dsn, 4)
        with pytest.raises(BenchFailed):
            expect_whole("row lock", dsn, 5)
    finally:
        postgres_server.drop_database("bench_lost")


def test_a_lone_caller_is_not_spread_over_processes() -> None:
    names = [scenario.name for scenario in scenarios(CALLERS, WIDE)]
    assert len(names) == len(set(names)) == 11 + 12 + 5
    assert "256 tasks, 1,000 pools" in names
    assert not any(name.startswith("1 ") and "processes" in name for name in names)


def test_cpu_time_of_a_tree_includes_children_that_have_ended() -> None:
    program = "import subprocess, sys; spin = 'sum(range(20_000_000))'; "
    program += "subprocess.run([sys.executable, '-c', spin]); exec(spin); print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        alone = cpu_time(process.pid)
        if alone is None:
            pytest.skip("this system does not tell the CPU time of processes")
        assert 0.02 <= alone < tree_cpu_time(process.pid) - 0.02
        process.communicate(b"\n")


def test_a_run_with_too_few_holds_is_repeated_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def run(self: object, scenario: Scenario, variant: str, length: Length, rate: object) -> str:
        asked.append(length.measured)
        if len(asked) < enough:
            raise runs.TooFew("one hold")
        return "measured"

    monkeypatch.setattr(runs.Runner, "_run", run)
    runner = runs.Runner.__new__(runs.Runner)
    enough = 3
    assert str(runner.run(Scenario("tasks", 1), "ours", Length(0.1, 1.0))) == "measured"
    assert asked == [1.0, 4.0, 16.0]
    asked, enough = [], 4
    with pytest.raises(BenchFailed, match="ours, 1 task, 1 pool: hardly a hold in 16 seconds"):
        runner.run(Scenario("tasks", 1), "ours", Length(0.1, 1.0))
