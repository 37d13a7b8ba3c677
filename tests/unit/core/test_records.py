"""PutRecord: compare-and-set, in the same transaction as the commands beside it."""

from __future__ import annotations

from holdkit.core.commands import PutRecord
from holdkit.core.entries import Action, Entry
from holdkit.core.model import Record
from holdkit.core.outcomes import Done
from tests.unit.core.world import World, done, place, refused, said


def test_write_replace_remove() -> None:
    world = World()
    world.slot = 3
    first = Record("", "saga", "1", "{}", 1, 3)
    assert world.do(PutRecord(kind="saga", id="1", body="{}", if_version=0)) == Done(slot=3, record=first)
    world.slot = 4
    second = Record("", "saga", "1", "[2]", 2, 4)
    assert world.do(PutRecord(kind="saga", id="1", body="[2]", if_version=1)) == Done(slot=4, record=second)
    assert world.records == {("", "saga", "1"): second}
    assert world.do(PutRecord(kind="saga", id="1", body=None, if_version=2)) == Done(
        slot=4,
    )
    assert world.records == {}
    assert [entry.removed for entry in world.entries] == [False, False, True]
    assert world.entries[1] == Entry(slot=4, action=Action.RECORD_PUT, subject="saga/1", record=second)
    assert world.entries[2].record == Record("", "saga", "1", "", 3, 4)


def test_whatever_is_there() -> None:
    world = World()
    done(world.do(PutRecord(kind="k", id="i", body="1")))
    done(world.do(PutRecord(kind="k", id="i", body="2")))
    assert world.records["", "k", "i"].version == 2
    done(world.do(PutRecord(kind="k", id="i", body=None)))
    assert world.do(PutRecord(kind="k", id="i", body=None)) == Done(slot=0)  # nothing there, nothing written
    assert len(world.entries) == 3


def test_another_version_than_the_caller_saw() -> None:
    world = World()
    refusal = refused(world.do(PutRecord(kind="k", id="i", body="1", if_version=1)))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("version_conflict", "k/i", 0)
    done(world.do(PutRecord(kind="k", id="i", body="1")))
    assert refused(world.do(PutRecord(kind="k", id="i", body="1", if_version=0))).found == 1
    assert refused(world.do(PutRecord(kind="k", id="i", body=None, if_version=2))).found == 1


def test_beside_a_hold_all_or_none() -> None:
    world = World()
    world.pool("p", 1)
    answers = world.atomic(PutRecord(kind="k", id="i", body="1"), place("a", {"p": 2}, 60))
    assert [said(one) for one in answers] == ["aborted", "insufficient_capacity"]
    assert world.records == {}
    answers = world.atomic(PutRecord(kind="k", id="i", body="1"), place("a", {"p": 1}, 60))
    assert [said(one) for one in answers] == ["done", "done"]
    assert world.records["", "k", "i"].body == "1"
