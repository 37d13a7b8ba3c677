"""Many tasks and processes on one budget: never overspent at any moment, and nothing lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import holdkit
from tests.unit.faces.windows.spenders import ESTIMATE, PROCESSES, REQUESTS, TASKS, TOKENS, Spent, race


def check(url: str, spent: Iterable[Spent]) -> None:
    """Walk the journal: in every window, at every entry, held + consumed ≤ total; and its end is what the spenders got."""
    spent = list(spent)
    consumed: dict[str, int] = defaultdict(int)
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        seen = 0
        for entry in hk.journal.follow(wait=False):
            for effect in entry.pools:
                pool = effect.pool
                assert pool.held + pool.consumed <= pool.total in (TOKENS, REQUESTS)
                consumed[pool.id.split("/")[3]] += effect.consumed
                seen += 1
        assert seen > 100
        assert consumed == {
            "tokens": sum(each.tokens for each in spent),
            "requests": sum(each.requests for each in spent),
        }
        pools = hk.pools("~budgets/", limit=1_000)
        assert pools
        assert all(pool.held == 0 for pool in pools)
    assert sum(each.refused for each in spent) > 0
    at_once = PROCESSES * TASKS * ESTIMATE
    assert consumed["tokens"] > TOKENS - at_once, (
        "who was refused was refused by what was spent and what the others held"
    )


def test_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holdkit.connect(url).close()
    check(url, race(url))


def test_on_postgres(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    check(postgres_url, race(postgres_url))
