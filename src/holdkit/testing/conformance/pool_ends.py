"""Pools end: removed, archived, or closed by their application."""

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
from ...core.model import Leg
from ...core.outcomes import Reason
from ...core.reading import FindPool, ListPools
from .harness import START, TOKEN, Rig, equal, hold_id, placing


def removed_pools_are_gone(rig: Rig) -> None:
    """A pool is removed if nothing of it is in use, due legs returned first; its fences are never granted again."""
    rig.pools(a=2, b=2)
    fence = rig.done(placing(1, [Leg("a", 1), Leg("b", 1)], ttl=10)).hold
    equal(rig.refused(RemovePool(id="a"), Reason.POOL_IN_USE).found, 1, "units in use")
    rig.at(10)
    gone = rig.done(RemovePool(id="a")).pool
    equal(gone and (gone.id, gone.total, gone.held), ("a", 2, 0), "the pool that was removed")
    equal(rig.engine.read(FindPool(("", "a"))), None, "a pool that was removed")
    rig.refused(placing(2, "a"), Reason.POOL_NOT_FOUND)
    rig.refused(RemovePool(id="a"), Reason.POOL_NOT_FOUND)
    rig.done(CreatePool(id="a", total=1))
    again = rig.done(placing(3, "a")).hold
    assert fence is not None
    assert again is not None
    equal(again.fence > fence.fence, True, "a fence of a pool that was made anew is higher")
    rig.done(ConfirmHold(id=hold_id(3), owner=TOKEN))
    rig.refused(RemovePool(id="a"), Reason.POOL_IN_USE)
    rig.done(ReturnUnits(id=hold_id(3), owner=TOKEN))
    words = [type(answer).__name__ for answer in rig.do(RemovePool(id="a"), CreatePool(id="a", total=7), atomic=True)]
    equal(words, ["Receipt", "Receipt"], "removed and made anew in one group")
    equal((rig.pool("a").total, rig.pool("a").held), (7, 0), "the pool that was made anew")
    rig.sound()


def archived_pools_grant_nothing(rig: Rig) -> None:
    """Nothing is granted on an archived pool, also after it was emptied and swept; what was granted goes on."""
    rig.pools(a=5, b=5)
    for number in (1, 2, 3):
        rig.done(placing(number, "a", ttl=50))
    rig.done(placing(4, [Leg("on-demand", 1, 1)], ttl=50))
    rig.done(ReleaseHold(id=hold_id(4), owner=TOKEN))
    for pool in ("a", "on-demand", "a"):
        archived = rig.done(ArchivePool(id=pool)).pool
        equal(archived and archived.archived, True, "what archiving answers")
    rig.done(Sweep())
    rig.refused(placing(5, [Leg("on-demand", 1, 1)]), Reason.POOL_ARCHIVED)
    equal(rig.refused(placing(5, [Leg("b", 1), Leg("a", 9)]), Reason.POOL_ARCHIVED).subject, "a", "the archived pool")
    rig.refused(Consume(id=hold_id(5), legs=(Leg("a", 1),), owner=TOKEN), Reason.POOL_ARCHIVED)
    equal([row.id for row in rig.engine.read(ListPools(""))], ["b"], "pools, archived ones not asked for")
    everything = [row.id for row in rig.engine.read(ListPools("", archived=True))]
    equal(everything, ["a", "b", "on-demand"], "pools, archived ones included")
    rig.done(ExtendHold(id=hold_id(1), owner=TOKEN, by_slots=5))
    late = rig.done(ConfirmHold(id=hold_id(1), owner=TOKEN, quantity=3, overage="up_to_available"))
    equal(late.uncovered, {"a": 2}, "overage on an archived pool")
    rig.refused(ConfirmHold(id=hold_id(2), owner=TOKEN, quantity=2, overage="if_available"), Reason.POOL_ARCHIVED)
    rig.done(ReleaseHold(id=hold_id(2), owner=TOKEN))
    rig.done(ReturnUnits(id=hold_id(1), owner=TOKEN))
    row = rig.pool("a")
    equal((row.held, row.consumed, row.archived), (1, 0, True), "held, consumed, archived")
    rig.done(UnarchivePool(id="a"))
    rig.done(placing(6, "a"))
    rig.done(UnarchivePool(id="on-demand"))
    rig.done(Sweep())
    equal(rig.engine.read(FindPool(("", "on-demand"))), None, "an empty on-demand pool that is archived no more")
    rig.sound()


def answered_windows_close(rig: Rig) -> None:
    """The end of a window that the application answers is stored, also another one; a full table loses closed windows first."""
    rig.open(max_pools=3)

    def asked(pool: str, closes: int | None) -> Leg:
        opens, ends = (None, None) if closes is None else (0, START + closes)
        return Leg(pool, 1, opens=opens, closes=ends, total=5)

    for number, closes in enumerate((10, 30, None, 20), 1):
        rig.done(Consume(id=hold_id(number), legs=(asked("~r/1", closes),), owner=TOKEN))
        ends = None if closes is None else START + closes
        equal(rig.pool("~r/1").closes, ends, f"the end of the window as it was answered for hold {number}")
    rig.done(placing(5, [asked("~r/2", 20)], ttl=50))
    rig.done(Consume(id=hold_id(6), legs=(asked("~r/3", 40),), owner=TOKEN))
    rig.at(20)
    rig.refused(placing(7, [asked("~r/1", 20)]), Reason.WINDOW_CLOSED)
    rig.refused(ConfirmHold(id=hold_id(5), owner=TOKEN, quantity=2, overage="if_available"), Reason.WINDOW_CLOSED)
    rig.done(Consume(id=hold_id(8), legs=(asked("~r/4", 40),), owner=TOKEN))
    left = [row.id for row in rig.engine.read(ListPools("", prefix="~"))]
    equal(
        left, ["~r/2", "~r/3", "~r/4"], "pools in a full table: a window that is over and has nothing held makes room"
    )
    rig.refused(Consume(id=hold_id(9), legs=(asked("~r/5", 40),), owner=TOKEN), Reason.POOL_TABLE_FULL)
    rig.refused(Consume(id=hold_id(9), legs=(asked("~r/1", 20),), owner=TOKEN), Reason.WINDOW_CLOSED)
    rig.done(ConfirmHold(id=hold_id(5), owner=TOKEN))
    rig.done(Consume(id=hold_id(9), legs=(asked("~r/5", 40),), owner=TOKEN))
    rig.sound()


CHECKS = (removed_pools_are_gone, archived_pools_grant_nothing, answered_windows_close)
