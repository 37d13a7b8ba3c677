"""Checks of durability: what was answered is there after the engine was closed, or abandoned, and opened again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...core.commands import ChangeLimits, ConfirmHold, Group, ReleaseHold, Sweep
from ...core.erasure import Selector
from ...core.import_ import Carried
from ...core.model import Leg
from ...core.outcomes import Reason
from ...core.reading import ListHolds, ListPools, ListRecords, ReadGeneration
from ...kernel.erasing import begun
from .harness import TOKEN, Harness, hold_id, placing, require, require_equal
from .journal import exercise_everything


def survives_close(harness: Harness) -> None:
    """After a close everything is as it was: reads, journal, operations, fences, deadlines."""
    _survives(harness, close=True)


def survives_a_crash(harness: Harness) -> None:
    """After a crash everything is as it was: what was answered was durable when it was answered."""
    _survives(harness, close=False)


def _survives(harness: Harness, *, close: bool) -> None:
    exercise_everything(harness)
    harness.done(placing(40, "a", op="take", token="mine", ttl=50))
    before = _everything(harness)
    harness.reopen(close=close)
    require_equal(_everything(harness), before, "everything, after it was opened again")
    harness.verify()
    again = harness.done(placing(40, "a", op="take", token="mine", ttl=50))
    require_equal(
        (again.replayed, again.token), (True, "mine"), "an operation asked again after the engine was opened again"
    )
    harness.done(ConfirmHold(id=hold_id(40), token="mine"))
    harness.at(500)
    harness.granted(41, "a")
    harness.reopen(close=close)
    harness.verify()


def fences_survive(harness: Harness) -> None:
    """The fence of a pool that was removed is remembered across opening again."""
    first = harness.done(placing(1, [Leg("fleeting", 1, 1)])).hold
    harness.done(ReleaseHold(id=hold_id(1), token=TOKEN))
    harness.done(Sweep())
    harness.reopen(close=True)
    second = harness.done(placing(2, [Leg("fleeting", 1, 1)])).hold
    assert first is not None
    assert second is not None
    require(second.fence > first.fence, f"the fence went from {first.fence} to {second.fence} across a reopening")
    harness.verify()


def failed_batch_stays_gone(harness: Harness) -> None:
    """A failed batch leaves nothing, also after the engine was opened again."""
    harness.pools(a=5)
    before = harness.rows()
    poison = placing(2, metadata={"poison": object()})
    with suppress(Exception):  # whatever it is: what counts is what it leaves
        harness.engine.apply([Group((placing(1),)), Group((poison,))])
    harness.refused(placing(3, quantity=6), Reason.INSUFFICIENT_CAPACITY)
    harness.reopen(close=False)
    require_equal(harness.rows(), before, "the journal after a failed batch and a refusal")
    harness.granted(1)
    harness.verify()


def _everything(harness: Harness) -> list[Any]:
    return [
        harness.rows(),
        harness.engine.read(ListPools("")),
        harness.engine.read(ListHolds("")),
        harness.engine.read(ListRecords("", "k")),
        harness.engine.read(ReadGeneration()),
    ]


def changed_limits_survive(harness: Harness) -> None:
    """Changed limits, and the past ones, are in force after the engine was opened again."""
    harness.open(retention=1_000)
    harness.pools(a=9)
    harness.done(ChangeLimits(changes={"retention": 500}))
    harness.at(5)
    harness.done(ChangeLimits(changes={"retention": 2_000, "max_legs": 7}))
    harness.granted(1)
    before = harness.engine.limits
    require_equal((before.retention, before.max_legs, before.version, len(before.past)), (2_000, 7, 2, 1), "the limits")
    for close in (True, False):
        harness.reopen(close=close)
        require_equal(harness.engine.limits, before, "the limits, after it was opened again")
        harness.verify()


def an_erasure_survives(harness: Harness) -> None:
    """What a declared erasure has replaced stays replaced after the engine was opened again."""
    erasing = harness.engine.capabilities.erasure
    if erasing is None:
        return
    harness.pools(a=5)
    harness.granted(1, entity="customer:7", metadata={"name": "ann"})
    erasure = begun(
        harness.engine, erasing, Selector("entity", "customer:7"), {"actor": "job:check", "reason": "asked"}
    )
    erasing.erase(erasure, dry_run=False)
    erasing.finish_erasure(erasure)
    before = _everything(harness)
    require("customer:7" not in str(before), f"an erased entity is still there: {before}")
    for close in (False, True):
        harness.reopen(close=close)
        require_equal(_everything(harness), before, "everything after an erasure, after it was opened again")
        harness.verify()


def an_import_survives(harness: Harness) -> None:
    """What a declared import has taken is there after the engine was opened again."""
    if harness.engine.capabilities.import_ is None:
        return
    exercise_everything(harness)
    carried = [Carried(line, entry) for line, entry in enumerate(harness.journal(), start=1)]
    target = harness.open().capabilities.import_
    assert target is not None
    target.receive(carried, verify=True)
    before = _everything(harness)
    for close in (False, True):
        harness.reopen(close=close)
        require_equal(_everything(harness), before, "everything after an import, after it was opened again")
        harness.verify()


CHECKS = (
    survives_close,
    survives_a_crash,
    fences_survive,
    failed_batch_stays_gone,
    changed_limits_survive,
    an_erasure_survives,
    an_import_survives,
)
