"""Checks of batches: decided in order, each command on the result of those before it, and all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from ...core.commands import ConfirmHold, CreatePool, ExtendHold, Group, PutRecord, ReleaseHold, ResizePool
from ...core.model import Leg, State
from ...core.outcomes import Done, Outcome, Position, Reason, Refusal
from ...core.reading import FindEnds, FindPool, FindRecord
from ...errors import HoldkitError
from .harness import TOKEN, Harness, NotConforming, hold_id, placing, prepared, require, require_equal


def batch_in_order(harness: Harness) -> None:
    """The commands of a batch are decided in order, each on the result of those before it."""
    applied = harness.apply(
        Group((CreatePool(id="a", total=2), placing(1, quantity=2))),
        Group((placing(2), ReleaseHold(id=hold_id(1), token=TOKEN), placing(3, quantity=2))),
        Group((placing(4), ConfirmHold(id=hold_id(3), token=TOKEN), ResizePool(id="a", total=3), placing(5))),
    )
    words = [[word_of(outcome) for outcome in group] for group in applied.outcomes]
    short = Reason.INSUFFICIENT_CAPACITY
    require_equal(
        words, [["done", "done"], [short, "done", "done"], [short, "done", "done", "done"]], "answers in order"
    )
    positions = [position for group in applied.positions for position in group if position is not None]
    actions = {
        Position(row.lane, row.seq): entry.action for row, entry in zip(harness.rows(), harness.journal(), strict=True)
    }
    told = [actions.get(position) for position in positions]
    expected = ["pool.created", "hold.held", "hold.released", "hold.held", "hold.confirmed", "pool.resized",
                "hold.held"]  # fmt: skip
    require_equal(told, expected, "entries at the positions answered")
    require_equal([entry.action for entry in harness.entries_of_pool("a")], expected, "entries of the pool, in order")
    if applied.last_seq is not None:
        require_equal([position.seq for position in positions], list(range(1, 8)), "positions in order")
        require_equal(applied.last_seq, 7, "last_seq of the batch")
    pool = harness.pool()
    require_equal((pool.total, pool.held, pool.consumed), (3, 1, 2), "total, held, consumed")
    harness.verify()


def refusal_leaves_nothing(harness: Harness) -> None:
    """A refused command has no effect and no entry; the commands beside it stand; a batch of refusals writes nothing."""
    harness.pools(a=1, b=5)
    before = harness.engine.read(FindEnds())
    applied = harness.apply(
        Group((placing(1, [Leg("b", 2), Leg("a", 2)]), placing(2, "none"), CreatePool(id="a", total=9)))
    )
    require(not applied.wrote, "a batch of refusals says that it wrote something")
    require_equal(harness.engine.read(FindEnds()), before, "the journal's ends after refusals")
    require_equal((harness.pool().held, harness.pool("b").held), (0, 0), "units held after refusals")
    (refusal,) = harness.execute(placing(1, [Leg("b", 6), Leg("a", 2)]))
    assert isinstance(refusal, Refusal)
    figures = [(leg.pool, leg.requested, leg.available, leg.total) for leg in refusal.shortfalls]
    require_equal(figures, [("b", 6, 5, 5), ("a", 2, 1, 1)], "every leg that fell short")
    words = [word_of(outcome) for outcome in harness.execute(placing(3, "none"), placing(4), placing(5))]
    require_equal(
        words, [Reason.POOL_NOT_FOUND, "done", Reason.INSUFFICIENT_CAPACITY], "neighbours of refused commands"
    )
    harness.verify()


def atomic_group(harness: Harness) -> None:
    """An atomic group is applied whole or not at all; groups beside it in the same batch stand."""
    harness.pools(a=5, b=1)
    before = harness.ends()
    applied = harness.apply(
        Group((placing(1),)),
        Group((placing(2), PutRecord(kind="k", id="r", body="1"), placing(3, "b", 2), placing(4)), atomic=True),
        Group((placing(5),)),
        Group((placing(6), placing(7, "b")), atomic=True),
    )
    words = [[word_of(outcome) for outcome in group] for group in applied.outcomes]
    aborted = [Reason.ABORTED, Reason.ABORTED, Reason.INSUFFICIENT_CAPACITY, Reason.ABORTED]
    require_equal(words, [["done"], aborted, ["done"], ["done", "done"]], "answers around an aborted group")
    require_equal((harness.pool().held, harness.pool("b").held), (3, 1), "units held")
    require_equal(harness.engine.read(FindRecord(("", "k", "r"))), None, "the record of an aborted group")
    require_equal([harness.hold(number) is not None for number in range(1, 8)], [True, False, False, False, True, True, True],
          "which holds are there")  # fmt: skip
    require_equal(harness.actions(before), ["hold.held"] * 4, "what was journaled")
    harness.verify()


def aborted_group_removes_its_pools(harness: Harness) -> None:
    """An on-demand pool that an aborted group has created is removed again, without a trace in journal or fences."""
    harness.pools(b=1)
    before = harness.ends()
    harness.execute(placing(1, [Leg("new", 1, 3)]), placing(2, "b", 2), atomic=True)
    require_equal(harness.engine.read(FindPool(("", "new"))), None, "the pool that an aborted group had created")
    require_equal(harness.rows(before), [], "what an aborted group journaled")
    placed = harness.granted(3, "b")
    assert placed.position is not None
    require_equal(
        placed.position.seq, before.get(placed.position.lane, 0) + 1, "the next position after an aborted group"
    )
    harness.verify()


def error_leaves_nothing(harness: Harness) -> None:
    """An error in the middle of a batch leaves nothing of it: no state, no entry, no operation; the engine keeps
    working."""
    harness.pools(a=5)
    harness.granted(1)
    before = harness.rows()
    poison = placing(3, metadata={"poison": object()})
    groups = (
        Group((placing(2, op="op-2"), CreatePool(id="ghost", total=1), PutRecord(kind="k", id="r", body="1"))),
        Group((ReleaseHold(id=hold_id(1), token=TOKEN),)),
        Group((poison,)),
        Group((placing(4),)),
    )
    error = failed(lambda: harness.engine.apply(groups))
    unknown = isinstance(error, HoldkitError) and error.effect == "unknown"
    require(not unknown, f"an error that certainly did nothing is called unknown: {error!r}")
    require_equal(harness.rows(), before, "the journal after a failed batch")
    require_equal(harness.pool().held, 1, "units held after a failed batch")
    require_equal(harness.engine.read(FindPool(("", "ghost"))), None, "a pool of a failed batch")
    require_equal(harness.engine.read(FindRecord(("", "k", "r"))), None, "a record of a failed batch")
    require_equal(
        [harness.hold(number) is None for number in (2, 3, 4)], [True] * 3, "holds of a failed batch are not there"
    )
    alive = harness.hold(1)
    require(alive is not None and alive.state is State.HELD, "a failed batch released a hold")
    again = harness.done(placing(2, op="op-2"))
    require(not again.replayed, "an operation of a failed batch was remembered")
    harness.verify()


def waiting_for_locks_changes_nothing(harness: Harness) -> None:
    """If nothing is locked by others, no group of a batch is skipped, and a batch that waits for locks behaves like
    any other."""
    harness.pools(a=3)
    for number, wait_for_locks in ((1, False), (2, True)):
        applied = harness.engine.apply(
            [Group((placing(number),)), Group((placing(number + 10, "none"),))], wait_for_locks=wait_for_locks
        )
        require_equal(dict(applied.skipped_locked), {}, "groups skipped")
        words = [[word_of(outcome) for outcome in group] for group in applied.outcomes]
        require_equal(words, [["done"], [Reason.POOL_NOT_FOUND]], f"answers with wait_for_locks={wait_for_locks}")
    require_equal(harness.pool().held, 2, "units held")
    harness.verify()


def failed(work: Callable[[], object]) -> Exception:
    """Return the error that this must raise, whatever it is."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - what counts is what it leaves
        return error
    raise NotConforming("a command that cannot be encoded must fail its batch")


def word_of(outcome: Outcome) -> str:
    """Return an outcome in one word."""
    match outcome:
        case Done():
            return "replayed" if outcome.replayed else "done"
        case Refusal():
            return outcome.reason
        case _:
            return outcome.code


def touched_legs_are_bounded(harness: Harness) -> None:
    """A group that touches more legs than `max_touched_legs`, those of loaded holds counted, is invalid as a whole; one that does
    not fit behind others is put off, with what its tenant sends after it, and nothing of it is done."""
    harness.open(max_touched_legs=6)
    harness.pools(a=9, b=9)
    harness.pools("other", a=9)
    harness.done(placing(1, [Leg("a"), Leg("b")]))
    extend = ExtendHold(id=hold_id(1), token=TOKEN, by_slots=1)
    words = [word_of(outcome) for outcome in harness.execute_under("large", *[extend] * 4)]
    require_equal(words, ["batch_too_large"] * 4, "the answers of a group that touches 8 legs")
    require_equal(harness.actions().count("hold.extended"), 0, "extensions by a group that is refused")
    theirs = structs.replace(placing(2), tenant="other")
    groups = [Group((extend,) * 2), Group((extend,) * 2), Group((placing(3),)), Group((theirs,))]
    applied = harness.engine.apply([prepared(group) for group in groups])
    require(applied.put_off <= {1, 2}, f"groups 1 and 2 may be put off, but it was {sorted(applied.put_off)}")
    if harness.engine.lanes == 1:  # with several, each may be in a transaction of its own
        require_equal(applied.put_off, {1, 2}, "the groups that are put off")
        require_equal([len(group) for group in applied.outcomes], [2, 0, 0, 1], "outcomes per group")
    later = [groups[index] for index in sorted(applied.put_off)]
    if later:
        harness.apply(*later)
    require_equal(harness.actions().count("hold.extended"), 4, "extensions after what was put off was sent again")
    require_equal(harness.pool().held, 2, "units held after it")
    harness.verify()


CHECKS = (batch_in_order, refusal_leaves_nothing, atomic_group, aborted_group_removes_its_pools, error_leaves_nothing,
          waiting_for_locks_changes_nothing, touched_legs_are_bounded)  # fmt: skip
