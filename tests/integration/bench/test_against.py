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
from bench.report import print_setting, setting, write_json
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


def test_a_revision_without_what_the_part_needs_is_named(tmp_path: Path) -> None:
    package = tmp_path / "src" / "holdkit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    with pytest.raises(BenchFailed, match=r"core does not run with the empty one: .*No module named 'holdkit"):
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
