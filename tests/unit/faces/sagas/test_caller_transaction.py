"""An effect in the confirm's own transaction, and a saga begun in the caller's: both happen or neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync


class Note(holdkit.Saga):
    """Writes a row of the application's own."""

    name = "note"
    fails = 0

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "p"

    def effect_in(self, tx: Any, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        if tx is not None:
            tx.execute(f"insert into notes values ('{step.id}')")
        if self.fails:
            self.fails -= 1
            raise OSError("after the row was written")
        return "noted"


class NoteStore:
    """A database with a table of the application's own beside the holds."""

    def __init__(self, url: str, mode: str) -> None:
        self.url, self.clock = url, FakeClock()
        if url.startswith("postgres"):
            holdkit.migrate(url)
        self.mode: Sync | Async = Sync() if mode == "sync" else Async()
        self.hk = self.mode.connect(url, clock=self.clock)
        self.hk.create_pool("p", 5)
        self.tell("create table notes (words text)")
        self.note = Note()
        self.sagas = self.hk.sagas
        self.registered = self.sagas.register(self.note)

    def connect(self) -> Any:
        if self.url.startswith("postgres"):
            return psycopg.connect(self.url)
        return sqlite3.connect(self.url.removeprefix("sqlite:///"))

    def tell(self, sql: str) -> list[Any]:
        connection = self.connect()
        try:
            cursor = connection.execute(sql)
            rows = [row[0] for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
            return rows
        finally:
            connection.close()


@pytest.fixture(
    params=[("sqlite", "sync"), ("sqlite", "async"), ("postgres", "sync"), ("postgres", "async")], ids="-".join
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NoteStore]:
    engine, mode = request.param
    url = request.getfixturevalue("postgres_url") if engine == "postgres" else f"sqlite:///{tmp_path}/holds.db"
    made = NoteStore(url, mode)
    yield made
    made.hk.close()
    made.mode.close()


def test_both_happen_once(store: NoteStore) -> None:
    assert store.registered.run("a", None).result == "noted"
    assert store.registered.run("a", None).phase == "done"
    assert store.tell("select words from notes") == ["a"]
    assert store.hk.pool("p").consumed == 1


def test_an_effect_that_fails_leaves_no_row(store: NoteStore) -> None:
    store.note.fails = 1
    with pytest.raises(holdkit.OutcomeUnknown, match="after the row was written"):
        store.registered.run("a", None)
    assert store.tell("select words from notes") == []
    assert store.hk.pool("p").held == 1
    assert store.sagas.recover() == holdkit.sagas.RecoveryReport(done=1)
    assert store.tell("select words from notes") == ["a"]


def test_whoever_has_lost_the_lease_writes_no_row(store: NoteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row was written and the record has moved on: the whole transaction is taken back."""
    seen = store.registered.begin("a", None)
    assert seen.epoch == 0
    write = Note.effect_in

    def stale(note: Note, tx: Any, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        result = write(note, tx, intent, step)
        assert tx.execute("select count(*) from notes").fetchone()[0] == 1
        tx.execute(MOVE_ON[store.url[:6]])  # as if another driver had taken it over in between
        return result

    monkeypatch.setattr(Note, "effect_in", stale)
    assert store.sagas.recover().busy == 1
    assert store.tell("select words from notes") == []
    assert store.sagas.get("a").phase == "finalizing"


MOVE_ON = {
    "sqlite": "update holdkit_records set version = version + 1 where kind = '~saga'",
    "postgr": "update holdkit.records set version = version + 1 where kind = '~saga'",
}


def test_begun_in_the_callers_own_transaction(store: NoteStore) -> None:
    run = store.mode.run  # where a transaction is used in async mode it is opened, too
    if store.mode.name == "async" and store.url.startswith("postgres"):
        connection: Any = run(psycopg.AsyncConnection.connect, store.url)
    else:
        connection = run(store.connect)
    store.registered.begin("a", None, tx=connection)
    run(connection.rollback)
    assert store.sagas.get("a") is None
    begun = store.registered.begin("b", None, tx=connection)
    assert store.registered.begin("b", None, tx=connection) == begun, "a retry in the same transaction"
    with pytest.raises(holdkit.OperationConflict):
        store.registered.begin("b", "another", tx=connection)
    run(connection.execute, "insert into notes values ('order')")
    run(connection.commit)
    run(connection.close)
    assert store.sagas.recover() == holdkit.sagas.RecoveryReport(done=1)
    assert sorted(store.tell("select words from notes")) == ["b", "order"]


def test_without_sql_there_is_no_transaction_and_it_runs_all_the_same() -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        assert hk.sagas.register(Note).run("a", None).result == "noted"
