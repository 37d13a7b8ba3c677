"""Followers pass over entries that they do not show. If a failover takes some of these back, nothing that was shown is gone, and the
follower goes on; here the engine is replaced by one with another history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdkit.core.commands import CreatePool, Group
from holdkit.core.reading import Query, ReadJournal
from holdkit.engines.memory import MemoryEngine
from holdkit.errors import CursorLost
from tests.support.watched_engine import WatchedEngine

OURS, THEIRS = CreatePool(id="ours", total=1, tenant="us"), CreatePool(id="theirs", total=1, tenant="them")
NEWER = CreatePool(id="newer", total=1, tenant="us")


def history(engine: WatchedEngine, *commands: CreatePool) -> MemoryEngine:
    """An engine in which these have happened, at one moment."""
    made = MemoryEngine(clock=engine.fake)
    made.apply([Group((command,)) for command in commands])
    return made


def subjects(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


@pytest.mark.parametrize("after", [[THEIRS, NEWER], [NEWER], [NEWER, THEIRS, THEIRS]])
def test_a_follower_goes_on_if_entries_that_it_passed_over_are_taken_back(
    hk: Any, engine: WatchedEngine, after: Sequence[CreatePool]
) -> None:
    engine.inner = history(engine, OURS, CreatePool(id="lost", total=1, tenant="them"))
    followed = iter(hk.tenant("us").journal.follow(poll=0.001))
    assert next(followed).subject == "ours"
    engine.inner = history(engine, OURS, *after)
    assert next(followed).subject == "newer"


def test_a_follower_is_told_if_an_entry_that_it_was_shown_is_taken_back(hk: Any, engine: WatchedEngine) -> None:
    engine.inner = history(engine, OURS, NEWER, THEIRS)
    followed = iter(hk.tenant("us").journal.follow(poll=0.001))
    assert subjects([next(followed), next(followed)]) == ["ours", "newer"]
    engine.inner = history(engine, OURS, THEIRS)
    with pytest.raises(CursorLost):
        next(followed)


def test_a_failover_between_two_reads_of_a_page_moves_no_saved_cursor_too_far(hk: Any, engine: WatchedEngine) -> None:
    """The ends of the journal are read from the old primary, the page from the new one."""
    old, new = history(engine, OURS, THEIRS, THEIRS), history(engine, OURS)
    engine.inner = old

    def fail_over(query: Query[Any]) -> None:
        if isinstance(query, ReadJournal):
            engine.inner, engine.reading = new, None

    engine.reading = fail_over
    us = hk.tenant("us")
    assert subjects(us.journal.follow("mail", wait=False)) == ["ours"]
    us.create_pool("newer", 1)
    assert subjects(us.journal.follow("mail", wait=False)) == ["newer"]
