from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdkit.engines.sqlite import SqliteEngine
from tests.engines.commands import Clock

Open = Callable[..., SqliteEngine]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holds.db"


@pytest.fixture
def open_one(path: Path, clock: Clock) -> Iterator[Open]:
    opened: list[SqliteEngine] = []

    def open_it(**options: Any) -> SqliteEngine:
        engine = SqliteEngine(options.pop("path", path), **{"clock": clock, **options})
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        engine.close()


@pytest.fixture
def engine(open_one: Open) -> SqliteEngine:
    return open_one()
