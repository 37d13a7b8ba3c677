"""How SQLite finds what is asked for: by its keys, from the first row that fits to the last."""

from __future__ import annotations

import pytest

from holdkit.core.commands import CreatePool
from holdkit.engines.sqlite import SqliteEngine
from holdkit.engines.sqlite.statements import load

from .scenes import done


@pytest.mark.parametrize(
    ("name", "seek"),
    [
        ("read_pools", "PRIMARY KEY (tenant=? AND id>? AND id<?)"),
        ("read_pools_of_entity", "holdkit_pools_entity (tenant=? AND entity=? AND id>? AND id<?)"),
    ],
)
def test_a_page_of_pools_is_sought_at_both_ends(engine: SqliteEngine, name: str, seek: str) -> None:
    done(engine, CreatePool(id="a", total=1))
    driver = engine._writer._driver
    assert driver is not None
    asked = dict.fromkeys(("tenant", "after", "lower", "upper", "entity"), "") | {"now": 0, "reserved": 0, "limit": 9}
    plan = [row[3] for row in driver.cursor.execute(f"explain query plan {load()[name]}", asked)]
    assert [line for line in plan if seek in line], plan
