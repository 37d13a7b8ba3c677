"""Checks of durability: what was answered is there after the engine was closed, or left lying, and opened again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...core.commands import ChangeLimits, ConfirmHold, Group, ReleaseHold, Sweep
from ...core.model import Leg
from ...core.outcomes import Reason
from ...core.reading import ListHolds, ListPools, ListRecords, ReadGeneration
from .harness import TOKEN, Rig, demand, equal, hold_id, placing
from .journal import tour


def survives_close(rig: Rig) -> None:
    """After a close, everything is as it was: reads, journal, operations, fences, deadlines."""
    _survives(rig, close=True)


def survives_a_crash(rig: Rig) -> None:
    """The same if nobody closed it: what was answered was durable when it was answered."""
    _survives(rig, close=False)


def _survives(rig: Rig, *, close: bool) -> None:
    tour(rig)
    rig.done(placing(40, "a", op="take", owner="mine", ttl=50))
    before = _everything(rig)
    rig.reopen(close=close)
    equal(_everything(rig), before, "everything, after it was opened again")
    rig.sound()
    again = rig.done(placing(40, "a", op="take", owner="mine", ttl=50))
    equal((again.replayed, again.token), (True, "mine"), "an operation asked again after the engine was opened again")
    rig.done(ConfirmHold(id=hold_id(40), owner="mine"))
    rig.at(500)
    rig.place(41, "a")
    rig.reopen(close=close)
    rig.sound()


def fences_survive(rig: Rig) -> None:
    """The fence of a pool that was removed is remembered across opening again."""
    first = rig.done(placing(1, [Leg("fleeting", 1, 1)])).hold
    rig.done(ReleaseHold(id=hold_id(1), owner=TOKEN))
    rig.done(Sweep())
    rig.reopen(close=True)
    second = rig.done(placing(2, [Leg("fleeting", 1, 1)])).hold
    assert first is not None
    assert second is not None
    demand(second.fence > first.fence, f"the fence went from {first.fence} to {second.fence} across a reopening")
    rig.sound()


def failed_batch_stays_gone(rig: Rig) -> None:
    """A failed batch is gone for good, also after opening again."""
    rig.pools(a=5)
    before = rig.rows()
    poison = placing(2, metadata={"poison": object()})
    with suppress(Exception):  # whatever it is: what counts is what it leaves
        rig.engine.apply([Group((placing(1),)), Group((poison,))])
    rig.refused(placing(3, quantity=6), Reason.INSUFFICIENT_CAPACITY)
    rig.reopen(close=False)
    equal(rig.rows(), before, "the journal after a failed batch and a refusal")
    rig.place(1)
    rig.sound()


def _everything(rig: Rig) -> list[Any]:
    return [
        rig.rows(),
        rig.engine.read(ListPools("")),
        rig.engine.read(ListHolds("")),
        rig.engine.read(ListRecords("", "k")),
        rig.engine.read(ReadGeneration()),
    ]


def changed_limits_survive(rig: Rig) -> None:
    """Limits that were changed are in force after opening again, and the past with them."""
    rig.open(retention=1_000)
    rig.pools(a=9)
    rig.done(ChangeLimits(changes={"retention": 500}))
    rig.at(5)
    rig.done(ChangeLimits(changes={"retention": 2_000, "max_legs": 7}))
    rig.place(1)
    before = rig.engine.limits
    equal((before.retention, before.max_legs, before.version, len(before.past)), (2_000, 7, 2, 1), "the limits")
    for close in (True, False):
        rig.reopen(close=close)
        equal(rig.engine.limits, before, "the limits, after it was opened again")
        rig.sound()


CHECKS = (survives_close, survives_a_crash, fences_survive, failed_batch_stays_gone, changed_limits_survive)
