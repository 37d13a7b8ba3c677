"""Erasure on PostgreSQL: beside other writers, from callers' transactions, and whatever statement the process dies at."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import psycopg
import pytest

import holdkit
from holdkit.core.entries import Action
from holdkit.core.keyed import claim_id
from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.engines.postgres.notifications import Notifier
from holdkit.kernel._sync.executor import Executor
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer
from tests.conftest import Migrated
from tests.support.threads import CallerThreads

TABLES = ("pools", "holds", "legs", "journal", "unnumbered", "operations", "tallies", "records", "seals", "settings")


class Died(BaseException):
    """The process is gone."""


def left(url: str, word: str) -> list[str]:
    """The tables that still have this word in a row."""
    with psycopg.connect(url) as tx:
        asked = {
            table: tx.execute(f"select 1 from holdkit.{table} t where t::text like %s", (f"%{word}%",))
            for table in TABLES
        }
        return [table for table, found in asked.items() if found.fetchone() is not None]


def live(hk: holdkit.Kernel, who: str) -> None:
    hk.create_pool("show", total=10_000, per_account=500, exist_ok=True)
    hk.create_pool("plain", total=10_000, exist_ok=True)
    for pools in ({"show": 1, "plain": 1}, {"plain": 2}):
        hold = hk.hold(pools, ttl=600, actor=who, metadata={"name": who}, account=f"account of {who}")
        hk.confirm(hold, entity=who, op=f"paid {hold.id}")
    hk.hold("plain", 1, ttl=600, entity=who, reason=f"{who} asked")
    hk.confirm(hk.claims.hold("email", f"{who}@example.org", ttl=60), entity=who)


def erase_all(hk: holdkit.Kernel, who: str) -> None:
    hk.admin.erase("entity", who, reason="request")
    hk.admin.erase("account", f"account of {who}", reason="request")
    hk.admin.erase("actor", who, reason="request")


@pytest.mark.parametrize("layout", ["one server", "as if"])
def test_killed_at_any_statement_the_same_command_does_the_rest(
    migrated: Migrated, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notifier, "notify_soon", lambda _: None)  # its thread has statements too, whenever it likes
    url = migrated(layout, lanes=4)
    said: list[str] = []
    dies_at: list[int] = []

    def on_statement(name: str) -> None:
        said.append(name)
        if dies_at and len(said) > dies_at[0]:
            raise Died

    choose = random.Random(4)
    with holdkit.connect(url) as hk:
        live(hk, "user:a0")
        armed = holdkit.Kernel(Executor(PostgresEngine(url, on_statement=on_statement)))
        said.clear()
        with armed:
            erase_all(armed, "user:a0")
        length, died = len(said), 0
        assert "count_rewrite" in said
        for number in range(1, 8 if layout == "one server" else 4):
            who = f"user:a{number}"
            live(hk, who)
            engine = PostgresEngine(url, on_statement=on_statement)
            said.clear()
            dies_at[:] = [choose.randrange(length)]
            with suppress(Died, holdkit.HoldkitError), holdkit.Kernel(Executor(engine)) as kernel:
                erase_all(kernel, who)
                died -= 1
            died += 1
            dies_at.clear()
            assert hk.admin.verify().ok, f"died at {said[-1]}"
            erase_all(hk, who)
            assert left(url, who) == [], f"died at {said[-1]}"
            assert left(url, claim_id(f"email:{who}@example.org")) == [], f"died at {said[-1]}"
            assert hk.claims.is_taken("email", f"{who}@example.org"), f"died at {said[-1]}"
            assert hk.admin.verify().ok
        assert died >= 2
        assert left(url, "erasing:") == []


def test_what_a_callers_transaction_left_without_a_number_is_erased_too(migrated: Migrated) -> None:
    url = migrated(lanes=4)
    with holdkit.connect(url) as hk:
        hk.create_pool("show", total=10, per_account=5)
        with psycopg.connect(url) as tx:
            hold = hk.hold("show", 1, ttl=60, entity="user:7", account="customer:7", metadata={"name": "Ann"}, tx=tx)
        assert "unnumbered" in left(url, "user:7")
        assert hk.admin.erase("entity", "user:7", reason="request").holds == 1
        with psycopg.connect(url) as tx:
            hk.release(hold, reason="Ann", tx=tx)
        hk.admin.erase("account", "customer:7", reason="request")
        assert [word for word in ("user:7", "customer:7", "Ann") if left(url, word)] == []
        assert hk.admin.verify().ok


def test_tables_that_were_analyzed_are_analyzed_again(postgres_url: str) -> None:
    """Others must not be: the planner would scan a table that was small then."""
    migrate(postgres_url, lanes=4)
    analyzed = {"holds", "journal"}
    stats = "select distinct tablename from pg_stats where schemaname = 'holdkit'"
    with holdkit.connect(postgres_url) as hk, psycopg.connect(postgres_url, autocommit=True) as connection:
        live(hk, "user:ann")
        live(hk, "user:bea")
        live(hk, "user:cid")
        erase_all(hk, "user:cid")
        assert connection.execute(stats).fetchall() == []
        for table in analyzed:
            connection.execute(f"analyze holdkit.{table}".encode())
        erase_all(hk, "user:ann")
        assert {row[0] for row in connection.execute(stats)} == analyzed
        remembered = connection.execute("select s::text from pg_stats s where schemaname = 'holdkit'").fetchall()
        assert [row for row in remembered if "user:ann" in row[0]] == []
        assert [row for row in remembered if "user:bea" in row[0]] != []


def test_beside_other_writers_nothing_is_lost_and_every_seal_holds(migrated: Migrated) -> None:
    url = migrated(lanes=4)
    threads = CallerThreads()
    with holdkit.connect(url) as hk, holdkit.connect(url) as other:
        engine = hk._executor.engine
        live(hk, "user:ann")
        live(hk, "user:bea")
        Sealer(engine).step(all_now=True)

        def traffic(kernel: holdkit.Kernel, seed: int) -> None:
            choose = random.Random(seed)
            held = []
            for turn in range(60):
                who = choose.choice(("user:ann", "user:bea"))
                held.append(
                    kernel.hold(
                        {"show": 1, "plain": 1}, ttl=600, account=f"account of {who}", entity=who, metadata={"n": turn}
                    )
                )
                if len(held) > 3:
                    one = held.pop(choose.randrange(len(held)))
                    choose.choice((kernel.confirm, kernel.release))(one)
                claim = kernel.claims.hold("email", f"{who}{seed}-{turn}@example.org", ttl=60)
                kernel.confirm(claim, entity=who)

        for seed, kernel in enumerate((hk, other)):
            threads.start(partial(traffic, kernel, seed))
        threads.start(lambda: [(Sealer(engine).step(all_now=True), other.admin.verify().differences) for _ in range(8)])
        for _ in range(3):
            hk.admin.erase("entity", "user:ann", reason="request")
            hk.admin.erase("actor", "user:ann", reason="request")
        for result in threads.join():
            assert not isinstance(result, BaseException), result
            assert result is None or all(differences == () for _, differences in result)
        erase_all(hk, "user:ann")
        assert left(url, "user:ann") == []
        assert "holds" in left(url, "user:bea")
        assert hk.admin.verify().ok
        assert sum(entry.action == Action.JOURNAL_ERASED for entry in hk.journal.list(limit=1_000)) >= 3
        Sealer(engine).step(all_now=True)
        assert list(verify_seals(engine)) == []


@pytest.mark.usefixtures("no_notifier")  # its statements would be counted
def test_a_transaction_rewrites_a_bounded_number_of_rows(migrated: Migrated) -> None:
    url = migrated(lanes=4)
    said: list[str] = []
    with holdkit.Kernel(Executor(PostgresEngine(url, on_statement=said.append))) as hk:
        hk.create_pool("gpu", total=10_000)
        hk.apply(
            [
                holdkit.commands.PlaceHold(legs=(holdkit.Leg("gpu"),), ttl_slots=60_000_000, entity="user:7")
                for _ in range(1_000)
            ]
        )
        said.clear()
        erased = hk.admin.erase("entity", "user:7", reason="request")
        assert (erased.holds, erased.entries) == (1_000, 1_000)
    transactions = " ".join(said).split("begin ")
    rewriting = [one for one in transactions if "rewrite_holds" in one]
    assert len(rewriting) == 20, "fifty holds each"
    assert max(len(one.partition(" commit")[0].split()) for one in rewriting) <= 11, "whatever is read behind it"
