"""The bench of the archive does what it claims, on a journal that is short."""

from __future__ import annotations

from pathlib import Path

import holdkit
from bench.archiving import figures, measure
from bench.journals import fill_sqlite


def test_everything_that_is_old_enough_leaves_beside_a_caller(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    fill_sqlite(path, 1_500)
    url = f"sqlite:///{path}"
    found = measure("SQLite", url, 1_500, tmp_path / "archive", 0.05)
    assert found.archived.entries == 1_500  # those of the caller are too young
    assert found.archived.files == 1
    assert min(found.before.calls, found.beside.calls, found.after.calls) >= 2
    with holdkit.connect(url) as hk:
        assert hk.verify(archive=tmp_path / "archive").differences == ()
    names = [figure.name for figure in figures(found)]
    assert len(set(names)) == len(names) == 7
