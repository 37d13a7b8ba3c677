"""Calls in a caller's transaction that a guard decides: what passes is what the core decides, and nothing of ours is left in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

import psycopg
import pytest

import holdkit
from holdkit.core.commands import AnyCommand, Group, RemovePool
from holdkit.core.outcomes import Outcome
from holdkit.engines.postgres import PostgresEngine, guard_routing, migrate
from tests.engines.commands import Clock
from tests.engines.postgres import guard_sabotage
from tests.engines.postgres.engine_calls import LANES
from tests.engines.postgres.guard_cases import CASES, Case, goes_by_the_guard
from tests.engines.postgres.guarded_pairs import SCHEMAS, SHORT, Pair, Story, entries
from tests.support.frameworks import make_tables

SEEDS: Final = 15
CANARY_SEEDS: Final = 300
"""It is noticed within a few."""
STEPS: Final = 10
OPERATIONS: Final = "id, lane, fingerprint, until"
"""What must be the same of operation rows: the ordinary way stores the answer, the guard refers to its entry."""


class CallerPair(Pair):
    """The same calls in a transaction of a caller's on each copy: one by the guard, one by the core. Some are rolled back."""

    def __init__(self, url: str, ordinary: PostgresEngine, clock: Clock) -> None:
        super().__init__(url, ordinary, clock)
        self.connections = [psycopg.connect(url) for _ in SCHEMAS]
        self.batches = 0

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        super().close()

    def batch(self, groups: Sequence[Group]) -> list[Outcome]:
        self.batches += 1
        answers = [
            [engine.apply_in(tx, [group]).outcomes for group in groups]
            for engine, tx in zip((self.guarded, self.ordinary), self.connections, strict=True)
        ]
        for one, other, group in zip(*answers, groups, strict=True):
            assert one == other, group
        for tx in self.connections:
            tx.rollback() if self.batches % 7 == 0 else tx.commit()
        return [outcome for ((outcome,),) in answers[0]]

    def compare(self, tenant: str) -> None:
        assert "error" not in self.guarded.guard_stats.misses
        with closing(psycopg.connect(self.url)) as connection:
            for table in ("pools", "holds", "legs", "tallies", "operations"):
                row = OPERATIONS if table == "operations" else "to_jsonb(t)"
                queries = [f"select {row} from {schema}.{table} t where tenant = %s order by 1" for schema in SCHEMAS]
                one, other = (connection.execute(each.encode(), (tenant,)).fetchall() for each in queries)
                assert one == other, table
            assert entries(connection, "holdkit", tenant) == entries(connection, "ordinary", tenant)


class CallerStory(Story):
    """Without what no call does in a caller's transaction: it removes no pool."""

    def commands(self) -> Iterator[AnyCommand]:
        for command in super().commands():
            yield self.place() if isinstance(command, RemovePool) else command


@pytest.fixture
def make_pair(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], CallerPair]]:
    migrate(postgres_url, schema="ordinary", lanes=LANES)
    monkeypatch.setattr(guard_routing, "PAUSE_SECONDS", dict.fromkeys(guard_routing.PAUSE_SECONDS, 0.0))
    monkeypatch.setattr(guard_routing, "BATCHES_HELD_OFF", 0)
    clock = Clock()
    ordinary = PostgresEngine(postgres_url, schema="ordinary", clock=clock, guarded=False, prune_every=1e9)
    opened: list[CallerPair] = []

    def make() -> CallerPair:
        opened.append(CallerPair(postgres_url, ordinary, clock))
        return opened[-1]

    yield make
    for pair in opened:
        pair.close()
    ordinary.close()


def play(pair: CallerPair, seed: int) -> None:
    story = CallerStory(pair, seed)
    for _ in range(STEPS):
        story.step()
    pair.compare(story.tenant)


def test_what_passes_the_guard_is_what_the_core_decides(make_pair: Callable[[], CallerPair]) -> None:
    pair = make_pair()
    pair.both(SHORT)
    for seed in range(SEEDS):
        play(pair, seed)
    for engine in (pair.guarded, pair.ordinary):
        assert [str(difference) for difference in engine.verify()] == []
    stats = pair.guarded._callers.guards.stats
    assert stats.passed > SEEDS * STEPS
    assert {"special", "line", "due", "capacity", "hold", "pool", "duplicate"} <= stats.misses.keys(), stats


SABOTAGES: Final = [*guard_sabotage.functions()]


def test_every_case_is_decided_as_the_core_does(make_pair: Callable[[], CallerPair]) -> None:
    pair = make_pair()
    for name, case in CASES.items():
        case(Case(pair, name, 3))
    assert {sabotage.case for sabotage in SABOTAGES} <= CASES.keys()


def test_every_rule_that_is_left_out_is_noticed(make_pair: Callable[[], CallerPair], postgres_url: str) -> None:
    """By the case that it is for."""
    unnoticed: list[str] = []
    for number, sabotage in enumerate(SABOTAGES):
        with altered(postgres_url, sabotage.name, sabotage.of), closing(make_pair()) as pair:
            goes_by_the_guard(Case(pair, f"usual {number}", 3))
            try:
                CASES[sabotage.case](Case(pair, f"canary {number}", 3))
            except AssertionError:
                continue
            unnoticed.append(f"{sabotage.name}: {sabotage.case}")
    assert not unnoticed, "\n".join(unnoticed)
    assert len(SABOTAGES) > 20


def test_a_stamp_that_does_not_grow_is_noticed(make_pair: Callable[[], CallerPair], postgres_url: str) -> None:
    """By chance: the order of the entries of one pool must depend on it."""
    with altered(postgres_url, "guard_end", stamps_stand_still):
        pair = make_pair()
        with pytest.raises(AssertionError):
            play_on(pair)


def play_on(pair: CallerPair) -> None:
    for seed in range(CANARY_SEEDS):
        play(pair, seed)


def stamps_stand_still(text: str) -> str:
    return text.replace("stamp := greatest(p.stamp + 1, clock)", "stamp := p.stamp", 1)


@contextmanager
def altered(url: str, function: str, change: Callable[[str], str]) -> Iterator[None]:
    """The function as if its text were another, for sessions that have not called it."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select pg_get_functiondef(%s::regproc)", (f"holdkit.{function}",)).fetchone()
        assert row is not None
        whole: str = row[0]
        changed = change(whole)
        assert changed != whole
        connection.execute(changed.encode())
        try:
            yield
        finally:
            connection.execute(whole.encode())


# What may come between


@pytest.fixture
def hk(postgres_url: str) -> Iterator[holdkit.Kernel]:
    make_tables(postgres_url)
    with holdkit.connect(postgres_url) as kernel:
        kernel.create_pool("lamp", 10)
        yield kernel
        assert kernel.admin.verify().ok


@pytest.mark.parametrize(
    "between", ["discard all", "deallocate all", "set search_path = pg_temp", "set enable_indexscan = off"]
)
def test_what_sessions_may_do_between_two_transactions(hk: holdkit.Kernel, postgres_url: str, between: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as tx:
        for turn in range(4):
            with tx.transaction():
                hold = hk.hold("lamp", 1, ttl=60, op=f"a{turn}", tx=tx)
                hk.confirm(hold, op=f"b{turn}", tx=tx)
            tx.execute(between.encode())
    assert (hk.pool("lamp").consumed, hk.admin.stats().guards.passed, hk.admin.stats().guards.misses) == (4, 8, {})


def test_a_rollback_undoes_it_and_another_connection_goes_on(hk: holdkit.Kernel, postgres_url: str) -> None:
    """The first connection is ended by the server with a call in its transaction."""
    with psycopg.connect(postgres_url) as tx, psycopg.connect(postgres_url, autocommit=True) as other:
        hold = hk.hold("lamp", 1, ttl=60, op="a", tx=tx)
        tx.rollback()
        hk.hold("lamp", 2, ttl=60, op="a", tx=tx)
        other.execute("select pg_terminate_backend(%s, 10000)", (tx.info.backend_pid,))
        with pytest.raises(holdkit.errors.EngineError):
            hk.hold("lamp", 3, ttl=60, op="b", tx=tx)
        tx.close()
        with other.transaction():
            again = hk.hold("lamp", 4, ttl=60, op="a", tx=other)
    assert again.id != hold.id
    assert hk.pool("lamp").held == 4
    with pytest.raises(holdkit.errors.HoldNotFound):
        hk.get(hold.id)


BROKEN: Final = {
    "it raises": "create or replace function holdkit.{} language plpgsql as $$ begin raise exception 'broken'; end $$",
    "it is not there": "drop function holdkit.{}",
    "nobody may call it": "revoke execute on function holdkit.{} from public",
}


@pytest.mark.parametrize("how", BROKEN)
def test_without_its_function_a_call_goes_the_ordinary_way(hk: holdkit.Kernel, postgres_url: str, how: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        for name in ("guard_place", "guard_end"):
            row = admin.execute("select pg_get_function_arguments(%s::regproc)", (f"holdkit.{name}",)).fetchone()
            assert row is not None
            admin.execute(BROKEN[how].format(f"{name}({row[0]})").encode())
        admin.execute("create role visitor login; grant usage on schema holdkit to visitor;"
                      "grant all on all tables in schema holdkit, public to visitor")  # fmt: skip
    try:
        with psycopg.connect(postgres_url, user="visitor") as tx:
            tx.execute("insert into orders values ('a')")
            hk.confirm(hk.hold("lamp", 1, ttl=60, tx=tx), tx=tx)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("drop owned by visitor; drop role visitor")
    assert hk.pool("lamp").consumed == 1
    assert hk.admin.stats().guards.passed == 0
    assert hk.admin.stats().guards.misses == {"error": 2}


def test_an_answer_that_is_asked_for_again_before_its_entry_has_a_number(hk: holdkit.Kernel, postgres_url: str) -> None:
    """In the same transaction, in another, and without one: the operation row refers to an entry that waits for its number."""
    with psycopg.connect(postgres_url) as tx:
        hold = hk.hold("lamp", 1, ttl=60, op="a", metadata={"n": 1}, tx=tx)
        done = hk.confirm(hold, op="b", entity="order:1", tx=tx)
        assert hk.admin.stats().guards.passed == 2
        for end in (tx.commit, tx.rollback):
            again = hk.hold("lamp", 1, ttl=60, op="a", metadata={"n": 1}, tx=tx)
            assert (again.id, again.token, again.replayed, again.state) == (hold.id, hold.token, True, "held")
            ended = hk.confirm(hold, op="b", entity="order:1", tx=tx)
            assert (ended.entity, ended.replayed, ended.version) == ("order:1", True, done.version)
            end()
        assert hk.admin.verify().ok, "the entries have no numbers yet"
    assert hk.hold("lamp", 1, ttl=60, op="a", metadata={"n": 1}).token == hold.token
    assert hk.confirm(hold, op="b", entity="order:1").entity == "order:1"
    assert [str(entry.action) for entry in hk.history(hold.id)] == ["hold.held", "hold.confirmed"]
    assert len(hk.journal.list()) == 3
    assert hk.confirm(hold, op="b", entity="order:1").replayed


def test_pools_that_miss_go_the_ordinary_way_for_a_while(hk: holdkit.Kernel, postgres_url: str) -> None:
    hk.create_pool("odd", 10, per_account=5)
    with psycopg.connect(postgres_url) as tx:
        for _ in range(5):
            hk.hold("odd", 1, ttl=60, account="a", tx=tx)  # not for a guard at all
            with pytest.raises(holdkit.errors.AccountRequired):
                hk.hold("odd", 1, ttl=60, tx=tx)
            hk.hold("lamp", 1, ttl=60, tx=tx)
    assert hk.admin.stats().guards.misses == {"special": 1}
    assert hk.admin.stats().guards.passed == 5


def test_ends_that_miss_go_the_ordinary_way_for_a_while(
    hk: holdkit.Kernel, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_routing, "PAUSE_SECONDS", {**guard_routing.PAUSE_SECONDS, "pool": 1e9})
    hk.create_pool("shade", 10)
    both = [holdkit.Leg("lamp", 1), holdkit.Leg("shade", 1)]
    with psycopg.connect(postgres_url) as tx:
        for _ in range(4):
            hk.confirm(hk.hold(both, ttl=60, tx=tx), tx=tx)
    assert hk.pool("shade").consumed == 4
    assert hk.admin.stats().guards.misses == {"hold": 2}
