"""Followers and cursors, sync and async: none skipped, at least once, and a journal that was cut back is noticed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from holdkit import InvalidRequest, Limits, Overloaded, Pool
from holdkit.core.commands import Group, PutRecord
from holdkit.core.reading import ReadJournal
from holdkit.engines.memory import MemoryEngine
from holdkit.errors import CursorLost, EngineError
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE, CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 3)


def names(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


def make(hk: Any, *pools: str) -> list[str]:
    for pool in pools:
        hk.create_pool(pool, 1)
    return list(pools)


def test_a_follower_sees_everything_in_order_and_ends_where_it_was_told(hk: Any) -> None:
    made = make(hk, "a", "b", "c")
    assert names(hk.journal.follow(wait=False)) == ["p", *made]
    assert names(hk.journal.follow(after=hk.journal.list(limit=2)[-1].cursor, wait=False)) == ["b", "c"]
    assert names(hk.journal.follow(after=hk.journal.cursor(), wait=False)) == []


@pytest.mark.usefixtures("short_pages")
def test_a_named_follower_goes_on_where_it_was(hk: Any) -> None:
    make(hk, *"abcdef")
    assert names(hk.journal.follow("mail", wait=False)) == ["p", *"abcdef"]
    assert names(hk.journal.follow("mail", wait=False)) == []
    make(hk, "g")
    assert names(hk.journal.follow("mail", after=hk.journal.list(limit=1)[0].cursor, wait=False)) == ["g"], (
        "`after` counts once"
    )
    assert names(hk.journal.follow("other", wait=False)) == ["p", *"abcdefg"], "each name has its own place"


@pytest.mark.usefixtures("short_pages")
def test_after_a_crash_the_last_page_comes_again_and_nothing_is_skipped(hk: Any) -> None:
    make(hk, *"abcdefgh")
    seen = []
    for entry in hk.journal.follow("mail", wait=False):
        seen.append(entry.subject)
        if entry.subject == "e":
            break  # the consumer dies in the middle of its second page
    assert seen == ["p", *"abcde"]
    assert names(hk.journal.follow("mail", wait=False)) == [*"cdefgh"]


def test_its_own_bookkeeping_is_hidden(hk: Any) -> None:
    list(hk.journal.follow("mail", wait=False))
    assert names(hk.journal.list()) == ["p"]
    assert names(hk.journal.follow(wait=False)) == ["p"]
    assert hk.journal.history("~cursor/mail"), "but it is in the journal"


def test_a_page_of_hidden_entries_does_not_stop_anyone(hk: Any, engine: WatchedEngine) -> None:
    hidden = [Group((PutRecord(kind="~k", id="x", body="1"),)) for _ in range(1200)]
    engine.inner.apply(hidden)
    make(hk, "a")
    assert names(hk.journal.list(after=hk.journal.list(limit=1)[0].cursor, limit=5)) == ["a"]
    assert names(hk.journal.follow(wait=False)) == ["p", "a"]


def test_a_page_of_foreign_entries_does_not_stop_anyone(hk: Any, engine: WatchedEngine) -> None:
    engine.inner.apply([Group((PutRecord(tenant="acme", kind="k", id="x", body="1"),)) for _ in range(1200)])
    make(hk, "a")
    assert names(hk.journal.follow(wait=False)) == ["p", "a"]
    assert names(hk.journal.list(limit=1)) == ["p"]
    assert names(hk.tenant("acme").journal.follow(wait=False)) == ["k/x"] * 1200


def test_tenants_follow_only_their_own(hk: Any) -> None:
    acme, other = hk.tenant("acme"), hk.tenant("other")
    acme.create_pool("a", 1)
    other.create_pool("o", 1)
    assert names(acme.journal.follow("mail", wait=False)) == ["a"]
    assert names(other.journal.follow("mail", wait=False)) == ["o"]
    assert names(hk.journal.follow("mail", wait=False)) == ["p"]
    other.create_pool("o2", 1)
    assert names(acme.journal.follow("mail", wait=False)) == []
    assert names(other.journal.list()) == ["o", "o2"]


def test_foreign_traffic_never_loses_an_idle_followers_cursor(mode: Sync | Async) -> None:
    """The journal keeps so many entries; a follower that is up to date must not fall off its end."""
    engine = WatchedEngine()
    engine.inner = MemoryEngine(clock=engine.fake, journal=10)
    hk = mode.open(engine)
    acme = hk.tenant("acme")
    acme.create_pool("a", 1)
    following = iter(acme.journal.follow(poll=0.001))
    assert next(following).subject == "a"
    waiting = CallerThreads()
    waiting.start(lambda: next(following).subject)
    for number in range(60):
        before = threading.Event()
        engine.reading = lambda query, before=before: before.set()
        hk.create_pool(f"x{number}", 1)
        assert before.wait(PATIENCE), "the follower has looked"
    acme.create_pool("b", 1)
    assert waiting.join() == ["b"]
    hk.close()


def test_two_followers_of_one_name_notice_each_other(hk: Any) -> None:
    make(hk, "a")
    first, second = iter(hk.journal.follow("mail", wait=False)), iter(hk.journal.follow("mail", wait=False))
    next(first), next(second)
    assert names(first) == ["a"]
    with pytest.raises(CursorLost, match="another follower named 'mail'"):
        list(second)


def other_journal(mode: Sync | Async) -> str:
    other = mode.open(WatchedEngine())
    make(other, "x", "y", "z")
    cursor = other.journal.cursor()
    other.close()
    assert isinstance(cursor, str)
    return cursor


def test_a_cursor_of_another_journal_is_lost(hk: Any, mode: Sync | Async) -> None:
    foreign = other_journal(mode)
    for ask in (lambda: hk.journal.list(after=foreign), lambda: list(hk.journal.follow(after=foreign, wait=False))):
        with pytest.raises(CursorLost, match="start anew"):
            ask()
    make(hk, "a", "b", "c", "d")
    with pytest.raises(CursorLost):  # the number exists by now, and is another entry
        hk.journal.list(after=foreign)


@pytest.mark.parametrize("length", [1, 3, 8])
def test_a_journal_cut_back_under_a_live_follower_is_noticed(hk: Any, engine: WatchedEngine, length: int) -> None:
    """Restored from a backup while the follower waits: shorter, just as long or longer, it never skips in silence."""
    make(hk, "a", "b")
    following = iter(hk.journal.follow(poll=0.001))
    assert [next(following).subject for _ in range(3)] == ["p", "a", "b"]
    engine.inner = MemoryEngine(clock=engine.fake)
    engine.inner.apply([Group((PutRecord(kind="k", id=f"r{n}", body="1"),)) for n in range(length)])
    with pytest.raises(CursorLost):
        next(following)


def test_a_named_follower_waits_through_an_overload(hk: Any, engine: WatchedEngine) -> None:
    """Turned away while it keeps its place: it goes on, and keeps it with the next page."""

    def busy(groups: Sequence[Group]) -> None:
        if any(isinstance(command, PutRecord) for group in groups for command in group.commands):
            raise Overloaded("busy")

    engine.before = busy
    assert names(hk.journal.follow("mail", wait=False)) == ["p"]
    engine.before = None
    assert names(hk.journal.follow("mail", wait=False)) == ["p"], "nothing was kept: it comes again"
    assert names(hk.journal.follow("mail", wait=False)) == []


def test_a_named_follower_passes_other_errors_on(hk: Any, engine: WatchedEngine) -> None:
    def fail(_: Sequence[Group]) -> None:
        raise EngineError("disk")

    engine.before = fail
    with pytest.raises(EngineError, match="disk"):
        list(hk.journal.follow("mail", wait=False))


def test_a_waiting_follower_is_woken_by_a_commit_and_ends_on_close(hk: Any) -> None:
    seen: list[str] = []
    news = threading.Semaphore(0)

    def consume() -> str:
        for entry in hk.journal.follow("mail", poll=3600):
            seen.append(entry.subject)
            news.release()
        return "ended"

    callers = CallerThreads()
    callers.start(consume)
    for name in ("p", "a", "b"):
        if name != "p":
            make(hk, name)
        assert news.acquire(timeout=PATIENCE)
    hk.close()
    assert callers.join() == ["ended"]
    assert seen == ["p", "a", "b"]


def test_a_follower_in_the_middle_of_a_page_ends_quietly_on_close(hk: Any) -> None:
    make(hk, "a", "b")
    following = iter(hk.journal.follow("mail"))
    next(following)
    hk.close()
    assert names(following) == []


def test_a_kept_place_that_is_not_ours_is_refused(hk: Any, engine: WatchedEngine) -> None:
    engine.inner.apply([Group((PutRecord(kind="~cursor", id="mail", body='"junk"'),))])
    with pytest.raises(InvalidRequest) as refused:
        list(hk.journal.follow("mail", wait=False))
    assert refused.value.code == "cursor_malformed"


def test_many_followers_and_writers(hk: Any) -> None:
    """Stress: every follower sees every entry once, in order, while sixteen writers commit."""
    hk.create_pool("big", 10**6)
    followers, writers = CallerThreads(), CallerThreads()

    def follow() -> list[int]:
        seen = []
        for entry in hk.journal.follow(poll=3600):
            seen.append(entry.raw.position.seq)
            if len(seen) == 2 + 16 * 20:
                break
        return seen

    for _ in range(3):
        followers.start(follow)
    for _ in range(16):
        writers.start(lambda: [hk.hold("big", 1, ttl=60) for _ in range(20)])
    writers.join()
    assert followers.join() == [list(range(1, 2 + 16 * 20 + 1))] * 3


def test_entries_tell_their_story_without_secrets(hk: Any) -> None:
    hold = hk.hold("p", 2, ttl=60, token="s3cret", op="op-1", actor="user:7")
    hk.confirm(hold, op="op-2", entity="order:9")
    held, confirmed = hk.history(hold)
    assert held.before == {}
    assert confirmed.before == {"state": "held", "deadline": hold.deadline}
    assert str(hold.deadline) == "1970-01-01 00:01:00+00:00"
    assert confirmed.after["state"] == "confirmed"
    assert confirmed.after["entity"] == "order:9"
    assert held.after["id"] == hold.id
    assert (held.op, held.actor, held.forced, held.tenant) == ("op-1", "user:7", False, "")
    assert str(held.at) == "1970-01-01 00:00:00+00:00"
    assert (held.raw.slot, held.correlation_id, held.reason) == (0, None, None)
    assert [(effect.pool.id, effect.held) for effect in held.pools] == [("p", 2)]
    assert (held.position, confirmed.position) == ("0.2", "0.3")
    assert held.raw.position < confirmed.raw.position
    told = [repr(held), str(held.after), str(confirmed.after), repr(held.pools)]
    assert not any("s3cret" in text or "owner_hash" in text or "last_op" in text for text in told)
    hk.admin.records.put("k", "x", "1")
    assert hk.journal.list()[-1].after["body"] == "1"
    assert hk.journal.list()[0].after == {}


def test_history_takes_every_form(hk: Any) -> None:
    from uuid import UUID

    hold = hk.hold("p", 1, ttl=60)
    for form in (hold, hold.id, hold.ticket, UUID(hold.id), str(UUID(hold.id)), hold.id.upper()):
        assert names(hk.history(form)) == [hold.id]
    assert names(hk.journal.history("p")) == ["p", hold.id]
    assert hk.journal.history("nothing") == []
    hk.create_pool(str(UUID(int=7)), 1)
    assert names(hk.journal.history(str(UUID(int=7)))) == [str(UUID(int=7))], "a pool may be named like that"


def test_a_cursor_is_small_text(hk: Any) -> None:
    cursor = hk.journal.cursor()
    assert len(cursor) < 80
    assert cursor.isascii()
    assert hk.journal.list(after=cursor) == []


def test_a_cursor_some_entries_back(hk: Any) -> None:
    make(hk, "a", "b", "c")
    assert names(hk.journal.list(after=hk.journal.cursor(back=2))) == ["b", "c"]
    assert names(hk.journal.list(after=hk.journal.cursor(back=4))) == ["p", "a", "b", "c"], "the beginning"
    assert hk.journal.cursor(back=5) == hk.journal.cursor(back=2**63 - 1), "there is nothing before it"
    for nonsense in (-1, 1.5, True, "2"):
        with pytest.raises(InvalidRequest, match="back"):
            hk.journal.cursor(back=nonsense)


def test_reading_a_place_is_race_free(hk: Any, engine: WatchedEngine) -> None:
    """What was read counts only if the place is still there after the read."""
    make(hk, "a")
    first = hk.journal.list(limit=1)[0].cursor

    def cut(query: Any) -> None:
        if isinstance(query, ReadJournal) and query.tenant is not None:
            engine.inner = MemoryEngine(clock=engine.fake)
            engine.inner.apply([Group((PutRecord(kind="k", id=f"r{n}", body="1"),)) for n in range(5)])

    engine.reading = cut
    with pytest.raises(CursorLost):
        hk.journal.list(after=first)


def test_limits_of_the_watched_engine_are_the_kernels(hk: Any) -> None:
    assert isinstance(hk._limits, Limits)
    assert isinstance(hk.pool("p"), Pool)


@pytest.mark.parametrize("at", ["FindEnds", "ReadJournal", "FindEntries"])
def test_a_follower_ends_quietly_if_the_close_comes_in_the_midst_of_a_page(
    hk: Any, engine: WatchedEngine, mode: Sync | Async, at: str
) -> None:
    following = iter(hk.journal.follow(poll=0.001))
    next(following)
    closing = CallerThreads()

    def close(query: Any) -> None:
        if type(query).__name__ == at and not hk._executor.closed:
            engine.reading = None
            closing.start(hk.close)
            wait_until(lambda: hk._executor.closed)
            if isinstance(mode, Sync):
                closing.join()

    engine.inner.apply([Group((PutRecord(kind="~k", id="x", body="1"),))])  # something to read, though nothing to show
    engine.reading = close
    assert list(following) == []
    closing.join()


def test_a_follower_passes_on_what_goes_wrong_while_nobody_closes(hk: Any, engine: WatchedEngine) -> None:
    following = iter(hk.journal.follow(poll=0.001))
    next(following)

    def fail(_: Any) -> None:
        raise EngineError("disk")

    engine.reading = fail
    with pytest.raises(EngineError, match="disk"):
        next(following)
