"""Erased names on PostgreSQL: whoever has looked before an erasure, and writes after it, passes no claim and no limit."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

import holdkit
from holdkit.core.keyed import claim_id
from holdkit.engines.postgres import PostgresEngine
from holdkit.kernel._sync.executor import Executor
from tests.conftest import Migrated
from tests.engines.postgres.test_erasing import left
from tests.support.threads import PATIENCE

KEY = ("email", "ann@example.org")
NAME = ":".join(KEY)
ALONE = 2.0
"""Seconds in which an erasure that did not wait would have ended."""


def taken(hk: holdkit.Kernel, *key: str) -> None:
    hk.confirm(hk.claims.hold(*key, ttl=60), entity="user:7")


def rival(url: str, between: Callable[[], None]) -> holdkit.Kernel:
    """A kernel that lets something happen after its first batch has loaded, and before it writes."""
    armed = [True]

    def on_statement(name: str) -> None:
        if name == "insert_pools" and armed:
            armed.clear()
            between()

    return holdkit.Kernel(Executor(PostgresEngine(url, on_statement=on_statement)))


@pytest.mark.parametrize("in_tx", [False, True], ids=["alone", "caller's transaction"])
def test_a_claim_that_was_made_and_erased_behind_a_look_is_taken(migrated: Migrated, in_tx: bool) -> None:
    url = migrated(lanes=4)
    with holdkit.connect(url) as hk:
        taken(hk, "name", "bea")
        hk.admin.erase("claim", "name:bea", reason="request 1")  # from now on every process looks for erased claims
        happened: list[bool] = []

        def between() -> None:
            taken(hk, *KEY)
            hk.admin.erase("claim", NAME, reason="request 2")
            happened.append(True)

        with rival(url, between) as mine, psycopg.connect(url) as tx, pytest.raises(holdkit.AlreadyClaimed):
            mine.claims.hold(*KEY, ttl=60, tx=tx if in_tx else None)
        assert happened == [True]
        assert left(url, claim_id(NAME)) == []
        assert hk.admin.verify().ok


def test_the_first_erasure_of_a_claim_waits_for_whoever_has_looked_before(migrated: Migrated) -> None:
    url = migrated(lanes=4)
    with holdkit.connect(url) as hk:
        erased = threading.Event()

        def erase() -> None:
            hk.admin.erase("claim", NAME, reason="request 1")
            erased.set()

        thread = threading.Thread(target=erase)

        def between() -> None:
            taken(hk, *KEY)
            thread.start()
            assert not erased.wait(ALONE)

        with rival(url, between) as mine, pytest.raises(holdkit.AlreadyClaimed):
            mine.claims.hold(*KEY, ttl=60)
        assert erased.wait(PATIENCE)
        thread.join(PATIENCE)
        assert left(url, claim_id(NAME)) == []
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60)
        assert hk.admin.verify().ok


def test_in_a_callers_transaction_erased_names_are_recognised(migrated: Migrated) -> None:
    url = migrated(lanes=4)
    with holdkit.connect(url) as hk, holdkit.connect(url) as other:
        hk.create_pool("show", total=10, per_account=4)
        hk.hold("show", 3, ttl=600, account="customer:7")
        taken(hk, *KEY)
        hk.admin.erase("account", "customer:7", reason="request 1")
        hk.admin.erase("entity", "user:7", reason="request 1")
        with psycopg.connect(url) as tx:
            with pytest.raises(holdkit.AccountLimit):
                other.hold("show", 2, ttl=60, account="customer:7", tx=tx)
            with pytest.raises(holdkit.AlreadyClaimed):
                other.claims.hold(*KEY, ttl=60, tx=tx)
            assert other.claims.is_taken(*KEY, tx=tx)
            hold = other.hold("show", 1, ttl=60, account="customer:7", tx=tx)
            assert [use.used for use in other.accounts.usage("customer:7", tx=tx)] == [4]
        assert hk.get(hold).account == "customer:7"
        assert hk.admin.verify().ok
