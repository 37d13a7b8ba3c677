"""A clock that was set back: nobody is told that more is left than was granted. On every engine, sync and async."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Allowance
from holdkit.core.model import SECOND
from holdkit.testing import FakeClock
from holdkit.testing.postgres import ServerAddress
from tests.support.modes import Async, Sync

NOON = 1_700_049_600 * SECOND
BACK = -1800.0


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    return postgres_server.template("holdkit_set_back", lambda url: holdkit.migrate(url, lanes=4))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}[request.param]


@pytest.fixture(params=["sync", "async"])
def hk(request: pytest.FixtureRequest, url: str, clock: FakeClock) -> Iterator[Any]:
    kind = Sync() if request.param == "sync" else Async()
    if isinstance(kind, Sync):
        made: Any = holdkit.connect(url, clock=clock)
    else:
        made = kind.run(holdkit.connect_async, url, clock=clock)
    yield made
    made.close()
    kind.close()


def test_a_claim_has_no_more_left_than_its_ttl(hk: Any, clock: FakeClock) -> None:
    hk.claims.hold("email", "a@x.org", ttl=60)
    claim = hk.claims.get("email", "a@x.org")
    clock.advance(BACK)
    assert claim.remaining == 60
    found = hk.claims.get("email", "a@x.org")
    assert found.remaining == 60
    with pytest.raises(holdkit.AlreadyClaimed) as refused:
        hk.claims.hold("email", "a@x.org", ttl=60)
    assert refused.value.remaining == 60


def test_nor_an_extended_one(hk: Any, clock: FakeClock) -> None:
    claim = hk.claims.hold("email", "a@x.org", ttl=60)
    clock.advance(30)
    hk.extend(claim, ttl=60)
    claim = hk.claims.get("email", "a@x.org")
    clock.advance(BACK)
    assert hk.claims.get("email", "a@x.org").remaining == 90, "the last slot of the pool is that of the grant"


def test_a_refused_caller_waits_for_a_window_at_most(hk: Any, clock: FakeClock) -> None:
    api = hk.rate("api", Allowance(1, per="hour"))
    api.consume("client")
    clock.advance(BACK)
    api.consume("client")  # of the hour before
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        api.consume("client")
    assert refused.value.retry_after == 1800


class Waiting(holdkit.Saga):
    name = "waiting"
    lease = "10s"

    def reserve(self, intent: Any, step: Any) -> Any:
        return "gpu"

    def effect(self, intent: Any, step: Any) -> Any:
        raise AssertionError("nobody gets that far")


def test_a_saga_is_not_busy_for_longer_than_its_lease(hk: Any, clock: FakeClock, monkeypatch: Any) -> None:
    hk.create_pool("gpu", 1)
    waiting = hk.sagas.register(Waiting())

    def interrupted(self: Any, intent: Any, step: Any) -> Any:
        clock.advance(BACK)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Waiting, "validate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            waiting.run("s", {})
    with pytest.raises(holdkit.errors.SagaBusy) as busy:
        waiting.run("s", {})
    assert busy.value.retry_after == 10
