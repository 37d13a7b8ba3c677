"""What every statement must look like: it names its lanes, and rests on nothing that a distributed or busy database breaks."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import pytest

from holdkit.engines.postgres.encoding import OneRow
from holdkit.engines.postgres.statements import load

TABLES: Final = ("pools", "holds", "legs", "journal", "unnumbered", "operations", "records", "fence_floors")
ALL_LANES: Final = {
    "find_due_holds": "the earliest deadline anywhere",
    "find_retiring": "the one whose time was over first anywhere",
    "find_idle_pools": "any empty pool",
    "find_rested_pools": "the one that has rested longest anywhere",
    "find_closed_pools": "the window that ended first anywhere",
    "load_due": "asks of `unnumbered` only whether there is anything",
    "load_due_of_holds": "the same",
    "count_pools": "a bound over everything",
    "count_live_holds": "a bound over everything",
    "count_unended_holds": "a bound over everything",
    "count_consumed_holds": "a bound over everything",
    "count_operations": "a bound over everything",
    "prune_operations": "the oldest anywhere",
    "prune_holds": "the oldest anywhere",
    "make_room": "the oldest anywhere",
}
"""Statements that look at every lane on purpose, and why."""
FORBIDDEN: Final = {
    "sequences": r"\bnextval\b|\bsetval\b|\bserial\b|generated (always|by default)",
    "triggers": r"\btrigger\b",
    "advisory locks": r"advisory",
    "serializable": r"\bserializable\b",
    "jsonb": r"\bjsonb\b",
    "the transaction's start as the time": r"\bnow\(\)|current_timestamp|transaction_timestamp|statement_timestamp",
    "transaction ids": r"txid_|pg_current_xact|xmin\b",
}
CLOCK: Final = re.compile(r"(?:where|and|on|or)\b[^()]*[<>=]+\s*\(?\s*(?:extract\(epoch from )?clock_timestamp")


def in_batches() -> list[str]:
    text = (files("holdkit.engines.postgres") / "sql" / "batch.sql").read_text()
    return re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)


def unlaned(text: str) -> list[str]:
    """Tables that are read or changed without a word about their lane."""
    found: list[str] = []
    for table, alias in re.findall(r"(?:from|join|update|into)\s+holdkit\.(\w+)(?:\s+(?:as\s+)?(\w+))?", text):
        if table not in TABLES or re.search(rf"insert into holdkit\.{table}\b[^()]*\(lane\b", text):
            continue
        name = alias if alias not in ("", "where", "set", "order", "cross", "join") else table
        if not re.search(rf"\b{name}\.lane\s*=|=\s*{name}\.lane\b|\b(where|and) lane\s*=", text):
            found.append(table)
    return found


@pytest.mark.parametrize("name", in_batches())
def test_a_statement_of_a_batch_names_its_lanes(name: str) -> None:
    found = unlaned(load()[name].text)
    assert bool(found) == (name in ALL_LANES), found


@pytest.mark.parametrize("name", sorted(load()))
def test_a_statement_rests_on_nothing_forbidden(name: str) -> None:
    text = load()[name].text
    found = [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)]
    if name in ("notify_followers", "take_archive", "release_archive"):
        # a wake-up; and one archiver at a time, each of whose steps compares where it begins: nothing rests on them
        assert found == ["advisory locks"]
    elif name != "create_version_table":  # a note for people: when it was migrated
        assert found == []
    assert not CLOCK.search(text), "the clock is read once, as (select …): in a predicate it is no bound for an index"


def test_canary_the_lint_sees_what_it_must() -> None:
    assert unlaned("select from holdkit.holds h where h.id = $1") == ["holds"]
    assert unlaned("update holdkit.pools p set held = 1 where p.id = $1") == ["pools"]
    assert unlaned("delete from holdkit.legs where hold = $1") == ["legs"]
    assert unlaned("select from holdkit.holds h where h.lane = $1") == []
    assert CLOCK.search("where h.deadline <= (extract(epoch from clock_timestamp()) * 1000000)::bigint")
    assert CLOCK.search("where a = 1 and deadline < clock_timestamp()")
    assert not CLOCK.search("where h.deadline <= (select coalesce($1::bigint, clock_timestamp()))")
    assert re.search(FORBIDDEN["the transaction's start as the time"], "where at < now()")


def test_every_locking_statement_has_an_order() -> None:
    locking = {
        name: sql.text
        for name, sql in load().items()
        if re.search(r"\bfor (no key )?update|for (key )?share", sql.text)
        and not name.startswith(("prune", "make_room"))
    }
    del locking["guard_lock"], locking["lock_archived"], locking["lock_rewrites"]  # one row
    assert {"lock_pools", "lock_heads"} <= set(locking)
    for name, text in locking.items():
        assert re.search(r"order by .*\.lane\b", text), name


def test_every_insert_that_may_wait_has_an_order() -> None:
    inserts = [
        (name, insert)
        for name, sql in load().items()
        for insert in re.findall(r"insert into holdkit\.\w+.*?on conflict", sql.text, re.DOTALL)
    ]
    assert len(inserts) >= 4
    for name, insert in inserts:
        if re.match(r"insert into holdkit\.(rollup|archived|baseline|seals)", insert):
            continue  # each row has one writer, or goes alone, and no lock of a pool is held meanwhile
        assert "legs" in insert.split("(")[0] or re.search(r"order by k\.lane", insert), name


# The form for one row


def one_row_forms() -> dict[str, OneRow]:
    return {name: sql.one for name, sql in load().items() if sql.one is not None}


def test_rows_are_passed_as_arrays_or_as_one_row() -> None:
    found = one_row_forms()
    assert {"lock_pools", "load_due", "place_holds", "insert_holds", "put_operations", "write_journal"} <= found.keys()
    for name, form in found.items():
        many = load()[name]
        assert form.sql.name not in load()
        assert form.sql.types == tuple(kind.removesuffix("[]") for kind in many.types[: len(form.sql.types)])
        assert "unnest($" not in form.sql.text
        assert len(form.firsts) == many.text.count("unnest($")
        assert "any($" not in form.sql.text
        counts = "select 1 / (" in many.text
        assert form.counted == counts
        assert "on conflict do nothing" not in form.sql.text, "a row that is not counted raises"


def test_one_row_is_passed_in_its_own_form_and_no_other_number() -> None:
    lock, insert = one_row_forms()["lock_pools"], one_row_forms()["insert_legs"]
    assert lock.row(([1], [""], ["a"])) == [1, "", "a"]
    assert lock.row(([1, 1], ["", ""], ["a", "b"])) is None
    assert lock.row(([], [], [])) is None
    columns = ([1], [""], ["a"], [2], ["0" * 32], [1], [0], [0], [None])
    assert insert.row((*columns, 1, True)) == [column[0] for column in columns]
    assert insert.row((*columns, 1, False)) is None, "where a wrong count must not raise, the rows are counted"
    place = one_row_forms()["place_holds"]
    assert len(place.firsts) == 2
    assert load()["write_journal_with_unnumbered"].one is None, "it uses an array otherwise too"
