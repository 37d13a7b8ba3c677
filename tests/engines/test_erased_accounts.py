"""An account that is erased while it uses units is recognised: whoever uses the name again is counted together with what was erased."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdkit
from holdkit.core.entries import Action
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer

KEYED = re.compile(r"erased:[0-9a-f]{32}(-[0-9]+)?")
RANDOM = re.compile(r"erased:[0-9a-f]{16}")


@pytest.fixture
def hk(erasable: holdkit.Kernel) -> holdkit.Kernel:
    erasable.create_pool("show", total=100, per_account=4)
    erasable.create_pool("venue", total=100, per_account=5)
    erasable.create_pool("venue//stalls", total=100)
    return erasable


def erase(hk: holdkit.Kernel) -> str:
    return hk.admin.erase("account", "customer:7", reason="request 1").stub


def used(hk: holdkit.Kernel, account: str) -> dict[str, int]:
    return {one.pool: one.used for one in hk.accounts.usage(account)}


def refused(hk: holdkit.Kernel, pool: str, quantity: int) -> tuple[int, int, int]:
    """The numbers of a refusal: what is left, what is used, and the limit."""
    with pytest.raises(holdkit.AccountLimit) as caught:
        hk.hold(pool, quantity, ttl=60, account="customer:7")
    (short,) = caught.value.shortfalls
    assert short.used is not None
    return short.available, short.used, short.total


def test_whoever_uses_the_name_again_is_counted_with_what_was_erased(hk: holdkit.Kernel) -> None:
    kept = hk.hold("show", 3, ttl=600, account="customer:7")
    stub = erase(hk)
    assert KEYED.fullmatch(stub)
    assert hk.get(kept).account == stub
    assert refused(hk, "show", 2) == (1, 3, 4)
    again = hk.hold("show", 1, ttl=600, account="customer:7")
    assert hk.get(again).account == "customer:7"
    assert used(hk, "customer:7") == {"show": 4} == used(hk, stub) | {"show": 4}
    assert refused(hk, "show", 1) == (0, 4, 4)
    hk.hold("show", 4, ttl=600, account="customer:9")
    assert hk.admin.verify().ok


def test_consume_join_and_overage_count_it_too_and_force_passes(hk: holdkit.Kernel) -> None:
    hk.consume("show", 2, account="customer:7")
    erase(hk)
    with pytest.raises(holdkit.AccountLimit):
        hk.consume("show", 3, account="customer:7")
    with pytest.raises(holdkit.AccountLimit):
        hk.join("show", 3, ttl=60, offer_ttl=60, account="customer:7")
    more = hk.hold("show", 1, ttl=60, account="customer:7")
    with pytest.raises(holdkit.AccountLimit):
        hk.confirm(more, quantity=3, overage="if_available")
    confirmed = hk.confirm(more, quantity=3, overage="up_to_available")
    assert [leg.confirmed for leg in confirmed.legs] == [2]
    hk.admin.hold("show", 3, ttl=60, account="customer:7", reason="box office")
    assert used(hk, "customer:7") == {"show": 7}
    assert hk.admin.verify().ok


def test_each_level_of_a_tree_counts_it(hk: holdkit.Kernel) -> None:
    hk.hold("venue//stalls", 4, ttl=600, account="customer:7")
    erase(hk)
    assert refused(hk, "venue//stalls", 2) == (1, 4, 5)
    hk.hold("venue", 1, ttl=600, account="customer:7")
    assert used(hk, "customer:7") == {"venue": 5, "venue//stalls": 4}
    assert hk.admin.verify().ok


def test_what_erased_holds_give_back_is_free_again(hk: holdkit.Kernel) -> None:
    held = hk.hold("show", 2, ttl=600, account="customer:7")
    paid = hk.consume("show", 2, account="customer:7")
    erase(hk)
    assert refused(hk, "show", 1) == (0, 4, 4)
    hk.release(held)
    hk.return_units(paid, quantity=1)
    assert refused(hk, "show", 4) == (3, 1, 4)
    hk.hold("show", 3, ttl=600, account="customer:7")
    assert hk.admin.verify().ok


def test_used_again_and_erased_again_it_is_still_one_account(hk: holdkit.Kernel) -> None:
    engine = hk._executor.engine
    sealed = engine.capabilities.seals is not None
    stubs, holds = [], []
    for _ in range(3):
        holds.append(hk.hold("show", 1, ttl=600, account="customer:7"))
        assert not sealed or Sealer(engine).step(all_now=True)
        stubs.append(erase(hk))
    assert len(set(stubs)) == 3
    assert {one.split("-")[0] for one in stubs} == {stubs[0]}
    assert refused(hk, "show", 2) == (1, 3, 4)
    assert used(hk, "customer:7") == used(hk, stubs[1]) == {"show": 3}
    hk.release(holds[-1])
    assert refused(hk, "show", 3) == (2, 2, 4)
    assert hk.admin.verify().ok
    assert not sealed or list(verify_seals(engine)) == []


def test_an_account_that_uses_nothing_any_more_gets_a_random_stub(hk: holdkit.Kernel) -> None:
    hk.release(hk.hold("show", 1, ttl=600, account="customer:7"))
    before = [entry.action for entry in hk.journal.list()]
    assert RANDOM.fullmatch(erase(hk))
    assert [entry.action for entry in hk.journal.list()][len(before) :] == [Action.JOURNAL_ERASED], (
        "nothing else is stored"
    )
    assert used(hk, "customer:7") == {}


def test_a_dry_run_stores_nothing(hk: holdkit.Kernel) -> None:
    hk.hold("show", 1, ttl=600, account="customer:7")
    before = len(hk.journal.list())
    assert hk.admin.erase("account", "customer:7", dry_run=True).holds == 1
    assert len(hk.journal.list()) == before


def test_another_tenant_with_the_same_name_is_another_account(hk: holdkit.Kernel) -> None:
    acme = hk.tenant("acme")
    acme.create_pool("show", total=100, per_account=4)
    hk.hold("show", 3, ttl=600, account="customer:7")
    erase(hk)
    acme.hold("show", 4, ttl=600, account="customer:7")
    stub = erase(acme)
    assert used(acme, "customer:7") == {"show": 4}
    assert used(hk, "customer:7") == {"show": 3}
    assert used(hk, stub) == {}


def test_an_atomic_batch_and_a_combined_hold_count_it(hk: holdkit.Kernel) -> None:
    hk.hold("show", 3, ttl=600, account="customer:7")
    erase(hk)
    placed = [
        holdkit.commands.PlaceHold(legs=(holdkit.Leg("show"),), ttl=60, account="customer:7"),
        holdkit.commands.PlaceHold(legs=(holdkit.Leg("show"),), ttl=60, account="customer:7"),
    ]
    with pytest.raises(holdkit.AccountLimit) as refused:
        hk.apply(placed, atomic=True)
    assert refused.value.index == 1
    with pytest.raises(holdkit.AccountLimit):
        hk.hold({"show": 2, "venue": 1}, ttl=60, account="customer:7")
    hk.hold({"show": 1, "venue": 1}, ttl=60, account="customer:7")


def test_a_process_that_was_open_before_the_erasure_counts_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk, holdkit.connect(url) as other:
        hk.create_pool("show", total=100, per_account=4)
        hk.hold("show", 3, ttl=600, account="customer:7")
        other.release(other.hold("show", 1, ttl=60, account="customer:9"))
        erase(hk)
        assert used(other, "customer:7") == {"show": 3}
        assert refused(other, "show", 2) == (1, 3, 4)
        assert b"customer:7" not in (tmp_path / "holds.db").read_bytes()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_an_erasure_between_holds_lets_nobody_pass_the_limit(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db" if engine == "sqlite" else request.getfixturevalue("migrated")(lanes=4)
    granted, stop = [], threading.Event()

    def use() -> int:
        """Holds as many as it can, until the last erasure has ended."""
        refusals = 0
        with holdkit.connect(url) as mine:
            while not stop.is_set() or not refusals:
                try:
                    granted.append(mine.hold("show", 1, ttl=600, account="customer:7"))
                except holdkit.AccountLimit:
                    refusals += 1
        return refusals

    with holdkit.connect(url) as hk, ThreadPoolExecutor(2) as users:
        hk.create_pool("show", total=100, per_account=40)
        hk.hold("show", 1, ttl=600, account="customer:7")
        both = [users.submit(use) for _ in range(2)]
        try:
            stubs = [erase(hk) for _ in range(4)]
        finally:
            stop.set()
        assert all(one.result(60) for one in both)
        assert len(granted) == 39
        assert used(hk, "customer:7") == {"show": 40}
        assert hk.admin.verify().ok
        assert KEYED.fullmatch(stubs[0])
