"""The bench of blocked processes runs both ways to wait, and pairs releases with grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import blocking


@pytest.mark.parametrize("way", ["blocking", "polling"])
def test_processes_contend_for_a_slot(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "IDLE", 0.05)
    monkeypatch.setattr(blocking, "WARM_UP", 0)
    found = blocking.contend(f"sqlite:///{tmp_path}/holds.db", "SQLite", way, 2, 1, 0.3)
    assert found.turns > 0
    assert 0 < found.handover_p50 <= found.handover_p99
    assert 0 < found.median_turn <= found.longest_turn
    assert 0 <= found.another_p50 <= found.another_p99
    assert 0 <= found.kept <= 100


def test_a_slot_that_a_process_gets_back_is_not_handed_over() -> None:
    one = [blocking.Turn(0.0, 1.0, 2.0), blocking.Turn(2.0, 2.25, 4.0)]
    other = [blocking.Turn(0.0, 4.5, 5.0)]
    assert [*blocking._handovers([one, other])] == [(250.0, True), (500.0, False)]


def test_callers_hold_below_one_parent_and_without(tmp_path: Path) -> None:
    rates = blocking.below_one_parent(f"sqlite:///{tmp_path}/holds.db", 3, 0.1)
    assert set(rates) == {"flat", "below one parent"}
    assert min(rates.values()) > 0
