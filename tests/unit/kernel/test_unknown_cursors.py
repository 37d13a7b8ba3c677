"""A named follower whose write of its cursor has an unknown outcome recognises that write later, and no other follower's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdkit import OutcomeUnknown
from holdkit.core.commands import Group, PutRecord
from holdkit.errors import CursorLost
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from tests.support.modes import Async, Sync
from tests.support.watched_engine import WatchedEngine


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 2)


def names(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


def make(hk: Any, *pools: str) -> None:
    for pool in pools:
        hk.create_pool(pool, 1)


def keeps(groups: Sequence[Group]) -> bool:
    return any(isinstance(command, PutRecord) for group in groups for command in group.commands)


class Lost:
    """The answers of the first keeps are lost; what they wrote is there at once, late, or never."""

    def __init__(self, engine: WatchedEngine, times: int = 1, *, lands: bool) -> None:
        self._engine, self._left, self._lands = engine, times, lands
        self.waiting: list[tuple[int, Sequence[Group]]] = []
        engine.before = self._before

    def _before(self, groups: Sequence[Group]) -> None:
        if keeps(groups) and self._left:
            self._left -= 1
            if self._lands:
                self._engine.inner.apply(groups)
            else:
                self.waiting.append((self._engine.fake.now(), groups))
            raise OutcomeUnknown("the connection was lost during COMMIT")

    def land(self) -> None:
        """What was decided when it was sent can be seen now."""
        now = self._engine.fake.now()
        for slot, groups in self.waiting:
            self._engine.fake.set(slot)
            self._engine.inner.apply(groups)
        self._engine.fake.set(now)
        self.waiting.clear()


def test_a_keep_that_happened_though_nobody_said_so_is_the_followers_own(hk: Any, engine: WatchedEngine) -> None:
    make(hk, *"abcde")
    Lost(engine, lands=True)
    assert names(hk.journal.follow("mail", wait=False)) == ["p", *"abcde"]
    assert names(hk.journal.follow("mail", wait=False)) == [], "and the last place is kept"


@pytest.mark.parametrize("after", ["b", "d"])
def test_a_keep_that_happens_late_is_the_followers_own(hk: Any, engine: WatchedEngine, after: str) -> None:
    make(hk, *"abcde")
    lost = Lost(engine, lands=False)
    seen = []
    for entry in hk.journal.follow("mail", wait=False):
        seen.append(entry.subject)
        if entry.subject == after:
            lost.land()
    assert seen == ["p", *"abcde"]
    assert names(hk.journal.follow("mail", wait=False)) == []


def test_unknown_keeps_neither_loop_nor_stop_delivery(hk: Any, engine: WatchedEngine) -> None:
    make(hk, *"abcde")
    lost = Lost(engine, times=100, lands=False)
    assert names(hk.journal.follow("mail", wait=False)) == ["p", *"abcde"]
    assert len(lost.waiting) == 3, "one for each page"


@pytest.mark.parametrize("before", [True, False], ids=["kept before", "new name"])
def test_a_follower_that_begins_again_knows_what_it_had_sent_before(
    hk: Any, engine: WatchedEngine, before: bool
) -> None:
    if before:
        assert names(hk.journal.follow("mail", wait=False)) == ["p"]
    make(hk, *"abcd")
    lost = Lost(engine, times=2, lands=False)
    first = iter(hk.journal.follow("mail", wait=False))
    assert {next(first).subject for _ in range(4)} >= {"a", "b"}
    first.close()
    engine.fake.advance(1)
    second = iter(hk.journal.follow("mail", wait=False))
    shown = [next(second).subject]
    lost.land()
    assert [*shown, *names(second)] == [*([] if before else ["p"]), *"abcd"], "nothing was kept: it comes again"
    assert names(hk.journal.follow("mail", wait=False)) == []


def test_a_restarted_process_knows_what_its_predecessor_had_sent(
    hk: Any, engine: WatchedEngine, mode: Sync | Async
) -> None:
    """Whoever begins under a name takes over from the one before it, which is told if it lives still."""
    make(hk, *"abcd")
    assert names(hk.journal.follow("mail", wait=False)) == ["p", *"abcd"]
    make(hk, *"efghij")
    lost = Lost(engine, lands=False)
    first = iter(hk.journal.follow("mail", wait=False))
    assert [next(first).subject for _ in range(3)] == [*"efg"]  # its first keep is on its way
    engine.fake.advance(1)
    restarted = mode.open(engine)
    second = iter(restarted.journal.follow("mail", wait=False))
    assert next(second).subject == "e"
    lost.land()
    assert names(second) == [*"fghij"]
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(first)
    restarted.close()


def test_who_writes_after_it_began_is_no_predecessor(hk: Any, engine: WatchedEngine) -> None:
    make(hk, *"abcdef")
    first, second = iter(hk.journal.follow("mail", wait=False)), iter(hk.journal.follow("mail", wait=False))
    assert next(second).subject == "p"
    engine.fake.advance(1)
    assert [next(first).subject for _ in range(3)] == ["p", "a", "b"]
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(second)


@pytest.mark.parametrize("lands", [True, False])
def test_another_follower_is_known_as_another_also_behind_an_unknown_keep(
    hk: Any, engine: WatchedEngine, lands: bool
) -> None:
    make(hk, *"abcdefghi")
    first = iter(hk.journal.follow("mail", wait=False))
    assert [next(first).subject for _ in range(3)] == ["p", "a", "b"]  # kept once
    Lost(engine, lands=lands)
    assert [next(first).subject for _ in range(2)] == ["c", "d"]  # the second keep is unknown
    second = iter(hk.journal.follow("mail", wait=False))
    assert [next(second).subject for _ in range(4)][-1] in ("e", "g")  # and this one has kept behind it
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(first)


def test_a_place_that_was_removed_is_not_written_again(hk: Any, engine: WatchedEngine) -> None:
    make(hk, *"abcd")
    following = iter(hk.journal.follow("mail", wait=False))
    assert [next(following).subject for _ in range(3)] == ["p", "a", "b"]
    engine.inner.apply([Group((PutRecord(kind="~cursor", id="mail", body=None),))])
    with pytest.raises(CursorLost, match="was removed"):
        list(following)
