"""The durability in force is told: on a synchronous and on an asynchronous pair, by answers, numbers, metrics and the doctor;
also by a role that may not see the standbys, and after the server's settings were reloaded under an open kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import psycopg
import pytest

import holdkit
from holdkit.cli.documents import DoctorDocument
from holdkit.client import connect as connect_client
from holdkit.client import connect_async as connect_client_async
from holdkit.engines.durability import Standby
from holdkit.engines.postgres import migrate, opening
from holdkit.errors import EngineError
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres.engine_calls import LANES, await_that
from tests.faults.postgres.test_failovers import follow
from tests.support.command_line import run, told
from tests.support.modes import Async, Sync
from tests.support.servers import live_server

LOSES = "a failover may lose the last changes before it"
ROLE = """
    create role app login; grant usage on schema holdkit to app;
    grant select, insert, update, delete on all tables in schema holdkit to app
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(postgres_binaries: object) -> Iterator[PostgresServer]:
    """A primary that nobody follows."""
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        migrate(server.dsn("shop"), lanes=LANES)
        with closing(psycopg.connect(server.dsn("shop"), autocommit=True)) as connection:
            connection.execute(ROLE)
        with holdkit.connect(server.dsn("shop")) as hk:
            hk.create_pool("seats", 1_000_000)
        yield server


@pytest.fixture(scope="module")
def followed(alone: PostgresServer) -> Iterator[PostgresServer]:
    """The same, with a standby; whether it is synchronous, each test says."""
    with closing(follow(alone, synchronous=False)):
        yield alone


@pytest.fixture
def primary(followed: PostgresServer) -> Iterator[PostgresServer]:
    yield followed
    followed.change_setting("synchronous_commit", None)
    followed.change_setting("synchronous_standby_names", "")


@pytest.fixture(autouse=True)
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each call came long after the one before."""
    monkeypatch.setattr(opening, "FRESH", -1.0)


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    kind = Sync() if request.param == "sync" else Async()
    yield kind
    kind.close()


def opened(mode: Sync | Async, url: str) -> Any:
    return holdkit.connect(url) if isinstance(mode, Sync) else mode.run(holdkit.connect_async, url)


def synchronous(server: PostgresServer) -> None:
    server.change_setting("synchronous_standby_names", "standby")
    with closing(server.connect()) as admin:
        state = "select sync_state from pg_stat_replication"
        await_that(lambda: admin.execute(state).fetchall() == [("sync",)], "the standby is not synchronous")


def await_level(hk: Any, level: str) -> None:
    """Every process of the server reads new settings when it comes to it."""
    await_that(lambda: hk.hold("seats", 1, ttl=60).durability == level, f"never {level}")


def as_role(server: PostgresServer, name: str) -> str:
    return server.dsn("shop").replace("postgres@", f"{name}@")


@contextmanager
def sql(server: PostgresServer, before: str, after: str) -> Iterator[None]:
    with closing(psycopg.connect(server.dsn("shop"), autocommit=True)) as connection:
        connection.execute(before.encode())
        try:
            yield
        finally:
            connection.execute(after.encode())


def test_alone(alone: PostgresServer, mode: Sync | Async) -> None:
    """Before anybody follows: neither a connection that only asks, nor one whose standby is away, is taken for another."""
    with closing(opened(mode, alone.dsn("shop"))) as hk:
        assert hk.hold("seats", 1, ttl=60).durability == "local"
        assert "no standby is connected" in hk.admin.stats().durability.says
        with closing(psycopg.connect(alone.dsn("postgres"), replication="true", autocommit=True)):
            assert hk.hold("seats", 1, ttl=60).durability == "local"
        slot = "select pg_create_physical_replication_slot('spare')", "select pg_drop_replication_slot('spare')"
        with sql(alone, *slot):
            assert hk.hold("seats", 1, ttl=60).durability == "asynchronous_standby"
            assert hk.admin.stats().durability.standbys == (Standby("spare", "away"),)


def test_a_reload_is_noticed_under_an_open_kernel(primary: PostgresServer, mode: Sync | Async) -> None:
    with closing(opened(mode, primary.dsn("shop"))) as hk:
        assert hk.hold("seats", 1, ttl=60).durability == "asynchronous_standby"
        assert LOSES in hk.admin.stats().durability.says
        assert hk.admin.stats().durability.standbys == (Standby("standby", "asynchronous"),)

        synchronous(primary)
        await_level(hk, "synchronous")
        hold = hk.hold("seats", 1, ttl=60)
        assert hk.admin.stats().durability.standbys == (Standby("standby", "synchronous"),)
        assert "synchronous standby (standby)" in hk.admin.stats().durability.says
        (outcome,) = hk.apply([holdkit.commands.ConfirmHold(id=hold.id, token=hold.token)])
        assert outcome.unwrap().durability == "synchronous"
        assert hk.get(hold.id).durability is None, "it was only read"

        primary.change_setting("synchronous_commit", "local")
        await_level(hk, "asynchronous_standby")
        assert hk.admin.stats().durability.advice == "set synchronous_commit = on"

        primary.change_setting("synchronous_commit", "off")
        with pytest.raises(
            EngineError, match="runs with synchronous_commit = off, so changes that were answered as done could be lost"
        ):
            await_level(hk, "unsafe")
        primary.change_setting("synchronous_commit", "on")
        await_level(hk, "synchronous")


def test_what_is_allowed_by_name_is_stamped(primary: PostgresServer, mode: Sync | Async) -> None:
    primary.change_setting("synchronous_commit", "off")
    with closing(opened(mode, primary.dsn("shop") + "&allow_unsafe=synchronous_commit")) as hk:
        assert hk.hold("seats", 1, ttl=60).durability == "unsafe"
        assert "synchronous_commit = off" in hk.admin.stats().durability.says


def test_in_your_own_transaction_it_is_as_you_commit_it(primary: PostgresServer) -> None:
    url = primary.dsn("shop")
    with holdkit.connect(url) as hk, psycopg.connect(url) as connection:
        assert hk.hold("seats", 1, ttl=60, tx=connection).durability is None
        (outcome,) = hk.apply([holdkit.commands.Consume(legs=(holdkit.Leg("seats", 1),))], tx=connection)
        answer = outcome.unwrap()
        assert isinstance(answer, holdkit.Hold)
        assert answer.durability is None


def test_a_role_that_may_not_see_the_standbys_says_so(primary: PostgresServer) -> None:
    with holdkit.connect(as_role(primary, "app")) as hk:
        assert hk.hold("seats", 1, ttl=60).durability == "asynchronous_standby"
        found = hk.admin.stats().durability
        assert found.standbys == (Standby("standby", "unknown"),)
        assert "there may be one" in found.says
        assert "this database role may not see" in found.says
        assert "grant it pg_read_all_stats" in found.advice

        hidden = "revoke select on pg_stat_replication from public", "grant select on pg_stat_replication to public"
        with sql(primary, *hidden):
            assert hk.hold("seats", 1, ttl=60).durability == "asynchronous_standby"
            assert hk.admin.stats().durability.standbys == (Standby("", "unknown"),)

        synchronous(primary)
        await_level(hk, "synchronous")  # the setting is there for everybody to see
        assert "this database role may not see" in hk.admin.stats().durability.says
        with sql(primary, "grant pg_read_all_stats to app", "revoke pg_read_all_stats from app"):
            hk.hold("seats", 1, ttl=60)
            assert hk.admin.stats().durability.standbys == (Standby("standby", "synchronous"),)
            assert hk.admin.stats().durability.advice == ""


def test_the_server_its_metrics_and_its_clients_say_so(primary: PostgresServer, mode: Sync | Async) -> None:
    with live_server(primary.dsn("shop")) as server, server.client() as http:
        make: Any = connect_client if isinstance(mode, Sync) else connect_client_async
        remote = make(server.url, key=server.admin) if isinstance(mode, Sync) else mode.run(make, server.url, key=server.admin)  # fmt: skip
        with closing(remote):
            for level, other in (("asynchronous_standby", "synchronous"), ("synchronous", "asynchronous_standby")):
                if level == "synchronous":
                    synchronous(primary)
                    await_level(remote, level)
                hold = remote.hold("seats", 1, ttl=60)
                assert hold.durability == level
                assert remote.extend(hold, by=5).durability == level
                (outcome,) = remote.apply([holdkit.commands.ConfirmHold(id=hold.id, token=hold.token)])
                assert outcome.unwrap().durability == level
                assert remote.get(hold.id).durability is None
                assert remote.admin.stats().durability.level == level
                answered(http, mode.name, level, other)


def answered(http: httpx.Client, name: str, level: str, other: str) -> None:
    placed = http.post("/v1/holds", json={"pool": "seats", "ttl": 60}, headers={"Idempotency-Key": f"{name}-{level}"})
    assert (placed.status_code, placed.headers["Holdkit-Durability"]) == (201, level)
    assert "Holdkit-Durability" not in http.get("/v1/pools").headers
    refused = http.post(
        "/v1/holds", json={"pool": "none", "ttl": 60}, headers={"Idempotency-Key": f"{name}-{level}-no"}
    )
    assert (refused.status_code, "Holdkit-Durability" in refused.headers) == (404, False)
    ready = httpx.get(f"{str(http.base_url).rstrip('/')}/readyz").json()
    assert (ready["status"], ready["durability"]) == ("ok", level)
    assert abs(ready["clock_lag"]) < 1
    assert "standby" not in {*ready}, "whoever asks needs no key, and learns no name"
    stats = http.get("/v1/stats").json()
    assert stats["durability"]["standbys"] == [{"name": "standby", "state": level.removesuffix("_standby")}]
    metrics = http.get("/metrics").text
    assert f'holdkit_durability{{level="{level}"}} 1' in metrics
    assert f'holdkit_durability{{level="{other}"}} 0' in metrics
    assert re.search(r"^holdkit_clock_lag_seconds -?0(\.\d+)?$", metrics, re.MULTILINE)


def test_the_doctor_says_so_and_what_to_do(primary: PostgresServer) -> None:
    said = run("doctor", primary.dsn("shop")).out
    assert re.search(rf"WARN  durability +asynchronous_standby: .*\(standby, asynchronous\): {LOSES}", said)
    assert "→ name it in synchronous_standby_names" in said
    synchronous(primary)
    report = told(DoctorDocument, "doctor", primary.dsn("shop"))
    (found,) = [finding for finding in report.findings if finding.name == "durability"]
    assert (found.level, found.advice) == ("ok", "")
    assert found.says.startswith(
        "synchronous: before a call returns, its changes are on the server's disk and on the disk of a synchronous"
    )
