"""The table of targets compares what it says, and judges by the median of the rounds."""

from __future__ import annotations

from bench import targets
from bench.by_hand_postgres import LimitRun
from bench.figures import Figure
from bench.postgres.runs import PostgresRun
from bench.postgres.scenarios import Scenario
from bench.postgres.stores import Variant

ROUNDS = 3
OTHERS: tuple[Variant, ...] = ("one each", "ordinary")


def ran(scenario: Scenario, variant: Variant, holds: int) -> PostgresRun:
    return PostgresRun(
        scenario.name, variant, holds, 1.0, 1.0 / holds, 2.0 / holds, 0, cpu=1e-6 * holds, server_cpu=2e-6 * holds
    )


def measured(ours: int, against: str | None) -> targets.Measured:
    runs = {
        disk: [
            ran(scenario, variant, ours if variant == "ours" else 1_000)
            for _ in range(ROUNDS)
            for scenario, variants in targets.wanted(disk, against=against is not None)
            for variant in variants
        ]
        for disk in targets.DISKS
    }
    sides: list[Variant] = ["before", "ours"]
    sqlite = [ran(targets.SQLITE, side, ours if side == "ours" else 1_000) for side in sides for _ in range(ROUNDS)]
    return targets.Measured(against, runs, [LimitRun(256, 10_000, 1.0)] * ROUNDS, sqlite)


def judged() -> list[Figure]:
    """Some reached, some not."""
    return targets.figures(measured(ours=5_500, against=None))


def test_every_target_has_a_verdict() -> None:
    found = judged()
    assert [(one.name, round(one.ratio or 0, 2), one.reached) for one in found if one.group == "targets"] == [
        ("32 tasks, beside by hand", 5.5, False),
        ("32 tasks, beside one connection each", 5.5, False),
        ("32 tasks with slower syncs, beside by hand", 5.5, False),
        ("32 threads, beside by hand", 5.5, True),
        ("4 processes of 8 threads, beside by hand", 5.5, True),
        ("p99 of 32 tasks, beside one connection each", 0.18, True),
        ("a lone sync caller, beside by hand", 0.18, True),
        ("hold and confirm, 32 tasks, beside by hand", 5.5, True),
        ("tx=, beside the same by hand", 0.18, True),
        ("256 tasks, beside the server's limit", 0.55, True),
    ]


def test_another_revision_is_compared_in_every_scenario() -> None:
    found = targets.figures(measured(ours=2_000, against="HEAD"))
    beside = [one for one in found if one.group == "before and after"]
    assert len(beside) == len({one.name for one in beside}) == 8
    assert all(one.name.endswith("beside HEAD") for one in beside)
    guards = [one for one in found if one.group == "guarded batches"]
    assert [round(one.ratio or 0, 1) for one in guards] == [2.0, 2.0, 0.5, 2.0], (
        "rates, and the latency of a lone caller"
    )
    assert "CPU 1000 → 2000 µs, server 2000 → 4000 µs" in beside[0].note
    (sqlite,) = [one for one in found if one.name.startswith("SQLite")]
    assert (sqlite.ratio, sqlite.against, sqlite.worse) == (2.0, "HEAD", False)


def test_a_disturbed_round_does_not_decide() -> None:
    scenario = targets.TARGETS[0].scenario
    whole = measured(ours=7_000, against=None)
    runs = [one for one in whole.runs["as it is"] if one.scenario != scenario.name]
    by_hand, ours = [1_000, 4_000, 1_000], [7_000, 7_000, 6_500]
    runs += [ran(scenario, "one statement", holds) for holds in by_hand]
    runs += [ran(scenario, side, 100) for side in OTHERS for _ in range(ROUNDS)] + [
        ran(scenario, "ours", holds) for holds in ours
    ]
    whole.runs["as it is"][:] = runs
    found = targets.figures(whole)[0]
    assert (found.ratio, found.reached) == (6.5, True)
