"""An answer that rests on what its call has read, and not itself written, waits for the standby as a written one does.

Here the standby is away, and whoever waits for it is cancelled, again and again: whatever was not proved must say
`OutcomeUnknown`. Then the standby is back, and the same question has its answer. Canaries: with the proof taken out, the same
questions are answered while the standby is away, and a failover takes the answers back.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import date
from functools import partial
from typing import Any, Final, Literal, Self

import psycopg
import pytest

import holdkit
from holdkit import OutcomeUnknown
from holdkit.client import Policy, connect
from holdkit.core.codec import ticket
from holdkit.core.commands import AnyCommand
from holdkit.core.outcomes import Reason
from holdkit.engines.postgres import PostgresEngine, migrate, script
from holdkit.engines.postgres.journal_reading import Reader
from holdkit.engines.postgres.migrating import Layout, migrate_to
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that
from tests.support.servers import live_server
from tests.support.threads import PATIENCE

Mode = Literal["sync", "async"]
MODES: Final[tuple[Mode, ...]] = ("sync", "async")
WAITING: Final = "select pid from pg_stat_activity where wait_event = 'SyncRep'"


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
        self._thread.join(PATIENCE)


@contextmanager
def away(server: PostgresServer) -> Iterator[Cancelled]:
    """Commits wait for a standby that is not there, until somebody cancels the wait."""
    server.change_setting("synchronous_standby_names", "nobody")
    try:
        with Cancelled(server) as cancelled:
            yield cancelled
    finally:
        server.change_setting("synchronous_standby_names", "")


def told(url: str, mode: Mode, *calls: Callable[[Any], Any]) -> list[Any]:
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

    if mode == "async":
        return asyncio.run(wait())
    with holdkit.connect(url) as hk:
        return [answer(hk, call) for call in calls]


def names(answers: list[Any]) -> list[str]:
    return [type(answer).__name__ for answer in answers]


def without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a batch that wrote nothing rolls back, a look is a look."""
    monkeypatch.setattr(script, "proof_of", lambda outcomes, batch: ())
    monkeypatch.setattr(script, "prune", lambda terms, slot: [])  # it would be committed
    monkeypatch.setattr(Reader, "proved", lambda self, script, query: script)


@pytest.fixture(scope="module")
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        layouts: dict[str, Layout] = {"shop": "one server", "distributed": "as if"}
        for database, layout in layouts.items():
            server.create_database(database)
            migrate_to(server.dsn(database), layout, lanes=engine_calls.LANES)
            with holdkit.connect(server.dsn(database)) as hk:
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
@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_wait_stays_unknown(
    server: PostgresServer, url: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without operation id, so that the journal is asked: it shows what no standby has."""
    with away(server) as cancelled:
        assert names(told(url, mode, take, spend)) == ["OutcomeUnknown"] * 2
        # each once for the commit, and once for the read of its fate; counted a moment after it was cancelled
        await_that(lambda: cancelled.count >= 4, "a wait for a standby was not cancelled")
        without_proof(monkeypatch)
        assert names(told(url, mode, take, spend)) == ["Hold"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("database", "mode"), [("shop", "sync"), ("shop", "async"), ("distributed", "sync")])
def test_nothing_that_was_read_is_answered_while_the_standby_is_away(
    server: PostgresServer, database: str, mode: Mode
) -> None:
    """Retries without operation id, refusals and whatever is done already: each rests on rows that a failover may take away."""
    url = server.dsn(database)
    with holdkit.connect(url) as hk:
        first, second, third = (hk.hold("seats", 1, ttl=600) for _ in range(3))
    ours, missing = engine_calls.hold_id("seats"), engine_calls.hold_id("seats")

    def born(hk: Any) -> Any:
        return hk.hold("seats", 1, ttl=600, id=ours, token="me")

    def confirmed(hk: Any) -> Any:
        return hk.confirm(first)

    def released(hk: Any) -> Any:
        return hk.release(second)

    writing = (born, confirmed, released)
    reading: tuple[Callable[[Any], Any], ...] = (
        *writing,
        lambda hk: hk.hold("one", 1, ttl=60),
        lambda hk: hk.confirm(holdkit.ticket(missing, "me")),
        lambda hk: hk.extend(third, until=third.raw.deadline),
        lambda hk: hk.create_pool("seats", 10, exist_ok=True),
        lambda hk: hk.admin.records.put("note", "none", "{}", if_version=7),
        lambda hk: hk.admin.remove_pool("none"),
    )
    settled = ["HoldExists", "AlreadyConfirmed", "AlreadyReleased", "InsufficientCapacity", "HoldNotFound"]
    with away(server):
        assert names(told(url, mode, *writing)) == ["OutcomeUnknown"] * 3
        assert names(told(url, mode, *reading)) == ["OutcomeUnknown"] * len(reading)
        with pytest.MonkeyPatch.context() as canary:
            without_proof(canary)
            early = names(told(url, mode, *reading))
    late = names(told(url, mode, *reading))
    assert early[:5] == late[:5] == settled
    assert early == late
    assert "OutcomeUnknown" not in late


@pytest.mark.slow
def test_where_no_standby_is_waited_for_nothing_changes(url: str) -> None:
    said: list[str] = []
    with closing(PostgresEngine(url, on_statement=said.append, prune_every=10**9)) as engine:
        said.clear()
        assert engine_calls.reason(engine_calls.one(engine, engine_calls.place("one"))) is Reason.INSUFFICIENT_CAPACITY
        assert (said[-1], "prove_durable" in said) == ("rollback", False)


# Faces: what they answer from a look of their own


class Order(holdkit.Saga):
    """One that is begun, and waits to be driven."""

    name = "order"

    def reserve(self, intent: Any, step: Any) -> Any:
        return "seats"

    def validate(self, intent: Any, step: Any) -> None:
        pass

    def effect(self, intent: Any, step: Any) -> Any:
        pass


def faces(hk: Any, sold: str, hold: holdkit.Hold) -> dict[str, Callable[[], Any]]:
    """Calls whose answer is a look: at what is not there, at what was done before, at what there is to choose from."""
    token = ticket(engine_calls.hold_id("seats"), "me")
    orders = hk.sagas.register(Order)
    inn = hk.calendar("inn", {"double": 3})
    return {
        "a key's second claim": lambda: hk.claims.hold("email", "b@c.d", ttl=60, token="ours"),
        "a ticket of nothing": lambda: hk.confirm(token, entity="user:1"),
        "nothing to free": lambda: hk.claims.free("email", "never", reason="closed"),
        "a key of a combined hold": lambda: hk.claims.free("email", "both", reason="closed"),
        "an item of a combined hold": lambda: hk.items.free(["both"], reason="closed"),
        "items of another hold": lambda: hk.items.confirm([f"{sold}/1", "both"], token="ours"),
        "no seat left": lambda: hk.seats.hold(1, section=sold, ttl=None),
        "no such section": lambda: hk.seats.list(f"{sold}/none"),
        "seats of nobody": lambda: hk.items.release([sold], token="me"),
        "a saga begun before": lambda: orders.begin("begun", 1),
        "a saga that is done": lambda: orders.run("done", 1),
        "a saga of another intent": lambda: orders.begin("begun", 2),
        "a saga ended by hand": lambda: hk.sagas.resolve("done", "done", reason="looked"),
        "no night to resize": lambda: inn.resize("double", 2, date(2031, 5, 1), date(2031, 5, 3)),
    }


def face(name: str, hk: Any, *, sold: str, hold: holdkit.Hold) -> Any:
    return faces(hk, sold, hold)[name]()


ANSWERS: Final = {
    "a key's second claim": "Hold",
    "a ticket of nothing": "HoldNotFound",
    "nothing to free": "NotConfirmed",
    "a key of a combined hold": "PartOfHold",
    "an item of a combined hold": "PartOfHold",
    "items of another hold": "PartOfHold",
    "no seat left": "ItemsTaken",
    "no such section": "SectionNotFound",
    "seats of nobody": "PoolNotFound",
    "a saga begun before": "SagaRecord",
    "a saga that is done": "SagaRecord",
    "a saga of another intent": "OperationConflict",
    "a saga ended by hand": "SagaRecord",
    "no night to resize": "int",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_faces_answer_nothing_from_a_look_while_the_standby_is_away(
    server: PostgresServer, url: str, mode: Mode
) -> None:
    with holdkit.connect(url) as hk:
        hold = hk.hold("seats", 1, ttl=600)
        hk.seats.add([holdkit.Seat(sold := f"sold-{mode}/1", f"sold-{mode}", "A", 1)])
        hk.items.hold([sold], ttl=None)
        hk.items.add(["both"])
        if not hk.claims.is_taken("email", "both"):
            hk.confirm(hk.hold([holdkit.claim("email", "both"), holdkit.items("both")], ttl=60, token="ours"))
        hk.claims.hold("email", "b@c.d", ttl=60, token="ours")
        orders = hk.sagas.register(Order)
        orders.begin("begun", 1)
        orders.run("done", 1)
    calls = [partial(face, name, sold=f"sold-{mode}", hold=hold) for name in ANSWERS]
    with away(server):
        unknown = names(told(url, mode, *calls))
        with pytest.MonkeyPatch.context() as canary:
            without_proof(canary)
            early = names(told(url, mode, *calls))
    assert dict(zip(ANSWERS, names(told(url, mode, *calls)), strict=True)) == ANSWERS
    assert dict(zip(ANSWERS, early, strict=True)) == ANSWERS, "the canary: it answers, standby or not"
    assert dict(zip(ANSWERS, unknown, strict=True)) == dict.fromkeys(ANSWERS, "OutcomeUnknown")


# Over HTTP


@pytest.mark.slow
def test_a_server_answers_nothing_from_a_look_while_the_standby_is_away(server: PostgresServer, url: str) -> None:
    """Its own records too: that a key is revoked, that a webhook is gone, that there is no such budget."""
    once = Policy(attempts=1)
    with (
        live_server(url) as served,
        served.client() as http,
        connect(served.url, key=served.admin, policy=once) as remote,
    ):
        key = http.post("/v1/keys", json={"name": "old", "scope": "read"}).json()["info"]["id"]
        hook = http.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/hook"}).json()["id"]
        assert http.delete(f"/v1/webhooks/{hook}").status_code == 200
        assert http.delete(f"/v1/keys/{key}").status_code == 200
        remote.claims.hold("email", "far@b.c", ttl=60, token="ours")
        inn = remote.calendar("far-inn", {"double": 3})
        calls: dict[str, tuple[Callable[[], Any], str]] = {
            "a key's second claim": (lambda: remote.claims.hold("email", "far@b.c", ttl=60, token="ours"), "Hold"),
            "no night": (lambda: inn.resize("double", 2, date(2031, 5, 1), date(2031, 5, 3)), "int"),
        }
        requests: dict[str, tuple[Callable[[], Any], int]] = {
            "a revoked key": (lambda: http.delete(f"/v1/keys/{key}"), 200),
            "a rotated key": (lambda: http.post(f"/v1/keys/{key}/rotate", json={}), 400),
            "a removed webhook": (lambda: http.delete(f"/v1/webhooks/{hook}"), 404),
            "no budget": (lambda: http.post("/v1/budgets/none/hold", json=HELD, headers={"Idempotency-Key": "k"}), 404),
        }
        with away(server):
            for call, _ in calls.values():
                with pytest.raises(OutcomeUnknown):
                    call()
            for name, (request, _) in requests.items():
                answer = request()
                assert (answer.status_code, answer.json()["effect"]) == (503, "unknown"), name
        for name, (call, word) in calls.items():
            assert type(call()).__name__ == word, name
        for name, (request, status) in requests.items():
            assert request().status_code == status, name


HELD: Final = {"client": "c", "estimate": {"tokens": 1}, "ttl": 60}


# A failover


@pytest.mark.slow
def test_a_primary_that_came_back_without_its_standby_promises_nothing(postgres_binaries: object) -> None:
    """The standby is away, the primary crashes and recovers: what was committed meanwhile can be seen, and a failover takes it
    back. The canary is told *done*, and what it was told is gone."""
    ours, spent = engine_calls.hold_id("seats"), engine_calls.hold_id("seats")
    calls: dict[str, Callable[[Any], Any]] = {
        "HoldExists": lambda hk: hk.hold("seats", 1, ttl=600, id=ours, token="me"),
        "Hold": lambda hk: hk.claims.hold("email", "a@b.c", ttl=600, token="ours"),
        "AlreadyConfirmed": lambda hk: hk.confirm(holdkit.ticket(spent, "me")),
    }
    with PostgresServer(within=memory()) as primary:
        primary.create_database("shop")
        migrate(primary.dsn("shop"), lanes=engine_calls.LANES)
        with holdkit.connect(primary.dsn("shop")) as hk:
            hk.create_pool("seats", 10)
            hk.hold("seats", 1, ttl=600, id=spent, token="me")
        with closing(primary.standby(within=memory())) as standby:
            standby.start()
            primary.change_setting("synchronous_standby_names", "standby")
            with holdkit.connect(primary.dsn("shop")) as hk:
                kept = hk.hold("seats", 1, ttl=600)
            standby.stop("immediate")
            with Cancelled(primary):
                assert names(told(primary.dsn("shop"), "sync", *calls.values())) == ["OutcomeUnknown"] * 3
            primary.kill()
            primary.start()
            with Cancelled(primary), pytest.MonkeyPatch.context() as canary:
                for mode in MODES:
                    assert names(told(primary.dsn("shop"), mode, *calls.values())) == ["OutcomeUnknown"] * 3
                without_proof(canary)
                assert names(told(primary.dsn("shop"), "sync", *calls.values())) == list(calls)
            primary.kill()
            standby.start()
            assert ask(standby.dsn(), "select pg_promote(true, 60)") == [(True,)]
            with holdkit.connect(standby.dsn("shop")) as hk:
                assert hk.get(kept).state == "held", "what was done while it was there"
                assert hk.claims.get("email", "a@b.c") is None
                assert hk.get(spent).state == "held"
                with pytest.raises(holdkit.errors.HoldNotFound):
                    hk.get(ours)


# Everything else that commits


class Halls(holdkit.Resource[str, None]):
    kind = "room"

    def capacity(self, tx: Any, key: str, window: None) -> int:
        return 1


@pytest.mark.slow
def test_whatever_commits_notices_a_cancelled_wait(server: PostgresServer, url: str) -> None:
    """Resources, limits, repair, import, migration: none of them says that it is done."""
    with holdkit.connect(url) as hk:
        exported = b"".join(export(hk._executor.engine))
        taken = hk.resource(Halls()).hold("taken", ttl=600)
    for name in ("empty", "new"):
        server.create_database(name)
    migrate(server.dsn("empty"), lanes=engine_calls.LANES)
    with closing(server.connect("shop")) as connection:
        connection.execute("update holdkit.pools set held = held + 1 where id = 'seats'")

    def repair(hk: Any) -> Any:
        return hk.admin.repair(dry_run=False, reason="it was changed by hand")

    unknown: tuple[Callable[[Any], Any], ...] = (
        lambda hk: hk.resource(Halls()).hold("free", ttl=60),
        lambda hk: hk.resource(Halls()).hold("taken", ttl=60),
        lambda hk: hk.admin.change_limits(retention="31d", reason="longer"),
        repair,
    )
    with away(server):
        assert names(told(url, "sync", *unknown)) == ["OutcomeUnknown"] * 4
        with pytest.raises(OutcomeUnknown):
            import_journal(server.dsn("empty"), Import(io.BytesIO(exported)))
        with pytest.raises(OutcomeUnknown):
            migrate(server.dsn("new"))
    assert taken.state == "held"


# What the proof costs others


@pytest.mark.slow
def test_who_waits_for_the_standby_to_be_refused_has_let_go_of_the_pool(server: PostgresServer, url: str) -> None:
    """Not behind a pooler, where the next transaction may be another server's: there, look and proof are one."""
    server.change_setting("synchronous_standby_names", "nobody")
    locking = "select 1 from holdkit.pools where id = 'one' for no key update skip locked"
    try:
        for pooler, free in (("", [(1,)]), ("&pooler=transaction", [])):
            with (
                closing(PostgresEngine(url + pooler, prune_every=10**9)) as engine,
                ThreadPoolExecutor(1) as thread,
                psycopg.connect(url) as tx,
            ):
                waiting = thread.submit(telling, engine, engine_calls.place("one"))
                await_that(lambda: ask(url, WAITING), "nobody waits for the standby")
                assert tx.execute(locking).fetchall() == free
                tx.rollback()
                ask(url, f"select pg_cancel_backend(pid) from ({WAITING}) w")
                assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)
    finally:
        server.change_setting("synchronous_standby_names", "")


def telling(engine: PostgresEngine, command: AnyCommand) -> Any:
    try:
        return engine_calls.one(engine, command)
    except holdkit.HoldkitError as error:
        return error


@pytest.mark.slow
def test_an_answer_in_a_callers_transaction_is_as_durable_as_its_commit(server: PostgresServer, url: str) -> None:
    """It has written nothing and locked nothing, and yet its COMMIT waits."""
    said: list[str] = []
    with away(server), holdkit.connect(url) as hk, psycopg.connect(url) as tx:
        tx.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        with pytest.raises(holdkit.errors.HoldNotFound):
            hk.confirm(holdkit.ticket(engine_calls.hold_id("seats"), "me"), tx=tx)
        tx.commit()
    assert ["canceling wait for synchronous replication" in words for words in said] == [True]
