"""The parts on SQLite run on the tables of today: by hand and Holdkit have the same ones, and a made-up past verifies."""

from __future__ import annotations

from pathlib import Path

from bench import ageing
from bench.comparison import Scenario, play
from bench.raw import raw_rounds


def test_by_hand_and_holdkit_write_the_same_rows_into_the_same_tables(tmp_path: Path) -> None:
    runs = play(Scenario("threads", 2, 20, with_op=True), 1, tmp_path, None, lambda: None)
    assert sorted((run.variant, run.holds) for run in runs) == [("by_hand", 20), ("ours", 20)]


def test_raw_rows_are_those_of_the_engine(tmp_path: Path) -> None:
    (found,) = raw_rounds(8, 32, 1, tmp_path, None, lambda: None)
    assert found.batch == 8
    assert found.raw > 0 < found.apply


def test_a_past_verifies(tmp_path: Path) -> None:
    steps: list[int] = []
    ageing.make_past(tmp_path / "past.db", 2_000, steps.append)
    assert sum(steps) == 2_000
    ageing.expect_sound(tmp_path / "past.db")
