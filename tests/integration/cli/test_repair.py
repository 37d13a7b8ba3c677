"""`verify` names what was changed by hand, `repair` mends it from the journal and says so there, and only when told to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.cli.documents import RepairDocument
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.system import VerifyAnswer
from tests.support.command_line import each, run, told

Change = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sqlite":
        place = f"sqlite:///{tmp_path}/holds.db"
    else:
        place = request.getfixturevalue("migrated")(lanes=4)
    monkeypatch.setenv("HOLDKIT_URL", place)
    with holdkit.connect(place) as hk:
        for pool in ("a", "b", "c"):
            hk.create_pool(pool, total=9)
        hk.confirm(hk.hold("a", 2, ttl=60))
        hk.hold({"a": 3, "b": 1}, ttl=60, id="5" * 32, token="me")
        hk.tenant("acme").create_pool("a", total=4)
        hk.tenant("acme").hold("a", 1, ttl=60)
        hk.tenant("acme").create_pool("gone", total=1)
        hk.tenant("acme").release(hk.tenant("acme").hold("gone", 1, ttl=60))
        hk.tenant("acme").admin.remove_pool("gone")
        hk.admin.records.put("note", "n", '"body"')
        hk.consume([holdkit.Leg("late", 1, create_with_total=1)])
    return place


@pytest.fixture
def by_hand(url: str) -> Iterator[Change]:
    """Statements with table names as SQLite has them."""
    connection: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url, autocommit=True)

    def change(sql: str) -> None:
        connection.execute(sql if url.startswith("sqlite") else sql.replace("holdkit_", "holdkit."))
        if url.startswith("sqlite"):
            connection.commit()

    yield change
    connection.close()


DAMAGE = {
    "a counter too high": "update holdkit_pools set held = held + 2 where id = 'b'",
    "a counter too low": "update holdkit_pools set consumed = 0 where id = 'a'",
    "both counters of every pool": "update holdkit_pools set held = 0, consumed = 1",
    "a total": "update holdkit_pools set total = 100 where id = 'c'",
    "a pool gone": "delete from holdkit_pools where id = 'a'",
    "a leg gone": "delete from holdkit_legs where pool = 'b'",
    "a leg of more units": "update holdkit_legs set units = 7 where pool = 'a'",
    "a hold gone": "delete from holdkit_holds where state = 'held'",
    "a hold ended": "update holdkit_holds set state = 'released', open = 'false' where state = 'held'",
    "a hold's legs nonsense": "update holdkit_holds set legs = 'nonsense' where state = 'held'",
    "a record changed": "update holdkit_records set body = '2'",
    "a record gone": "delete from holdkit_records",
    "a fence back": "update holdkit_pools set fence = 0 where id = 'a'",
    "a floor back": "update holdkit_fence_floors set floor = 0",
    "a floor too high": "update holdkit_fence_floors set floor = 9",
    "a floor gone": "delete from holdkit_fence_floors",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_repair_verify(url: str, by_hand: Change, damage: str) -> None:
    sql = DAMAGE[damage]
    by_hand(sql.replace("'false'", "0") if url.startswith("sqlite") else sql)
    found = told(VerifyAnswer, "admin", "verify", code=6)
    journal = run("journal", "list", "--json").out
    tried = told(RepairDocument, "admin", "repair", code=6)
    assert (tried.dry_run, tried.ok, tried.left) == (True, False, ())
    assert list(tried.repaired) == found.differences
    assert told(VerifyAnswer, "admin", "verify", code=6).found == found.found, "nothing was changed yet"
    assert run("journal", "list", "--json").out == journal
    done = told(RepairDocument, "admin", "repair", "--yes", "--reason", "an accident", "--actor", "user:ops")
    assert (done.ok, list(done.repaired)) == (True, found.differences)
    assert told(VerifyAnswer, "admin", "verify").ok
    assert told(RepairDocument, "admin", "repair", "--yes").repaired == ()
    with holdkit.connect(url) as hk:  # life goes on
        held = hk.release(holdkit.ticket("5" * 32, "me"))
        assert held.state == "released"
        assert {pool.id: (pool.held, pool.consumed, pool.available) for pool in hk.pools()} == {
            "a": (0, 2, 7), "b": (0, 0, 9), "c": (0, 0, 9), "late": (0, 1, 0)}  # fmt: skip
        record = hk.admin.records.get("note", "n")
        assert record is not None
        assert (record.body, record.version) == ('"body"', 1)
        assert hk.hold("a", 7, ttl=60).fence > held.fence
        assert hk.tenant("acme").create_pool("gone", total=1).raw.fence == 1
        assert hk.admin.verify().ok


def test_the_journal_says_what_was_and_what_is(url: str, by_hand: Change) -> None:
    by_hand("update holdkit_pools set held = 5, consumed = 1 where id = 'b'")
    run("admin", "repair", "--yes", "--reason", "an accident", "--actor", "user:ops")
    (entry,) = [one for one in each(EntryAnswer, "history", "b") if one.action == "pool.repaired"]
    assert (entry.actor, entry.reason, entry.subject) == ("user:ops", "an accident", "b")
    (effect,) = entry.pools
    assert (effect.pool.held, effect.held, effect.pool.consumed, effect.consumed) == (1, -4, 0, -1)


DERIVED = {
    "a flag of the row": "update holdkit_pools set over = {true} where id = '{pool}' and tenant = '{tenant}'",
    "a counter": "update holdkit_pools set held = held + 1 where id = '{pool}' and tenant = '{tenant}'",
    "a leg": "delete from holdkit_legs where pool = '{pool}' and tenant = '{tenant}'",
    "a hold": "update holdkit_holds set open = {false} where tenant = '{tenant}' and id in"
    " (select hold from holdkit_legs where pool = '{pool}' and tenant = '{tenant}')",
}


def test_only_the_pool_that_was_damaged_is_repaired_whatever_others_are_called(url: str, by_hand: Change) -> None:
    """A pool is its tenant and its name: neither one of the same name elsewhere, nor one whose name reads like both."""
    names = {"": "x/p", "acme": "x/p", "acme/x": "p", "b": "c/p", "b/c": "p"}
    true, false = ("1", "0") if url.startswith("sqlite") else ("true", "false")
    repaired: list[tuple[str, str]] = []
    expected: list[tuple[str, str]] = []
    with holdkit.connect(url) as hk:
        kernels: dict[str, Any] = {tenant: hk.tenant(tenant) if tenant else hk for tenant in names}
        for tenant, pool in names.items():
            kernels[tenant].create_pool(pool, total=9)
            kernels[tenant].hold(pool, 1, ttl=60)
        for damage, sql in DERIVED.items():
            for tenant, pool in names.items():
                by_hand(sql.format(tenant=tenant, pool=pool, true=true, false=false))
                assert hk.admin.repair(dry_run=False).repaired, damage
                assert hk.admin.verify().ok
                expected.append((tenant, pool))
        for tenant, kernel in kernels.items():
            repaired += [
                (tenant, entry.subject) for entry in kernel.journal.list(limit=1_000) if entry.action == "pool.repaired"
            ]
        assert sorted(repaired) == sorted(expected)


def test_a_pool_that_nobody_created_goes(url: str, by_hand: Change) -> None:
    more, values = (", idle, stamp, due_after, lane", ", false, 0, 0, 0") if url.startswith("postgres") else ("", "")
    no = "0" if url.startswith("sqlite") else "false"
    by_hand(
        "insert into holdkit_pools (tenant, id, total, held, consumed, fence, slot, version, on_demand, over"
        + more
        + ")"
        f" values ('', 'ghost', 5, 1, 0, 99, 0, 1, {no}, {no}" + values + ")"
    )
    assert told(RepairDocument, "admin", "repair", "--yes").ok
    assert told(VerifyAnswer, "admin", "verify").ok
    with holdkit.connect(url) as hk:
        assert "ghost" not in [pool.id for pool in hk.pools()]
        hk.create_pool("ghost", total=1)
        assert hk.hold("ghost", 1, ttl=60).fence > 99, "fences only grow"
        assert hk.admin.verify().ok


def test_due_legs_are_found_again_after_a_repair(url: str, by_hand: Change) -> None:
    with holdkit.connect(url) as hk:
        hk.hold("c", 9, ttl=0.000001)
    by_hand(
        "update holdkit_pools set consumed = 3, over = {} where id = 'c'".format(
            "1" if url.startswith("sqlite") else "true"
        )
    )
    assert told(RepairDocument, "admin", "repair", "--yes").ok
    with holdkit.connect(url) as hk:
        assert hk.hold("c", 9, ttl=60).state == "held"


def test_a_damaged_journal_is_nothing_to_repair_from(url: str, by_hand: Change) -> None:
    by_hand("update holdkit_pools set held = held + 1 where id = 'b'")
    by_hand("update holdkit_journal set crc = crc + 1 where subject = 'c'")
    done = told(RepairDocument, "admin", "repair", "--yes", code=6)
    assert (done.ok, done.repaired, len(done.left) > 1) == (False, (), True)
    with holdkit.connect(url) as hk:
        assert hk.pool("b").held == 2, "untouched"


def test_what_does_not_fit_in_memory_is_found_and_repaired_as_well(
    url: str, by_hand: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any room everything is folded on disk, and the differences are the same."""
    for sql in ("a total", "a leg gone", "a record changed", "a fence back", "a hold's legs nonsense"):
        by_hand(DAMAGE[sql])
    found = told(VerifyAnswer, "admin", "verify", code=6)
    assert len(found.differences) > 5
    monkeypatch.setattr("holdkit.engines.spill.MEMORY_LIMIT", 0)
    assert told(VerifyAnswer, "admin", "verify", code=6).found == found.found
    assert list(told(RepairDocument, "admin", "repair", "--yes").repaired) == found.differences
    assert told(VerifyAnswer, "admin", "verify").ok


def test_both_tell_how_far_they_are(url: str, by_hand: Change) -> None:
    by_hand("update holdkit_pools set held = held + 1 where id = 'b'")
    told: list[tuple[int, int]] = []
    with holdkit.connect(url) as hk:
        assert len(hk.admin.verify(progress=lambda done, total: told.append((done, total))).differences) == 2
        last = told[-1]
        assert last[0] == last[1] > 10
        hk.admin.repair(progress=lambda done, total: told.append((done, total)))
        assert told[-1] == last


def test_an_engine_without_rows_says_so() -> None:
    assert "its state is its folded journal" in run("admin", "repair", "memory://", "--yes", code=2).err


def test_bad_usage(url: str) -> None:
    assert "takes no --op" in run("admin", "repair", "--op", "x", code=2).err
    with holdkit.connect(url) as hk:
        for arguments in ({"dry_run": 1}, {"tx": object()}, {"op": "x"}, {"why": "x"}):
            with pytest.raises(holdkit.InvalidRequest):
                hk.admin.repair(**arguments)
        assert run("admin", "repair").out == "every row matches the journal\n"
