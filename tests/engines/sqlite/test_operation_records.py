"""Operation records: the answer of a hold just placed refers to its entry, all others are stored whole; each is replayed as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.codec import decode_outcome, encode_outcome
from holdkit.core.commands import (
    AnyCommand,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    Group,
    JoinLine,
    PlaceHold,
    PutRecord,
    ReleaseHold,
)
from holdkit.core.model import Leg
from holdkit.core.outcomes import Done, Receipt, Refusal
from holdkit.engines.sqlite import opening
from holdkit.engines.sqlite.driver import Driver, migrations
from holdkit.engines.sqlite.rows import checksum
from holdkit.errors import EngineError
from holdkit.kernel.results import replies_of
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, hold_id, one, outside, place, rows

A, B, C, D = (f"{number:032x}" for number in range(0xA, 0xE))
LEG = (Leg("gpu", 2),)
EVERY: list[tuple[AnyCommand, bool]] = [
    (CreatePool(id="gpu", total=9, op="create"), False),
    (
        PlaceHold(
            id=A, token="a", legs=LEG, ttl_slots=60, op="place", metadata={"b": "ü"}, actor="user:7", reason="why"
        ),
        True,
    ),
    (PlaceHold(id=B, token='b "quoted"\\ü', legs=(*LEG, Leg("~new", 1, 3)), ttl_slots=60, op="place two"), True),
    (Consume(id=C, token="c", legs=LEG, op="consume"), False),
    (ConfirmHold(id=A, token="a", op="confirm"), False),
    (ExtendHold(id=B, token='b "quoted"\\ü', by_slots=5, op="extend"), False),
    (ReleaseHold(id=B, token='b "quoted"\\ü', op="release"), False),
    (PlaceHold(id=hold_id(), token="d", legs=(Leg("gpu", 6),), ttl_slots=60, op="refused"), False),
    (JoinLine(id=D, token="d", legs=(Leg("gpu", 6),), ttl_slots=60, offer_slots=5, op="join"), True),
    (PutRecord(kind="k", id="r", body="1", op="record"), False),
]
"""Commands, and whether their record refers to the entry."""


def stored(path: Path, op: str) -> str:
    ((text,),) = rows(path, f"select outcome from holdkit_operations where id = '{op}'")
    return str(text)


def test_every_answer_is_replayed_as_it_was_given(open_one: Open, path: Path) -> None:
    engine = open_one()
    first = [one(engine, command) for command, _ in EVERY]
    for (command, refers), answer in zip(EVERY, first, strict=True):
        assert command.op is not None
        text = stored(path, command.op)
        if refers:
            assert msgspec.json.decode(text) == command.token  # type: ignore[union-attr]
        else:
            assert isinstance(decode_outcome(text), Refusal if command.op == "refused" else Done)
        assert isinstance(answer, Receipt | Refusal)
    consistent(engine)
    engine.close()
    engine = open_one()
    again = replies_of(engine.apply([Group((command,)) for command, _ in EVERY]), None)
    assert again == [[structs.replace(answer, replayed=True)] for answer in first]
    consistent(engine)


def test_a_hold_that_was_changed_in_the_same_batch_is_replayed_as_it_was_placed(open_one: Open, path: Path) -> None:
    engine = open_one()
    done(engine, CreatePool(id="gpu", total=9))
    batch: list[AnyCommand] = [place(id=A, op="place"), ReleaseHold(id=A, token="me", op="release")]
    (first,) = replies_of(engine.apply([Group(tuple(batch))]), None)
    (again,) = replies_of(engine.apply([Group(tuple(batch))]), None)
    assert again == [structs.replace(answer, replayed=True) for answer in first]
    assert [answer.hold.state for answer in again] == ["held", "released"]  # type: ignore[union-attr]
    assert stored(path, "place") == '"me"'


def test_a_waiter_that_was_offered_units_at_once_is_stored_whole(open_one: Open, path: Path) -> None:
    engine = open_one()
    done(engine, CreatePool(id="gpu", total=9))
    command = JoinLine(id=D, token="d", legs=LEG, ttl_slots=60, offer_slots=5, op="join")
    first = done(engine, command)
    assert first.hold is not None
    assert first.hold.state == "held"
    assert isinstance(decode_outcome(stored(path, "join")), Done)
    assert done(engine, command) == structs.replace(first, replayed=True)


@pytest.mark.parametrize(
    "sql", ["delete from holdkit_journal where seq = 2", "update holdkit_operations set seq = 3 where id = 'place'"]
)
def test_a_record_whose_entry_is_gone_is_an_error_and_never_another_answer(
    open_one: Open, path: Path, sql: str
) -> None:
    engine = open_one()
    done(engine, CreatePool(id="gpu", total=9))
    command = place(op="place")
    done(engine, command)
    done(engine, place(op="another"))
    with outside(path) as someone:
        assert someone.execute(sql).rowcount == 1
    with pytest.raises(
        EngineError, match=r"the record of operation 'place' refers to entry \d, which is another: run verify"
    ):
        one(engine, command)
    assert [difference.table for difference in engine.verify()] != []


def test_records_of_an_older_file_are_migrated(open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(opening, "migrations", lambda: migrations()[:6])
        driver = Driver(sqlite3.connect(path, isolation_level=None))
        opening.migrate(driver, str(path), Limits(), 1)
        driver.connection.close()
    answer = Done(5, token="t")
    columns = ("", "old", "", 2**62, encode_outcome(answer), 7)
    with outside(path) as old:
        old.execute(
            "insert into holdkit_operations (tenant, id, fingerprint, until, outcome, seq, crc) values (?, ?, ?, ?, ?, ?, ?)",
            (*columns, checksum(*columns)),
        )
    engine = open_one()
    consistent(engine)
    again = done(engine, place(op="old"))
    assert (again.slot, again.token, again.replayed) == (5, "t", True)
    with outside(path) as now:
        plan = now.execute(
            "explain query plan select * from holdkit_operations where tenant = '' and id = 'x'"
        ).fetchall()
    assert "holdkit_operations_key" in str(plan)
