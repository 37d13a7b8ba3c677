"""Sagas where the tables are distributed by lane: a step is one group, so it is one transaction there, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdkit.engines.postgres.migrating import migrate_to
from tests.unit.faces.sagas.test_fault_matrix import FAULTS, KILLS, played


@pytest.fixture(scope="module")
def postgres_template(postgres_server: Any) -> str:
    name: str = postgres_server.template("holdkit_sagas_apart", lambda url: migrate_to(url, "as if", 4))
    return name


def test_r17_where_tables_are_distributed(tmp_path: Path, postgres_url: str) -> None:
    found = played(tmp_path, postgres_url, faults=FAULTS[::5], every=len(KILLS) * 3 + 1)
    assert sum(found.values()) > 20
    assert found["done"] > 5
