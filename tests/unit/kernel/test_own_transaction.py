"""A transaction of the engine's own, lent to application code: both happen or neither, on every engine, sync and async."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

import holdkit
from holdkit import InvalidRequest, Leg, OutcomeUnknown, Overloaded
from holdkit.commands import PlaceHold
from holdkit.core.codec import fingerprint
from holdkit.core.commands import ConfirmHold, CreatePool, Group
from holdkit.core.face_legs import FaceLeg
from holdkit.core.outcomes import Done, Refusal
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Engine, Lent
from holdkit.engines.postgres import own_transaction
from holdkit.engines.sqlite import SqliteEngine
from holdkit.errors import EngineError, PromiseBroken
from holdkit.kernel.own_transaction import decide_inside, lend
from holdkit.testing import FakeClock
from tests.support.threads import PATIENCE
from tests.support.watched_engine import WatchedEngine

LONG_WAITS = holdkit.Limits(lock_timeout="60s")


class Place:
    """One engine, and the application's own table beside its holds where there is SQL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sql = url.startswith(("sqlite", "postgres"))
        if url.startswith("postgres"):
            holdkit.migrate(url)
        self.hk = holdkit.connect(url, clock=FakeClock(), limits=LONG_WAITS)
        if self.sql:
            self.write("create table notes (words text)")

    @property
    def engine(self) -> Engine:
        return self.hk._executor.engine

    def connect(self) -> Any:
        if self.url.startswith("postgres"):
            return psycopg.connect(self.url, autocommit=True)
        return sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)

    def write(self, sql: str) -> list[Any]:
        connection = self.connect()
        try:
            cursor = connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def notes(self) -> list[str]:
        return [row[0] for row in self.write("select words from notes order by words")] if self.sql else []


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    made = Place(urls.get(request.param) or request.getfixturevalue("migrated")())
    yield made
    made.hk.close()


@pytest.fixture(params=["sqlite", "postgres"])
def sql_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    sqlite = request.param == "sqlite"
    made = Place(f"sqlite:///{tmp_path}/holds.db" if sqlite else request.getfixturevalue("migrated")())
    yield made
    made.hk.close()


LOCK = Group((CreatePool(id="~r", total=0, exist_ok=True, on_demand=True),))


def asking(name: int, quantity: int = 1, **more: Any) -> Group:
    command = PlaceHold(legs=(Leg("~r", quantity),), ttl_slots=60, id=f"{name:032x}", token="me", **more)
    return Group((replace(command, fingerprint=fingerprint(command)),))


def answered(group: Group, total: int) -> Group:
    (command,) = group.commands
    assert isinstance(command, PlaceHold)
    return Group((replace(command, legs=(FaceLeg(command.legs[0].pool, command.legs[0].quantity, total=total),)),))


def reserve(engine: Engine, name: int, total: int, quantity: int = 1, **more: Any) -> Any:
    group = asking(name, quantity, **more)
    (outcome,) = decide_inside(engine, group, minted=False, ask=lambda _: answered(group, total), lock=LOCK)
    return outcome


def note(tx: Any, words: str = "done") -> None:
    if tx is not None:
        tx.execute(f"insert into notes values ('{words}')")


def test_both_happen(place: Place) -> None:
    group = asking(1)

    def ask(tx: Any) -> Group:
        note(tx)
        return answered(group, 3)

    (outcome,) = decide_inside(place.engine, group, minted=False, ask=ask, lock=LOCK)
    assert isinstance(outcome, Done)
    pool = place.hk.pool("~r")
    assert (pool.total, pool.held) == (3, 1)
    assert place.notes() == (["done"] if place.sql else [])
    assert place.hk.admin.verify().ok


def test_neither_happens_if_it_raises(place: Place) -> None:
    class Unhappy(Exception):
        pass

    def ask(tx: Any) -> Group:
        note(tx)
        raise Unhappy

    with pytest.raises(Unhappy):
        decide_inside(place.engine, asking(1), minted=False, ask=ask, lock=LOCK)
    assert place.notes() == []
    assert place.hk.pools("~") == []
    assert isinstance(reserve(place.engine, 1, 1), Done)


def test_a_refusal_is_an_answer_and_is_committed(place: Place) -> None:
    assert isinstance(reserve(place.engine, 1, 2, 2), Done)
    refusal = reserve(place.engine, 2, 1, op="retry")
    assert isinstance(refusal, Refusal)
    assert place.hk.pool("~r").over
    assert reserve(place.engine, 2, 9, op="retry") == replace(refusal, replayed=True)


def test_a_retry_gets_the_recorded_answer(place: Place) -> None:
    first = reserve(place.engine, 1, 1, op="retry")
    again = reserve(place.engine, 1, 1, op="retry")
    assert isinstance(first, Done)
    assert again.replayed
    assert again.hold == first.hold
    assert place.hk.pool("~r").held == 1


def test_with_whole_a_refusal_takes_everything_back(sql_place: Place) -> None:
    group = Group((ConfirmHold(id="0" * 32),))

    def effect(tx: Any) -> Group:
        note(tx)
        return group

    (outcome,) = decide_inside(sql_place.engine, group, minted=False, ask=effect, whole=True)
    assert isinstance(outcome, Refusal)
    assert sql_place.notes() == []


def test_with_whole_what_is_done_is_done(sql_place: Place) -> None:
    hk = sql_place.hk
    hk.create_pool("p", 1)
    hold = hk.hold("p", 1, ttl=60)
    group = Group((ConfirmHold(id=hold.id, token=hold.token),))

    def effect(tx: Any) -> Group:
        note(tx)
        return group

    (outcome,) = decide_inside(sql_place.engine, group, minted=False, ask=effect, whole=True)
    assert isinstance(outcome, Done)
    assert (hk.get(hold).state, sql_place.notes()) == ("confirmed", ["done"])


def test_the_first_creation_is_serialised(place: Place) -> None:
    """Two first holders at once: the second asks only once the first has committed."""
    began, early, order = threading.Event(), threading.Event(), []

    def first(_tx: Any) -> Group:
        began.set()
        assert not early.wait(0.2)
        order.append("first")
        return answered(asking(1), 1)

    def second(_tx: Any) -> Group:
        early.set()
        order.append("second")
        return answered(asking(2), 1)

    results: list[Any] = []

    def run(name: int, ask: Callable[[Any], Group]) -> None:
        results.extend(decide_inside(place.engine, asking(name), minted=False, ask=ask, lock=LOCK))

    jobs = [threading.Thread(target=run, args=job) for job in ((1, first), (2, second))]
    jobs[0].start()
    assert began.wait(PATIENCE)
    jobs[1].start()
    for job in jobs:
        job.join(PATIENCE)
    assert order == ["first", "second"]
    assert sorted(type(result).__name__ for result in results) == ["Receipt", "Refusal"]
    assert place.hk.pool("~r").held == 1
    assert place.hk.admin.verify().ok


def test_a_call_from_inside_is_refused_at_once(place: Place) -> None:
    place.hk.create_pool("p", 1)

    def inside(_lent: Lent) -> None:
        with pytest.raises(InvalidRequest) as caught:
            place.hk.hold("p", 1, ttl=60)
        assert caught.value.code == "tx_open_here"
        with pytest.raises(InvalidRequest):
            lend(place.engine, lambda _: None)
        assert place.hk.pool("p").total == 1  # looking is fine

    lend(place.engine, inside)
    assert place.hk.hold("p", 1, ttl=60).state == "held"


def test_a_call_from_inside_with_its_tx_joins(sql_place: Place) -> None:
    hk = sql_place.hk
    hk.create_pool("p", 1)

    def work(lent: Lent) -> str:
        return hk.hold("p", 1, ttl=60, tx=lent.tx).id

    assert hk.get(lend(sql_place.engine, work)).state == "held"


def test_another_thread_that_it_waits_for_is_turned_away(tmp_path: Path) -> None:
    """Whoever waits inside for somebody who waits for the turn: bounded."""
    for url in ("memory://", f"sqlite:///{tmp_path}/holds.db"):
        with holdkit.connect(url, limits=holdkit.Limits(lock_timeout="50ms")) as hk:
            errors: list[BaseException] = []

            def call(hk: holdkit.Kernel = hk, errors: list[BaseException] = errors) -> None:
                try:
                    hk.create_pool("p", 1)
                except Overloaded as error:
                    errors.append(error)

            def wait(_lent: Lent, call: Any = call) -> None:
                thread = threading.Thread(target=call)
                thread.start()
                thread.join(PATIENCE)

            lend(hk._executor.engine, wait)
            assert len(errors) == 1


def test_the_transaction_is_not_the_applications_to_end(sql_place: Place) -> None:
    def work(lent: Lent) -> None:
        for end in (lent.tx.commit, lent.tx.rollback):
            with pytest.raises((sqlite3.ProgrammingError, psycopg.ProgrammingError)):
                end()
        note(lent.tx)

    lend(sql_place.engine, work)
    assert sql_place.notes() == ["done"]


def test_ending_it_by_hand_is_unknown(sql_place: Place) -> None:
    def work(lent: Lent) -> None:
        note(lent.tx)
        lent.tx.execute("commit")

    with pytest.raises(OutcomeUnknown):
        lend(sql_place.engine, work)
    assert isinstance(reserve(sql_place.engine, 1, 1), Done)


def test_sqlites_own_block_does_not_commit(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/holds.db")

    def work(lent: Lent) -> None:
        with lent.tx:
            note(lent.tx)
        with pytest.raises(sqlite3.ProgrammingError):
            lent.tx.close()
        raise KeyError

    with pytest.raises(KeyError):
        lend(place.engine, work)
    assert place.notes() == []
    place.hk.close()


def test_without_sql_a_turn_is_used_once() -> None:
    def work(lent: Lent) -> None:
        lent.apply([LOCK])
        lent.apply([LOCK])

    with pytest.raises(PromiseBroken):
        lend(MemoryEngine(), work)


def test_an_engine_that_lends_nothing() -> None:
    with pytest.raises(InvalidRequest) as caught:
        lend(WatchedEngine(), lambda _: None)
    assert caught.value.code == "engine_lends_nothing"


# SQLite's commits


@pytest.mark.parametrize("there", [True, False])
def test_a_commit_that_failed_is_looked_for(tmp_path: Path, there: bool) -> None:
    """The error comes after the commit (then it is found), or instead of it."""
    interrupted: list[str] = []

    def interrupt(statement: str) -> None:
        if statement == "commit" and armed and not interrupted:
            interrupted.append(statement)
            if there:
                (driver,) = armed
                driver.execute("commit")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    armed: list[Any] = []
    engine = SqliteEngine(tmp_path / "holds.db", clock=FakeClock(), on_statement=interrupt)
    group = asking(1)

    def ask(tx: Any) -> Group:
        armed.append(tx)
        return answered(group, 1)

    if there:
        (outcome,) = decide_inside(engine, group, minted=False, ask=ask)
        assert isinstance(outcome, Done)
    else:
        with pytest.raises(OutcomeUnknown):
            decide_inside(engine, group, minted=False, ask=ask)
    assert interrupted == ["commit"]
    assert [*engine.verify()] == []
    engine.close()


def test_an_unknown_commit_with_an_operation_id_is_asked_about(tmp_path: Path) -> None:
    interrupted: list[str] = []
    armed = False

    def interrupt(statement: str) -> None:
        if statement == "commit" and armed and not interrupted:
            interrupted.append(statement)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    engine = SqliteEngine(tmp_path / "holds.db", clock=FakeClock(), on_statement=interrupt)
    armed = True
    assert isinstance(reserve(engine, 1, 1, op="retry"), Done)
    interrupted.clear()
    group = asking(2)
    (outcome,) = decide_inside(engine, group, minted=True, ask=lambda _: answered(group, 2))
    assert isinstance(outcome, Done)
    interrupted.clear()
    asked: list[int] = []

    def raises_later(_tx: Any) -> Group:
        asked.append(1)
        if len(asked) > 1:
            raise KeyError
        return answered(asking(3, op="other"), 3)

    with pytest.raises(OutcomeUnknown):
        decide_inside(engine, asking(3, op="other"), minted=False, ask=raises_later)
    engine.close()


# PostgreSQL's


@pytest.fixture
def pg(migrated: Callable[..., str]) -> Iterator[Place]:
    made = Place(migrated())
    yield made
    made.hk.close()


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_passing_trouble_of_the_application_is_tried_again(pg: Place, state: str) -> None:
    runs: list[int] = []

    def work(lent: Lent) -> None:
        note(lent.tx)
        runs.append(1)
        if len(runs) < 3:
            lent.tx.execute(f"do $$ begin raise exception using errcode = '{state}', message = 'passing'; end $$")

    lend(pg.engine, work)
    assert (len(runs), pg.notes()) == (3, ["done"])


def test_trouble_that_does_not_pass_is_told(pg: Place) -> None:
    runs: list[int] = []

    def work(lent: Lent) -> None:
        runs.append(1)
        lent.tx.execute("do $$ begin raise exception using errcode = '40001', message = 'for ever'; end $$")

    with pytest.raises(Overloaded, match="for ever"):
        lend(pg.engine, work)
    assert 1 < len(runs) <= 20
    with pytest.raises(psycopg.errors.UndefinedTable):
        lend(pg.engine, lambda lent: lent.tx.execute("select * from nowhere"))


def test_a_connection_lost_before_the_commit_is_tried_again(pg: Place) -> None:
    runs: list[int] = []

    def work(lent: Lent) -> None:
        note(lent.tx)
        runs.append(lent.tx.info.backend_pid)
        if len(runs) == 1:
            pg.write(f"select pg_terminate_backend({runs[0]}, 10000)")
            note(lent.tx)

    lend(pg.engine, work)
    assert (len(runs), pg.notes()) == (2, ["done"])


def test_a_connection_lost_at_the_commit_is_unknown(pg: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pg.write("create function stop() returns trigger language plpgsql as "
             "$$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$")  # fmt: skip
    pg.write("create constraint trigger stop after insert on notes deferrable initially deferred "
             "for each row execute function stop()")  # fmt: skip

    def work(lent: Lent) -> None:
        note(lent.tx)

    monkeypatch.setattr(own_transaction, "CHECK_CONSTRAINTS", "select 1")  # else it would strike before the commit
    with pytest.raises(OutcomeUnknown):
        lend(pg.engine, work)
    assert isinstance(reserve(pg.engine, 1, 1), Done)


def test_a_deferred_constraint_fails_before_the_commit(pg: Place) -> None:
    pg.write("create table pairs (id int unique deferrable initially deferred)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        lend(pg.engine, lambda lent: lent.tx.execute("insert into pairs values (1), (1)"))


def test_an_error_that_was_swallowed_commits_nothing(pg: Place) -> None:
    def work(lent: Lent) -> None:
        note(lent.tx)
        with pytest.raises(psycopg.errors.UndefinedTable):
            lent.tx.execute("select * from nowhere")

    with pytest.raises(EngineError, match="savepoint"):
        lend(pg.engine, work)
    assert pg.notes() == []


def test_nothing_that_was_set_waits_for_the_next(pg: Place) -> None:
    def work(lent: Lent) -> None:
        lent.tx.execute("set application_name = 'mine'")
        lent.tx.row_factory = psycopg.rows.dict_row

    def look(lent: Lent) -> Any:
        return (lent.tx.info.backend_pid, *lent.tx.execute("show application_name").fetchone())

    lend(pg.engine, work)
    looks = {lend(pg.engine, look) for _ in range(12)}  # psycopg prepares what it has seen five times
    assert [name for _, name in looks] == ["holdkit"]  # and it was one connection all the time


def test_others_pools_are_not_waited_for(pg: Place) -> None:
    """While application code runs, only its own pool is locked, and no lane."""
    pg.hk.create_pool("p", 1)

    def work(lent: Lent) -> None:
        lent.apply([LOCK])
        other = holdkit.connect(pg.url, limits=LONG_WAITS)
        for number in range(40):  # some of them in the same lane
            other.create_pool(f"q{number}", 1)
        other.hold("p", 1, ttl=60)
        other.close()

    lend(pg.engine, work)
    assert pg.hk.admin.verify().ok


def test_tasks_borrow_on_a_thread_of_their_own(place: Place) -> None:
    if place.url.startswith("memory"):
        place.hk.close()

    async def run() -> None:
        async with await holdkit.connect_async(place.url, clock=FakeClock(), limits=LONG_WAITS) as hk:
            engine = hk._executor.engine
            with holdkit.context(actor="user:7"):
                names = await hk._executor.group_commit.borrow(lambda _: threading.current_thread().name)
            assert names.startswith("holdkit-lender")
            outcome = await hk._executor.group_commit.borrow(lambda _: reserve(engine, 5, 1))
            assert isinstance(outcome, Done)

            def inside(lent: Lent) -> Any:
                del lent
                return asyncio.run_coroutine_threadsafe(hk.pool("~r"), loop).result(PATIENCE)

            loop = asyncio.get_running_loop()
            pool = await hk._executor.group_commit.borrow(lambda engine: lend(engine, inside))
            assert pool.held == 1

    asyncio.run(run())
