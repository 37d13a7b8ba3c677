"""The server's part of the bench runs two revisions beside each other, and refuses what it cannot compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.revision import THIS, Revision, extract, missing_packages
from bench.rows import BenchFailed
from bench.server import part


def test_another_revision_runs_beside_this_one(tmp_path: Path) -> None:
    other = extract("HEAD", tmp_path / "other")
    urls = {one: f"sqlite:///{tmp_path / f'{number}.db'}" for number, one in enumerate((other, THIS))}
    steps: list[str] = []
    rows = part.measure("sqlite", urls, 0.2, 1, steps.append, connections=(2,))
    assert [(one.variant, one.what, one.connections) for one in rows] == [
        (THIS.name, "lifecycle", 2),
        ("HEAD", "lifecycle", 2),
        ("echo", "lifecycle", 2),
        (THIS.name, "lifecycle", 4),
        (THIS.name, "batches", 4),
        ("HEAD", "batches", 4),
    ]
    assert all(one.per_second > 0 and 0 < one.p50 <= one.p99 for one in rows)
    found = part.figures(rows, "HEAD")
    assert [one.name for one in found if one.ratio is not None] == [
        "sqlite, hold and confirm, 2 connections, beside HEAD",
        "sqlite, batches of 100 from 4 connections, beside HEAD",
        "sqlite, batches of 100 from 4 connections, compared with single calls",
    ]
    assert "CPU" in found[0].note or not Path("/proc/self/stat").exists()


def test_the_sources_are_those_of_the_revision(tmp_path: Path) -> None:
    empty = tmp_path / "src"
    empty.mkdir()
    with pytest.raises(BenchFailed, match="prepare of elsewhere failed"):
        Revision("elsewhere", empty).prepare(f"sqlite:///{tmp_path / 'a.db'}", 1)


def test_a_revision_that_git_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="no such revision: never-tagged"):
        extract("never-tagged", tmp_path)


def test_a_revision_that_needs_other_packages_is_refused() -> None:
    needs = {
        "dependencies": ["msgspec>=0.19"],
        "optional-dependencies": {
            "server": [
                "uvicorn<0.1",
                "no-such-package>=1",
                "uvloop; python_version < '3'",
                "no-such; python_version < '3'",
            ]
        },
    }
    assert missing_packages(needs) == ["uvicorn<0.1", "no-such-package>=1"]


def test_only_the_start_of_the_work_has_a_goal() -> None:
    def row(variant: str, rate: float, what: str = "lifecycle", connections: int = 32) -> part.Row:
        return part.Row("sqlite", variant, what, connections, rate, 0.01, 0.02, cpu=1 / rate)

    for against, goals in (("b5ea8640", [2.0, 1.0, None]), ("HEAD", [None, None, None])):
        rows = [row(against, 100), row(THIS.name, 210), row("echo", 1000)]
        rows += [row(THIS.name, 50, connections=4)]
        rows += [row(one, 500, "batches", 4) for one in (against, THIS.name)]
        found = [one for one in part.figures(rows, against) if one.ratio is not None]
        assert [one.at_least for one in found] == goals
        assert found[0].ratio == 2.1
        assert found[0].note == "p50 10.0 ms, p99 20.0 ms, CPU 0.48 × (0.48 to 0.48)"


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_each_side() -> None:
    def rows(variant: str, rates: list[float]) -> list[part.Row]:
        return [part.Row("sqlite", variant, "lifecycle", 32, rate, 0.01, 0.02) for rate in rates]

    single = [part.Row("sqlite", THIS.name, what, 4, 50, 0.01, 0.02) for what in ("lifecycle", "batches")]
    single.append(part.Row("sqlite", "HEAD", "batches", 4, 50, 0.01, 0.02))
    measured = [*rows("HEAD", [100, 200, 1000]), *rows(THIS.name, [300, 180, 900]), *rows("echo", [1, 1, 1]), *single]
    found = part.figures(measured, "HEAD")[0]
    assert (found.other, found.ours) == (200, 300)
    assert found.ratio == 0.9, "the machine was quiet in the third round, for both"
