"""Fixtures for pytest: `pytest_plugins = ["holdkit.testing.postgres.plugin"]` in the topmost conftest.

Where there is no PostgreSQL, the tests that need it are skipped, and the reason says what to install.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from .address import ServerAddress
from .binaries import NoPostgres, find
from .shared import shared_server


@pytest.fixture(scope="session")
def postgres_binaries() -> Path:
    """The folder of PostgreSQL's programs, or a skip."""
    pytest.importorskip("psycopg", reason="PostgreSQL is spoken to through psycopg: pip install 'holdkit[postgres]'")
    try:
        return find()
    except NoPostgres as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgres_server(postgres_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerAddress]:
    """One server for the whole run, whatever the number of its workers. A test that stops servers starts its own."""
    assert postgres_binaries.exists()
    place = tmp_path_factory.getbasetemp()
    with shared_server(place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template() -> str:
    """What each test's database is a copy of: an empty database. Override it with a name from
    `postgres_server.template`."""
    return "template0"


@pytest.fixture
def postgres_url(postgres_server: ServerAddress, postgres_template: str) -> Iterator[str]:
    """A new database; dropped after the test, even if connections are open."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name, postgres_template)
    postgres_server.drop_database(name)
