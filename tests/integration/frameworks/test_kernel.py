"""`tx=` with every framework that is named: both happen or neither, and the framework never notices us."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdkit import InsufficientCapacity, InvalidRequest, JournalEntry
from holdkit.errors import PoolNotFound
from tests.support.frameworks import ON_POSTGRES, ON_SQLITE, Application, Django, make_tables
from tests.support.threads import PATIENCE

WHERE = [("postgres", kind) for kind in ON_POSTGRES] + [("sqlite", kind) for kind in ON_SQLITE]


@pytest.fixture(params=WHERE, ids=lambda where: f"{where[1].__name__}-{where[0]}")
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    where, kind = request.param
    url = request.getfixturevalue("migrated")(lanes=4) if where == "postgres" else f"sqlite:///{tmp_path}/shop.db"
    make_tables(url)
    application: Application = kind(url)
    application.hk.create_pool("lamp", 10)
    yield application
    application.close()


def told(app: Application) -> list[str]:
    """What the journal says, in order, and that its numbers have no gap."""
    entries: list[JournalEntry] = app.hk.journal.list()
    by_lane: dict[int, list[int]] = {}
    for entry in entries:
        by_lane.setdefault(entry.raw.row.lane, []).append(entry.raw.row.seq)
    for numbers in by_lane.values():
        assert numbers == list(range(1, len(numbers) + 1))
    return [str(entry.action) for entry in entries]


def test_ours_is_the_very_first_statement(app: Application) -> None:
    app.begin()
    hold = app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    app.order("a")
    assert app.hk.pool("lamp").held == 0, "others see it after the commit, and not before"
    app.commit()
    assert app.orders() == ["a"]
    assert app.hk.pool("lamp").held == 2
    assert [str(entry.action) for entry in app.hk.history(hold.id)] == ["hold.held"]
    assert told(app) == ["pool.created", "hold.held"]
    assert app.hk.admin.verify().ok


def test_ours_is_the_only_statement(app: Application) -> None:
    app.begin()
    hold = app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    app.commit()
    assert app.hk.confirm(hold).state == "confirmed"
    assert app.hk.admin.verify().ok


def test_ours_comes_after_others_and_before_others(app: Application) -> None:
    app.begin()
    app.order("a")
    hold = app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    app.order("b")
    app.hk.confirm(hold, entity="order:a", tx=app.tx)
    app.order("c")
    app.commit()
    assert app.orders() == ["a", "b", "c"]
    assert app.hk.pool("lamp").consumed == 2
    assert told(app) == ["pool.created", "hold.held", "hold.confirmed"]
    assert app.hk.admin.verify().ok


def test_neither_happens_if_they_roll_back(app: Application) -> None:
    app.begin()
    app.order("a")
    hold = app.hk.hold("lamp", 2, ttl=60, op="once", tx=app.tx)
    app.roll_back()
    assert app.orders() == []
    assert app.hk.pool("lamp").held == 0
    assert app.hk.history(hold.id) == []
    assert told(app) == ["pool.created"]
    again = app.hk.hold("lamp", 3, ttl=60, op="once")  # another payload: the id was never used
    assert again.legs[0].held == 3
    assert app.hk.admin.verify().ok


def test_a_refusal_leaves_their_transaction_usable(app: Application) -> None:
    app.begin()
    app.order("a")
    with pytest.raises(InsufficientCapacity):
        app.hk.hold("lamp", 11, ttl=60, tx=app.tx)
    with pytest.raises(PoolNotFound):
        app.hk.hold("chair", 1, ttl=60, tx=app.tx)
    app.order("b")
    app.hk.hold("lamp", 10, ttl=60, tx=app.tx)
    app.commit()
    assert app.orders() == ["a", "b"]
    assert app.hk.pool("lamp").held == 10
    assert app.hk.admin.verify().ok


def test_an_error_leaves_their_transaction_usable(app: Application) -> None:
    broken = threading.Event()
    broken.set()

    def fail(name: str) -> None:
        if broken.is_set() and name in ("guard_call_place", "write_unnumbered", "insert_journal"):
            raise ArithmeticError(name)

    app.listen(fail)
    app.begin()
    app.order("a")
    with pytest.raises(ArithmeticError):
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.order("b")
    broken.clear()
    app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    app.commit()
    assert app.orders() == ["a", "b"]
    assert app.hk.pool("lamp").held == 2
    assert app.hk.admin.verify().ok


def test_their_nested_block_takes_ours_along(app: Application) -> None:
    app.begin()
    app.order("a")
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    undo = app.savepoint()
    app.order("b")
    lost = app.hk.hold("lamp", 5, ttl=60, tx=app.tx)
    with pytest.raises(InsufficientCapacity):
        app.hk.hold("lamp", 5, ttl=60, tx=app.tx)
    undo()
    app.hk.hold("lamp", 9, ttl=60, tx=app.tx)
    app.order("c")
    app.commit()
    assert app.orders() == ["a", "c"]
    assert app.hk.pool("lamp").held == 10
    assert app.hk.history(lost.id) == []
    assert told(app) == ["pool.created", "hold.held", "hold.held"]
    assert app.hk.admin.verify().ok


def test_several_transactions_one_after_the_other(app: Application) -> None:
    for name in ("a", "b", "c"):
        app.begin()
        app.order(name)
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
        app.commit()
        app.hk.hold("lamp", 2, ttl=60)  # a plain call between them, by the same thread or task
    assert app.hk.pool("lamp").held == 9
    assert told(app) == ["pool.created", *["hold.held"] * 6]
    assert app.hk.admin.verify().ok


def test_listeners_hear_of_it_after_the_commit_and_once(app: Application) -> None:
    heard: list[str] = []
    rang = threading.Semaphore(0)

    def listen(entry: JournalEntry) -> None:
        heard.append(entry.subject)
        rang.release()

    app.hk.journal.on("hold.held", listen)
    app.begin()
    app.order("a")
    lost = app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.roll_back()
    app.begin()
    app.order("b")
    kept = app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    other = app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    assert heard == []
    app.commit()
    for _ in range(2):
        assert rang.acquire(timeout=PATIENCE)
    last = app.hk.hold("lamp", 1, ttl=60)
    assert rang.acquire(timeout=PATIENCE)
    assert heard == [kept.id, other.id, last.id]
    assert lost.id not in heard


def test_a_follower_sees_it_once_and_in_order(app: Application) -> None:
    assert [str(entry.action) for entry in app.hk.journal.follow("mail", wait=False)] == ["pool.created"]
    app.begin()
    first = app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    second = app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    assert list(app.hk.journal.follow("mail", wait=False)) == []
    app.commit()
    assert [entry.subject for entry in app.hk.journal.follow("mail", wait=False)] == [first.id, second.id]
    assert list(app.hk.journal.follow("mail", wait=False)) == []


def test_a_retry_in_another_transaction_answers_the_same(app: Application) -> None:
    app.begin()
    first = app.hk.hold("lamp", 1, ttl=60, op="req-1", tx=app.tx)
    assert app.hk.hold("lamp", 1, ttl=60, op="req-1", tx=app.tx).ticket == first.ticket
    app.commit()
    app.begin()
    assert app.hk.hold("lamp", 1, ttl=60, op="req-1", tx=app.tx).ticket == first.ticket
    app.commit()
    assert app.hk.hold("lamp", 1, ttl=60, op="req-1").ticket == first.ticket
    assert app.hk.pool("lamp").held == 1


def test_what_is_locked_and_missing(app: Application) -> None:
    app.hk.create_pool("chair", 1)
    app.begin()
    app.hk.lock(["lamp", "no such pool", "chair"], tx=app.tx)
    app.order("a")
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.hk.hold("chair", 1, ttl=60, tx=app.tx)
    app.commit()
    assert app.orders() == ["a"]
    assert app.hk.admin.verify().ok


def test_text_of_every_script_and_records(app: Application) -> None:
    app.begin()
    app.hk.admin.records.put("note", "é", '"\\u0000 日本 😀"', tx=app.tx)
    app.hk.admin.records.put("note", "é", '"zwei"', tx=app.tx)
    app.hk.create_pool("日本", 1, actor="user:ü", tx=app.tx)
    app.commit()
    assert app.hk.pool("日本").available == 1
    assert told(app) == ["pool.created", "record.put", "record.put", "pool.created"]
    assert app.hk.admin.verify().ok


# What is refused, before anything is written


def refused(app: Application, tx: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        app.hk.hold("lamp", 1, ttl=60, tx=tx)
    assert caught.value.field == "tx"
    return str(caught.value.code)


def test_things_that_are_no_transaction(app: Application) -> None:
    for thing in (object(), "begin", 0, False, [], {}, app.hk, type(app.tx)):
        assert refused(app, thing) == "tx_unsupported"


def test_a_closed_one(app: Application) -> None:
    app.begin()
    app.order("a")
    app.roll_back()
    app.leave()
    if "Session" in type(app).__name__:  # it opens anew with its next statement, whosever that is
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
        app.commit()
        assert app.hk.pool("lamp").held == 1
        app.leave()
    else:
        assert refused(app, app.tx) == ("tx_autocommit" if isinstance(app, Django) else "tx_unusable")
        assert app.hk.pool("lamp").held == 0
    app.open()
