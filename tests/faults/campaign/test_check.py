"""The check notices what it is there for: each ledger here tells one lie about a journal that is sound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

import holdkit
from holdkit.core.model import SECOND, Pool
from holdkit.engines.memory import MemoryEngine
from tests.engines.commands import Clock
from tests.faults.campaign.callers import NARROW, TOTALS, WIDE
from tests.faults.campaign.check import Told, Verdict, check, check_follower, check_times
from tests.faults.campaign.ledger import Line, Said

ME = "me.with_operation_ids"


@pytest.fixture
def hk() -> Iterator[holdkit.Kernel]:
    with holdkit.connect("memory://") as kernel:
        for id, total in TOTALS.items():
            kernel.create_pool(id, total)
        yield kernel


def line(said: Said, call: int, attempt: int = 0, **more: Any) -> Line:
    return Line(said=said, at=float(call), caller=ME, call=call, attempt=attempt, **{"verb": "hold", **more})


def placed(hk: holdkit.Kernel, call: int, attempt: int = 0) -> holdkit.Hold:
    return hk.hold(WIDE, 1, ttl=60, correlation_id=f"{ME}/{call}/{attempt}")


def kinds(hk: holdkit.Kernel, *lines: Line) -> set[str]:
    return {words.partition(":")[0] for words in check(hk, lines).violations}


def test_what_was_told_truly_is_sound(hk: holdkit.Kernel) -> None:
    hold = placed(hk, 0, 1)
    lane, _, seq = (hold.position or "").partition(".")
    hk.confirm(hold, correlation_id=f"{ME}/1/0")
    spent = hk.consume(WIDE, 1, correlation_id=f"{ME}/2/0")
    claim = hk.claims.hold("key", "a", ttl=60, correlation_id=f"{ME}/4/0")
    found = check(
        hk,
        [
            line("asked", 0), line("unknown", 0), line("asked", 0, 1),
            line("done", 0, 1, hold=hold.id, lane=int(lane), seq=int(seq)),
            line("asked", 1, verb="confirm"), line("settled", 1, verb="confirm"),
            line("asked", 2, verb="consume"), line("done", 2, verb="consume", hold=spent.id),
            line("asked", 3), line("refused", 3),
            line("asked", 4, verb="claims.hold"), line("done", 4, verb="claims.hold", hold=claim.id),
        ],
    )  # fmt: skip
    assert found.violations == []
    assert (found.done, found.refused, found.unknown) == (4, 1, 1)


def test_lost(hk: holdkit.Kernel) -> None:
    assert kinds(hk, line("asked", 0), line("done", 0)) == {"lost"}
    assert kinds(hk, line("asked", 0), line("settled", 0)) == {"lost"}


def test_told_of_another_hold_or_another_place(hk: holdkit.Kernel) -> None:
    hold = placed(hk, 0)
    seq = int((hold.position or "").partition(".")[2])
    assert kinds(hk, line("asked", 0), line("done", 0, hold="another")) == {"lost"}
    assert kinds(hk, line("asked", 0), line("done", 0, hold=hold.id, seq=seq + 1)) == {"lost"}


def test_doubled(hk: holdkit.Kernel) -> None:
    placed(hk, 0, 0)
    placed(hk, 0, 1)
    lines = [line("asked", 0), line("unknown", 0), line("asked", 0, 1), line("done", 0, 1)]
    assert kinds(hk, *lines) == {"doubled"}


def test_an_effect_that_nobody_asked_for(hk: holdkit.Kernel) -> None:
    placed(hk, 0)
    assert kinds(hk) == {"doubled"}


@pytest.mark.parametrize("said", ["refused", "none"])
def test_denied(hk: holdkit.Kernel, said: Said) -> None:
    placed(hk, 0)
    assert kinds(hk, line("asked", 0), line(said, 0)) == {"denied"}


def test_a_refusal_settles_all_attempts_of_an_operation(hk: holdkit.Kernel) -> None:
    placed(hk, 0)
    lines = [line("asked", 0, op=True), line("unknown", 0, op=True), line("asked", 0, 1, op=True)]
    assert kinds(hk, *lines) == set()
    assert kinds(hk, *lines, line("refused", 0, 1, op=True)) == {"denied"}


def test_oversold_and_unsound(hk: holdkit.Kernel) -> None:
    hk.hold(NARROW, 1, ttl=60)
    assert kinds(hk, line("broken", 0)) == {"unsound"}
    engine = hk._executor.engine
    assert isinstance(engine, MemoryEngine)
    engine._tables.pools["", NARROW] = Pool("", NARROW, 1, held=2)
    assert kinds(hk) == {"oversold", "unsound"}


def test_each_check_tells_what_is_new(hk: holdkit.Kernel) -> None:
    told = Told()
    lines = [line("asked", 0), line("done", 0)]
    assert len(check(hk, lines).since(told).lost) == 1
    again = check(hk, [*lines, line("asked", 1), line("refused", 1)]).since(told)
    assert (again.violations, again.done, again.refused) == ([], 0, 1)


def shown(entry: holdkit.JournalEntry, call: int = 0) -> Line:
    words = f"{entry.action} {entry.subject} {entry.correlation_id}"
    at = entry.raw.position
    return Line(said="shown", at=0.0, caller="follower", call=call, lane=at.lane, seq=at.seq, words=words)


def follower_verdict(hk: holdkit.Kernel, lines: list[Line]) -> Verdict:
    verdict = Verdict()
    check_follower(hk, lines, verdict)
    return verdict


def test_a_follower_that_misses_or_invents_an_entry(hk: holdkit.Kernel) -> None:
    placed(hk, 0)
    lines = [shown(entry) for entry in hk.journal.follow(wait=False)]
    assert follower_verdict(hk, lines).violations == []
    assert [words.partition(" hold.held")[0] for words in follower_verdict(hk, lines[:-1]).unsound] == [
        "the follower missed"
    ]


@pytest.mark.parametrize(("caller", "call"), [("follower", 0), ("follower", 1), ("follower.listener", 0)])
def test_an_entry_that_was_shown_and_is_gone(hk: holdkit.Kernel, caller: str, call: int) -> None:
    """Under whatever name: also one that was given up since, or a listener's."""
    lines = [shown(entry) for entry in hk.journal.follow(wait=False)]
    gone = Line(said="shown", at=0.0, caller=caller, call=call, seq=99, words="hold.held x y")
    assert follower_verdict(hk, [*lines, gone]).gone == [f"hold.held x y at (0, 99), as {caller}-{call}"]
    other = Line(said="shown", at=0.0, caller=caller, call=call, seq=1, words="hold.held x y")
    assert follower_verdict(hk, [*lines, other]).gone == [f"hold.held x y at (0, 1), as {caller}-{call}"]


def test_a_listener_may_miss_entries(hk: holdkit.Kernel) -> None:
    lines = [shown(entry) for entry in hk.journal.follow(wait=False)]
    assert follower_verdict(hk, [*lines, structs.replace(lines[0], caller="follower.listener")]).violations == []


def test_a_lone_follower_never_loses_its_cursor(hk: holdkit.Kernel) -> None:
    lost = Line(said="cursor_lost", at=0.0, caller="follower", call=1, words="another follower moved the cursor")
    anew = [shown(entry, 1) for entry in hk.journal.follow(wait=False)]
    assert follower_verdict(hk, [lost, *anew]).unsound == [
        "the follower's cursor was lost: another follower moved the cursor"
    ]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("abcd", None),
        ("acd", None),
        ("abd", "while a leg is due"),
        ("bad", "goes from slot"),
        ("cab", "goes from slot"),
    ],
)
def test_times_that_cannot_be_are_noticed(kept: str, said: str | None) -> None:
    """A journal with entries left out, or in another order: two are placed (a, b), the second expires (c), the first is released (d)."""
    clock = Clock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 10)
        first = hk.hold("p", 1, ttl=60)
        clock.slot += SECOND
        hk.hold("p", 1, ttl=1)
        clock.slot += SECOND
        hk.release(first)
        _, *journal = hk.journal.follow(wait=False)
    assert [str(entry.action) for entry in journal] == ["hold.held", "hold.held", "hold.expired", "hold.released"]
    verdict = Verdict()
    check_times([journal["abcd".index(letter)] for letter in kept], verdict)
    assert bool(verdict.unsound) == (said is not None)
    assert all(said is not None and said in words for words in verdict.unsound[:1])


def test_a_hold_that_ends_after_its_deadline_is_noticed() -> None:
    clock = Clock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 10)
        brief, lasting = hk.hold("p", 1, ttl=1), hk.hold("p", 1, ttl=60)
        clock.slot += SECOND
        hk.release(lasting)
        _, _, _, _, released = journal = list(hk.journal.follow(wait=False))
    released.raw = structs.replace(released.raw, entry=structs.replace(released.raw.entry, subject=brief.id))
    verdict = Verdict()
    check_times([*journal[:3], released], verdict)
    assert [words.partition(" at ")[0] for words in verdict.unsound] == [
        f"hold.released of {brief.id} 0 slots too late"
    ]


@pytest.mark.parametrize(("kept", "late"), [("abcd", []), ("abd", [0])])
def test_an_extended_hold_may_end_after_its_first_deadline(kept: str, late: list[int]) -> None:
    """Two are placed (a, b), the first is extended (c) and released at its first deadline (d)."""
    clock = Clock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 10)
        first = hk.hold("p", 1, ttl=1)
        hk.hold("p", 1, ttl=60)
        hk.extend(first, by=1)
        clock.slot += SECOND
        hk.release(first)
        _, *journal = hk.journal.follow(wait=False)
    assert [str(entry.action) for entry in journal] == ["hold.held", "hold.held", "hold.extended", "hold.released"]
    verdict = Verdict()
    check_times([journal["abcd".index(letter)] for letter in kept], verdict)
    assert [words.partition(" at ")[0] for words in verdict.unsound] == [
        f"hold.released of {first.id} {slots} slots too late" for slots in late
    ]
