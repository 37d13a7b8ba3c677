"""Erasure: no byte of what was erased is left, everything else is as before, whatever moment the process dies at."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.entries import Action
from holdkit.core.keyed import claim_id
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Capabilities
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer

STUB = re.compile(r"erased:[0-9a-f]{16}")
PRIVATE = (b"user:7", b"customer:7", b"Ann", b"ann@example.org", b"annie", claim_id("email:ann@example.org").encode())


@pytest.fixture
def hk(erasable: holdkit.Kernel) -> holdkit.Kernel:
    return erasable


def live(hk: holdkit.Kernel) -> dict[str, holdkit.Hold]:
    """A person's life, and somebody else's."""
    hk.create_pool("show", total=100, per_account=4)
    paid = hk.hold("show", 2, ttl=600, actor="user:7", metadata={"name": "Ann"}, account="customer:7", op="pay")
    hk.confirm(paid, entity="user:7", actor="user:7", op="paid")
    given_up = hk.hold("show", 1, ttl=600, entity="user:7", reason="Ann asked", account="customer:7")
    hk.release(given_up, reason="Ann went", actor="user:clerk")
    open_ = hk.hold("show", 1, ttl=600, account="customer:7", entity="user:7")
    claim = hk.claims.hold("email", "ann@example.org", ttl=60, metadata={"for": "Ann"})
    hk.confirm(claim, entity="user:7")
    other = hk.hold("show", 1, ttl=600, entity="user:9", account="customer:9", actor="user:9", metadata={"name": "Bea"})
    return {"paid": paid, "given up": given_up, "open": open_, "other": other}


def text_of(hk: holdkit.Kernel) -> str:
    """Everything that the journal and the reads answer."""
    entries = [str(entry.raw.entry) for entry in hk.journal.list()]
    return "\n".join(
        [*entries, *(str(hold.to_dict()) for hold in hk.holds()), str([pool.raw for pool in hk.pools("~")])]
    )


def erase_all(hk: holdkit.Kernel) -> None:
    hk.admin.erase("entity", "user:7", reason="request 1")
    hk.admin.erase("account", "customer:7", reason="request 1")
    hk.admin.erase("actor", "user:7", reason="request 1")


def test_nothing_of_it_is_answered_and_everything_verifies(hk: holdkit.Kernel) -> None:
    live(hk)
    assert all(word.decode() in text_of(hk) for word in PRIVATE[:4])
    erase_all(hk)
    assert not [word for word in PRIVATE if word.decode() in text_of(hk)]
    assert hk.admin.verify().ok
    assert "user:9" in text_of(hk)
    assert "customer:9" in text_of(hk)
    assert "Bea" in text_of(hk)


def test_the_erasure_is_journaled_without_what_it_erased(hk: holdkit.Kernel) -> None:
    live(hk)
    erased = hk.admin.erase("entity", "user:7", reason="request 1", actor="user:officer")
    assert (erased.holds, erased.pools, erased.found) == (4, 1, True)
    last = hk.journal.list()[-1]
    assert (last.action, last.reason, last.actor) == (Action.JOURNAL_ERASED, "request 1", "user:officer")
    assert STUB.fullmatch(erased.stub)
    assert last.subject == f"~erasure/{erased.stub}"
    assert "user:7" not in str(last.raw.entry)


def test_what_was_equal_stays_equal(hk: holdkit.Kernel) -> None:
    holds = live(hk)
    erased = hk.admin.erase("entity", "user:7", reason="request 1")
    assert {hk.get(holds[name]).entity for name in ("paid", "given up", "open")} == {erased.stub}
    assert hk.get(holds["other"]).entity == "user:9"
    assert hk.get(holds["paid"]).metadata == {"erased": True}
    released = hk.history(holds["given up"])[-1]
    assert released.actor == "user:clerk", "whoever else acted keeps their name"


def test_an_account_that_pools_count_is_reported_and_erased_by_its_name(hk: holdkit.Kernel) -> None:
    holds = live(hk)
    erased = hk.admin.erase("entity", "user:7", reason="request 1")
    assert erased.accounts == ("customer:7",)
    assert hk.get(holds["open"]).account == "customer:7"
    stub = hk.admin.erase("account", "customer:7", reason="request 1").stub
    assert hk.get(holds["open"]).account == stub
    assert [(use.pool, use.used) for use in hk.accounts.usage(stub)] == [("show", 3)]


def test_limits_go_on_counting_under_the_stub(hk: holdkit.Kernel) -> None:
    holds = live(hk)
    stub = hk.admin.erase("account", "customer:7", reason="request 1").stub
    hk.release(holds["open"])
    assert [use.used for use in hk.accounts.usage(stub)] == [2]
    hk.hold("show", 2, ttl=60, account=stub)
    with pytest.raises(holdkit.AccountLimit):
        hk.hold("show", 1, ttl=60, account=stub)
    assert hk.admin.verify().ok


def test_a_claim_stays_taken_and_shows_no_key(hk: holdkit.Kernel) -> None:
    live(hk)
    hk.admin.erase("claim", "email:ann@example.org", reason="request 1")
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold("email", "ann@example.org", ttl=60)
    found = hk.claims.get("email", "ann@example.org")
    assert found is not None
    assert STUB.fullmatch(found.key)
    assert STUB.fullmatch(found.entity or "")
    assert hk.admin.verify().ok


def test_a_key_that_somebody_else_has_now_is_left(hk: holdkit.Kernel) -> None:
    first = hk.claims.hold("name", "annie", ttl=60, metadata={"for": "Ann"}, actor="user:7")
    hk.confirm(first, entity="user:7")
    hk.claims.free("name", "annie", reason="left")
    hk.confirm(hk.claims.hold("name", "annie", ttl=60), entity="user:9")
    hk.admin.erase("entity", "user:7", reason="request 1")
    found = hk.claims.get("name", "annie")
    assert found is not None
    assert (found.key, found.entity) == ("name:annie", "user:9")
    assert "Ann'" not in text_of(hk)
    assert "user:7" not in text_of(hk)
    assert hk.admin.verify().ok


def test_a_retry_gets_the_same_answer_with_stubs(hk: holdkit.Kernel) -> None:
    holds = live(hk)
    erase_all(hk)
    again = hk.hold("show", 2, ttl=600, actor="user:7", metadata={"name": "Ann"}, account="customer:7", op="pay")
    assert (again.id, again.token, again.replayed) == (holds["paid"].id, holds["paid"].token, True)
    assert again.metadata == {"erased": True}
    confirmed = hk.confirm(holds["paid"], entity="user:7", op="paid")
    assert confirmed.replayed
    assert STUB.fullmatch(confirmed.entity or "")


class Seats(holdkit.Resource[str, str]):
    kind = "seats"
    answer = 5

    def capacity(self, tx: object, key: str, window: str) -> int:
        return self.answer


def test_what_its_command_told_of_a_pool_goes_with_the_hold(hk: holdkit.Kernel) -> None:
    asked: Any = {"actor": "user:annabel", "reason": "Annabel asked"}
    shows = Seats()
    seats = hk.resource(shows)
    hk.confirm(seats.hold("show", "friday", ttl=600, **asked), entity="order:7")
    shows.answer = 6
    hk.confirm(seats.hold("show", "friday", ttl=600, **asked), entity="order:7")
    hk.confirm(hk.claims.hold("email", "ann@example.org", ttl=600, **asked), entity="order:7")
    seats.hold("show", "monday", ttl=600, actor="user:9", reason="Bea asked")
    hk.claims.hold("name", "annie", ttl=600, **asked)
    hk.claims.hold("name", "bea", ttl=600, actor="user:9", reason="Bea asked")
    told = Counter(entry.action for entry in hk.journal.list() if entry.reason == "Annabel asked")
    assert told[Action.HOLD_HELD] == told[Action.POOL_CREATED] + told[Action.POOL_RESIZED] == 4
    hk.admin.erase("entity", "order:7", reason="request 1")
    hk.admin.erase("claim", "name:annie", reason="request 1")
    assert "nnabel" not in text_of(hk)
    assert [entry.actor for entry in hk.journal.list() if entry.reason == "Bea asked"] == ["user:9"] * 4
    assert hk.admin.verify().ok


def test_followers_go_on_behind_an_erased_entry(hk: holdkit.Kernel) -> None:
    live(hk)
    cursors = [entry.cursor for entry in hk.journal.list()]
    left = len(cursors)
    hk.admin.erase("entity", "user:7", reason="request 1")
    written = len(hk.journal.list()) - left
    for position, cursor in enumerate(cursors, 1):
        assert len(list(hk.journal.follow(after=cursor, wait=False))) == left - position + written


def test_who_acted_for_others_is_replaced_there_too(hk: holdkit.Kernel) -> None:
    hk.create_pool("show", total=10, per_account=5)
    hold = hk.hold("show", 1, ttl=600, actor="user:7", entity="user:9", account="user:7", metadata={"name": "Bea"})
    beside = hk.hold("show", 1, ttl=600, actor="user:7", entity="user:9", account="user:8")
    erased = hk.admin.erase("entity", "user:7", reason="request 1")
    assert (hk.get(hold).actor, hk.get(hold).entity, hk.get(hold).metadata) == (erased.stub, "user:9", {"name": "Bea"})
    hk.release(beside, actor="user:7")
    hk.admin.erase("account", "user:7", reason="request 1")
    assert "user:7" not in text_of(hk)
    assert hk.get(beside).account == "user:8"
    assert hk.admin.verify().ok


def test_another_tenant_is_untouched(hk: holdkit.Kernel) -> None:
    live(hk)
    acme = hk.tenant("acme")
    live(acme)
    before = text_of(acme)
    erase_all(hk)
    assert text_of(acme) == before
    assert not acme.admin.erase("entity", "user:8", reason="request 2").found


def test_what_is_not_there_changes_nothing(hk: holdkit.Kernel) -> None:
    live(hk)
    before = hk.journal.cursor()
    erased = hk.admin.erase("entity", "user:nobody", reason="request 1")
    assert (erased.found, erased.resumed, hk.journal.cursor()) == (False, False, before)
    erase_all(hk)
    assert not hk.admin.erase("entity", "user:7", reason="request 1").found


def test_a_dry_run_counts_and_changes_nothing(hk: holdkit.Kernel) -> None:
    live(hk)
    before, cursor = text_of(hk), hk.journal.cursor()
    counted = hk.admin.erase("entity", "user:7", dry_run=True)
    assert (text_of(hk), hk.journal.cursor()) == (before, cursor)
    erased = hk.admin.erase("entity", "user:7", reason="request 1")
    assert (counted.holds, counted.entries, counted.pools) == (erased.holds, erased.entries, erased.pools)


@pytest.mark.parametrize(
    ("by", "value", "code"),
    [("entity", "", "entity_required"), ("person", "user:7", "selector_unknown"), ("claim", "email", "claim_malformed"),
     ("entity", "erased:0011223344556677", "already_erased")],
)  # fmt: skip
def test_bad_input(hk: holdkit.Kernel, by: str, value: str, code: str) -> None:
    with pytest.raises(holdkit.InvalidRequest) as caught:
        hk.admin.erase(by, value, reason="request 1")  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_reason_is_required(hk: holdkit.Kernel) -> None:
    with pytest.raises(holdkit.InvalidRequest, match="say why"):
        hk.admin.erase("entity", "user:7")


# SQLite: the file, and what an interrupted run leaves


def test_no_byte_is_left_in_the_file(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        live(hk)
        hk.sweep()
        erase_all(hk)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert any(name.endswith("holds.db") and len(data) > 4096 for name, data in files.items())
    assert [(name, word) for name, data in files.items() for word in PRIVATE if word in data] == []


WORKER = """
import os, sys, holdkit
from holdkit.engines.sqlite.engine import SqliteEngine
from holdkit.kernel._sync.executor import Executor
left = int(sys.argv[2])
armed = False
def on_statement(name):
    global left
    if armed and not name.startswith(("read", "load")):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
hk = holdkit.Kernel(Executor(SqliteEngine(sys.argv[1], on_statement=on_statement)))
armed = True
hk.admin.erase("entity", "user:7", reason="request 1")
"""


def test_killed_anywhere_the_same_command_does_the_rest(tmp_path: Path) -> None:
    stubs, killed = set(), 0
    for after in range(0, 60, 4):
        path = tmp_path / f"{after}.db"
        with holdkit.connect(f"sqlite:///{path}") as hk:
            live(hk)
        done = subprocess.run(
            [sys.executable, "-c", WORKER, str(path), str(after)], check=False, env=os.environ, timeout=60
        )
        killed += done.returncode == -signal.SIGKILL
        with holdkit.connect(f"sqlite:///{path}") as hk:
            assert hk.admin.verify().ok, f"killed after statement {after}"
            hk.admin.erase("entity", "user:7", reason="request 1")
            assert hk.admin.verify().ok
            rest = [hold for hold in hk.holds() if hold.entity != "user:9"]
            stubs = {hold.entity for hold in rest}
            assert len(stubs) == 1, "an interrupted erasure goes on with its stub"
            assert Action.JOURNAL_ERASED in [entry.action for entry in hk.journal.list()]
            assert hk.claims.is_taken("email", "ann@example.org"), f"killed after statement {after}"
            hk.admin.erase("account", "customer:7", reason="request 1")
        assert [word for word in PRIVATE if word in path.read_bytes()] == []
        if done.returncode == 0:
            break
    assert killed >= 4


def test_it_has_not_ended_before_the_file_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    limits = holdkit.Limits(lock_timeout=0.1)
    with holdkit.connect(f"sqlite:///{path}", limits=limits) as hk, closing(sqlite3.connect(path)) as reader:
        live(hk)
        reader.execute("begin")
        reader.execute("select count(*) from holdkit_journal").fetchall()
        with pytest.raises(holdkit.errors.EngineError, match="run the same command again"):
            hk.admin.erase("entity", "user:7", reason="request 1")
        reader.rollback()
        with pytest.raises(holdkit.errors.EngineError, match="has not ended"):
            hk.admin.archive(before=0, to=tmp_path / "archive")
        assert hk.admin.erase("entity", "user:7", reason="request 1").resumed
        assert hk.admin.erase("account", "customer:7", reason="request 1").found
        files = {name.name: name.read_bytes() for name in tmp_path.iterdir() if name.is_file()}
    assert len(files["holds.db"]) > 4096
    assert [(name, word) for name, data in files.items() for word in PRIVATE if word in data] == []


def test_the_seals_still_verify_and_a_later_change_by_hand_does_not(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    with holdkit.connect(f"sqlite:///{path}") as hk:
        live(hk)
        engine = hk._executor.engine
        assert Sealer(engine).step(all_now=True) == 1
        assert list(verify_seals(engine)) == []
        erase_all(hk)
        assert list(verify_seals(engine)) == []
        assert hk.admin.verify().ok
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update holdkit_journal set body = replace(body, 'user:9', 'user:8')")
        connection.commit()
    with holdkit.connect(f"sqlite:///{path}") as hk:
        assert list(verify_seals(hk._executor.engine))


def test_a_large_erasure_is_bounded_verifies_in_between_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdkit.engines.erasing.SPAN", 100)
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.create_pool("gpu", total=10_000)
        commands = [
            holdkit.commands.PlaceHold(legs=(holdkit.Leg("gpu"),), ttl_slots=60_000_000, entity="user:7")
            for _ in range(500)
        ]
        hk.apply(commands)
        differences: list[bool] = []

        def progress(done: int, total: int) -> None:
            assert 0 <= done <= total == 501
            differences.append(hk.admin.verify().ok)
            if len(differences) == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            hk.admin.erase("entity", "user:7", reason="request 1", progress=progress)
        assert differences
        assert all(differences)
        left = len(hk.holds(entity="user:7", limit=1_000))
        assert left > 0
        shares: list[float] = []
        erased = hk.admin.erase(
            "entity", "user:7", reason="request 1", progress=lambda done, total: shares.append(done / total)
        )
        assert erased.resumed
        assert max(shares) == shares[-1] == 1
        first = next(share for share in shares if share)
        assert first == left / (501 + left), "it moves when a page of holds is replaced, before the journal is searched"
        assert not hk.holds(entity="user:7", limit=1)
        assert hk.admin.verify().ok


def test_an_engine_that_cannot_erase_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryEngine, "capabilities", Capabilities())
    with holdkit.connect("memory://") as hk, pytest.raises(holdkit.InvalidRequest, match="cannot erase"):
        hk.admin.erase("entity", "user:7", reason="request 1")
