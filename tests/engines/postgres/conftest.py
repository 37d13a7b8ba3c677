from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.engines.postgres.notifications import Notifier
from holdkit.testing.postgres import ServerAddress
from tests.engines.postgres.engine_calls import LANES

Open = Callable[..., PostgresEngine]


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    """Our tables are there already, with a few lanes: pools share some and are apart in others."""
    return postgres_server.template(f"holdkit_{LANES}", lambda url: migrate(url, lanes=LANES))


@pytest.fixture
def open_engine(postgres_url: str) -> Iterator[Open]:
    """Engines on the test's database, closed when it is over."""
    opened: list[PostgresEngine] = []

    def make(**options: Any) -> PostgresEngine:
        opened.append(PostgresEngine(postgres_url, **options))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


@pytest.fixture
def no_notifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notifier takes an idle connection whenever it likes: batches on the event loop need one, and some tests count statements."""
    monkeypatch.setattr(Notifier, "notify_soon", lambda _: None)


@pytest.fixture
def engine(open_engine: Open) -> PostgresEngine:
    return open_engine()
