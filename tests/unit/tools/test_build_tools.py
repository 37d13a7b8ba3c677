from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutation_score, mutmut_safely, no_skips, sync_env


def test_a_skip_is_found_and_an_expected_failure_is_not(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="a" name="ran"/>'
        '<testcase classname="a" name="out"><skipped type="pytest.skip" message="no database"/></testcase>'
        '<testcase classname="a" name="known"><skipped type="pytest.xfail" message="known"/></testcase>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    assert no_skips.skipped(report) == ["a::out: no database"]
    assert no_skips.main([str(report)]) == 1


def test_a_run_without_skips_passes(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text('<testsuite><testcase classname="a" name="ran"/></testsuite>', encoding="utf-8")
    assert no_skips.main([str(report)]) == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["killed"] * 8 + ["timeout", "survived"], (9, 10, 90.0)),
        (["killed"] * 5 + ["no tests"] * 5, (5, 10, 50.0)),
        (["killed"] * 6 + ["survived"] * 2 + ["not checked"] * 4, (6, 8, 75.0)),
        ([], (0, 0, 0.0)),
    ],
)
def test_untested_mutants_count_as_alive(found: list[str], expected: tuple[int, int, float]) -> None:
    assert mutation_score.score({str(number): verdict for number, verdict in enumerate(found)}) == expected


def test_pip_settings_are_read_and_the_environment_wins() -> None:
    listing = ":env:.index-url='file:///env'\nglobal.index-url='file:///config'\nglobal.extra-index-url='file:///a file:///b'\n"
    settings = sync_env.parse_pip_config(listing)
    assert settings == {"index-url": "file:///env", "extra-index-url": "file:///a file:///b"}


def test_uv_follows_pip_unless_told_otherwise() -> None:
    settings = {"index-url": "file:///pip", "find-links": "one two"}
    environment = sync_env.uv_environment(settings, {"UV_DEFAULT_INDEX": "file:///uv"})
    assert environment["UV_DEFAULT_INDEX"] == "file:///uv"
    assert environment["UV_FIND_LINKS"] == "one,two"
    assert "UV_INDEX" not in environment


def test_survivors_are_what_no_test_killed() -> None:
    listing = (
        "    holdkit.core.fold.x_fold__mutmut_3: survived\n"
        "    holdkit.core.fold.x_fold__mutmut_4: timeout\n"
        "    holdkit.core.view.x_see__mutmut_1: no tests\n"
        "    holdkit.core.view.x_see__mutmut_2: not checked\n"
        "    holdkit.core.view.x_see__mutmut_5: killed\n"
    )
    found = mutation_score.verdicts(listing)
    assert len(found) == 5
    assert mutation_score.survivors(found) == [
        ("holdkit.core.fold.x_fold__mutmut_3", "survived"),
        ("holdkit.core.view.x_see__mutmut_1", "no tests"),
    ]


def test_a_mutant_meets_one_case_of_each_test_before_the_others() -> None:
    cases = ["a.py::one[1]", "a.py::two", "a.py::one[2]", "b.py::one[1]", "a.py::one[3]"]
    assert mutmut_safely.one_case_first(cases) == [
        *("a.py::one[1]", "a.py::two", "b.py::one[1]"),
        *("a.py::one[2]", "a.py::one[3]"),
    ]
    assert mutmut_safely.one_case_first(["a.py::two"]) == ["a.py::two"]
    assert mutmut_safely.one_case_first([]) == []


def test_a_mutant_is_in_exactly_one_part_and_the_next_commit_tries_another() -> None:
    names = [f"holdkit.core.fold.x_fold__mutmut_{number}" for number in range(300)]
    parts = [{name for name in names if mutmut_safely.belongs(name, part)} for part in ("1/3", "2/3", "3/3")]
    assert set.union(*parts) == set(names)
    assert sum(map(len, parts)) == len(names)
    assert min(map(len, parts)) > 60
    assert all(mutmut_safely.belongs(name, "1/1") for name in names)
    assert mutation_score.part_of_commit(3) in ("1/3", "2/3", "3/3")


def test_of_a_survivor_only_the_change_is_shown() -> None:
    shown = "# name: survived\n--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n def f():\n-    return 1\n+    return 2\n"
    assert mutation_score.changed(shown) == ["-    return 1", "+    return 2"]


def test_the_last_word_of_mutmut_is_the_progress() -> None:
    said = "\r⠋ 3/50  🎉 2 🫥 0  ⏰ 0  🤔 0  🙁 1  🔇 0  🧙 0\r⠙ 41/50  🎉 37 🫥 0  ⏰ 1  🤔 0  🙁 3  🔇 0  🧙 0"
    assert mutation_score.progress(said) == "41 of 50 mutants, 3 alive"
    assert mutation_score.progress("Generating mutants") is None


def test_a_run_that_hangs_is_stopped_with_all_that_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, words = tmp_path / "lock", tmp_path / "log"
    grandchild = (
        f"import fcntl, threading; kept = open({str(lock)!r}, 'w'); fcntl.flock(kept, fcntl.LOCK_EX);"
        "print('locked', flush=True); threading.Event().wait()"
    )
    hangs = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"]
    for seconds in (1, 4, 16, 64):  # on a busy machine the first may be over before it has begun
        assert mutation_score.bounded(hangs, words, seconds, every=seconds / 3) is None
        if "locked" in words.read_text():
            break
    assert "locked" in words.read_text()
    assert "min: preparing" in capsys.readouterr().out
    with lock.open() as free:
        fcntl.flock(free, fcntl.LOCK_EX)  # whoever had it is gone; else the test would stand here


def test_a_run_that_ends_in_time_has_its_words_in_the_log(tmp_path: Path) -> None:
    ends = [sys.executable, "-c", "import os; print('CI' in os.environ)"]
    assert mutation_score.bounded(ends, tmp_path / "log", seconds=60) == 0
    assert (tmp_path / "log").read_text() == "True\n"


CI = Path(__file__).parents[3] / ".ci" / "run"


def run_ci(tmp_path: Path, failing: str = "none") -> tuple[int, list[str], str]:
    """Its exit code, the targets it made and what it said, with a `make` that only writes down what it is asked."""
    for folder in (".ci", "bin", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    script = shutil.copy(CI, tmp_path / ".ci" / "run")
    for name in ("bin/make", ".venv/bin/python"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ntest "$*" != {failing}\n', encoding="utf-8")
        program.chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        [script],
        env={"PATH": path, "CI": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, (tmp_path / "asked").read_text().splitlines(), done.stdout


def test_ci_runs_everything_and_tells_how_long_each_took(tmp_path: Path) -> None:
    code, asked, said = run_ci(tmp_path)
    assert code == 0
    assert asked == [
        "setup",
        "fmt-check",
        "lint",
        "gen-check",
        "layers",
        "types",
        "docs",
        "cover",
        "test",
        "test-programs",
        "-m tools.no_skips .build/junit.xml",
        "-m tools.no_skips .build/junit-programs.xml",
        "image-check",
        "package-check",
        "django-newest",
        "sbom",
        "prove",
        "mutate",
    ]
    summary = said.partition("== how long it took")[2]
    assert [line.split()[-1] for line in summary.splitlines() if "make " in line] == [
        one for one in asked if " " not in one
    ]
    assert said.rstrip().endswith("All checks passed.")


def test_ci_stops_at_the_first_failure_and_names_it(tmp_path: Path) -> None:
    code, asked, said = run_ci(tmp_path, failing="types")
    assert code != 0
    assert asked[-1] == "types"
    assert "make layers" in said.partition("== how long it took")[2]
    assert said.rstrip().endswith("FAILED: make types")


def test_only_a_child_that_was_not_waited_for_is_signalled() -> None:
    mine = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    mutmut_safely.kill_own(mine.pid, signal.SIGKILL)
    assert mine.wait() == -signal.SIGKILL
    for other in (mine.pid, os.getppid()):
        with pytest.raises(ProcessLookupError):
            mutmut_safely.kill_own(other, signal.SIGKILL)
