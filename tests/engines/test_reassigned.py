"""Holds that were moved to another account, on every engine: what moves, who is erased, and that nobody passes a limit."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdkit
from holdkit.core.codec import encode_entry
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer

ANN, BOB, CARL = "customer:ann", "customer:bob", "customer:carl"


@pytest.fixture
def hk(erasable: holdkit.Kernel) -> holdkit.Kernel:
    erasable.create_pool("show", total=100, per_account=4)
    erasable.create_pool("venue", total=100)
    erasable.create_pool("venue//stalls", total=100)
    return erasable


def used(hk: holdkit.Kernel, account: str) -> dict[str, int]:
    return {one.pool: one.used for one in hk.accounts.usage(account)}


def told(hk: holdkit.Kernel, hold: holdkit.Hold) -> str:
    """Everything that is stored about a hold: its row, and its entries as they are stored."""
    entries = [encode_entry(entry.raw.entry) for entry in hk.journal.list() if entry.subject == hold.id]
    assert len(entries) > 1
    return "\n".join([repr(hk.get(hold).raw), json.dumps(hk.get(hold).to_dict()), *entries])


def sealed(hk: holdkit.Kernel) -> bool:
    """Whether the journal has seals; they are brought up to date."""
    engine = hk._executor.engine
    return engine.capabilities.seals is not None and Sealer(engine).step(all_now=True) is not None


@pytest.mark.parametrize("erased", [ANN, BOB, CARL])
@pytest.mark.parametrize("what", [{"show": 2, "venue//stalls": 1}, holdkit.items("s1")], ids=["pools", "an item"])
def test_erasing_an_account_erases_its_name_and_no_other(hk: holdkit.Kernel, what: object, erased: str) -> None:
    hk.items.add(["s1"])
    hold = hk.hold(what, ttl=600, account=ANN, op="op-1")  # type: ignore[arg-type]
    hk.reassign(hold, account=BOB, op="op-2", actor="user:7")
    hk.reassign(hold, account=CARL, op="op-3")
    seals = sealed(hk)
    assert all(name in told(hk, hold) for name in (ANN, BOB, CARL))
    stub = hk.admin.erase("account", erased, reason="asked").stub
    after = told(hk, hold)
    assert erased not in after
    assert stub in after
    assert [name for name in (ANN, BOB, CARL) if name not in after] == [erased]
    assert hk.get(hold).account == (stub if erased == CARL else CARL)
    hk.reassign(hold, account=BOB)
    hk.release(hold)
    assert used(hk, erased) == {}
    assert hk.admin.verify().ok
    assert not seals or list(verify_seals(hk._executor.engine)) == []


@pytest.mark.parametrize("what", [{"show": 2, "venue//stalls": 1}, holdkit.items("s1")], ids=["pools", "an item"])
def test_erasing_the_entity_leaves_what_pools_count_and_says_so(hk: holdkit.Kernel, what: object) -> None:
    hk.items.add(["s1"])
    hold = hk.hold(what, ttl=600, account=ANN, entity="user:7")  # type: ignore[arg-type]
    for account in (BOB, CARL):
        hk.reassign(hold, account=account)
    erased = hk.admin.erase("entity", "user:7", reason="asked")
    counted = isinstance(what, dict)
    assert erased.accounts == ((ANN, BOB, CARL) if counted else ())
    assert [name in told(hk, hold) for name in (ANN, BOB, CARL)] == [counted] * 3
    assert hk.admin.verify().ok


def test_each_recorded_answer_keeps_its_account_until_that_is_erased(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show", 2, ttl=600, account=ANN, op="op-1")
    hk.reassign(hold, account=BOB, op="op-2")
    stub = hk.admin.erase("account", ANN, reason="asked").stub
    assert hk.reassign(hold, account=BOB, op="op-2").account == BOB
    assert hk.get(hold).account == BOB
    again = hk.hold("show", 2, ttl=600, account=ANN, op="op-1")
    assert (again.replayed, again.account) == (True, stub)


def test_the_account_that_gave_has_its_limit_back_and_the_other_has_not(hk: holdkit.Kernel) -> None:
    hold = hk.hold({"show": 3, "venue//stalls": 2}, ttl=600, account=ANN)
    hk.confirm(hold, quantity={"show": 1, "venue//stalls": 1}, keep_rest=True)
    hk.reassign(hold, account=BOB)
    assert (used(hk, ANN), used(hk, BOB)) == ({}, {"show": 3, "venue": 2, "venue//stalls": 2})
    assert [one.id for one in hk.holds(account=BOB)] == [hold.id]
    assert not hk.holds(account=ANN)
    assert list(hk.accounts.list()) == [BOB]
    hk.hold("show", 4, ttl=600, account=ANN)
    with pytest.raises(holdkit.AccountLimit):
        hk.hold("show", 2, ttl=600, account=BOB)
    hk.confirm(hold)
    hk.return_units(hold)
    assert used(hk, BOB) == {}
    assert hk.admin.verify().ok


def test_a_hold_of_nobody_becomes_somebodys_and_nobodys_again(hk: holdkit.Kernel) -> None:
    hold = hk.hold("venue", 2, ttl=600)
    assert hk.reassign(hold, account=ANN).account == ANN
    assert used(hk, ANN) == {"venue": 2}
    assert hk.reassign(hold, account=None).account is None
    assert used(hk, ANN) == {}
    assert hk.confirm(hold).state == "confirmed"
    assert hk.admin.verify().ok


def test_before_and_after(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show", 2, ttl=600, account=ANN)
    hk.reassign(hold, account=BOB, actor="user:7", reason="a gift")
    entry = hk.history(hold)[-1]
    assert (entry.action, entry.actor, entry.reason, entry.forced) == ("hold.reassigned", "user:7", "a gift", False)
    assert (entry.before["account"], entry.after["account"]) == (ANN, BOB)
    rebuilt = holdkit.journal.reconstruct(hk.history(hold))
    assert rebuilt is not None
    assert rebuilt.raw == hk.get(hold).raw


def test_an_account_that_was_erased_and_comes_again_is_the_same(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show", 3, ttl=600, account=ANN)
    stub = hk.admin.erase("account", ANN, reason="asked").stub
    assert hk.reassign(hold, account=ANN).account == stub
    other = hk.hold("show", 2, ttl=600, account=BOB)
    with pytest.raises(holdkit.AccountLimit):
        hk.reassign(other, account=ANN)


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "apart"])
def test_moves_and_holds_at_the_same_time_never_pass_the_limit(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    layout = "one server" if engine == "postgres" else "as if"
    sqlite = f"sqlite:///{tmp_path}/holds.db"
    url = sqlite if engine == "sqlite" else request.getfixturevalue("migrated")(layout, lanes=4)
    done: list[str] = []
    together = threading.Barrier(3)

    def take(tickets: list[str]) -> None:
        with holdkit.connect(url) as mine:
            together.wait(60)
            for ticket in tickets:
                try:
                    hold = mine.reassign(ticket, account=BOB) if ticket else mine.hold("show", 2, ttl=600, account=BOB)
                    done.append(hold.id)
                except holdkit.AccountLimit:
                    continue

    with holdkit.connect(url) as hk, ThreadPoolExecutor(3) as threads:
        hk.create_pool("show", total=100, per_account=9)
        hk.create_pool("show//a", total=100)
        of_ann = [hk.admin.hold("show//a", 2, ttl=600, account=ANN, reason="a test").ticket for _ in range(8)]
        parts = [of_ann[:4], of_ann[4:], [""] * 5]
        for future in [threads.submit(take, part) for part in parts]:
            future.result(60)
        assert len(done) == 4
        assert used(hk, BOB)["show"] == 8
        assert used(hk, ANN).get("show", 0) + used(hk, BOB).get("show//a", 0) == 16
        assert hk.admin.verify().ok
