"""The map of a section: what is stored, by whom it is changed, and what that does to the items."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Seat
from holdkit.core.model import Record
from holdkit.core.reading import FindRecord, ListRecords
from holdkit.faces import seat_map
from holdkit.faces.seat_map import CHUNK_BYTES, REMEMBERED, SEATS, SECTIONS, LayoutCache, SeatMap
from holdkit.faces.seating import Layout, checked_seat
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from tests.support.kernels import Store, differences
from tests.support.threads import PATIENCE


def row(count: int, name: str = "A", section: str = "stalls", begin: int = 1) -> list[Seat]:
    return [Seat(f"{name}{at}", section, name, at) for at in range(begin, begin + count)]


def ids(seats: list[Seat]) -> list[str]:
    return [seat.id for seat in seats]


def test_seats_are_listed_in_order_of_row_and_position(store: Store) -> None:
    hk = store.hk
    hk.seats.add([Seat("x", "stalls", 10, 2, rank=5), *row(2, "9"), Seat("y", "stalls", 10, "1b", 1, kind="box")])
    listed = [
        Seat("91", "stalls", "9", 1, 1),
        Seat("92", "stalls", "9", 2, 2),
        Seat("y", "stalls", "10", "1b", 1, None, "box"),
        Seat("x", "stalls", "10", 2, 2, 5),
    ]
    assert hk.seats.list("stalls") == listed
    hk.seats.add(listed)  # what was listed can be added again, and changes nothing
    hk = store.reopen(hk)
    assert hk.seats.list("stalls") == listed
    assert [item.state for item in hk.items.get(["x", "91"])] == ["available", "available"]
    other = hk.tenant("acme")
    with pytest.raises(holdkit.errors.SectionNotFound):
        other.seats.list("stalls")
    other.seats.add(row(1))
    assert ids(other.seats.list("stalls")) == ["A1"]
    assert hk.seats.list("stalls") == listed
    assert differences(hk) == ()


def test_adding_twice_is_adding_once(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row(3))
    before = hk.journal.cursor()
    hk.seats.add(row(3))
    assert hk.journal.cursor() == before, "nothing was journaled"


def test_a_seat_that_is_added_again_moves_and_keeps_its_hold(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row(4))
    hold = hk.items.hold(["A1"], token="me", ttl=None)
    hk.seats.add([Seat("A1", "stalls", "B", 1), Seat("A2", "stalls", "A", 2, kind="wheelchair")])
    assert ids(hk.seats.list("stalls")) == ["A2", "A3", "A4", "A1"]
    assert hk.items.get(["A1"])[0].hold == hold.id
    assert [leg.pool for leg in hk.seats.hold(2, section="stalls", ttl=None).legs] == ["~item/A3", "~item/A4"]
    swap = [Seat("A3", "stalls", "A", 4), Seat("A4", "stalls", "A", 3)]
    hk.seats.add(swap)
    assert ids(hk.seats.list("stalls")) == ["A2", "A4", "A3", "A1"]
    hk.seats.add([Seat("A1", "circle", "A", 1)])  # a seat can be in several sections
    assert ids(hk.seats.list("circle")) == ["A1"]
    assert "A1" in ids(hk.seats.list("stalls"))


def test_removed_seats_are_no_longer_found_and_stay_items(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row(3))
    hold = hk.seats.hold(1, section="stalls", together=False, ttl=None)
    hk.seats.remove("stalls", ["A2", "A1", "nowhere"])
    assert ids(hk.seats.list("stalls")) == ["A3"]
    assert hk.confirm(hold).state == "confirmed"
    assert [item.state for item in hk.items.get(["A1", "A2"])] == ["available", "confirmed"]
    hk.seats.remove("stalls")
    with pytest.raises(holdkit.errors.SectionNotFound):
        hk.seats.list("stalls")
    with pytest.raises(holdkit.errors.SectionNotFound):
        hk.seats.hold(1, section="stalls", ttl=None)
    hk.seats.remove("stalls")
    hk.seats.remove("never")
    hk.seats.add(row(2))
    hk = store.reopen(hk)
    assert ids(hk.seats.list("stalls")) == ["A1", "A2"]
    assert differences(hk) == ()


def test_a_retry_of_a_change_changes_nothing(store: Store) -> None:
    hk = store.hk
    hk.seats.add(row(2), op="add")
    with pytest.raises(holdkit.OperationConflict):
        hk.seats.add(row(3), op="add")
    hk.seats.add([Seat("A1", "stalls", "B", 1)], op="move")
    hk.seats.add(row(2), op="add")
    assert [seat.row for seat in hk.seats.list("stalls")] == ["A", "B"], "the retry does not move it back"
    hk.seats.remove("stalls", ["A2"], op="remove")
    hk.seats.add(row(2))
    hk.seats.remove("stalls", ["A2"], op="remove")
    assert ids(hk.seats.list("stalls")) == ["A1", "A2"]
    with pytest.raises(holdkit.OperationConflict):
        hk.seats.remove("stalls", op="remove")
    store.clock.advance(25 * 3600)  # the operation is forgotten: it is a new one
    hk.seats.remove("stalls", ["A2"], op="remove")
    assert ids(hk.seats.list("stalls")) == ["A1"]


@pytest.mark.parametrize(
    ("seats", "code"),
    [
        ([Seat("A1", "stalls", "A", 1), Seat("A1", "stalls", "A", 2)], "item_twice"),
        ([Seat("A1", "stalls", "A", 1), Seat("A2", "stalls", "A", 1)], "position_taken"),
        ([Seat("new", "stalls", "A", 7)], "position_taken"),
        ([Seat("A1", "stalls", "A", 1), "A2"], "seats_malformed"),
        ([Seat("A1", "stalls", "A", 1), Seat("A2", "stalls", "A", 2, rank=float("nan"))], "rank_not_whole"),  # type: ignore[arg-type]
        (row(10_001), "seats_too_many"),
        (row(10_000, begin=20), "seats_too_many"),
    ],
)
def test_bad_seats_are_refused_before_anything_is_written(seats: list[Any], code: str) -> None:
    with holdkit.connect("memory://") as hk:
        hk.seats.add([Seat("there", "stalls", "A", 7)])
        before = hk.journal.cursor()
        with pytest.raises(holdkit.InvalidRequest) as wrong:
            hk.seats.add(seats)
        assert wrong.value.code == code
        assert hk.journal.cursor() == before


def test_a_section_of_ten_thousand_seats(tmp_path: Path) -> None:
    """Long names and all: they are stored in chunks, and one seat more writes one chunk."""
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        seats = [Seat(f"show/{'x' * 60}/{n}", "stalls", n // 100, n % 100) for n in range(9_999)]
        hk.seats.add(seats)
        assert len(hk.seats.list("stalls")) == 9_999
        chunks = hk._executor.read(ListRecords("", SEATS))
        assert len(chunks) > 20
        assert max(len(chunk.body) for chunk in chunks) <= CHUNK_BYTES
        hk.seats.add([Seat("last", "stalls", "Z", 1)])
        after = hk._executor.read(ListRecords("", SEATS))
        assert len([chunk for chunk in after if chunk not in chunks]) == 1
        with pytest.raises(holdkit.InvalidRequest, match="at most 10000"):
            hk.seats.add([Seat("one more", "stalls", "Z", 2)])
        assert [leg.pool for leg in hk.seats.hold(1, section="stalls", together=False, ttl=None).legs]


def test_a_section_has_a_bound_in_bytes() -> None:
    with holdkit.connect("memory://") as hk, pytest.raises(holdkit.InvalidRequest) as large:
        hk.seats.add([Seat(f"{n}/{'ü' * 490}", "stalls", "A", n) for n in range(5_000)])
    assert large.value.code == "seats_too_large"


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_two_kernels_see_each_others_changes(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/holds.db" if engine == "sqlite" else request.getfixturevalue("migrated")()
    with holdkit.connect(url) as one, holdkit.connect(url) as other:
        see_each_other(one, other)


def see_each_other(one: holdkit.Kernel, other: holdkit.Kernel) -> None:
    one.seats.add(row(2))
    assert ids(other.seats.list("stalls")) == ["A1", "A2"]
    one.seats.remove("stalls", ["A1"])
    assert ids(other.seats.list("stalls")) == ["A2"]
    other.seats.remove("stalls")
    one.seats.add(row(1, "B"))
    assert ids(other.seats.list("stalls")) == ["B1"]


def test_changes_at_once_are_made_one_after_the_other(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        start = threading.Barrier(8)

        def add(name: str) -> None:
            start.wait(PATIENCE)
            hk.seats.add(row(5, name))

        threads = [threading.Thread(target=add, args=(name,)) for name in "ABCDEFGH"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(hk.seats.list("stalls")) == 40
        assert hk.admin.verify().ok


def test_a_change_that_comes_too_late_is_made_again(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.seats.add(row(1))
        write, rows = hk._executor.execute_all, list("BC")

        def late(commands: Any, tx: Any = None) -> None:
            if rows and isinstance(commands[0], holdkit.commands.PutRecord):
                hk._executor.execute_all = write  # type: ignore[method-assign]
                hk.seats.add(row(1, rows.pop()))
                hk._executor.execute_all = late  # type: ignore[method-assign]
            write(commands, tx)

        hk._executor.execute_all = late  # type: ignore[method-assign]
        hk.seats.add(row(1, "D"))
        assert ids(hk.seats.list("stalls")) == ["A1", "B1", "C1", "D1"]
        hk._executor.execute_all = always_late(hk, write)  # type: ignore[method-assign]
        with pytest.raises(holdkit.Overloaded, match="changed section 'stalls' at each attempt"):
            hk.seats.add(row(1, "E"))


def always_late(hk: holdkit.Kernel, write: Any) -> Any:
    def late(commands: Any, tx: Any = None) -> None:
        if isinstance(commands[0], holdkit.commands.PutRecord):
            write([holdkit.commands.PutRecord(kind=SECTIONS, id="stalls", body='{"stamp":"rival","chunks":1}')])
        write(commands, tx)

    return late


def test_a_map_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.seats.add(row(1))
        look, rows = hk._executor.read, list("BC")

        def read(query: Any, tx: Any = None, *, durable: bool = False) -> Any:
            seen = look(query, tx, durable=durable)
            if isinstance(query, ListRecords) and rows:
                hk._executor.read = look  # type: ignore[method-assign]
                hk.seats.add(row(1, rows.pop()))
                hk._executor.read = read  # type: ignore[method-assign]
            return seen

        hk._executor.face_caches["seats"] = hk.seats._layouts = LayoutCache()
        hk._executor.read = read  # type: ignore[method-assign]
        assert ids(hk.seats.list("stalls")) == ["A1", "B1", "C1"]


def test_a_map_is_exported_and_imported_for_its_tenant(tmp_path: Path) -> None:
    with holdkit.connect("memory://") as hk:
        hk.tenant("acme").seats.add(row(3))
        hold = hk.tenant("acme").seats.hold(1, section="stalls", together=False, token="me", ttl=None)
        exported = b"".join(export(hk._executor.engine))
    url = f"sqlite:///{tmp_path}/holds.db"
    import_journal(url, Import(io.BytesIO(exported)))
    with holdkit.connect(url) as hk:
        acme = hk.tenant("acme")
        assert ids(acme.seats.list("stalls")) == ["A1", "A2", "A3"]
        assert acme.items.get(["A2"], token="me") == [holdkit.Item("A2", "held", hold.id, yours=True)]
        with pytest.raises(holdkit.ItemsTaken):
            acme.seats.hold(2, section="stalls", ttl=None)
        with pytest.raises(holdkit.errors.SectionNotFound):
            hk.seats.list("stalls")
        assert hk.admin.verify().ok


def test_a_head_remembers_so_many_operations_and_is_never_removed(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        for number in range(REMEMBERED + 5):
            hk.seats.add(row(1, begin=number), op=f"op-{number}")
        hk.seats.remove("stalls")
        head = hk._executor.read(FindRecord(("", SECTIONS, "stalls")))
        assert head is not None
        assert len(SeatMap("stalls", head).head.operations) == REMEMBERED
        assert (SeatMap("stalls", head).head.chunks, head.version) == (0, REMEMBERED + 6)
        assert hk._executor.read(ListRecords("", SEATS)) == []


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_map, "CACHED", 5)
    cache, layout = LayoutCache(), Layout([checked_seat(seat) for seat in row(2)])
    for name in "abc":
        cache.put(("", name), "1", layout)
        assert cache.get(("", "a"), "1") is layout
    assert [cache.get(("", name), "1") for name in "abc"] == [layout, None, layout]
    assert cache.get(("", "c"), "2") is None
    cache.put(("", "c"), "2", layout)
    assert cache.get(("", "a"), "1") is layout
    big = Layout([checked_seat(seat) for seat in row(9)])
    cache.put(("", "big"), "1", big)
    assert [cache.get(("", name), "1") for name in ("a", "c", "big")] == [None, None, big]


def test_chunks_that_become_empty_are_filled_again() -> None:
    stored = [
        Record("", SEATS, f"{n}", text, 1, 0)
        for n, text in enumerate(('[["a","A",1,1,null,""]]', "[]", '[["c","A",3,3,null,""]]'))
    ]
    found = SeatMap("s", Record("", SECTIONS, "s", '{"stamp":"x","chunks":3}', 7, 0), stored)
    added = found.with_change([checked_seat(Seat("b", "s", "A", 2))])
    assert added is not None
    assert [[row.id for row in chunk] for chunk in added] == [["a", "b"], [], ["c"]]
    fewer = found.with_change([], ["c"])
    assert fewer is not None
    assert [[row.id for row in chunk] for chunk in fewer] == [["a"]]
    head, *chunks = found.writing(fewer, "y", None, {})
    assert (head.id, head.if_version, head.body) == ("s", 7, '{"stamp":"y","chunks":1,"operations":[]}')
    assert [(chunk.id[-4:], chunk.body) for chunk in chunks] == [("0001", None), ("0002", None)]


# Owners


def test_the_same_owner_gets_its_hold_on_the_same_items_again(store: Store) -> None:
    hk = store.hk
    hk.items.add(["a", "b", "c"])
    hold = hk.items.hold(["a", "b"], token="me", ttl=60)
    store.clock.advance(30)
    again = hk.items.hold(["b", "a"], token="me", ttl=60)
    assert (again.id, again.deadline, again.token, again.ticket) == (hold.id, hold.deadline, "me", hold.ticket)
    assert again.replayed
    for ids, token in ((["a", "b"], "you"), (["a", "b"], None), (["a"], "me"), (["a", "b", "c"], "me")):
        with pytest.raises(holdkit.ItemsTaken):
            hk.items.hold(ids, token=token, ttl=None)
    other = hk.items.hold(["c"], token="me", ttl=None)
    with pytest.raises(holdkit.ItemsTaken):
        hk.items.hold(["b", "c", "a"], token="me", ttl=None)
    store.clock.advance(30)
    renewed = hk.items.hold(["a", "b"], token="me", ttl=60)
    assert renewed.id != hold.id
    hk.confirm(other)
    with pytest.raises(holdkit.ItemsTaken):
        hk.items.hold(["c"], token="me", ttl=None)  # confirmed is not held


def test_items_say_whether_they_are_yours(store: Store) -> None:
    hk = store.hk
    hk.items.add(["a", "b", "c", "d", "e"])
    hk.items.hold(["a", "b"], token="me", ttl=60)
    hk.confirm(hk.items.hold(["c"], token="me", ttl=None))
    hk.items.hold(["d"], token="you", ttl=None)
    asked = ["e", "d", "c", "b", "a", "nowhere", "a"]
    assert [item.yours for item in hk.items.get(asked, token="me")] == [False, False, True, True, True, False, True]
    assert {item.yours for item in hk.items.get(asked)} == {None}
    store.clock.advance(60)
    assert [item.yours for item in hk.items.get(["a", "c"], token="me")] == [False, True]
    assert hk.items.get([], token="me") == []
    with pytest.raises(holdkit.InvalidRequest):
        hk.items.get(["a"], token="")


def test_a_hold_is_ended_by_the_ids_of_all_of_its_items(store: Store) -> None:
    hk = store.hk
    hk.items.add(["a", "b", "c", "d"])
    hold = hk.items.hold(["a", "b"], token="me", ttl=60)
    hk.items.hold(["c"], token="me", ttl=60)
    for ids, token, error in (
        (["a"], "me", holdkit.errors.PartOfHold),
        (["a", "b", "c"], "me", holdkit.errors.PartOfHold),
        (["a", "d"], "me", holdkit.errors.HoldNotFound),
        (["d"], "me", holdkit.errors.HoldNotFound),
        (["a", "nowhere"], "me", holdkit.errors.PoolNotFound),
        (["a", "b"], "you", holdkit.NotOwner),
        (["a", "b"], None, holdkit.InvalidRequest),
    ):
        for end in (hk.items.release, hk.items.confirm):
            with pytest.raises(error):
                end(ids, token=token)
    for wrong in ([], ["a", "a"], 5, None, [5]):
        with pytest.raises(holdkit.InvalidRequest):
            hk.items.release(wrong, token="me")
    assert hk.items.release(iter(["b", "a"]), token="me", op="r").id == hold.id
    assert hk.items.release(("a", "b"), token="me", op="r").replayed
    with pytest.raises(holdkit.AlreadyReleased):
        hk.items.release(["a", "b"], token="me")
    store.clock.advance(60)
    with pytest.raises(holdkit.HoldExpired):
        hk.items.confirm(["c"], token="me")
    hk.items.hold(["a", "c"], token="me", ttl=60)
    store.clock.advance(60)
    hk.release(hk.items.hold(["c"], token="you", ttl=None))
    with pytest.raises(holdkit.errors.PartOfHold, match="has not exactly these items"):
        hk.items.release(["a", "c"], token="me")  # another hold had one of them last
    again = hk.items.hold(["a", "c"], token="me", ttl=None)
    done = hk.items.confirm({"a", "c"}, token="me", entity="order:9")
    assert (done.id, done.state, done.entity) == (again.id, "confirmed", "order:9")
    assert differences(hk) == ()


def test_an_item_of_a_combined_hold_is_ended_with_that_hold(store: Store) -> None:
    hk = store.hk
    hk.items.add(["a"])
    hold = hk.hold([holdkit.claim("email", "x"), *holdkit.items("a")], ttl=60, token="me")
    with pytest.raises(holdkit.errors.PartOfHold) as part:
        hk.items.release(["a"], token="me")
    assert part.value.hold == hold.id
    with pytest.raises(holdkit.ItemsTaken):
        hk.items.hold(["a"], token="me", ttl=None)


def test_a_retry_that_names_the_items_is_the_same_operation_whoever_has_them_by_then(store: Store) -> None:
    hk = store.hk
    hk.items.add(["a", "b"])
    mine = hk.items.hold(["a", "b"], token="me", ttl=None)
    assert hk.items.release(["a", "b"], token="me", op="left").id == mine.id
    theirs = hk.items.hold(["b", "a"], token="they", ttl=None)
    again = hk.items.release(["b", "a"], token="me", op="left")
    assert (again.id, again.state, again.replayed) == (mine.id, "released", True)
    assert hk.get(theirs.id).state == "held"
    with pytest.raises(holdkit.OperationConflict):
        hk.items.release(["a"], token="me", op="left")
    assert hk.items.confirm(["a", "b"], token="they", entity="order:1", op="paid").state == "confirmed"
    hk.items.free(["a", "b"], reason="a mistake")
    hk.items.hold(["a"], token="me", ttl=None)
    paid = hk.items.confirm(["a", "b"], token="they", entity="order:1", op="paid")
    assert (paid.id, paid.state, paid.replayed) == (theirs.id, "confirmed", True)
    for _ in range(2):  # what was never done is refused, each time for the same reason
        with pytest.raises(holdkit.errors.PartOfHold):
            hk.items.release(["a", "b"], token="they", op="other")
    assert differences(hk) == ()
