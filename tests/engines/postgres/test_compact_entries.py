"""A compact row is the whole entry, however it is read; and one that was changed by hand is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from msgspec import Struct, structs

from holdkit.core.codec import decode_entry, encode_entry
from holdkit.core.commands import AnyCommand, Consume, Group
from holdkit.core.entries import Action, Entry
from holdkit.core.model import Leg, Line, State
from holdkit.core.reading import (
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    entry_of,
)
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.compact_entries import EXPIRY_BODY, CompactColumns, compact, expand
from holdkit.engines.postgres.encoding import checksum
from tests.engines.commands import Clock, confirm, create, extend, groups, release, sweep
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import MINUTE, ask, caller, done, hold_id, place, pool_in, sound
from tests.unit.core import command_strategies, test_properties, world
from tests.unit.core.world import World

PLAIN = (Action.HOLD_HELD, Action.HOLD_CONFIRMED, Action.HOLD_RELEASED, Action.HOLD_EXPIRED)
COLUMNS = ", ".join(CompactColumns._fields)


def again(entry: Entry) -> Entry | None:
    """The entry, once compact and expanded again; None: it has no compact form."""
    row = compact(entry)
    return None if row is None else expand(entry.tenant, entry.subject, *row)


# Pure


@settings(max_examples=100)
@given(command_strategies.programs(command_strategies.ANY_JUMPS), command_strategies.LIMITS)
def test_every_entry_is_the_same_again(program: list[tuple[int, list[Group]]], limits: dict[str, Any]) -> None:
    played = test_properties.start(limits)
    test_properties.run(played, program)
    for entry in played.entries:
        expanded = again(entry)
        assert expanded is None or expanded == entry
        assert expanded is None or encode_entry(expanded) == encode_entry(entry)


def plain_entries() -> list[Entry]:
    """One of each kind that has a compact form, with everything that it may have."""
    played = World()
    played.slot = 100
    played.pool("p", 20)
    who: dict[str, Any] = {"actor": "ann", "correlation_id": "c1", "reason": "why", "client_id": "k", "trace": "t"}
    full: dict[str, Any] = {"entity": "order:1", "metadata": {"a": "ä"}, "tenant": "acme", **who}
    played.pool("p", 20, tenant="acme")
    played.do(world.place("a", {"p": 2}, 50, op="o1", **full))
    played.do(world.place("b", {"p": 1}, 50))
    played.do(world.place("c", {"p": 3}, 50, tenant="acme", entity="order:2", correlation_id="c2"))
    played.do(world.place("d", {"p": 1}, tenant="acme"))
    played.do(world.confirm("a", op="o2", tenant="acme", entity="order:3", **who))
    played.do(world.release("b", op="o3"))
    played.do(world.release("d", tenant="acme", force=True, **who))
    played.do(world.consume("e", {"p": 1}, op="o4", **full))
    played.slot = 200
    played.batch(world.expire("c", tenant="acme"))
    return [entry for entry in played.entries if entry.action in PLAIN]


def test_the_commonest_entries_are_compact() -> None:
    found = plain_entries()
    assert [entry.action.value for entry in found].count("hold.held") == 5
    assert {entry.action for entry in found} == set(PLAIN)
    assert [again(entry) for entry in found] == found
    assert all(len(row[0]) < len(encode_entry(entry)) / 2 for entry in found if (row := compact(entry)) is not None)


OTHERS: tuple[Any, ...] = (None, True, 0, 7, -1, "x", "skip", *State, *Action, (), (Leg("p"),))


def altered(value: Any) -> Iterator[Any]:
    """The same value with one thing in it changed, whatever that may be, over and over."""
    if isinstance(value, Struct):
        for field in structs.fields(value):
            for other in altered(getattr(value, field.name)):
                yield structs.replace(value, **{field.name: other})
        return
    if isinstance(value, tuple):
        yield ()
        yield (*value, *value)
        for index, item in enumerate(value):
            for other in altered(item):
                yield (*value[:index], other, *value[index + 1 :])
    if isinstance(value, int):
        yield from (value + 1, -value, value - 1)
    if isinstance(value, str):
        yield from (value[:-1], value + "!", "!" + value)
    yield from (other for other in OTHERS if other != value or type(other) is not type(value))


def test_whatever_is_changed_is_kept_or_makes_it_whole() -> None:
    tried = 0
    for entry in plain_entries():
        for other in altered(entry):
            try:
                other = decode_entry(encode_entry(other))
            except msgspec.DecodeError:  # no entry at all
                continue
            tried += 1
            expanded = again(other)
            assert expanded is None or expanded == other
    assert tried > 2_000


def test_only_plain_entries_are_compact() -> None:
    lines: list[Line] = ["strict", "skip"]
    played = World()
    played.slot = 100
    for line in lines:
        played.pool(line, 4, line=line)
    played.pool("q", 4)
    played.pool("q//a", 4)
    played.pool("limited", 4, per_account=2)
    played.do(world.place("a", {"skip": 1}, 50))
    played.do(world.place("b", {"q//a": 1}, 50))
    played.do(world.place("c", {"limited": 1}, 50, account="ann"))
    played.do(world.place("d", {"strict": 1, "q": 1}, 50))
    played.do(world.place("e", (Leg("~new", 1, 4),), 50))
    played.do(world.place("f", {"strict": 2}, 50))
    played.do(world.confirm("f", 1))
    played.do(world.place("g", {"strict": 1}, 50))
    played.do(world.extend("g", by_slots=10))
    assert [entry.subject for entry in played.entries if compact(entry) is not None] == [
        world.hold_id("f"),
        world.hold_id("g"),
    ]


def test_a_row_that_cannot_be_one_is_not_an_entry() -> None:
    entry = plain_entries()[0]
    row = compact(entry)
    assert row is not None
    text, its = row[0], CompactColumns(*row[1])
    for body, columns in (
        (b'{"action":"hold.extended"}', its),
        (b"{}", its),
        (b"{", its),
        (text, its._replace(revision=3)),
        (text, (*its[:1], None, *its[2:])),
        (EXPIRY_BODY, its),
    ):
        with pytest.raises(msgspec.DecodeError):
            expand("", entry.subject, body, columns)


# In the tables


def rewrite(url: str, *, whole: bool) -> int:
    """Write the journal's rows anew, whole or compact; how many were changed."""
    every = psycopg.sql.SQL("select lane, seq, tenant, subject, body, " + COLUMNS + " from holdkit.journal")
    names = ["body", "crc", *CompactColumns._fields]
    setting = ", ".join(f"{name} = %s" for name in names)
    count = 0
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for lane, seq, tenant, subject, body, *columns in connection.execute(every).fetchall():
            is_compact = columns[12] is not None
            entry = expand(tenant, subject, body, tuple(columns)) if is_compact else decode_entry(body)
            row = None if whole else compact(entry)
            if is_compact is (row is not None):
                continue
            text = encode_entry(entry) if row is None else row[0].decode()
            values = (None,) * len(columns) if row is None else row[1]
            query = f"update holdkit.journal set {setting} where lane = %s and seq = %s"
            connection.execute(query.encode(), (text, checksum(text.encode()), *values, lane, seq))
            count += 1
    return count


def play(engine: PostgresEngine, clock: Clock, url: str) -> tuple[list[str], list[str]]:
    """All kinds of entries on pools of two lanes; the holds and the pools."""
    pools = [pool_in(0), pool_in(1)]
    for name in pools:
        done(engine, create(name, 50))
    holds: list[str] = []

    def placed(*names: str, **more: Any) -> str:
        outcome = done(engine, place(*names, **more))
        assert outcome.hold is not None
        holds.append(outcome.hold.id)
        return holds[-1]

    for number, name in enumerate(pools * 2):
        who: dict[str, Any] = {"actor": "ann", "correlation_id": f"c{number}", "reason": "why"}
        confirmed = placed(name, op=f"p{number}", entity="order:1", metadata={"ä": 'quo"te'}, **who)
        done(engine, confirm(confirmed, op=f"c{number}", **({"entity": "order:2"} if number % 2 else {})))
        done(engine, release(placed(name), op=f"r{number}", reason="no"))
        extended = placed(name, ttl=MINUTE)
        done(engine, extend(extended))
        placed(name, ttl=MINUTE, entity="late", **who)
        done(engine, Consume(legs=(Leg(name, 2),), id=hold_id(name), token="me", op=f"e{number}"))
    placed(*pools)
    with caller(url) as tx:
        engine.apply_in(tx, groups(place(pools[0]), confirm(placed(pools[0]))))
        tx.commit()
    clock.slot += 2 * MINUTE
    done(engine, sweep())
    return holds, pools


def read_all(engine: PostgresEngine, holds: list[str], pools: list[str]) -> list[list[JournalRow]]:
    """Everything that reads entries."""
    rows = list(engine.read(ReadJournal(None, {}, 1_000)))
    queries: list[Query[Any]] = [
        *(ReadHistory("", subject) for subject in (*holds, *pools)),
        *(ReadPoolHistory("", pool, {}, 1_000) for pool in pools),
        *(ReadPoolHistory("", pool, {}, 3, 1_500) for pool in pools),
        ReadJournal(None, {0: 3, 1: 2}, 7, 2_000),
        FindEnds(),
        FindEntries(tuple((row.lane, row.seq) for row in rows)),
    ]
    return [rows, *(list(engine.read(query)) for query in queries)]


def test_no_reader_can_tell_how_an_entry_is_stored(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    holds, pools = play(engine, clock, postgres_url)
    rewrite(postgres_url, whole=True)
    before = read_all(engine, holds, pools)
    plain = sum(compact(entry_of(row)) is not None for row in before[0])
    sound(engine, postgres_url)
    assert rewrite(postgres_url, whole=False) == plain > 30
    for got, expected in zip(read_all(engine, holds, pools), before, strict=True):
        assert got == expected
    sound(engine, postgres_url)
    shown = dict(ask(postgres_url, "select (lane, seq)::text, entry::text from holdkit.journal_readable"))
    assert {f"({row.lane},{row.seq})": entry_of(row) for row in before[0]} == {
        position: decode_entry(text) for position, text in shown.items()
    }


CHANGES = {
    "units": "units + 1",
    "slot": "slot + 1",
    "total": "total + 1",
    "held": "held + 1",
    "consumed": "consumed + 1",
    "loose": "1",
    "floor": "1",
    "fence": "fence + 1",
    "version": "version + 1",
    "deadline": "deadline + 1",
    "revision": "coalesce(revision, 0) + 1",
    "entity": "coalesce(entity, '') || 'x'",
    "pool": "pool || 'x'",
    "correlation_id": "coalesce(correlation_id, '') || 'x'",
    "subject": "reverse(subject)",
    "body": "body || ' '",
    "crc": "crc # 1",
}


def test_a_compact_row_changed_by_hand_is_found(engine: PostgresEngine, postgres_url: str) -> None:
    name = pool_in(0)
    commands: list[AnyCommand] = [create(name, 50), place(name), place(name), place(name, ttl=1), place(name)]
    holds = [outcome.hold.id for command in commands if (outcome := done(engine, command)).hold is not None]
    done(engine, confirm(holds[0]))
    done(engine, release(holds[1]))
    done(engine, place(name))
    rewrite(postgres_url, whole=False)
    sound(engine, postgres_url)
    for action in PLAIN:
        first = "select min(seq) from holdkit.journal_readable where action = %s"
        ((seq,),) = ask(postgres_url, first, action.value)
        ((lane, *stored),) = ask(
            postgres_url, f"select lane, {', '.join(CHANGES)} from holdkit.journal where seq = %s", seq
        )
        for column, change in CHANGES.items():
            where = "where lane = %s and seq = %s returning seq"
            ask(postgres_url, f"update holdkit.journal set {column} = {change} {where}", lane, seq)
            assert [*engine.verify()] != [], (action, column)
            was = stored[[*CHANGES].index(column)]
            ask(postgres_url, f"update holdkit.journal set {column} = %s {where}", was, lane, seq)
    sound(engine, postgres_url)
