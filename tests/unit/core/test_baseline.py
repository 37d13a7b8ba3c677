"""The baseline: folding the first entries into it and the rest onto it gives the same state as folding all of them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from holdkit.core.audit import audit
from holdkit.core.baseline import (
    FLOOR,
    FLOOR_ID,
    HOLD,
    KINDS,
    POOL,
    RECORD,
    TALLY,
    Baseline,
    BaselineRow,
    KnownFile,
    RowKey,
    encode_row,
    entry_key,
    entry_of_row,
    file_key,
    hold_may_leave,
    known_files,
    may_leave,
    rows_touched,
    subject_keys,
)
from holdkit.core.commands import CreatePool, PutRecord
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.model import HeldLeg, Pool, Record, State, StoredHold
from holdkit.core.outstanding import Tally
from tests.unit.core.stored_rows import bit_of_everything, stored
from tests.unit.core.world import World, confirm, done, hold_id, place, release

BASELINE = Action.JOURNAL_BASELINE


def folded(entries: list[Entry], step: int) -> dict[RowKey, str]:
    """The rows after these entries, some at a time, as an engine does it."""
    rows: dict[RowKey, str] = {}
    for start in range(0, len(entries), step):
        some = entries[start : start + step]
        touched = rows_touched(some)
        baseline = Baseline({key: rows[key] for key in touched if key in rows})
        for entry in some:
            baseline.add(entry)
        assert baseline.changed.keys() <= set(touched)
        for key, body in baseline.changed.items():
            if body is None:
                rows.pop(key, None)
            else:
                rows[key] = body
    return rows


def as_entries(rows: dict[RowKey, str], slot: int = 0) -> list[Entry]:
    ordered = sorted(rows, key=lambda key: (KINDS.index(key[0]), key))
    pools = {key: body for key, body in rows.items() if key[0] == POOL}
    return [
        entry_of_row(BaselineRow(*key, rows[key], pools[POOL, key[1], key[2], ""] if key[0] == TALLY else None), slot)
        for key in ordered
    ]


def world_with_accounts() -> World:
    world = bit_of_everything()
    done(world.do(CreatePool(id="acc", total=9)))
    done(world.do(place("d", {"acc": 3}, 60, account="ann")))
    done(world.do(place("e", {"acc": 2}, 60, account="bob")))
    done(world.do(release("e")))
    done(world.do(confirm("d")))
    done(world.do(PutRecord(kind="gone", id="i", body="1")))
    done(world.do(PutRecord(kind="gone", id="i", body=None)))
    return world


@pytest.mark.parametrize("step", [1, 3, 100])
def test_any_part_of_the_journal_may_be_in_the_baseline(step: int) -> None:
    world = world_with_accounts()
    for cut in range(len(world.entries) + 1):
        first = as_entries(folded(world.entries[:cut], step))
        numbered = enumerate([*first, *world.entries[cut:]], cut + 1 - len(first))
        assert [str(one) for one in audit(numbered, stored(world), world.limits, 0)] == [], cut


def test_a_hold_may_leave_once_nothing_of_it_counts() -> None:
    world = World()
    world.pool("p", 10)
    for name in "abc":
        done(world.do(place(name, {"p": 1}, 60)))
    done(world.do(release("a")))
    done(world.do(confirm("b")))
    baseline = Baseline({})
    for entry in world.entries:
        baseline.add(entry)
    a = hold_id("a")
    assert baseline.leaving() == [("", a)]
    baseline.forget(baseline.leaving())
    assert baseline.changed[HOLD, "", a, ""] is None
    bodies = {name: baseline.changed[HOLD, "", hold_id(name), ""] for name in "bc"}
    assert [hold_may_leave(body) for body in bodies.values() if body is not None] == [False, False]
    assert hold_may_leave(encode_row(world.holds["", a]))


def test_floors_only_rise() -> None:
    baseline = Baseline({("floor", "t", FLOOR_ID, ""): "5"})
    baseline.raise_floor("t", 4)
    baseline.raise_floor("t", 5)
    assert baseline.changed == {}
    baseline.raise_floor("t", 7)
    baseline.raise_floor("t", 6)
    assert baseline.changed == {("floor", "t", FLOOR_ID, ""): "7"}


def test_a_retired_hold_is_gone() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(place("a", {"p": 1}, 60)))
    baseline = Baseline({})
    for entry in world.entries:
        baseline.add(entry)
    baseline.drop_hold(("", hold_id("a")))
    assert baseline.changed[HOLD, "", hold_id("a"), ""] is None
    assert baseline.get_hold(("", hold_id("a"))) is None
    assert baseline.leaving() == []
    assert baseline.get_hold(("", "unknown")) is None


def test_what_a_subject_may_name() -> None:
    assert list(subject_keys("t", "a/b/c")) == [
        (HOLD, "t", "a/b/c", ""),
        (POOL, "t", "a/b/c", ""),
        (RECORD, "t", "b/c", "a"),
        (RECORD, "t", "c", "a/b"),
    ]


def test_rows_are_read_back_as_entries() -> None:
    record = Record("t", "~limits", "limits", "{}", 1, 2)
    entry = entry_of_row(BaselineRow(RECORD, "t", "limits", "~limits", encode_row(record)), 9)
    assert (entry.slot, entry.record, entry.action) == (9, record, "journal.baseline")
    pool = Pool("t", "p", 3)
    row = BaselineRow(POOL, "t", "p", "", encode_row(pool))
    assert entry_of_row(row, 1).effects[0].pool == pool
    assert row.key == (POOL, "t", "p", "")
    with pytest.raises(msgspec.DecodeError):
        entry_of_row(BaselineRow(POOL, "t", "p", "", "{}"), 1)


FULL = Pool("t", "p", 9, held=1, consumed=2, fence=3, loose=4, waiting=5, children=6)
EFFECT = Effect(FULL, 9, 1, 2, 4, 5, 6)
KEPT = StoredHold("t", "h", (HeldLeg("p", 1, 1),), "hash", 1, 3)
NOTE = Record("t", "note", "n", "{}", 1, 2)


@pytest.mark.parametrize(
    ("row", "entry"),
    [
        (BaselineRow(HOLD, "t", "h", "", encode_row(KEPT)), Entry(7, BASELINE, "h", "t", hold=KEPT)),
        (BaselineRow(RECORD, "t", "n", "note", encode_row(NOTE)), Entry(7, BASELINE, "note/n", "t", record=NOTE)),
        (BaselineRow(POOL, "t", "p", "", encode_row(FULL)), Entry(7, BASELINE, "p", "t", (EFFECT,))),
        (
            BaselineRow(TALLY, "t", "p", "ann", encode_row(Tally("ann", 2)), encode_row(FULL)),
            Entry(7, BASELINE, "p", "t", (structs.replace(EFFECT, tally=Tally("ann", 2)),)),
        ),
        (
            BaselineRow(FLOOR, "t", FLOOR_ID, "", "8"),
            Entry(7, BASELINE, FLOOR_ID, "t", (Effect(Pool("t", FLOOR_ID, 0, fence=8)),), removed=True),
        ),
    ],
    ids=[HOLD, RECORD, POOL, TALLY, FLOOR],
)
def test_the_entry_of_a_row_puts_all_of_it(row: BaselineRow, entry: Entry) -> None:
    assert entry_of_row(row, 7) == entry


def test_the_slot_of_a_baseline_is_the_latest_of_its_entries() -> None:
    baseline = Baseline({})
    slots = [baseline.slot]
    for slot in (3, 9, 7):
        baseline.add(Entry(slot, Action.POOL_CREATED, "p", effects=(Effect(Pool("", "p", 1)),)))
        slots.append(baseline.slot)
    assert slots == [0, 3, 9, 9]


def test_an_expired_hold_with_units_to_return_does_not_leave() -> None:
    expired = structs.replace(KEPT, state=State.EXPIRED)
    assert not may_leave(expired)
    assert may_leave(structs.replace(expired, legs=(HeldLeg("p", 1),)))


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
        (Entry(1, Action.POOL_CREATED, "p", "t", (EFFECT,)), [(POOL, "t", "p", "")]),
        (
            Entry(1, Action.POOL_REMOVED, "p", "t", (EFFECT,), removed=True),
            [(FLOOR, "t", FLOOR_ID, ""), (POOL, "t", "p", "")],
        ),
        (Entry(1, Action.HOLD_HELD, "h", "t", hold=KEPT), [(HOLD, "t", "h", "")]),
        (Entry(1, Action.HOLD_RETIRED, "h", "t"), [(HOLD, "t", "h", "")]),
        (Entry(1, Action.LEG_RETURNED, "h", "t"), []),
        (
            Entry(2, Action.HOLD_EXTENDED, "h", "t", change=Change(State.HELD, State.HELD, 2, KEPT.legs)),
            [(HOLD, "t", "h", "")],
        ),
        (Entry(1, Action.RECORD_PUT, "note/n", "t", record=NOTE), [(RECORD, "t", "n", "note")]),
    ],
    ids=lambda value: value.action.value if isinstance(value, Entry) else "",
)
def test_an_entry_touches_the_rows_that_it_puts_or_removes(entry: Entry, keys: list[RowKey]) -> None:
    assert rows_touched([entry]) == keys


def test_a_subject_is_split_into_a_record_at_the_first_eight_slashes() -> None:
    subject = "/".join("abcdefghij")
    assert [key[3] for key in subject_keys("t", subject) if key[0] == RECORD] == [
        subject[: 2 * n + 1] for n in range(8)
    ]


def test_files_and_rewritten_entries_are_stored_by_a_number_of_twenty_digits() -> None:
    assert file_key(7) == ("file", "", "00000000000000000007", "")
    assert entry_key(7) == ("entry", "", "00000000000000000007", "")


def test_what_is_known_of_files_is_read_by_the_number_of_their_first_entry() -> None:
    one = KnownFile(last=9, size=120, sha256="ab" * 32, place="file:///archive")
    two = KnownFile(last=11, size=7, sha256="cd" * 32, place="file:///archive")
    rows = [(file_key(1)[2], encode_row(one)), (file_key(10)[2], encode_row(two))]
    assert known_files(rows) == {1: one, 10: two}
    assert [id for id, _ in sorted(rows)] == [id for id, _ in rows]


@pytest.mark.parametrize(("id", "body"), [("7", "{"), ("7", "{}"), ("7", "null"), ("seven", None), ("", None)])
def test_a_file_whose_row_cannot_be_read_is_not_known(id: str, body: str | None) -> None:
    known = encode_row(KnownFile(last=9, size=120, sha256="ab" * 32, place="file:///archive"))
    assert known_files([(id, known if body is None else body), ("1", known)]).keys() == {1}
