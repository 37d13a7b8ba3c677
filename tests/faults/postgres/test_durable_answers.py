"""An answer that rests on what its call has read, and not itself written, waits for the standby as a written one does.

Here the standby is away, and whoever waits for it is cancelled, again and again: whatever was not proved must say
`OutcomeUnknown`. Then the standby is back, and the same question has its answer. Canaries: with the proof taken out, the same
questions are answered while the standby is away, and a failover takes the answers back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, Literal, Self

import pytest

import holdkit
from holdkit.core.outcomes import Reason
from holdkit.engines.postgres import PostgresEngine, migrate, script
from holdkit.engines.postgres.reading import At
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import scenes
from tests.engines.postgres.scenes import await_that

Colour = Literal["sync", "async"]
COLOURS: Final[tuple[Colour, ...]] = ("sync", "async")
WAITING: Final = "select pid from pg_stat_activity where wait_event = 'SyncRep'"


def wait_for_standbys(server: PostgresServer, names: str) -> None:
    with closing(server.connect()) as connection:
        connection.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
        connection.execute("select pg_reload_conf()")
        shown = "show synchronous_standby_names"
        await_that(lambda: connection.execute(shown.encode()).fetchone() == (names,), "settings not reloaded")
        connection.execute("checkpoint")  # whoever makes it has reloaded too, and it is he who tells commits to wait


class Cancelled:
    """Cancels every wait for a standby, as an impatient operator would, and counts them."""

    def __init__(self, server: PostgresServer) -> None:
        self.count = 0
        self._server, self._stop = server, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with closing(self._server.connect()) as connection:
            while not self._stop.wait(0.005):
                found = connection.execute(f"select pg_cancel_backend(pid) from ({WAITING}) w".encode())
                self.count += len(found.fetchall())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(scenes.PATIENCE)


@contextmanager
def away(server: PostgresServer) -> Iterator[Cancelled]:
    """Commits wait for a standby that is not there, until somebody cancels the wait."""
    wait_for_standbys(server, "nobody")
    try:
        with Cancelled(server) as cancelled:
            yield cancelled
    finally:
        wait_for_standbys(server, "")


def told(url: str, colour: Colour, *calls: Callable[[Any], Any]) -> list[Any]:
    """What one kernel answers to each: a value, or what it raises."""

    async def wait() -> list[Any]:
        async with await holdkit.connect_async(url) as hk:
            found: list[Any] = []
            for call in calls:
                try:
                    found.append(await call(hk))
                except holdkit.HoldkitError as error:
                    found.append(error)
            return found

    def answer(hk: Any, call: Callable[[Any], Any]) -> Any:
        try:
            return call(hk)
        except holdkit.HoldkitError as error:
            return error

    if colour == "async":
        return asyncio.run(wait())
    with holdkit.connect(url) as hk:
        return [answer(hk, call) for call in calls]


def names(answers: list[Any]) -> list[str]:
    return [type(answer).__name__ for answer in answers]


def without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a batch that wrote nothing rolls back, a look is a look."""
    monkeypatch.setattr(script, "proof_of", lambda outcomes, gathered: ())
    monkeypatch.setattr(script, "prune", lambda terms, slot: [])  # it would be committed
    monkeypatch.setattr(At, "proved", lambda self, script, query: script)


@pytest.fixture(scope="module")
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        migrate(server.dsn("shop"), lanes=scenes.LANES)
        with holdkit.connect(server.dsn("shop")) as hk:
            hk.create_pool("seats", 10**6)
            hk.create_pool("one", 1)
            hk.consume("one", 1)
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.dsn("shop")


def take(hk: Any) -> Any:
    return hk.hold("seats", 1, ttl=60)


def spend(hk: Any) -> Any:
    return hk.consume("seats", 1)


@pytest.mark.slow
@pytest.mark.parametrize("colour", COLOURS)
def test_a_cancelled_wait_stays_unknown(
    server: PostgresServer, url: str, colour: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without operation id, so that the journal is asked: it shows what no standby has."""
    with away(server) as cancelled:
        assert names(told(url, colour, take, spend)) == ["OutcomeUnknown"] * 2
        assert cancelled.count >= 4, "each once for the commit, and once for the look at what came of it"
        without_proof(monkeypatch)
        assert names(told(url, colour, take, spend)) == ["Hold"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("colour", COLOURS)
def test_nothing_that_was_read_is_answered_while_the_standby_is_away(
    server: PostgresServer, url: str, colour: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries without operation id, refusals and whatever is done already: each rests on rows that a failover may take away."""
    with holdkit.connect(url) as hk:
        first, second, third = (hk.hold("seats", 1, ttl=600) for _ in range(3))
    ours, missing = scenes.hold_id("seats"), scenes.hold_id("seats")

    def born(hk: Any) -> Any:
        return hk.hold("seats", 1, ttl=600, id=ours, owner="me")

    def confirmed(hk: Any) -> Any:
        return hk.confirm(first)

    def released(hk: Any) -> Any:
        return hk.release(second)

    writing = (born, confirmed, released)
    reading: tuple[Callable[[Any], Any], ...] = (
        *writing,
        lambda hk: hk.hold("one", 1, ttl=60),
        lambda hk: hk.confirm(missing, owner="me"),
        lambda hk: hk.extend(third, until=third.deadline),
        lambda hk: hk.create_pool("seats", 10, exist_ok=True),
        lambda hk: hk.put_record("note", "none", "{}", if_version=7),
        lambda hk: hk.remove_pool("none"),
    )
    settled = ["HoldExists", "AlreadyConfirmed", "AlreadyReleased", "InsufficientCapacity", "HoldNotFound"]
    with away(server):
        assert names(told(url, colour, *writing)) == ["OutcomeUnknown"] * 3
        assert names(told(url, colour, *reading)) == ["OutcomeUnknown"] * len(reading)
        with pytest.MonkeyPatch.context() as canary:
            without_proof(canary)
            early = names(told(url, colour, *reading))
    late = names(told(url, colour, *reading))
    assert early[:5] == late[:5] == settled
    assert early == late
    assert "OutcomeUnknown" not in late


@pytest.mark.slow
def test_where_no_standby_is_waited_for_nothing_changes(url: str) -> None:
    said: list[str] = []
    with closing(PostgresEngine(url, on_statement=said.append, prune_every=10**9)) as engine:
        said.clear()
        assert scenes.reason(scenes.one(engine, scenes.place("one"))) is Reason.INSUFFICIENT_CAPACITY
        assert (said[-1], "prove_durable" in said) == ("rollback", False)
