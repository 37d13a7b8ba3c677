"""RemovePool, ArchivePool, UnarchivePool, and windows that their application closes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from holdkit.core.bounds import Limits
from holdkit.core.commands import ArchivePool, ConfirmHold, CreatePool, RemovePool, ResizePool, Sweep, UnarchivePool
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import Leg, Pool
from holdkit.core.outcomes import Done
from holdkit.core.validation import check
from holdkit.errors import InvalidRequest
from tests.unit.core.world import World, confirm, consume, done, extend, give_back, place, refused, release, said

CONTEXT: dict[str, Any] = {"actor": "user:1", "correlation_id": "c", "reason": "r", "op": "o"}


@pytest.fixture
def world() -> World:
    made = World()
    made.pool("p", 7)
    made.pool("q", 7)
    return made


# Removing


def test_a_removal_is_written_whole(world: World) -> None:
    world.slot = 5
    before = world.row("p")
    assert world.do(RemovePool(id="p", **CONTEXT)) == Done(slot=5, pool=before)
    gone = Pool("", "p", 0, slot=5, version=2)
    assert world.entries[2] == Entry(slot=5, action=Action.POOL_REMOVED, subject="p", removed=True,
                                     effects=(Effect(gone, total=-7),), **CONTEXT)  # fmt: skip
    assert list(world.pools) == [("", "q")]
    assert said(world.do(RemovePool(id="p"))) == "pool_not_found"


@pytest.mark.parametrize("ended", [release("a"), confirm("a")])
def test_nothing_is_removed_that_is_in_use(world: World, ended: Any) -> None:
    done(world.do(place("a", {"p": 2, "q": 1}, 100)))
    no = refused(world.do(RemovePool(id="p")))
    assert (no.reason, no.subject, no.found) == ("pool_in_use", "p", 2)
    done(world.do(ended))
    consumed = isinstance(ended, ConfirmHold)
    assert said(world.do(RemovePool(id="p"))) == ("pool_in_use" if consumed else "done")
    if consumed:
        done(world.do(give_back("a")))
        assert said(world.do(RemovePool(id="p"))) == "done"


def test_what_is_due_comes_back_before_a_removal(world: World) -> None:
    done(world.do(place("a", {"p": 2, "q": 1}, 100)))
    world.slot = 99
    assert said(world.do(RemovePool(id="p"))) == "pool_in_use"
    world.slot = 100
    done(world.do(RemovePool(id="p")))
    assert world.actions()[-2:] == ["hold.expired", "pool.removed"]
    assert world.counters("q") == (7, 1, 0), "the other leg comes back when its pool is touched"


def test_fences_outlive_a_removal(world: World) -> None:
    done(world.do(place("a", "p", 100)))
    done(world.do(release("a")))
    done(world.do(RemovePool(id="p")))
    world.pool("p", 1)
    assert done(world.do(place("b", "p", 100))).hold.fence == 2  # type: ignore[union-attr]


def test_a_removal_makes_room_in_the_same_batch() -> None:
    world = World(max_pools=1)
    world.pool("p", 1)
    answers = world.batch(CreatePool(id="q", total=1), RemovePool(id="p"), CreatePool(id="q", total=1))
    assert [said(one) for one in answers] == ["pool_table_full", "done", "done"]


def test_a_removal_is_a_retry_like_any_other(world: World) -> None:
    first = done(world.do(RemovePool(id="p", op="o")))
    world.pool("p", 3)
    again = done(world.do(RemovePool(id="p", op="o")))
    assert (again.replayed, again.pool) == (True, first.pool)
    assert world.counters("p") == (3, 0, 0)


# Archiving


def test_an_archived_pool_is_written_whole_and_once(world: World) -> None:
    world.slot = 5
    archived = Pool("", "p", 7, slot=5, version=2, archived=True)
    assert world.do(ArchivePool(id="p", **CONTEXT)) == Done(slot=5, pool=archived)
    assert world.entries[2] == Entry(slot=5, action=Action.POOL_ARCHIVED, subject="p", effects=(Effect(archived),),
                                     **CONTEXT)  # fmt: skip
    world.slot = 6
    assert world.do(ArchivePool(id="p")) == Done(slot=6, pool=archived)
    live = replace(archived, archived=False, version=3, slot=6)
    assert world.do(UnarchivePool(id="p", **CONTEXT | {"op": "o2"})) == Done(slot=6, pool=live)
    assert world.entries[3] == Entry(slot=6, action=Action.POOL_UNARCHIVED, subject="p", effects=(Effect(live),),
                                     **CONTEXT | {"op": "o2"})  # fmt: skip
    assert world.do(UnarchivePool(id="p")) == Done(slot=6, pool=live)
    assert len(world.entries) == 4


def test_nothing_is_granted_on_it_and_the_first_leg_is_named(world: World) -> None:
    world.batch(ArchivePool(id="p"), ArchivePool(id="q"))
    for command in (place("a", {"q": 1, "p": 1}, 100), consume("a", {"q": 9, "p": 1})):
        no = refused(world.do(command))
        assert (no.reason, no.subject) == ("pool_archived", "q")
    assert said(world.do(place("a", (Leg("p", 1, 5),), 100))) == "pool_archived", "nor made anew"
    assert said(world.do(place("a", {"p": 1, "nowhere": 1}, 100))) == "pool_not_found"
    closed = (FaceLeg("~w", 1, 1, opens=0, closes=0), Leg("p"))
    assert said(world.do(place("a", closed, 100))) == "window_closed", "one rung: the first leg in order"
    done(world.do(UnarchivePool(id="p")))
    assert said(world.do(place("a", "p", 100))) == "done"


def test_what_was_held_goes_on(world: World) -> None:
    for name in "abcd":
        done(world.do(place(name, {"p": 1}, 100)))
    done(world.do(confirm("a")))
    done(world.do(ArchivePool(id="p")))
    for command in (give_back("a"), confirm("b"), release("c"), extend("d", by_slots=50), ResizePool(id="p", total=9)):
        assert said(world.do(command)) == "done"
    assert world.counters("p") == (9, 1, 1)
    world.slot = 150
    done(world.do(ArchivePool(id="p")))
    assert world.counters("p") == (9, 0, 1), "due legs come back"
    assert world.do(CreatePool(id="p", total=1, exist_ok=True)) == Done(slot=150, pool=world.row("p"))
    assert world.row("p").archived


def test_overage_takes_nothing_of_it(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 1}, 100)))
    done(world.do(ArchivePool(id="p")))
    no = refused(world.do(confirm("a", {"p": 2, "q": 2}, overage="if_available")))
    assert (no.reason, no.subject) == ("pool_archived", "p")
    taken = done(world.do(confirm("a", {"p": 2, "q": 2}, overage="up_to_available", keep_rest=True)))
    assert taken.uncovered == {"p": 1}
    assert (world.counters("p"), world.counters("q")) == ((7, 0, 1), (7, 0, 2))


def test_overage_beside_an_archived_pool(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 1}, 100)))
    done(world.do(ArchivePool(id="p")))
    assert said(world.do(confirm("a", {"p": 1, "q": 2}, overage="if_available"))) == "done"


def test_an_empty_archived_pool_is_not_swept_away(world: World) -> None:
    done(world.do(place("a", (Leg("od", 1, 1),), 100)))
    done(world.do(release("a")))
    done(world.do(ArchivePool(id="od")))
    done(world.do(Sweep()))
    assert world.row("od").archived
    done(world.do(UnarchivePool(id="od")))
    done(world.do(Sweep()))
    assert ("", "od") not in world.pools


@pytest.mark.parametrize("command", [RemovePool, ArchivePool, UnarchivePool])
@pytest.mark.parametrize(("id", "code"), [("~x", "id_reserved"), ("", "id_required"), (7, "id_not_text")])
def test_ids_are_checked(command: Any, id: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as no:
        check(command(id=id), Limits())
    assert no.value.code == code
    check(command(id="p"), Limits())
    check(command(id="~x"), Limits(), faces=True)


def test_a_pool_made_anew_is_another_one(world: World) -> None:
    before = world.row("p")
    done(world.do(place("a", "p", 100)))
    done(world.do(release("a")))
    assert world.row("p").same_life(before)
    done(world.do(RemovePool(id="p")))
    world.pool("p", 7)
    assert not world.row("p").same_life(before)


# Windows that the application closes


def asked(quantity: int, closes: int | None, total: int = 5) -> tuple[Leg, ...]:
    return (FaceLeg("~r", quantity, opens=None if closes is None else 0, closes=closes, total=total),)


def test_a_closed_window_refuses_and_the_rest_goes_on(world: World) -> None:
    for name in "abcd":
        done(world.do(place(name, asked(1, 50), 100)))
    assert world.row("~r").closes == 50
    world.slot = 49
    done(world.do(confirm("a")))
    world.slot = 50
    for command in (place("e", asked(1, 50), 100), consume("e", asked(1, 50))):
        no = refused(world.do(command))
        assert (no.reason, no.subject, no.found) == ("window_closed", "~r", 50)
    no = refused(world.do(confirm("b", 2, overage="if_available")))
    assert (no.reason, no.subject, no.found) == ("window_closed", "~r", 50)
    assert done(world.do(confirm("b", 2, overage="up_to_available"))).uncovered == {"~r": 1}
    for later in (extend("c", by_slots=50), release("c"), give_back("a")):
        assert said(world.do(later)) == "done"
    done(world.do(Sweep()))
    assert world.counters("~r") == (5, 1, 1), "while anything is held it stays"
    done(world.do(release("d")))
    done(world.do(Sweep()))
    assert ("", "~r") not in world.pools, "with what was consumed there"
    assert said(world.do(place("e", asked(1, 50), 100))) == "window_closed"
    assert ("", "~r") not in world.pools


@pytest.mark.parametrize("overage", ["if_available", "up_to_available"])
def test_a_face_may_take_overage_from_a_window_that_is_over(world: World, overage: Any) -> None:
    done(world.do(place("a", asked(1, 50), 100)))
    world.slot = 50
    assert done(world.do(confirm("a", 2, overage=overage, late_overage=True))).uncovered is None
    assert world.counters("~r") == (5, 0, 2)


@pytest.mark.parametrize(("was", "becomes"), [(50, 60), (50, None), (None, 50)])
def test_another_answer_is_journaled(world: World, was: int | None, becomes: int | None) -> None:
    done(world.do(place("a", asked(1, was), 100)))
    count = len(world.entries)
    done(world.do(place("b", asked(1, becomes), 100)))
    resized = world.entries[count]
    assert (resized.action, resized.effects[0].total, resized.effects[0].pool.closes) == ("pool.resized", 0, becomes)
    done(world.do(place("c", asked(1, becomes), 100)))
    assert len(world.entries) == count + 3
    assert world.row("~r").closes == becomes


def test_an_answer_that_lies_in_the_past_is_journaled_too(world: World) -> None:
    done(world.do(place("a", asked(1, 50), 100)))
    world.slot = 20
    assert said(world.do(place("b", asked(1, 10), 100))) == "window_closed"
    assert world.row("~r").closes == 10


def test_late_overage_is_for_faces() -> None:
    with pytest.raises(InvalidRequest) as no:
        check(ConfirmHold(id="0" * 32, late_overage=True), Limits())
    assert no.value.field == "late_overage"
    check(ConfirmHold(id="0" * 32, late_overage=True), Limits(), faces=True)
    with pytest.raises(InvalidRequest) as no:
        check(ConfirmHold(id="0" * 32, late_overage=cast(Any, "yes")), Limits(), faces=True)
    assert no.value.field == "late_overage"
