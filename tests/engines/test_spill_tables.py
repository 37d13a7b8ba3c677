"""Tables larger than memory behave like a dictionary, whatever is on disk, and leave no file behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Folded, RowsInMemory
from holdkit.core.model import MAX_SLOT, Pool
from holdkit.engines.spill import OVERHEAD, Spill, SpillTable
from holdkit.errors import EngineError
from tests.unit.core.stored_rows import bit_of_everything, stored, with_hold, with_pool

TEXTS = st.text(st.sampled_from("ab~/\u00e9\uffff\U0001f600"), max_size=3)
KEYS = st.tuples(TEXTS, st.sampled_from([0, 1, 255, 256, MAX_SLOT]))
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 5)), max_size=40)


@given(steps=STEPS, room=st.sampled_from([0, 3 * OVERHEAD, 10**6]))
def test_a_table_is_what_a_dictionary_is(steps: list[tuple[tuple[str, int], int | None]], room: int) -> None:
    plain: RowsInMemory[Any, int] = RowsInMemory()
    with closing(Spill(room)) as spill:
        table = spill.table(int, 2)
        for key, row in steps:
            plain.put(key, row)
            table.put(key, row)
            assert table.get(key) == row
        assert [table.get(key) for key, _ in steps] == [plain.get(key) for key, _ in steps]
        assert list(table.items()) == list(plain.items())
        assert list(table.items()) == list(plain.items()), "as often as it is asked for"
        assert table.get(("never", 7)) is None


def test_tables_of_one_place_do_not_meet() -> None:
    with closing(Spill(0)) as spill:
        pools, numbers = spill.table(Pool, 2), spill.table(int, 2)
        pools.put(("", "p"), Pool("", "p", 5))
        numbers.put(("", "p"), 3)
        assert pools.get(("", "p")) == Pool("", "p", 5)
        assert numbers.get(("", "p")) == 3


def test_a_small_table_never_touches_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", None)
    with closing(Spill()) as spill:
        table = spill.table(int, 1)
        for number in range(100):
            table.put((number,), number)
        assert len(list(table.items())) == 100


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    return tmp_path


def test_nothing_is_left_behind_not_even_while_it_is_open(place: Path) -> None:
    with closing(Spill(2**10)) as spill:
        table = spill.table(str, 1)
        for number in range(100):
            table.put((number,), "x" * 2**20)
        assert list(place.iterdir()) == []
    spill.close()


def test_a_disk_that_is_full_is_named() -> None:
    with closing(Spill(0)) as spill:
        spill.connection().execute("pragma max_page_count = 20")
        table = spill.table(str, 1)
        with pytest.raises(EngineError, match=r"database or disk is full; .* SQLITE_TMPDIR"):
            _fill(table, 1_000)


def _fill(table: SpillTable[Any, str], rows: int) -> None:
    for number in range(rows):
        table.put((number,), "x" * 2**12)


@pytest.mark.parametrize("room", [0, 5 * OVERHEAD])
def test_an_audit_finds_the_same_on_disk_as_in_memory(room: int) -> None:
    world = bit_of_everything()
    spoiled = [
        stored(world),
        stored(world, pools=with_pool(world, "p", held=4)),
        stored(world, pools={}),
        stored(world, holds=with_hold(world, "a", entity="x")),
        stored(world, holds={}, records={}),
        stored(world, legs={}),
    ]
    seen = 0
    for rows in spoiled:
        with closing(Spill(room)) as spill:
            found = list(audit(enumerate(world.entries, 1), rows, world.limits, 50, Folded(spill.table)))
        assert found == list(audit(enumerate(world.entries, 1), rows, world.limits, 50))
        seen += len(found)
    assert seen > 10
