"""Checks of how pools end: removed, archived, or closed by their application."""

from __future__ import annotations

from ...core.commands import (
    ArchivePool,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    ReleaseHold,
    RemovePool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from ...core.face_legs import FaceLeg
from ...core.model import Leg
from ...core.outcomes import Reason
from ...core.reading import FindPool, ListPools
from .harness import START, TOKEN, Harness, hold_id, placing, require_equal


def removed_pools_are_gone(harness: Harness) -> None:
    """A pool is removed if nothing of it is in use, due legs returned first; its fences are never granted again."""
    harness.pools(a=2, b=2)
    fence = harness.done(placing(1, [Leg("a", 1), Leg("b", 1)], ttl=10)).hold
    require_equal(harness.refused(RemovePool(id="a"), Reason.POOL_IN_USE).found, 1, "units in use")
    harness.at(10)
    gone = harness.done(RemovePool(id="a")).pool
    require_equal(gone and (gone.id, gone.total, gone.held), ("a", 2, 0), "the pool that was removed")
    require_equal(harness.engine.read(FindPool(("", "a"))), None, "a pool that was removed")
    harness.refused(placing(2, "a"), Reason.POOL_NOT_FOUND)
    harness.refused(RemovePool(id="a"), Reason.POOL_NOT_FOUND)
    harness.done(CreatePool(id="a", total=1))
    again = harness.done(placing(3, "a")).hold
    assert fence is not None
    assert again is not None
    require_equal(again.fence > fence.fence, True, "a fence of a pool that was made anew is higher")
    harness.done(ConfirmHold(id=hold_id(3), token=TOKEN))
    harness.refused(RemovePool(id="a"), Reason.POOL_IN_USE)
    harness.done(ReturnUnits(id=hold_id(3), token=TOKEN))
    words = [
        type(answer).__name__
        for answer in harness.execute(RemovePool(id="a"), CreatePool(id="a", total=7), atomic=True)
    ]
    require_equal(words, ["Receipt", "Receipt"], "removed and made anew in one group")
    require_equal((harness.pool("a").total, harness.pool("a").held), (7, 0), "the pool that was made anew")
    harness.verify()


def archived_pools_grant_nothing(harness: Harness) -> None:
    """Nothing is granted on an archived pool, also after it was emptied and swept; existing holds stay valid."""
    harness.pools(a=5, b=5)
    for number in (1, 2, 3):
        harness.done(placing(number, "a", ttl=50))
    harness.done(placing(4, [Leg("on-demand", 1, 1)], ttl=50))
    harness.done(ReleaseHold(id=hold_id(4), token=TOKEN))
    for pool in ("a", "on-demand", "a"):
        archived = harness.done(ArchivePool(id=pool)).pool
        require_equal(archived and archived.archived, True, "what archiving answers")
    harness.done(Sweep())
    harness.refused(placing(5, [Leg("on-demand", 1, 1)]), Reason.POOL_ARCHIVED)
    require_equal(
        harness.refused(placing(5, [Leg("b", 1), Leg("a", 9)]), Reason.POOL_ARCHIVED).subject, "a", "the archived pool"
    )
    harness.refused(Consume(id=hold_id(5), legs=(Leg("a", 1),), token=TOKEN), Reason.POOL_ARCHIVED)
    require_equal([row.id for row in harness.engine.read(ListPools(""))], ["b"], "pools, archived ones not asked for")
    everything = [row.id for row in harness.engine.read(ListPools("", archived=True))]
    require_equal(everything, ["a", "b", "on-demand"], "pools, archived ones included")
    harness.done(ExtendHold(id=hold_id(1), token=TOKEN, by_slots=5))
    late = harness.done(ConfirmHold(id=hold_id(1), token=TOKEN, quantity=3, overage="up_to_available"))
    require_equal(late.uncovered, {"a": 2}, "overage on an archived pool")
    harness.refused(ConfirmHold(id=hold_id(2), token=TOKEN, quantity=2, overage="if_available"), Reason.POOL_ARCHIVED)
    harness.done(ReleaseHold(id=hold_id(2), token=TOKEN))
    harness.done(ReturnUnits(id=hold_id(1), token=TOKEN))
    row = harness.pool("a")
    require_equal((row.held, row.consumed, row.archived), (1, 0, True), "held, consumed, archived")
    harness.done(UnarchivePool(id="a"))
    harness.done(placing(6, "a"))
    harness.done(UnarchivePool(id="on-demand"))
    harness.done(Sweep())
    require_equal(
        harness.engine.read(FindPool(("", "on-demand"))), None, "an empty on-demand pool that is archived no more"
    )
    harness.verify()


def answered_windows_close(harness: Harness) -> None:
    """The end of a window that the application answers is stored, also when it changes; a full table drops closed
    windows first."""
    harness.open(max_pools=3)

    def asked(pool: str, closes: int | None) -> FaceLeg:
        opens, ends = (None, None) if closes is None else (0, START + closes)
        return FaceLeg(pool, 1, opens=opens, closes=ends, total=5)

    for number, closes in enumerate((10, 30, None, 20), 1):
        harness.done(Consume(id=hold_id(number), legs=(asked("~r/1", closes),), token=TOKEN))
        ends = None if closes is None else START + closes
        require_equal(harness.pool("~r/1").closes, ends, f"the end of the window as it was answered for hold {number}")
    harness.done(placing(5, [asked("~r/2", 20)], ttl=50))
    harness.done(Consume(id=hold_id(6), legs=(asked("~r/3", 40),), token=TOKEN))
    harness.at(20)
    harness.refused(placing(7, [asked("~r/1", 20)]), Reason.WINDOW_CLOSED)
    harness.refused(ConfirmHold(id=hold_id(5), token=TOKEN, quantity=2, overage="if_available"), Reason.WINDOW_CLOSED)
    harness.done(Consume(id=hold_id(8), legs=(asked("~r/4", 40),), token=TOKEN))
    left = [row.id for row in harness.engine.read(ListPools("", prefix="~"))]
    require_equal(
        left, ["~r/2", "~r/3", "~r/4"], "pools in a full table: a window that is over and has nothing held makes room"
    )
    harness.refused(Consume(id=hold_id(9), legs=(asked("~r/5", 40),), token=TOKEN), Reason.POOL_TABLE_FULL)
    harness.refused(Consume(id=hold_id(9), legs=(asked("~r/1", 20),), token=TOKEN), Reason.WINDOW_CLOSED)
    harness.done(ConfirmHold(id=hold_id(5), token=TOKEN))
    harness.done(Consume(id=hold_id(9), legs=(asked("~r/5", 40),), token=TOKEN))
    harness.verify()


CHECKS = (removed_pools_are_gone, archived_pools_grant_nothing, answered_windows_close)
