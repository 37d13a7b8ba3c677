"""The fairness part of the bench runs a quiet tenant alone and beside each load, and compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.server import fairness


def test_a_quiet_tenant_runs_alone_and_beside_each_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "WARM_UP", 0.0)
    steps: list[str] = []
    rows = fairness.run(tmp_path, 0.2, 1, steps.append)
    assert [one.beside for one in rows] == ["alone", "batches", "wide holds"]
    assert all(one.per_second > 0 and 0 < one.p50 <= one.p99 for one in rows)
    assert [(one.at_most, one.at_least) for one in fairness.figures(rows)] == [(5.0, None), (None, 0.5)] * 2
    assert len(steps) == 3
