"""Any part can run beside another revision, in children; what cannot be compared is said."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from rich.console import Console

from bench.against import Told, alternate, once, side_by_side
from bench.disk import SyncTime
from bench.figures import compared
from bench.report import print_setting, print_table, setting, write_json
from bench.revision import ROOT, THIS, Revision, commit_of
from bench.rows import BenchFailed


@pytest.fixture
def directory() -> Iterator[Path]:
    """On a disk: the bench refuses to measure in memory, where the tests' own files are."""
    build = ROOT / ".build"
    build.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=build) as made:
        yield Path(made)


def test_a_part_runs_with_both_revisions_in_turn(directory: Path) -> None:
    steps: list[str] = []
    same = Revision("the same", THIS.source)
    found = alternate(same, "core", 1, ["--quick"], directory, steps.append)
    assert steps == ["core, the same", f"core, {THIS.name}"]
    assert [one.name for one in found] == [f"decisions, batches of {batch}, beside the same" for batch in (1, 32, 256)]
    assert all(one.ratio and len(one.ratios) == 1 and one.other and one.ours for one in found)


def test_each_revision_runs_its_own_bench(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "holdkit").mkdir(parents=True)
    (source / "holdkit" / "__init__.py").write_text("OLD_NAME = 7.0\n")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("")
    (tmp_path / "bench" / "__main__.py").write_text(
        "import json, pathlib, sys, holdkit\n"
        "figure = {'group': 'core', 'name': sys.argv[2], 'unit': 'µs', 'ours': holdkit.OLD_NAME}\n"
        "path = pathlib.Path(sys.argv[sys.argv.index('--json') + 1])\n"
        "path.write_text(json.dumps({'figures': [figure]}))\n"
    )
    found = once(Revision("the old one", source), "core", [], tmp_path)
    assert found == [Told("core", "core", "µs", 7.0)], "its bench uses a name that this revision does not have"


def test_a_revision_without_what_the_part_needs_is_named(tmp_path: Path) -> None:
    package = tmp_path / "src" / "holdkit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    with pytest.raises(BenchFailed, match=r"core does not run with the empty one: .*No module named bench"):
        once(Revision("the empty one", package.parent), "core", [], tmp_path)


def test_the_results_say_of_which_revision_they_are(tmp_path: Path) -> None:
    where = setting("ext4", SyncTime(0.0001, 0.0002))
    assert where.revision is not None
    assert commit_of("HEAD").startswith(where.revision.rstrip("+"))
    out = StringIO()
    print_setting(Console(file=out, width=200), where)
    assert out.getvalue().startswith(f"revision {where.revision}, Python ")
    write_json(tmp_path / "bench.json", {"setting": where})
    assert msgspec.json.decode((tmp_path / "bench.json").read_bytes())["setting"]["revision"] == where.revision


def test_a_ratio_is_the_median_of_the_rounds_and_unmatched_figures_are_left_out() -> None:
    def told(rate: float, *more: Told) -> list[Told]:
        return [Told("core", "decisions", "decisions/s", rate), *more]

    before = [told(100), told(200), told(1_000)]
    after = [told(300, Told("core", "new", "µs", 1.0)), told(180), told(900)]
    (found,) = side_by_side("old", before, after)
    assert (found.name, found.other, found.ours, found.ratio) == ("decisions, beside old", 200, 300, 0.9)
    assert (found.against, found.worse) == ("old", False)


@pytest.mark.parametrize(
    ("unit", "before", "after", "is_worse"),
    [
        ("µs", [100, 100], [104, 150], True),
        ("µs", [100, 100], [103, 150], False),
        ("µs", [100, 100], [50, 60], False),
        ("holds/s", [100, 100], [97, 50], True),
        ("holds/s", [100, 100], [98, 50], False),
        ("holds/s", [100, 100], [200, 300], False),
    ],
)
def test_a_figure_is_worse_only_if_every_round_is(
    unit: str, before: list[float], after: list[float], is_worse: bool
) -> None:
    sides = ([[Told("core", "a figure", unit, value)] for value in values] for values in (before, after))
    (figure,) = side_by_side("old", *sides)
    assert figure.worse is is_worse
    assert figure.as_json()["worse"] is is_worse
    out = StringIO()
    print_table(Console(file=out, width=200), [figure])
    assert ("Worse, by more than 1.03× in every round: a figure, beside old" in out.getvalue()) is is_worse
    assert ("No figure is worse" in out.getvalue()) is not is_worse


def test_a_baseline_that_is_no_revision_is_never_worse() -> None:
    figure = compared("callers", "1 thread", "µs", [100], [200])
    assert not figure.worse
    out = StringIO()
    print_table(Console(file=out, width=200), [figure])
    assert "orse" not in out.getvalue()
