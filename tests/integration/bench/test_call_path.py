"""The bench of the call path measures every row, in a process of its own."""

from __future__ import annotations

import pytest

from bench.call_path import alternate


def test_every_row_is_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    alternate([], 1, ["--calls", "16", "--engines"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["this", "revision"]
    assert len(rows) == 29
    assert {row.partition(":")[0] for row in rows} >= {"above", "step", "memory", "sqlite"}
    assert any(row.startswith("above: hold, 32 tasks") for row in rows)
    assert all(float(row.split()[-1]) > 0 for row in rows)
