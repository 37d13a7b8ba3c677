"""Checks of lines, accounts and trees: units are offered in order and once, tallies and pools above move with every leg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.commands import (
    ArchivePool,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    FeedLine,
    Group,
    LimitPool,
    ReassignHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from ...core.entries import Action
from ...core.model import Leg
from ...core.outcomes import Reason, Receipt
from ...core.reading import AccountUsage, CountAhead, ListHolds, ListUsage, NextDeadline
from ...core.searching import ListLine
from .concurrency import THREADS, together
from .harness import START, TOKEN, Harness, hold_id, joining, placing, prepared, require, require_equal
from .histories import Recorder


def releasing(number: int, quantity: int | None = None) -> ReleaseHold:
    """Return the command that ends a hold, or a place in line."""
    return ReleaseHold(id=hold_id(number), token=TOKEN, quantity=quantity)


def states(harness: Harness, *numbers: int) -> str:
    """Return the states of these holds, in short: w, h, c, r, e."""
    found = [harness.hold(number) for number in numbers]
    return "".join("-" if hold is None else hold.state[0] for hold in found)


def offered(harness: Harness) -> list[str]:
    """Return the holds that were offered units of the pool, in the order of its lane."""
    return [entry.subject for entry in harness.entries_of_pool("a") if entry.action is Action.HOLD_OFFERED]


def in_line(harness: Harness, **paged: int) -> list[int]:
    """Return the numbers of the holds in the line of the pool."""
    found = harness.engine.read(ListLine(("", "a"), **paged))
    return [next(number for number in range(20) if hold_id(number) == hold.id) for hold in found]


def units_are_offered_in_order(harness: Harness) -> None:
    """Units that become free are offered in the order of the line, whatever freed them; no waiter overtakes."""
    harness.pools(a=3)
    harness.granted(1, quantity=3)
    for number, quantity in ((9, 2), (2, 1), (3, 1), (4, 2)):
        wait = harness.done(joining(number, quantity=quantity, ttl=60 if number == 3 else 1_000)).hold
        require_equal(wait and (wait.held_at, wait.fence, wait.deadline), (None, 0, START + (60 if number == 3 else 1_000)), "a waiter")  # fmt: skip
    require_equal([harness.engine.read(CountAhead(("", hold_id(n)))) for n in (9, 4, 1)], [0, 3, None], "places")
    require_equal(in_line(harness), [9, 2, 3, 4], "who waits, in order")
    require_equal((in_line(harness, after=2), in_line(harness, limit=1)), ([3, 4], [9]), "pages of a line")
    harness.done(releasing(1, 1))
    require_equal(states(harness, 9, 2), "ww", "a request for 2 with 1 unit free, and a smaller one behind it")
    require_equal(harness.refused(placing(5), Reason.LINE_AHEAD).found, 4, "the length of the line in a refusal")
    harness.refused(Consume(id=hold_id(5), legs=(Leg("a"),), token=TOKEN), Reason.LINE_AHEAD)
    row = harness.pool()
    require_equal((row.waiting, row.available, row.bookable, row.last_number), (4, 1, 0, 4), "a pool with a line")
    harness.done(releasing(1, 1))
    first = harness.hold(9)
    assert first is not None
    require_equal((first.deadline, first.held_at, first.legs[0].held), (START + 50, START, 2), "an offer")
    require_equal(states(harness, 9, 2, 3, 4), "hwww", "the line after one offer")
    require_equal(harness.engine.read(NextDeadline(("", "a"))), START + 50, "the next deadline on the pool")
    harness.at(60)
    require_equal(states(harness, 9, 2, 3, 4), "ewew", "an offer that has expired, a waiter whose time is over")
    require_equal(harness.engine.read(CountAhead(("", hold_id(4)))), 1, "a place, not counting who is due")
    require_equal(in_line(harness), [2, 4], "who waits, without those who are due")
    require_equal((harness.pool().waiting, harness.pool().held), (2, 1), "waiting and held, due ones not counted")
    waiting = [hold.id for hold in harness.engine.read(ListHolds("", state=harness.hold(2).state))]  # type: ignore[union-attr]
    require_equal(waiting, [hold_id(2), hold_id(4)], "holds that wait")
    harness.done(Sweep())
    require_equal(states(harness, 2, 4), "hw", "the line after a sweep")
    harness.done(ConfirmHold(id=hold_id(2), token=TOKEN))
    harness.done(releasing(1))
    require_equal(states(harness, 4), "h", "the last of the line")
    require_equal(offered(harness), [hold_id(number) for number in (9, 2, 4)], "offers, in order")
    harness.verify()


def lines_follow_their_pool(harness: Harness) -> None:
    """A lowered total blocks no waiter, a raised one is offered; an archived pool offers nothing; a pool with a line is not removed."""
    harness.pools(a=4)
    harness.done(CreatePool(id="s", total=2, line="skip"))
    harness.granted(1, quantity=2)
    harness.done(joining(2, quantity=4))
    harness.done(joining(3))
    harness.done(ResizePool(id="a", total=3))
    require_equal(states(harness, 2, 3), "wh", "behind one who asks for more than the total")
    harness.done(ArchivePool(id="a"))
    harness.done(releasing(3))
    row = harness.pool()
    require_equal((row.available, row.bookable, row.least), (1, 0, 0), "an archived pool whose line blocks nobody")
    harness.done(joining(4, "s", 2))
    harness.refused(joining(5), Reason.POOL_ARCHIVED)
    harness.done(Sweep())
    harness.refused(RemovePool(id="a"), Reason.POOL_IN_USE)
    harness.done(UnarchivePool(id="a"))
    require_equal(harness.pool().bookable, 1, "units that nobody in line can take")
    harness.done(ExtendHold(id=hold_id(2), token=TOKEN, by_slots=10))
    harness.done(ResizePool(id="a", total=6))
    require_equal(states(harness, 2), "h", "one who fits again")
    for number, quantity in ((6, 2), (7, 1), (8, 1)):
        harness.done(joining(number, "s", quantity))
    harness.done(releasing(4, 1))
    require_equal(states(harness, 6, 7, 8), "whw", "a line that skips whoever does not fit")
    harness.done(releasing(8))
    harness.done(releasing(7))
    harness.done(releasing(4))
    require_equal(states(harness, 6), "h", "one that was skipped, when it fits")
    harness.refused(ConfirmHold(id=hold_id(9), token=TOKEN), Reason.HOLD_NOT_FOUND)
    harness.verify()


def long_lines_are_fed_in_parts(harness: Harness) -> None:
    """A transaction makes at most `max_offers` offers, and says which pools have more to offer; no waiter is left out."""
    harness.open(max_offers=2)
    harness.pools(a=7)
    harness.granted(1, quantity=7)
    for number in range(2, 11):
        harness.done(joining(number))
    applied = harness.engine.apply([prepared(Group((releasing(1),)))])
    steps = 1
    while applied.unfed or applied.put_off:
        require(steps < 10, "the line is never fed to its end")
        require_equal(len(offered(harness)), 2 * steps, f"offers after {steps} transactions")
        applied = harness.engine.apply([Group((FeedLine(id="a"),))])
        steps += 1
    require_equal(offered(harness), [hold_id(number) for number in range(2, 9)], "offers, in order and once each")
    require_equal((harness.pool().held, harness.pool().waiting), (7, 2), "held and waiting")
    harness.refused(placing(20), Reason.INSUFFICIENT_CAPACITY)
    harness.verify()


def making_room_serves_the_line(harness: Harness) -> None:
    """A full table of holds is swept first to make room; the units that the sweep returns are offered to those who wait."""
    harness.open(max_holds=3)
    harness.pools(a=1, b=5)
    harness.granted(1, ttl=10)
    harness.done(joining(2))
    harness.granted(3, "b")
    harness.at(10)
    harness.granted(4, "b")
    require_equal(states(harness, 2, 3, 4), "hhh", "who waited, after room was made")
    harness.verify()


def usage(harness: Harness, account: str, **paged: Any) -> list[tuple[str, int, int | None]]:
    """Return the usage of an account."""
    found: list[AccountUsage] = harness.engine.read(ListUsage("", account, **paged))
    return [(one.pool, one.used, one.limit) for one in found]


def tallies_move_with_their_legs(harness: Harness) -> None:
    """What an account waits for, holds and has confirmed is counted by pool, and limited; it falls with all that comes back."""
    harness.open(retention=100, retention_consumed=200)
    harness.done(CreatePool(id="a", total=9, per_account=4))
    harness.pools(b=9)
    harness.refused(placing(1), Reason.ACCOUNT_REQUIRED)
    harness.done(placing(1, [Leg("a", 2), Leg("b", 5)], ttl=10, account="x"))
    harness.done(Consume(id=hold_id(2), legs=(Leg("a", 2),), token=TOKEN, account="x"))
    short = harness.refused(placing(3, account="x"), Reason.ACCOUNT_LIMIT).shortfalls[0]
    require_equal((short.requested, short.used, short.total), (1, 4, 4), "the numbers of a limit per account")
    harness.granted(3, quantity=4, account="y")
    harness.granted(4, quantity=1, force=True, reason="box office", ttl=10)
    require_equal(usage(harness, "x"), [("a", 4, 4), ("b", 5, None)], "what an account uses, by pool")
    require_equal(usage(harness, "x", limit=1), [("a", 4, 4)], "the first page of it")
    require_equal(usage(harness, "x", after="a"), [("b", 5, None)], "the second page of it")
    harness.at(10)
    require_equal(usage(harness, "x"), [("a", 2, 4)], "what it uses, due legs counted as returned")
    harness.done(joining(5, quantity=2, account="x"))
    require_equal(usage(harness, "x"), [("a", 4, 4)], "what it waits for is counted")
    harness.refused(ReassignHold(id=hold_id(3), token=TOKEN, account="x"), Reason.ACCOUNT_LIMIT)
    harness.done(ReassignHold(id=hold_id(3), token=TOKEN, account="z"))
    require_equal(
        (usage(harness, "y"), usage(harness, "z")), ([], [("a", 4, 4)]), "a hold that moved to another account"
    )
    harness.done(LimitPool(id="a", per_account=1))
    harness.refused(placing(6, account="x"), Reason.ACCOUNT_LIMIT)
    harness.done(releasing(5))
    harness.done(ReturnUnits(id=hold_id(2), token=TOKEN, quantity=1))
    require_equal(usage(harness, "x"), [("a", 1, 1)], "what is left after a return")
    harness.at(400)
    harness.done(Sweep())
    require_equal(harness.hold(2), None, "a hold after the retention of what is consumed")
    require_equal((usage(harness, "x"), usage(harness, "y")), ([("a", 1, 1)], []), "tallies without their holds")
    harness.refused(ReturnToPool(id="a", quantity=1, force=True, reason="refund"), Reason.QUANTITY_EXCEEDS_CONSUMED)
    harness.done(ReturnToPool(id="a", quantity=1, force=True, reason="refund", account="x"))
    require_equal(usage(harness, "x"), [], "a tally at 0")
    require_equal((harness.pool().consumed, harness.pool().loose), (0, 0), "consumed and loose")
    harness.verify()


def trees_move_every_level(harness: Harness) -> None:
    """A leg also moves every pool above it, all or nothing, in every step; what comes back below feeds the line at the root."""
    harness.refused(CreatePool(id="a//b", total=5), Reason.POOL_NOT_FOUND)
    for pool, total in (("a", 4), ("a//b", 4), ("a//b//c", 3), ("a//d", 4)):
        harness.done(CreatePool(id=pool, total=total))
    harness.done(placing(1, [Leg("a//b//c", 2), Leg("a//b", 1)], ttl=10, account="x"))
    levels = {pool: harness.pool(pool).held for pool in ("a", "a//b", "a//b//c", "a//d")}
    require_equal(levels, {"a": 3, "a//b": 3, "a//b//c": 2, "a//d": 0}, "held, by level")
    require_equal(
        (harness.pool("a//d").available, harness.pool("a//d").bookable), (4, 1), "a child of a pool that is nearly full"
    )
    short = harness.refused(placing(2, "a//d", 2), Reason.INSUFFICIENT_CAPACITY).shortfalls
    require_equal(
        [(one.pool, one.requested, one.available) for one in short], [("a", 2, 1)], "the level that fell short"
    )
    require_equal(usage(harness, "x"), [("a", 3, None), ("a//b", 3, None), ("a//b//c", 2, None)], "tallies, by level")
    below = [("a//b", 3, None), ("a//b//c", 2, None)]
    for prefixes in (("a//b",), ("a//b//c", "zoo", "a//b", "a//"), ("a//",)):
        require_equal(usage(harness, "x", within=prefixes), below, f"tallies within {prefixes}")
        require_equal(usage(harness, "x", within=prefixes, limit=1), below[:1], f"the first page within {prefixes}")
        require_equal(
            usage(harness, "x", within=prefixes, after="a//b"), below[1:], f"the second page within {prefixes}"
        )
    require_equal(usage(harness, "x", within=("b", "a//b//d", "a//c")), [], "tallies within other pools")
    require_equal(usage(harness, "x", within=("a", "b"), limit=1, after="a"), below[:1], "a page behind a prefix")
    harness.refused(RemovePool(id="a//b"), Reason.POOL_IN_USE)
    harness.done(ConfirmHold(id=hold_id(1), token=TOKEN, quantity={"a//b//c": 1}, keep_rest=True))
    harness.done(joining(3, "a", 3))
    harness.refused(placing(2, "a//d"), Reason.LINE_AHEAD)
    harness.at(10)
    counted = {pool: (harness.pool(pool).held, harness.pool(pool).consumed) for pool in levels}
    require_equal(
        counted, {"a": (0, 1), "a//b": (0, 1), "a//b//c": (0, 1), "a//d": (0, 0)}, "held and consumed at the deadline"
    )
    harness.refused(placing(2, "a//d"), Reason.INSUFFICIENT_CAPACITY)
    require_equal(states(harness, 3), "h", "who waits at the root, after a touch of another branch")
    harness.done(ReturnUnits(id=hold_id(1), token=TOKEN))
    harness.done(Sweep())
    harness.done(ArchivePool(id="a"))
    harness.refused(placing(4, "a//d"), Reason.POOL_ARCHIVED)
    harness.done(RemovePool(id="a//b//c"))
    harness.done(RemovePool(id="a//b"))
    require_equal((harness.pool("a").children, harness.pool("a").held), (1, 3), "children and held of the root")
    require_equal(usage(harness, "x"), [], "a tally at 0, on every level")
    harness.verify()


def racing_ends_offer_every_unit_once(harness: Harness) -> None:
    """Holds end and waiters leave at the same time: every unit is offered once, in order, and no waiter is forgotten."""
    count = THREADS * 4
    harness.pools(a=count)
    for number in range(count):
        harness.granted(number)
    for number in range(count, 2 * count):
        harness.done(joining(number))
    recorder = Recorder(harness.engine)

    def racer(thread: int) -> Callable[[], None]:
        def race() -> None:
            for number in range(thread, count, THREADS):
                recorder.ask(releasing(number))
                if number % 3 == 0:
                    recorder.ask(releasing(count + number))

        return race

    together(*(racer(thread) for thread in range(THREADS)))
    refused = [answer.outcome for answer in recorder.answers if not isinstance(answer.outcome, Receipt)]
    require_equal(refused, [], "releases that were refused")
    harness.done(FeedLine(id="a"))
    gone = {hold_id(count + number) for number in range(0, count, 3)}
    order = offered(harness)
    require_equal(order, sorted(set(order)), "offers, in order and once each")
    left = {hold_id(number) for number in range(count, 2 * count)} - gone
    require_equal(left - set(order), set(), "waiters that were never served")
    require_equal((harness.pool().held, harness.pool().waiting), (len(left), 0), "held and waiting")
    harness.verify()


def an_account_races_itself(harness: Harness) -> None:
    """Many requests of one account at the same time, some for holds of another: it gets exactly as many units as its limit allows."""
    harness.done(CreatePool(id="a", total=100, per_account=5))
    harness.done(CreatePool(id="a//b", total=100))
    for number in range(1, THREADS * 5, 2):
        harness.done(placing(number, "a//b", account="y", force=True, reason="box office"))
    recorder = Recorder(harness.engine)

    def racer(thread: int) -> Callable[[], None]:
        def race() -> None:
            for number in range(thread * 5, thread * 5 + 5):
                moved = ReassignHold(id=hold_id(number), token=TOKEN, account="x")
                recorder.ask(moved if number % 2 else placing(number, account="x"))

        return race

    together(*(racer(thread) for thread in range(THREADS)))
    granted = sum(isinstance(answer.outcome, Receipt) for answer in recorder.answers)
    require_equal(granted, 5, "units granted to an account with a limit of 5")
    require_equal(usage(harness, "x")[0], ("a", 5, 5), "what it uses")
    harness.verify()


CHECKS = (
    units_are_offered_in_order,
    lines_follow_their_pool,
    long_lines_are_fed_in_parts,
    making_room_serves_the_line,
    tallies_move_with_their_legs,
    trees_move_every_level,
    racing_ends_offer_every_unit_once,
    an_account_races_itself,
)
