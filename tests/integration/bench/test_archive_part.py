"""The bench of the archive does what it claims, on journals that are short."""

from __future__ import annotations

from pathlib import Path

import holdkit
from bench import archive_year
from bench.archive_windows import measure_windows
from bench.archiving import BEFORE, figures, measure
from bench.callers import POOL, TOTAL
from bench.journals import fill_sqlite


def test_everything_that_is_old_enough_leaves_beside_a_caller(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    fill_sqlite(path, 1_500)
    url = f"sqlite:///{path}"
    found = measure("SQLite", url, 1_500, tmp_path / "archive", 0.05, window=0.05)
    assert found.archived == 1_500  # those of the caller are too young
    assert min(found.before.calls, found.other_process.working.calls, found.after.calls) >= 2
    with holdkit.connect(url) as hk:
        assert hk.admin.verify(archive=tmp_path / "archive").differences == ()
    names = [figure.name for figure in figures(found)]
    assert len(set(names)) == len(names) >= 8


def test_a_run_is_ended_and_another_goes_on_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    fill_sqlite(path, 3_000)
    url, to = f"sqlite:///{path}", tmp_path / "archive"
    with holdkit.connect(url) as hk:
        hk.create_pool(POOL, TOTAL)
        first = measure_windows(hk, url, str(to), BEFORE, same_process=True, window=0.01, pairs=1, finish=False)
        second = measure_windows(hk, url, str(to), BEFORE, same_process=True, window=0.01, pairs=1)
        assert first.archived.entries < 3_000
        assert first.archived.entries + second.archived.entries == 3_000
        assert len(first.p50) == len(second.mean) == 1
        assert hk.admin.verify(archive=to).differences == ()


def test_a_year_that_is_archived_has_what_a_month_has(tmp_path: Path) -> None:
    found = archive_year.measure(tmp_path, 12_000, pools=50, rounds=1, seconds=0.02)
    assert 10_000 < found.archived < 11_200
    assert found.vacuumed.used < found.before.used / 2
    assert found.vacuumed.file < found.after.file
    assert len(archive_year.lines(found)) == 8
