"""The bench of blocked processes runs both ways to wait, and pairs releases with grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import blocking


@pytest.mark.parametrize("way", ["blocking", "polling"])
def test_processes_contend_for_a_slot(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "IDLE", 0.05)
    found = blocking.contend(f"sqlite:///{tmp_path}/holds.db", "SQLite", way, 2, 1, 0.3)
    assert found.turns > 0
    assert 0 < found.handover_p50 <= found.handover_p99
    assert 0 < found.median_turn <= found.longest_turn


def test_callers_hold_below_one_parent_and_without(tmp_path: Path) -> None:
    rates = blocking.below_one_parent(f"sqlite:///{tmp_path}/holds.db", 3, 0.1)
    assert set(rates) == {"flat", "below one parent"}
    assert min(rates.values()) > 0
