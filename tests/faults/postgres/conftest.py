from __future__ import annotations

import pytest

from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import ServerAddress
from tests.engines.postgres.engine_calls import LANES


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    """Our tables are there already, with a few lanes."""
    return postgres_server.template(f"holdkit_{LANES}", lambda url: migrate(url, lanes=LANES))
