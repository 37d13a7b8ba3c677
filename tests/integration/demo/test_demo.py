"""The demo for real: processes, a kill, one file. Short and plain; what it claims is checked from its summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdkit.demo.screen import bar, cells, summary_text
from holdkit.demo.statistics import Statistics, Summary

RUN = [sys.executable, "-m", "holdkit.demo"]


def test_the_whole_sale(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, "--plain", "--json", "--seconds", "1.5"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"] is True
    assert summary["problems"] == []
    assert summary["sold"] == summary["receipts"] <= summary["seats"] == 1200
    assert summary["processes"] == 4
    assert summary["buyers"] == 320
    assert summary["race"] == {"rivals": 160, "winners": 1}
    assert summary["killed"] == {"holds": 20, "units": 120, "came_back": 20}
    assert summary["late"]["refused"] == summary["late"]["honoured"] + summary["late"]["refunded"] >= 2
    assert summary["late"]["honoured"] >= 1
    assert summary["replayed"] >= 20
    assert summary["expired"] >= 20
    assert summary["refused"]["hold_expired"] >= summary["late"]["refused"]
    assert summary["differences"] == 0
    assert summary["entries"] >= summary["commits"] > 0
    for line in (
        "Doors open",
        "was just killed",
        "Ann pays late",
        "Bob pays late",
        "20 replayed",
        "1 gets it",
        "clean",
    ):
        assert line in done.stderr
    assert [*tmp_path.iterdir()] == [], "the demo leaves nothing behind"


def test_without_rich_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from holdkit.demo import __main__ as demo

    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert demo.main([]) == 2
    assert "pip install 'holdkit[cli]', or add --plain" in capsys.readouterr().err


def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from holdkit.demo.__main__ import main

    with pytest.raises(SystemExit) as stopped:
        main(["--seconds", "0"])
    assert stopped.value.code == 2
    assert "between 1 and 600" in capsys.readouterr().err


def test_a_problem_fails_the_run_and_is_told() -> None:
    statistics = Statistics("show", 10)
    statistics.add_receipts({"a": 2})
    statistics.add_receipts({"a": 2})
    assert statistics.problems == ["hold a was sold to two buyers"]
    assert "FAILED:\n  hold a was sold to two buyers" in summary_text(Summary(problems=statistics.problems))


def test_the_bar_shows_whatever_there_is() -> None:
    statistics = Statistics("show", 1000)
    statistics.sold, statistics.held = 1, 999
    assert bar(statistics, 10) == "[#=========]"
    statistics.sold, statistics.held = 999, 1
    assert cells(statistics, 10) == (10, 0)
    statistics.sold = statistics.held = 0
    assert bar(statistics, 4) == "[....]"
