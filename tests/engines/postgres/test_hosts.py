"""Several hosts in one address: which are asked, with which settings; a silent one delays nobody."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from msgspec import structs

from holdkit.engines import deadlines
from holdkit.engines.postgres import PostgresEngine, address, hosts
from holdkit.engines.postgres.hosts import Primary, hosts_of
from holdkit.errors import EngineError, Overloaded
from holdkit.testing.postgres import ServerAddress
from tests.conftest import Migrated
from tests.engines.commands import create
from tests.engines.postgres.engine_calls import LANES, done, place
from tests.support.threads import PATIENCE


def parts(url: str) -> list[dict[str, object]]:
    return [dict(psycopg.conninfo.conninfo_to_dict(host.conninfo)) for host in address.read_url(url).hosts]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://a/shop", [("a", None, None)]),
        ("postgresql://a:1,b:2/shop", [("a", None, "1"), ("b", None, "2")]),
        ("postgresql:///shop?host=a,b&port=6000", [("a", None, "6000"), ("b", None, "6000")]),
        ("postgresql:///shop?host=a,b&hostaddr=10.0.0.1,10.0.0.2", [("a", "10.0.0.1", None), ("b", "10.0.0.2", None)]),
        ("postgresql:///shop?hostaddr=10.0.0.1,10.0.0.2", [(None, "10.0.0.1", None), (None, "10.0.0.2", None)]),
        ("postgresql:///shop?host=a,b&port=1,2,3", [("a,b", None, "1,2,3")]),  # libpq says what is wrong with it
        ("postgresql:///shop?service=of_a_file", [(None, None, None)]),
        ("postgresql:///shop", [(None, None, None)]),
    ],
)
def test_each_host_has_a_connection_string_of_its_own(
    url: str, expected: list[tuple[str | None, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    assert [(one.get("host"), one.get("hostaddr"), one.get("port")) for one in parts(url)] == expected


def test_hosts_of_the_environment_are_several_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "a,b")
    assert [one["host"] for one in parts("postgresql:///shop")] == ["a", "b"]
    (one,) = parts("postgresql:///shop?service=of_a_file")
    assert "host" not in one, "the file's hosts count, which libpq reads"


def test_silence_is_noticed_unless_the_address_says_otherwise() -> None:
    (one,) = parts("postgresql://a/shop")
    assert {name: one[name] for name in hosts.TCP} == hosts.TCP
    assert one["connect_timeout"] == "10"
    assert [each["connect_timeout"] for each in parts("postgresql://a,b/shop")] == ["2", "2"]
    (said,) = parts("postgresql://a/shop?tcp_user_timeout=7&keepalives_count=9&connect_timeout=4")
    assert (said["tcp_user_timeout"], said["keepalives_count"], said["connect_timeout"]) == ("7", "9", "4")
    assert hosts_of({"connect_timeout": "4"})[0].seconds == 4


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are accepted, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def beside(silent: int, server: ServerAddress, url: str, options: str) -> str:
    """The silent host first, then the one that is well."""
    database = urlsplit(url).path
    hosts = f"host=127.0.0.1,{server.host}&port={silent},{server.port}"
    return f"postgresql://postgres@{database}?{hosts}&{options}"


def test_a_silent_host_stalls_nobody(silent: int, postgres_server: ServerAddress, migrated: Migrated) -> None:
    """However long a single host may take, the other is asked a moment later, and first from then on: also where the silent one
    was the first to be asked so far."""
    url = beside(silent, postgres_server, migrated(lanes=LANES), "connect_timeout=3600")
    with ThreadPoolExecutor(1) as thread, closing(thread.submit(PostgresEngine, url).result(PATIENCE)) as engine:
        well, ill = f"{postgres_server.host}:{postgres_server.port}", f"127.0.0.1:{silent}"
        assert hosts._preferred[ill, well] == well
        for number, favourite in enumerate((well, ill)):
            hosts._preferred[ill, well] = favourite
            engine._connections.drop_idle()
            thread.submit(done, engine, create(f"seats-{number}")).result(PATIENCE)
            assert hosts._preferred[ill, well] == well


def test_when_nobody_answers_each_is_named(silent: int) -> None:
    url = f"postgresql://postgres@127.0.0.1:{silent},127.0.0.1:1/shop"
    said = f"127.0.0.1:{silent}: no answer within .*; 127.0.0.1:1: .*refused"
    asked = [structs.replace(host, seconds=0.5) for host in address.read_url(url).hosts]
    with pytest.raises(psycopg.OperationalError, match=said):
        hosts.open_any(asked)
    with pytest.raises(Overloaded) as late, deadlines.until(time.monotonic() + 1.0):
        PostgresEngine(url)
    left = said.replace("within .*;", r"within [01]\.\d s;")  # of the call, which is less than a host may take
    assert re.search(left, str(late.value.__cause__))


def test_a_host_that_was_replaced_is_not_used_any_more(
    postgres_server: ServerAddress, migrated: Migrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a connection that lies ready, nor a new one."""
    monkeypatch.setattr(hosts, "_timelines", {})
    with closing(PostgresEngine(migrated(lanes=LANES))) as engine:
        done(engine, create("seats"))
        (system,) = hosts._timelines
        newest = max(hosts._timelines[system])
        assert not Primary(system, newest, hosts._timelines[system]).outdated
        hosts._timelines[system].add(newest + 1)
        said = f"is on timeline {newest}, .* primary on {newest + 1}: .* restart this process"
        with pytest.raises(EngineError, match=said):
            done(engine, place("seats"))
        hosts._timelines[system].discard(newest + 1)
        done(engine, place("seats"))


def test_a_server_that_does_not_tell_its_timeline_is_used(migrated: Migrated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_IDENTIFY", "select no_such_function()")
    with closing(PostgresEngine(migrated(lanes=LANES))) as engine:
        done(engine, create("seats"))
        assert [driver.primary for _, driver in engine._connections.no_wait._free] == [None]
