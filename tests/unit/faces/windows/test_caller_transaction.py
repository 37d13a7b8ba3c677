"""With `tx=`: the application's own transaction, both happen or neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import Allowance, InsufficientCapacity
from holdkit.kernel.opening import open_engine
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync


def story(hk: Any, tx: Any, commit: Callable[[], Any], roll_back: Callable[[], Any]) -> None:
    """Every face, taken back and kept."""
    api = hk.rate("api", Allowance(2, per="minute"))
    llm = hk.budget("llm", requests=Allowance(5, per="minute"), tokens=Allowance(100, per="day"))
    inn = hk.calendar("inn", {"double": 1})
    night = (date(2026, 7, 1), date(2026, 7, 3))
    api.consume("a", 2, tx=tx)
    with pytest.raises(InsufficientCapacity):  # seen inside, and the transaction goes on
        api.consume("a", tx=tx)
    inn.hold("double", *night, ttl=60, tx=tx)
    roll_back()
    assert api.remaining("a") == 2
    assert inn.available("double", *night).minimum == 1
    hold = llm.hold("team", {"requests": 1, "tokens": 60}, ttl=60, tx=tx)
    llm.confirm(hold, {"tokens": 25}, tx=tx)  # placed in the same transaction: nobody else can read it yet
    inn.hold("double", *night, ttl=60, tx=tx)
    commit()
    assert llm.remaining("team") == {"requests": 4, "tokens": 75}
    assert inn.available("double", *night).minimum == 0
    llm.resize("team", "tokens", 200, tx=tx)
    assert inn.resize("double", 4, *night, tx=tx) == 2
    commit()
    assert llm.remaining("team")["tokens"] == 175
    assert inn.available("double", *night).minimum == 3
    several_in_one(llm, inn, tx)
    commit()
    assert llm.remaining("other") == {"requests": 3, "tokens": 90}, "what was kept is counted once"
    assert inn.available("double", date(2026, 8, 1), date(2026, 8, 2)).minimum == 6
    assert hk.admin.verify().ok


def several_in_one(llm: Any, inn: Any, tx: Any) -> None:
    """A call of a transaction counts what an earlier one of the same has done."""
    hold = llm.hold("other", {"requests": 2, "tokens": 40}, ttl=60)
    llm.confirm(hold, {"requests": 1}, keep_rest=True, tx=tx)
    llm.confirm(hold, {"tokens": 10}, tx=tx)  # the request that is left counts as estimated: one, not two
    summer = (date(2026, 8, 1), date(2026, 8, 2))
    inn.hold("double", *summer, ttl=60, tx=tx)
    assert inn.resize("double", 7, *summer, tx=tx) == 1


def test_on_sqlite(mode: Sync | Async, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    hk = mode.open(open_engine(url, clock=FakeClock(), limits=None))
    with closing(sqlite3.connect(tmp_path / "holds.db", isolation_level=None, check_same_thread=False)) as tx:
        story(hk, tx, tx.commit, tx.rollback)
    hk.close()


def test_on_postgres(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    hk = Sync().open(open_engine(postgres_url, clock=FakeClock(), limits=None))
    with psycopg.connect(postgres_url) as tx:
        story(hk, tx, tx.commit, tx.rollback)
    hk.close()


def test_on_postgres_in_a_task(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    mode = Async()
    hk = mode.open(open_engine(postgres_url, clock=FakeClock(), limits=None))
    tx = mode.run(psycopg.AsyncConnection.connect, postgres_url)
    story(hk, tx, lambda: mode.run(tx.commit), lambda: mode.run(tx.rollback))
    mode.run(tx.close)
    hk.close()
    mode.close()
