from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done, Refusal
from holdkit.engines.port import Applied
from holdkit.engines.sqlite import SqliteEngine, open_application_connection
from holdkit.errors import EngineError, InvalidRequest, Overloaded
from tests.engines.commands import Clock, confirm, create
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, groups, hold_id, outside, place, pool, rows


@pytest.fixture
def engine(open_one: Open, path: Path) -> SqliteEngine:
    engine = open_one(limits=Limits(lock_timeout=SECOND // 20))
    done(engine, create(total=10))
    with outside(path) as application:
        application.execute("create table orders (id integer primary key, hold text)")
    return engine


@pytest.fixture
def tx(engine: SqliteEngine, path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_application_connection(str(path), timeout=0.05)
    yield connection
    connection.close()


def hold_in(engine: SqliteEngine, tx: Any, *commands: Any) -> Applied:
    return engine.apply_in(tx, groups(*(commands or (place(),))))


def code(caught: pytest.ExceptionInfo[InvalidRequest]) -> str:
    assert caught.value.field == "tx"
    return caught.value.code


def test_the_hold_and_the_order_happen_together(engine: SqliteEngine, tx: sqlite3.Connection, path: Path) -> None:
    applied = hold_in(engine, tx)
    assert isinstance(applied.outcomes[0][0], Done)
    tx.execute("insert into orders (hold) values ('x')")
    assert pool(engine).held == 0
    tx.execute("commit")
    assert pool(engine).held == 1
    assert rows(path, "select count(*) from orders") == [(1,)]
    consistent(engine)


def test_neither_happens_if_the_caller_rolls_back(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    tx.execute("begin immediate")
    tx.execute("insert into orders (hold) values ('x')")
    hold_in(engine, tx)
    tx.execute("rollback")
    assert pool(engine).held == 0
    done(engine, place())
    consistent(engine)


def test_a_transaction_that_has_written_is_joined(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    tx.execute("begin")
    tx.execute("insert into orders (hold) values ('x')")
    id = hold_id()
    hold_in(engine, tx, place(id=id))
    hold_in(engine, tx, confirm(id))
    tx.execute("commit")
    assert pool(engine).consumed == 1
    consistent(engine)


def test_one_that_has_read_what_is_outdated_by_now_is_refused_with_advice(
    engine: SqliteEngine, tx: sqlite3.Connection
) -> None:
    tx.execute("begin")
    tx.execute("select * from orders").fetchall()
    done(engine, place())
    with pytest.raises(InvalidRequest, match="BEGIN IMMEDIATE") as caught:
        hold_in(engine, tx)
    assert code(caught) == "tx_cannot_write"
    assert tx.in_transaction
    assert tx.execute("select count(*) from orders").fetchall() == [(0,)]
    tx.execute("rollback")
    hold_in(engine, tx)
    tx.execute("commit")
    assert pool(engine).held == 2


def test_one_that_has_only_read_beside_a_writer_is_refused_at_once(
    engine: SqliteEngine, tx: sqlite3.Connection, path: Path
) -> None:
    tx.execute("begin")
    tx.execute("select * from orders").fetchall()
    with outside(path) as writer:
        writer.execute("begin immediate")
        with pytest.raises(InvalidRequest) as caught:
            hold_in(engine, tx)
        assert code(caught) == "tx_cannot_write"


@pytest.mark.parametrize("begin", [None, "begin"])
def test_waiting_for_another_writer_is_bounded(
    engine: SqliteEngine, tx: sqlite3.Connection, path: Path, begin: str | None
) -> None:
    if begin:
        tx.execute(begin)
    with outside(path) as writer:
        writer.execute("begin immediate")
        with pytest.raises(Overloaded):
            hold_in(engine, tx)
        with pytest.raises(Overloaded):
            engine.apply(groups(place()))
        assert tx.in_transaction is bool(begin)
    hold_in(engine, tx)
    tx.execute("commit")
    assert pool(engine).held == 1


def test_a_refusal_or_an_error_leaves_the_transaction_usable(
    open_one: Open, engine: SqliteEngine, tx: sqlite3.Connection
) -> None:
    def fail(name: str) -> None:
        if name == "insert_journal":
            raise sqlite3.OperationalError("disk I/O error")

    faulty = open_one(on_statement=fail)
    tx.execute("begin immediate")
    tx.execute("insert into orders (hold) values ('x')")
    assert isinstance(hold_in(engine, tx, place(("gpu", 99))).outcomes[0][0], Refusal)
    with pytest.raises(EngineError):
        hold_in(faulty, tx)
    assert tx.execute("select held from holdkit_pools").fetchall() == [(0,)]
    hold_in(engine, tx)
    tx.execute("commit")
    assert pool(engine).held == 1
    consistent(engine)


def test_an_error_rolls_back_what_the_call_itself_began(
    open_one: Open, engine: SqliteEngine, tx: sqlite3.Connection
) -> None:
    def fail(name: str) -> None:
        if name == "insert_journal":
            raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(EngineError):
        hold_in(open_one(on_statement=fail), tx)
    assert not tx.in_transaction
    done(engine, place())


def test_what_is_not_a_usable_connection_to_this_file_is_refused(
    engine: SqliteEngine, tx: sqlite3.Connection, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    memory = sqlite3.connect(":memory:")
    closed = sqlite3.connect(engine.path)
    closed.close()
    for bad, expected in (
        (object(), "tx_unsupported"),
        (None, "tx_unsupported"),
        (other, "tx_other_database"),
        (memory, "tx_other_database"),
        (closed, "tx_unusable"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            hold_in(engine, bad)
        assert code(caught) == expected
    other.close()
    memory.close()


def test_a_connection_of_another_thread_is_refused(engine: SqliteEngine) -> None:
    theirs: list[sqlite3.Connection] = []
    thread = Thread(target=lambda: theirs.append(sqlite3.connect(engine.path)))
    thread.start()
    thread.join()
    with pytest.raises(InvalidRequest) as caught:
        hold_in(engine, theirs[0])
    assert code(caught) == "tx_unusable"


def test_a_read_only_connection_is_refused(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    tx.execute("pragma query_only = on")
    with pytest.raises(InvalidRequest) as caught:
        hold_in(engine, tx)
    assert code(caught) == "tx_read_only"
    read_only = sqlite3.connect(f"file:{engine.path}?mode=ro", uri=True, isolation_level=None)
    for begin in ("begin", None):
        if begin:
            read_only.execute(begin)
        with pytest.raises(InvalidRequest) as caught:
            hold_in(engine, read_only)
        assert code(caught) == "tx_read_only"
        if begin:
            read_only.execute("rollback")
    read_only.close()


@pytest.mark.parametrize("isolation_level", [None, "", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_the_callers_settings_do_not_matter_and_are_not_changed(engine: SqliteEngine, isolation_level: Any) -> None:
    tx = sqlite3.connect(engine.path, isolation_level=isolation_level)
    tx.row_factory = sqlite3.Row
    hold_in(engine, tx)
    assert (tx.row_factory, tx.isolation_level, tx.text_factory) == (sqlite3.Row, isolation_level, str)
    assert tx.execute("select held from holdkit_pools").fetchone()["held"] == 1
    assert tx.in_transaction
    tx.commit()
    tx.execute("insert into orders (hold) values ('x')")
    hold_in(engine, tx)
    tx.commit()
    tx.close()
    assert pool(engine).held == 2
    consistent(engine)


def test_a_text_factory_that_changes_text_is_refused(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    tx.text_factory = bytes
    with pytest.raises(InvalidRequest) as caught:
        hold_in(engine, tx)
    assert code(caught) == "tx_text_factory"
    assert tx.text_factory is bytes


def test_a_plain_call_of_the_same_thread_is_refused_at_once_until_the_commit(
    engine: SqliteEngine, tx: sqlite3.Connection, path: Path
) -> None:
    hold_in(engine, tx)
    with pytest.raises(InvalidRequest) as caught:
        engine.apply(groups(place()))
    assert code(caught) == "tx_open_here"
    other = open_application_connection(str(path), timeout=0.05)
    with pytest.raises(InvalidRequest) as caught:
        hold_in(engine, other)
    assert code(caught) == "tx_open_here"
    other.close()
    assert pool(engine).held == 0  # reads go on
    tx.execute("commit")
    done(engine, place())
    assert pool(engine).held == 2


def test_other_threads_wait_and_are_turned_away(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    hold_in(engine, tx)
    caught: list[BaseException] = []

    def plain() -> None:
        try:
            engine.apply(groups(place()))
        except Overloaded as error:
            caught.append(error)

    thread = Thread(target=plain)
    thread.start()
    thread.join()
    assert len(caught) == 1
    tx.close()
    done(engine, place())
    assert pool(engine).held == 1


def test_a_backlog_is_returned_in_the_callers_transaction(
    open_one: Open, engine: SqliteEngine, tx: sqlite3.Connection, clock: Clock
) -> None:
    small = open_one(limits=Limits(max_due=2, lock_timeout=SECOND // 20))
    engine.apply(groups(*(place() for _ in range(7))))
    clock.slot += 60
    assert isinstance(hold_in(small, tx, place(("gpu", 10))).outcomes[0][0], Done)
    tx.execute("commit")
    assert pool(engine).held == 10
    consistent(engine)


def test_the_application_connection_never_checkpoints_by_itself(engine: SqliteEngine, tx: sqlite3.Connection) -> None:
    assert tx.execute("pragma wal_autocheckpoint").fetchone() == (0,)
    assert tx.execute("pragma synchronous").fetchone() == (2,)
    assert tx.isolation_level is None
