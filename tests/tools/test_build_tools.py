from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutation_score, no_skips, sync_env


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
    ("stats", "expected"),
    [
        ({"killed": 8, "timeout": 1, "survived": 1, "no_tests": 0, "total": 10, "skipped": 0}, (9, 10, 90.0)),
        ({"killed": 5, "survived": 0, "no_tests": 5, "total": 10, "skipped": 0}, (5, 10, 50.0)),
        ({"killed": 0, "total": 0}, (0, 0, 0.0)),
    ],
)
def test_untested_mutants_count_as_alive(stats: dict[str, int], expected: tuple[int, int, float]) -> None:
    assert mutation_score.score(stats) == expected


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
