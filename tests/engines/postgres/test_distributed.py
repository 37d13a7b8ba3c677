"""Tables distributed by lane, on an ordinary server: what each transaction touches, and that all answers stay the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from msgspec import structs

import holdkit
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, Group, Sweep
from holdkit.core.entries import Action
from holdkit.core.lanes import lane_of_operation
from holdkit.core.outcomes import Done, Position, Reason, Refusal
from holdkit.core.reading import FindHold, FindPool, FindRecord, ListHolds, ReadJournal, entry_of
from holdkit.engines.port import Applied, BatchRejected
from holdkit.engines.postgres import PostgresEngine, distributed, migrate, migration_sql
from holdkit.engines.postgres.connections import PipelineConnection
from holdkit.engines.postgres.driver import Pipeline, Row, Statement
from holdkit.engines.postgres.failures import ConnectionFailed, StatementFailed
from holdkit.engines.postgres.migrating import COPIED, DISTRIBUTED, migrate_to
from holdkit.engines.postgres.statements import load_for_one_lane, migrations
from holdkit.errors import EngineError, OutcomeUnknown, Overloaded
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.testing import FakeClock
from tests.engines.commands import confirm, create, groups, put, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import done, hold_id, place, pool_in
from tests.engines.postgres.test_row_counts import RIVALS, meet
from tests.support.races import with_threads

LANES, SECOND = 4, 1_000_000


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Any) -> str:
    return str(postgres_server.template("holdkit_distributed", lambda url: migrate_to(url, "as if", LANES)))


class Watch:
    """Which lanes each committed transaction spoke to."""

    def __init__(self) -> None:
        self.lanes: list[set[int]] = []
        self._open: dict[int, set[int]] = {}

    def hear(self, driver: PipelineConnection, statements: Sequence[Statement]) -> None:
        for name, parameters in statements:
            if name == "begin":
                self._open[id(driver)] = set()
            elif name in lane_forms():
                self._open.setdefault(id(driver), set()).add(parameters[0])
            elif name == "commit":
                self.lanes.append(self._open.pop(id(driver)))


def lane_forms() -> Any:
    return load_for_one_lane()[1] | {f"{name}_quiet": None for name in load_for_one_lane()[1]}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch, execute = Watch(), PipelineConnection.execute

    def heard(self: PipelineConnection, statements: Sequence[Statement]) -> list[list[Row]]:
        watch.hear(self, statements)
        return execute(self, statements)

    monkeypatch.setattr(PipelineConnection, "execute", heard)
    return watch


@pytest.fixture
def engine(postgres_url: str) -> Iterator[PostgresEngine]:
    with closing(PostgresEngine(postgres_url)) as engine:
        assert engine.distributed
        yield engine


def apply(engine: PostgresEngine, *commands: AnyCommand) -> Applied:
    applied = engine.apply(groups(*commands))
    assert not applied.failed
    return applied


def op_in(lane: int) -> str:
    return next(op for n in range(1000) if lane_of_operation(("", op := f"op-{n}"), LANES) == lane)


def test_a_batch_is_a_transaction_per_lane(engine: PostgresEngine, watch: Watch) -> None:
    pools = [pool_in(lane) for lane in range(LANES)]
    apply(engine, *(create(pool) for pool in pools))
    assert watch.lanes == [{lane} for lane in range(LANES)]
    watch.lanes.clear()
    mixed = [place(pools[n % 3]) for n in range(12)]
    assert all(isinstance(one, Done) for (one,) in apply(engine, *mixed).outcomes)
    assert watch.lanes == [{0}, {1}, {2}], "those of one lane share a transaction"
    watch.lanes.clear()
    apply(engine, *(release(hold.id or "") for hold in mixed))
    assert watch.lanes == [{0}, {1}, {2}], "a hold is found by its own lane"


def test_a_hold_over_several_lanes_is_one_transaction(engine: PostgresEngine, watch: Watch) -> None:
    pools = [pool_in(lane) for lane in (0, 1, 3)]
    apply(engine, *(create(pool) for pool in pools))
    watch.lanes.clear()
    held = place(*pools)
    apply(engine, held, place(pools[0]))
    assert watch.lanes == [{0, 1, 3}, {0}]
    watch.lanes.clear()
    done(engine, confirm(held.id or ""))
    assert watch.lanes == [{0, 1, 3}]


def test_an_operation_id_of_another_lane_rides_along(engine: PostgresEngine, watch: Watch) -> None:
    """Groups on one pool share its transaction, whatever lanes their operation ids have: a hot pool is locked once."""
    pool = pool_in(2)
    apply(engine, create(pool))
    watch.lanes.clear()
    apply(engine, place(pool, op=op_in(0)), place(pool, op=op_in(1)), place(pool))
    assert watch.lanes == [{0, 1, 2}]
    watch.lanes.clear()
    apply(engine, place(pool, op=op_in(2)))
    assert watch.lanes == [{2}]


def test_groups_that_share_a_lane_keep_their_order() -> None:
    a, b = pool_in(0), pool_in(1)
    cut = distributed.split_groups(groups(place(a), place(b), place(a, b), place(a), place(b), put("x")), LANES)
    assert [part.indexes for part in cut][:4] == [[0], [1], [2], [3]]
    order = [index for part in cut for index in part.indexes]
    assert order.index(2) < order.index(3)
    assert order.index(2) < order.index(4)
    swept = distributed.split_groups([*groups(place(a)), Group((Sweep(),)), *groups(place(a))], LANES)
    assert [part.indexes for part in swept] == [[0], [1], [2]]


def test_a_lane_that_fails_takes_nobody_along(engine: PostgresEngine, postgres_url: str) -> None:
    a, b = pool_in(0), pool_in(1)
    apply(engine, create(a), create(b))
    applied = engine.apply(groups(place(a), place(a, metadata={"poison": object()}), place(b)))
    assert sorted(applied.failed) == [0, 1]
    assert all(isinstance(error, BatchRejected) for error in applied.failed.values())
    assert isinstance(applied.outcomes[2][0], Done)
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_commit_that_is_lost_in_one_lane_is_unknown_there_only(
    arrived: bool, engine: PostgresEngine, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pool_in(0), pool_in(1)
    apply(engine, create(a), create(b))
    commits, execute = list[str](), PipelineConnection.execute

    def cut(self: PipelineConnection, statements: Sequence[Statement]) -> list[list[Row]]:
        commits.extend(name for name, _ in statements if name == "commit")
        if statements[-1][0] == "commit" and len(commits) == 2:
            if arrived:
                execute(self, statements)
            raise ConnectionFailed("cut", sent_commit=True)
        return execute(self, statements)

    monkeypatch.setattr(PipelineConnection, "execute", cut)
    batch = groups(place(a), place(b, op=op_in(1)), place(a))
    applied = engine.apply(batch)
    assert sorted(applied.failed) == [1]
    assert isinstance(applied.failed[1], OutcomeUnknown)
    assert [len(group) for group in applied.outcomes] == [1, 0, 1]
    assert isinstance(engine.apply([batch[1]]).outcomes[0][0], Done), "asked again with the same operation id"
    assert (engine_calls.pool(engine, a).held, engine_calls.pool(engine, b).held) == (2, 1)
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("name", RIVALS)
def test_who_comes_second_is_told_so(name: str, postgres_url: str) -> None:
    """The same meetings as on one server: there a wrong count raises, here the key does."""
    rivals, here = RIVALS[name], {"place_holds": "insert_holds", "insert_operations": "put_operations"}
    rivals = structs.replace(rivals, at=here.get(rivals.at, rivals.at))
    with ExitStack() as opened:

        def make(**options: Any) -> PostgresEngine:
            return opened.enter_context(closing(PostgresEngine(postgres_url, **options)))

        ours, theirs = meet(rivals, make)
        assert isinstance(theirs, Done)
        assert engine_calls.reason(ours) is rivals.ends
        assert isinstance(ours, Done) == rivals.replayed == bool(getattr(ours, "replayed", False))
        engine_calls.sound(make(), postgres_url)


def test_racing_threads_admit_exactly_what_there_is(postgres_url: str) -> None:
    with holdkit.connect(postgres_url) as first, holdkit.connect(postgres_url) as second:
        first.create_pool("seats", 40)
        granted = with_threads([first, second] * 3, 10)
        assert len(granted) == len(set(granted)) == 40 == first.pool("seats").held
        journaled = [entry.subject for entry in first.journal.list(limit=1_000) if entry.action == "hold.held"]
        assert sorted(journaled) == sorted(granted)
        assert first.admin.verify().ok


def test_holds_over_the_same_lanes_in_any_order_never_deadlock(postgres_url: str) -> None:
    pools = [pool_in(lane) for lane in range(LANES)]

    def storm(engine: PostgresEngine, turn: int) -> int:
        kept = 0
        for n in range(12):
            mine = pools[(turn + n) % LANES :] + pools[: (turn + n) % LANES]
            kept += isinstance(engine_calls.one(engine, place(*(mine if turn % 2 else mine[::-1]))), Done)
        return kept

    with closing(PostgresEngine(postgres_url)) as one, closing(PostgresEngine(postgres_url)) as other:
        apply(one, *(create(pool, 40) for pool in pools))
        calls: list[Callable[[], int]] = [lambda n=n: storm((one, other)[n % 2], n) for n in range(4)]  # type: ignore[misc]
        assert sum(engine_calls.together(*calls)) == 40
        engine_calls.sound(one, postgres_url)
    assert engine_calls.deadlocks(postgres_url) == 0


def test_a_sweep_goes_lane_by_lane(postgres_url: str, watch: Watch) -> None:
    clock = FakeClock()
    with closing(PostgresEngine(postgres_url, clock=clock)) as engine:
        pools = [pool_in(lane) for lane in range(3)]
        apply(engine, *(create(pool) for pool in pools))
        for n in range(6):
            apply(engine, place(pools[n % 3], ttl=(10 + n) * SECOND))
        apply(engine, place(*pools[:2], ttl=SECOND))
        due = [hold.key for hold in sorted(engine.read(ListHolds("")), key=lambda hold: hold.deadline or 0)]
        assert len(due) == 7
        clock.advance(60)
        watch.lanes.clear()
        swept = engine.apply([Group((Sweep(limit=5),))]).outcomes[0][0]
        assert isinstance(swept, Done)
        assert (swept.expired, swept.more) == (5, True), "the earliest of all lanes"
        assert list(swept.swept) == due[:5], "in order of their deadlines, whatever lane they are in"
        assert sorted(watch.lanes, key=sorted) == [{0}, {0, 1}, {1}, {2}]
        swept = engine.apply([Group((Sweep(limit=5),))]).outcomes[0][0]
        assert isinstance(swept, Done)
        assert (list(swept.swept), swept.more) == (due[5:], False)
        engine_calls.sound(engine, postgres_url)


def test_a_tenants_sweep_tells_of_its_own_holds_in_every_lane(postgres_url: str) -> None:
    clock = FakeClock()
    with closing(PostgresEngine(postgres_url, clock=clock)) as engine:
        pools = [pool_in(lane) for lane in range(3)]
        for tenant in ("", "acme"):
            apply(engine, *(structs.replace(create(pool), tenant=tenant) for pool in pools))
            apply(engine, *(structs.replace(place(pool, ttl=SECOND), tenant=tenant) for pool in pools))
        mine = sorted(hold.key for hold in engine.read(ListHolds("acme")))
        clock.advance(60)
        swept = engine.apply([Group((Sweep(tenant="acme"),))]).outcomes[0][0]
        assert isinstance(swept, Done)
        assert (swept.expired, sorted(swept.swept), swept.more) == (3, mine, False)
        swept = engine.apply([Group((Sweep(),))]).outcomes[0][0]
        assert isinstance(swept, Done)
        assert swept.expired == 0, "the other tenant's were expired as well"
        engine_calls.sound(engine, postgres_url)


def test_a_sweep_that_is_interrupted_in_one_lane_tells_what_it_did(postgres_url: str) -> None:
    clock = FakeClock()
    with closing(PostgresEngine(postgres_url, clock=clock)) as engine:
        pools = [pool_in(lane) for lane in range(3)]
        apply(engine, *(create(pool) for pool in pools))
        apply(engine, *(place(pool, ttl=SECOND) for pool in pools))
        clock.advance(60)
        with engine_calls.caller(postgres_url) as tx:
            tx.execute("select from holdkit.pools where id = %s for update", (pools[1],))
            swept = engine.apply([Group((Sweep(),))]).outcomes[0][0]
            assert isinstance(swept, Done)
            assert (swept.expired, swept.more) == (2, True), "who is locked comes another time"
        swept = engine.apply([Group((Sweep(),))]).outcomes[0][0]
        assert isinstance(swept, Done)
        assert (swept.expired, swept.more) == (1, False)


def test_a_sweep_prunes_where_nothing_is_due(postgres_url: str) -> None:
    clock = FakeClock()
    with closing(PostgresEngine(postgres_url, clock=clock, prune_every=10**9)) as engine:
        apply(engine, create(pool_in(3)), *(place(pool_in(3), op=op_in(lane)) for lane in range(LANES)))
        clock.advance(60 * 60 * 48)
        engine.apply([Group((Sweep(),))])
        assert engine_calls.ask(postgres_url, "select count(*) from holdkit.operations") == [(0,)]


def test_a_callers_transaction_and_a_follower(engine: PostgresEngine, postgres_url: str) -> None:
    """What a caller left without a number is numbered by the next batch of the lane, or by the follower, before its own."""
    a, b = pool_in(0), pool_in(1)
    apply(engine, create(a), create(b))
    with closing(psycopg.connect(postgres_url)) as tx:
        theirs = engine.apply_in(tx, groups(place(a, b), place(a, op=op_in(3)), place(b))).outcomes
        assert all(isinstance(one, Done) for (one,) in theirs)
        tx.commit()
    mine = done(engine, place(a))
    assert mine.position == Position(0, 4), "behind both of theirs in this lane"
    rows = engine.read(ReadJournal(None))
    assert {row.lane: row.seq for row in rows} == {0: 4, 1: 3}
    assert [entry_of(row).action for row in rows].count(Action.HOLD_HELD) == 5, "four holds, one of them in two lanes"
    engine_calls.sound(engine, postgres_url)


def test_a_key_that_was_taken_is_passed_over_in_a_callers_transaction(
    engine: PostgresEngine, postgres_url: str
) -> None:
    apply(engine, create("gpu"))
    taken = place("gpu", id=hold_id())
    done(engine, taken)
    with closing(psycopg.connect(postgres_url)) as tx:
        (again,) = engine.apply_in(tx, groups(place("gpu", id=taken.id))).outcomes[0]
        assert isinstance(again, Refusal)
        assert again.reason is Reason.HOLD_EXISTS
        assert tx.execute("select 1").fetchone() == (1,)


def test_reads_see_the_time_of_pools_in_other_lanes(postgres_url: str) -> None:
    clock = FakeClock()
    with closing(PostgresEngine(postgres_url, clock=clock)) as engine:
        a, b = pool_in(0), pool_in(1)
        apply(engine, create(a), create(b))
        held = place(a, b, ttl=30 * SECOND)
        done(engine, held)
        clock.advance(60)
        done(engine, place(b))  # time goes on in the other lane, and then back
        clock.advance(-60)
        seen = engine.read(FindHold(("", held.id or "")))
        assert seen is not None
        assert seen.state == "expired"
        assert [hold.state for hold in engine.read(ListHolds("")) if hold.id == held.id] == ["expired"]


def test_what_is_not_there_may_only_be_unfinished(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker was lost between the two phases of a commit that was answered with done: no hold may be told of as missing
    before that is over, and nobody else waits for it."""
    execute, prepared = PipelineConnection.execute, [("citus_0_1_1_0",)]

    def heard(self: PipelineConnection, statements: Sequence[Statement]) -> list[list[Row]]:
        answers = execute(self, statements)
        names = [name for name, _ in statements]
        return [[*prepared] if name == "find_prepared" else rows for name, rows in zip(names, answers, strict=True)]

    apply(engine, create(pool_in(0)))
    monkeypatch.setattr(PipelineConnection, "execute", heard)
    unseen = hold_id(pool_in(0))
    applied = engine.apply(groups(place(pool_in(0)), confirm(unseen), place(pool_in(1))))
    assert isinstance(applied.outcomes[0][0], Done)
    assert sorted(applied.skipped_locked) == [1, 2]
    for command in (confirm(unseen), place(pool_in(1))):
        with pytest.raises(Overloaded, match="two-phase commit"):
            engine.apply(groups(command), wait_for_locks=True)
    queries = (FindHold(("", unseen)), FindPool(("", pool_in(1))), FindRecord(("", "k", "i")))
    for query in queries:
        with pytest.raises(Overloaded, match="two-phase commit"):
            engine.read(query)
    prepared.clear()
    assert engine_calls.reason(engine_calls.one(engine, confirm(unseen))) is Reason.HOLD_NOT_FOUND
    assert engine_calls.reason(engine_calls.one(engine, place(pool_in(1)))) is Reason.POOL_NOT_FOUND
    assert [engine.read(query) for query in queries] == [None] * 3


def test_what_is_not_there_inside_a_callers_transaction(
    engine: PostgresEngine, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where a caller looks: the answer can be asked for again, and the transaction goes on."""
    exchange = Pipeline.exchange

    def heard(self: Pipeline, statements: Sequence[Statement]) -> Any:
        answers = yield from exchange(self, statements)
        found = [("citus_0_1_1_0",)]
        return [found if said[0] == "find_prepared" else rows for said, rows in zip(statements, answers, strict=True)]

    with psycopg.connect(postgres_url) as tx:
        monkeypatch.setattr(Pipeline, "exchange", heard)
        for query in (FindHold(("", hold_id(pool_in(0)))), FindPool(("", pool_in(1)))):
            with pytest.raises(Overloaded, match="two-phase commit"):
                engine.read_in(tx, query)
        for command in (confirm(hold_id(pool_in(0))), place(pool_in(1))):
            with pytest.raises(Overloaded, match="two-phase commit"):
                engine.apply_in(tx, groups(command))
        monkeypatch.undo()
        ((refused,),) = engine.apply_in(tx, groups(place(pool_in(1)))).outcomes
        assert engine_calls.reason(refused) is Reason.POOL_NOT_FOUND
        assert engine.read_in(tx, FindPool(("", pool_in(1)))) is None
        assert engine.read_in(tx, ListHolds("")) == []


def test_what_was_prepared_after_we_looked_is_not_waited_for(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit in two phases all the time: only what was there at the first look is waited for."""
    execute, numbers = PipelineConnection.execute, count()

    def heard(self: PipelineConnection, statements: Sequence[Statement]) -> list[list[Row]]:
        answers = execute(self, statements)
        names = [name for name, _ in statements]
        return [
            [(f"citus_{next(numbers)}",)] if name == "find_prepared" else rows
            for name, rows in zip(names, answers, strict=True)
        ]

    monkeypatch.setattr(PipelineConnection, "execute", heard)
    assert engine_calls.reason(engine_calls.one(engine, confirm(hold_id()))) is Reason.HOLD_NOT_FOUND
    assert engine.read(FindHold(("", hold_id()))) is None


@pytest.mark.parametrize("times", [1, 9])
def test_a_worker_that_hung_up_is_tried_again_a_few_times(
    times: int, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, left = PipelineConnection.execute, [times]

    def heard(self: PipelineConnection, statements: Sequence[Statement]) -> list[list[Row]]:
        if left[0]:
            left[0] -= 1
            raise StatementFailed("lock_pools", "08006", "connection not open")
        return execute(self, statements)

    monkeypatch.setattr(PipelineConnection, "execute", heard)
    if times == 1:
        apply(engine, create(pool_in(0)))
    else:
        with pytest.raises(EngineError, match="connection not open"):
            engine.apply(groups(create(pool_in(0))))
        with pytest.raises(EngineError, match="connection not open"):
            engine.read(FindPool(("", pool_in(0))))
        assert left[0] == times - 6, "three each"


def test_bounded_tables_make_room(postgres_url: str) -> None:
    engine_calls.ask(postgres_url, "delete from holdkit.settings where name = 'limit.max_holds' returning 1")
    engine_calls.ask(postgres_url, "insert into holdkit.settings values ('limit.max_holds', '3') returning 1")
    with closing(PostgresEngine(postgres_url, limits=Limits(max_holds=3))) as engine:
        apply(engine, create(pool_in(0)), create(pool_in(1)))
        for n in range(8):
            held = done(engine, place(pool_in(n % 2)))
            assert held.hold is not None
            done(engine, release(held.hold.id))
        assert engine_calls.ask(postgres_url, "select count(*) <= 3 from holdkit.holds") == [(True,)]
        engine_calls.sound(engine, postgres_url)


# Migrating


@pytest.fixture
def empty_url(postgres_server: Any) -> Iterator[str]:
    name = f"empty_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


def test_without_the_extension_nothing_is_made(empty_url: str) -> None:
    with pytest.raises(EngineError, match="the extension citus is not there"):
        holdkit.migrate(empty_url, citus=True)
    assert engine_calls.ask(empty_url, "select count(*) from pg_namespace where nspname = 'holdkit'") == [(0,)]


def test_repair_and_import_are_refused(postgres_url: str) -> None:
    with holdkit.connect(postgres_url) as hk, pytest.raises(holdkit.InvalidRequest, match="as a whole") as refused:
        hk.admin.repair()
    assert refused.value.code == "repair_unsupported"
    with holdkit.connect("memory://") as other:
        other.create_pool("p", total=1)
        lines = [*export(other._executor.engine)]
    with pytest.raises(holdkit.InvalidRequest, match="one server") as refused:
        import_journal(postgres_url, Import(lines))
    assert refused.value.code == "import_unsupported"


def test_tables_of_one_server_are_not_distributed_later(empty_url: str) -> None:
    migrate(empty_url, lanes=8)
    with pytest.raises(EngineError, match="made for one server"):
        migrate_to(empty_url, "as if")
    with closing(PostgresEngine(empty_url)) as engine:
        assert not engine.distributed


STAND_IN = """
create table public.asked (n serial, relation text, by text, beside text);
create function public.create_distributed_table(relation regclass, by text, colocate_with text) returns void
language sql as 'insert into public.asked (relation, by, beside) values (relation::text, by, colocate_with)';
create function public.create_reference_table(relation regclass) returns void
language sql as 'insert into public.asked (relation) values (relation::text)';
insert into pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
values (987654, 'citus', 10, 2200, false, '0');
"""


def test_what_is_said_to_citus(empty_url: str) -> None:
    """Spoken to a stand-in: that the tables are then distributed only a cluster can show."""
    with closing(psycopg.connect(empty_url, autocommit=True)) as connection:
        connection.execute(STAND_IN)
    newest = migrations()[-1][0]
    assert holdkit.migrate(empty_url, citus=True) == newest
    assert holdkit.migrate(empty_url, citus=True) == holdkit.migrate(empty_url) == newest, "once made, either way"
    asked = engine_calls.ask(empty_url, "select relation, by, beside from public.asked order by n")
    first, *others = [f"holdkit.{table}" for table in DISTRIBUTED]
    copied = [(f"holdkit.{table}", None, None) for table in COPIED]
    assert asked == [*copied, (first, "lane", "none"), *((table, "lane", first) for table in others)]
    with closing(PostgresEngine(empty_url)) as engine:
        assert (engine.lanes, engine.distributed) == (1024, True)


def test_the_command_line() -> None:
    said = [
        subprocess.run([sys.executable, "-m", "holdkit", "migrate", *more], capture_output=True, text=True, check=True)
        for more in (["--sql", "--citus"], ["--sql", "--citus", "--lanes", "256"], ["--sql"])
    ]
    assert ["generate_series(0, 1023)" in said[0].stdout, "generate_series(0, 255)" in said[1].stdout] == [True, True]
    assert ["create_distributed_table" in each.stdout for each in said] == [True, True, False]


def test_the_script_says_the_same() -> None:
    script = migration_sql(citus=True)
    assert script.count("create_distributed_table") == len(DISTRIBUTED)
    assert "('distributed', 'true')" in script
    assert "generate_series(0, 1023)" in script
    assert "create_distributed_table" not in migration_sql()
    tables = re.findall(r"create table holdkit\.(\w+)", script)
    assert {*tables} == {*DISTRIBUTED, *COPIED, "rollups", "rollup_position", "archived", "baseline"}, "not kept there"
