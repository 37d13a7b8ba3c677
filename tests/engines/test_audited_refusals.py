"""Refusals in the journal, on every engine: whatever reads, moves, seals, archives or erases a journal does so with them too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import Refused
from holdkit.core.entries import Action
from holdkit.core.outcomes import Reason
from holdkit.errors import InvalidRequest
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock
from tests.conftest import Migrated

NOBODY = "7" * 31 + "a"
DAY = 86_400


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    return places.get(request.param) or request.getfixturevalue("migrated")(lanes=4)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_000_000)


@pytest.fixture
def hk(url: str, clock: FakeClock) -> Iterator[holdkit.Kernel]:
    with holdkit.connect(url, clock=clock, audit_refusals=True) as kernel:
        yield kernel


def live(hk: holdkit.Kernel) -> holdkit.Hold:
    """Refusals of every kind between grants."""
    with pytest.raises(Refused):
        hk.hold("show", 1, ttl=60, actor="user:7")
    with pytest.raises(Refused):
        hk.confirm(holdkit.ticket(NOBODY, "me"))
    hk.create_pool("show", total=3)
    hk.create_pool("other", total=5)
    held = hk.hold("show", 2, ttl=60, op="first")
    with pytest.raises(Refused):
        hk.hold("show", 2, ttl=60, actor="user:7", entity="order:9", op="second", reason="Ann waits")
    with pytest.raises(Refused):
        hk.hold("show", 2, ttl=60, actor="user:7", entity="order:9", op="second", reason="Ann waits")
    with pytest.raises(Refused):
        hk.hold({"other": 1, "show": 2}, ttl=60, op="first")
    hk.apply(
        [
            holdkit.commands.PlaceHold(legs=(holdkit.Leg("other", 9),), ttl=60),
            holdkit.commands.PlaceHold(legs=(holdkit.Leg("other", 1),), ttl=60),
        ]
    )
    hk.claims.hold("mail", "ann@example.org", ttl=60)
    with pytest.raises(Refused):
        hk.hold([holdkit.claim("mail", "ann@example.org"), "show"], ttl=60, entity="user:7", account="customer:7")
    return held


def refused(entries: Any) -> list[tuple[str, str, str, str | None]]:
    """Subject, command, reason and operation id of the refusals among these entries."""
    found = [entry for entry in entries if entry.action is Action.COMMAND_REFUSED]
    return sorted(
        [(one.subject, one.refused.command, one.refused.reason.value, one.op) for one in found],
        key=lambda one: one[:3],
    )


EXPECTED = [
    (NOBODY, "confirm", "hold_not_found", None),
    ("other", "hold", "insufficient_capacity", None),
    ("other", "hold", "operation_conflict", "first"),
    ("show", "hold", "insufficient_capacity", "second"),
    ("show", "hold", "pool_not_found", None),
]


def expected(entries: Any) -> None:
    *found, claimed = refused(entries)
    assert found == EXPECTED
    assert (claimed[0][:7], claimed[1:3]) == ("~claim/", ("hold", "insufficient_capacity"))


def test_they_are_read_followed_found_and_verified(hk: holdkit.Kernel, url: str, clock: FakeClock) -> None:
    held = live(hk)
    expected(hk.journal.list())
    expected(hk.journal.follow(wait=False))
    expected(hk.journal.search(action="command.refused"))
    assert hk.admin.verify().ok
    assert [entry.action.value for entry in hk.journal.history("show")][:2] == ["command.refused", "pool.created"]
    assert "hold.held" in [entry.action.value for entry in hk.journal.history("show")], "it is the history of the pool"
    assert [entry.action.value for entry in hk.history(held)] == ["hold.held"]
    (unknown,) = hk.history(NOBODY)
    assert unknown.refused is not None
    assert unknown.refused.reason is Reason.HOLD_NOT_FOUND
    again = hk.hold("show", 2, ttl=60, op="first")
    assert (again.id, again.replayed) == (held.id, True)
    assert again.position == held.position, "the refusals under its operation id are not taken for its entry"
    hk.confirm(held, op="end")
    with pytest.raises(Refused):
        hk.confirm(held, actor="user:8")
    assert [entry.action.value for entry in hk.history(held)][-2:] == ["hold.confirmed", "command.refused"]
    if not url.startswith("memory"):
        hk.close()
        with holdkit.connect(url, clock=clock) as silent:
            expected(entry for entry in silent.journal.list() if entry.actor != "user:8")
            entries = len(silent.journal.list())
            with pytest.raises(Refused):
                silent.hold("show", 2, ttl=60)
            assert len(silent.journal.list()) == entries, "auditing is off unless it is asked for"
            assert silent.admin.verify().ok


def test_they_are_sealed_exported_and_imported(hk: holdkit.Kernel, url: str, tmp_path: Path) -> None:
    live(hk)
    engine = hk._executor.engine
    if engine.capabilities.seals is not None:
        Sealer(engine).step(all_now=True)
        assert list(verify_seals(engine)) == []
    lines = list(export(engine))
    place = f"sqlite:///{tmp_path}/imported.db"
    import_journal(place, Import(lines))
    with holdkit.connect(place) as target:
        expected(target.journal.list())
        assert target.admin.verify().ok


def test_they_are_archived(tmp_path: Path, clock: FakeClock, migrated: Migrated) -> None:
    for url in (f"sqlite:///{tmp_path}/holds.db", migrated(lanes=2)):
        to = tmp_path / url.partition(":")[0]
        with holdkit.connect(url, clock=clock, audit_refusals=True) as hk:
            live(hk)
            clock.advance(40 * DAY)
            hk.sweep()
            for name in ("show", "other"):
                hk.admin.resize_pool(name, 7)
            report = hk.admin.archive(before="1d", to=to)
            assert report.entries > len(EXPECTED)
            assert hk.admin.verify().ok
            assert hk.admin.verify(archive=to).ok
            assert "command.refused" in [entry.action.value for entry in hk.journal.history("show", archive=to)]


def test_they_are_erased(tmp_path: Path) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path}/holds.db"):
        with holdkit.connect(url, audit_refusals=True) as hk:
            live(hk)
            engine = hk._executor.engine
            sealed = engine.capabilities.seals is not None
            if sealed:
                Sealer(engine).step(all_now=True)
            for by, value in (("entity", "order:9"), ("entity", "user:7"), ("actor", "user:7")):
                hk.admin.erase(by, value, reason="request")  # type: ignore[arg-type]
            text = "\n".join(str(entry.raw.entry) for entry in hk.journal.list())
            assert [word for word in ("user:7", "order:9", "Ann waits", "customer:7") if word in text] == []
            assert hk.admin.verify().ok
            assert not sealed or list(verify_seals(engine)) == []
            expected(hk.journal.list())


def test_a_batch_that_the_guard_does_not_pass(migrated: Migrated) -> None:
    with holdkit.connect(migrated(lanes=1), audit_refusals=True) as hk:
        hk.create_pool("show", total=3)
        for units in (2, 2, 1):
            with suppress(Refused):
                hk.hold("show", units, ttl=60, actor="user:7")
        assert hk.admin.stats().guards.misses == {"capacity": 1}
        assert [entry.action.value for entry in hk.journal.list()] == [
            "pool.created", "hold.held", "command.refused", "hold.held",
        ]  # fmt: skip
        assert hk.admin.verify().ok


def test_in_a_callers_transaction_they_come_and_go_with_it(tmp_path: Path, migrated: Migrated) -> None:
    def refuse(hk: holdkit.Kernel, tx: Any) -> None:
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold("show", 9, ttl=60, tx=tx)

    file, server = tmp_path / "holds.db", migrated(lanes=2)
    for url in (f"sqlite:///{file}", server):
        with holdkit.connect(url, audit_refusals=True) as hk:
            hk.create_pool("show", total=3)
            connection: Any = psycopg.connect(url) if url == server else sqlite3.connect(file, isolation_level=None)
            with closing(connection) as tx:
                if url != server:
                    tx.execute("begin immediate")
                refuse(hk, tx)
                tx.rollback()
                assert refused(hk.journal.list()) == []
                if url != server:
                    tx.execute("begin immediate")
                refuse(hk, tx)
                hk.hold("show", 1, ttl=60, tx=tx)
                tx.commit()
            assert [entry.action.value for entry in hk.journal.list()] == [
                "pool.created",
                "command.refused",
                "hold.held",
            ]
            assert hk.admin.verify().ok


def test_the_switch_is_a_boolean() -> None:
    with pytest.raises(InvalidRequest) as error:
        holdkit.connect("memory://", audit_refusals="yes")  # type: ignore[arg-type]
    assert error.value.field == "audit_refusals"
