"""What a tenant has stored is counted: its own rows alone, and what was added since."""

from __future__ import annotations

from typing import Any

import pytest

import holdkit
from holdkit.kernel._sync.usage import UsageCounter
from tests.support.kernels import Store


def test_only_a_tenants_own_rows_count(store: Store) -> None:
    hk: Any = store.hk
    acme, other = hk.tenant("acme"), hk.tenant("globex")
    assert acme.admin.usage().rows == 0
    acme.create_pool("a", 5)
    other.create_pool("b", 5)
    hold = acme.hold("a", 1, ttl="1m", op="once", metadata={"note": "x" * 1_000})
    found = acme.admin.usage()
    journal = 0 if store.engine == "memory" else 2
    assert (found.pools, found.holds, found.operations, found.records) == (1, 1, 1, 0)
    assert (found.entries, found.rows, found.complete) == (journal, 3 + journal, True)
    assert found.bytes > 2_000
    acme.release(hold)
    assert acme.admin.usage().holds == 1, "an ended hold is there until its retention is over"
    assert other.admin.usage().pools == 1
    assert hk.admin.usage().rows == 0


def test_the_journal_is_counted_once_and_then_what_was_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path / 'holds.db'}") as hk:
        counter = UsageCounter(hk._executor)
        acme = hk.tenant("acme")
        for n in range(3):
            acme.create_pool(f"p{n}", 1)
        counter.catch_up()
        assert (counter.journal.tenants["acme"][0], counter.journal.reached) == (3, {0: 3})
        acme.create_pool("p3", 1)
        assert counter.usage("acme").entries == 3
        assert not counter.step()
        assert counter.usage("acme").entries == 4
        counter.journal.generation = "another"
        counter.begin()
        assert counter.journal.tenants == {}, "a journal that was cut back is counted anew"
