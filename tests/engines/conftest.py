"""What tests of several engines share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdkit


@pytest.fixture(params=["memory", "sqlite", "postgres", "apart"])
def erasable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdkit.Kernel]:
    """A kernel on every engine that can erase; `apart`: on PostgreSQL, as if its tables were distributed."""
    if request.param == "memory":
        url = "memory://"
    elif request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/holds"
    else:
        layout = "one server" if request.param == "postgres" else "as if"
        url = request.getfixturevalue("migrated")(layout, lanes=4)
    with holdkit.connect(url) as kernel:
        yield kernel
