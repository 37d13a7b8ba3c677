"""Where the tables are distributed by lane every statement names one lane, for every table it touches; nothing else would stay
on one shard. Linted by the text, because no cluster is needed to see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from holdkit.engines.postgres.driver import Row, Script, Statement
from holdkit.engines.postgres.migrating import COPIED, DISTRIBUTED
from holdkit.engines.postgres.statements import ONE_SERVER_ONLY, load, load_for_one_lane, split_by_lane

TEXTS, FORMS = load_for_one_lane()
LOOKS: Final = {
    "audit_heads", "audit_floors", "audit_pools", "audit_holds", "audit_legs", "audit_operations", "audit_records", "audit_size", "count_pools",
    "count_live_holds", "count_unended_holds", "count_consumed_holds", "count_operations", "count_holds", "find_due_holds_by", "find_idle_pools",
    "find_rested_pools_by", "find_fed_lines_by", "audit_tallies", "find_closed_pools_by", "find_retiring_by",
    "oldest_due", "latest_slot", "find_ended_holds", "find_stale_lanes", "find_retired_lanes", "has_unnumbered", "read_heads", "create_heads",
    "last_seals",
}  # fmt: skip
"""Those that go to every lane on purpose: a look at one table, without locks. (And one that fills it, once.)"""
FORBIDDEN: Final = {
    "a part that inserts": r"^with\b.*\binsert into",
    "merge": r"\bmerge\b",
    "triggers": r"\btrigger\b",
    "settings of the session": r"\bset (local|session)\b",
    "lanes as a column": r"\blane = any\b|::int\[\][^)]*\) \w+\(lane\b",
    "serializable": r"\bserializable\b",
    "what was to be said there and was not": r"/\*",
}
VOLATILE: Final = r"clock_timestamp|set_config|random\(|now\(\)"
TABLE: Final = re.compile(r"(?:from|join|update|into|using|,)\s+holdkit\.(\w+)(?:\s+as)?(?:\s+(\w+))?")


def loose(text: str) -> list[str]:
    """Tables, by alias, that are not bound to the one lane."""
    lanes = set(re.findall(r"\.lane = (\$\d+)", text))
    found = [] if len(lanes) <= 1 else [f"several lanes: {sorted(lanes)}"]
    for table, alias in TABLE.findall(text):
        if table not in DISTRIBUTED or (re.search(rf"insert into holdkit\.{table}\b", text) and alias in ("", "o")):
            continue  # what is inserted into gets the lane of the head it is selected from: below
        if not re.search(rf"\b{alias}\.lane = \$\d+", text):
            found.append(f"{table} {alias}")
    if "insert into" in text and not re.search(
        r"\bselect own\.lane, .*from holdkit\.heads own cross join", text, re.DOTALL
    ):
        found.append("an insert that is not selected from its lane's head")
    return found


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_statement_names_one_lane_for_every_table(name: str) -> None:
    found = loose(TEXTS[name].text)
    if name in LOOKS:
        assert len(TABLE.findall(TEXTS[name].text)) == 1, "a look at every lane is at one table"
        assert not re.search(r"\bfor (no key )?update|\bfor (key )?share|\bupdate holdkit|\bdelete\b", TEXTS[name].text)
    elif "holdkit." in TEXTS[name].text and name not in {"put_setting", "record_version", "create_version_table"}:
        assert found == []


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_statement_has_nothing_that_cannot_be_distributed(name: str) -> None:
    text = TEXTS[name].text
    allowed = {"settings of the session"} if name in {"propagate_settings", "set_lock_timeout_to"} else set()
    assert {what for what, pattern in FORBIDDEN.items() if re.search(pattern, text, re.DOTALL)} == allowed
    if re.search(r"\bupdate holdkit|\bdelete from|\binsert into", text) and "migrations" not in text:
        assert not re.search(VOLATILE, text), "a statement that writes must be the same wherever it is evaluated"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_statement_names_only_tables_that_every_node_has(name: str) -> None:
    """The others are on the coordinator, and a kernel may be connected to a worker."""
    assert set(re.findall(r"holdkit\.(\w+)", TEXTS[name].text)) <= {*DISTRIBUTED, *COPIED}


def test_every_statement_has_its_form() -> None:
    assert set(load()) - set(TEXTS) == ONE_SERVER_ONLY
    assert set(FORMS) <= set(TEXTS)
    for name, form in FORMS.items():
        assert len(form.parameters) == len(TEXTS[name].types), name
        assert TEXTS[name].types[0] == "int", name


def test_canary_the_lint_sees_what_it_must() -> None:
    assert loose("select from holdkit.holds h where h.id = $1") == ["holds h"]
    assert loose("select from holdkit.pools p join holdkit.legs l on l.lane = p.lane where p.lane = $1::int") == [
        "legs l"
    ]
    assert loose("select from holdkit.pools p, holdkit.legs l where p.lane = $1 and l.lane = $2") == [
        "several lanes: ['$1', '$2']"
    ]
    assert loose("insert into holdkit.legs (lane) select $1 from unnest($2::text[]) k") != []
    assert (
        loose(
            "insert into holdkit.legs (lane) select own.lane, 1 from holdkit.heads own cross join unnest($2) k where own.lane = $1"
        )
        == []
    )
    plain = {name for name, sql in load().items() if "unnest($1::int[]" in sql.text}
    assert all(
        loose(load()[name].text) or re.search(FORBIDDEN["lanes as a column"], load()[name].text) for name in plain
    )
    assert len(plain) > 20


# Splitting


def said(
    *statements: Statement, lanes: Sequence[int] = (7,), answer: Callable[[str, Any], list[Row]] = lambda *_: []
) -> tuple[list[Statement], list[list[Row]]]:
    """What these become, and the answers that come back."""

    def script() -> Script[list[list[Row]]]:
        return (yield statements)

    running = split_by_lane(script(), lanes)
    flat = next(running)
    try:
        running.send([answer(*each) for each in flat])
    except StopIteration as stop:
        return list(flat), stop.value
    raise AssertionError("one round trip is one")


def test_one_for_each_lane_in_order() -> None:
    columns = ([5, 2, 5], ["", "", "t"], ["c", "a", "b"])
    flat, answers = said(("lock_pools", columns), answer=lambda _, given: [(given[0], id) for id in given[2]])
    assert flat == [("lock_pools", [2, [""], ["a"]]), ("lock_pools", [5, ["", "t"], ["c", "b"]])]
    assert answers == [[(2, "a"), (5, "c"), (5, "b")]]


def test_rows_are_counted_lane_by_lane() -> None:
    gone = ([1, 2, 1], ["", "", ""], ["a", "b", "c"], [4, 4, 4], 3, True)
    flat, answers = said(("delete_pools", gone), answer=lambda _, given: [(1, given[-2])])
    assert [parameters[-2:] for _, parameters in flat] == [[2, True], [1, True]]
    assert answers == [[(1, 3)]]


@pytest.mark.parametrize(("strict", "name"), [(True, "insert_legs"), (False, "insert_legs_quiet")])
def test_an_insert_gives_its_rows_instead_of_counting_them(strict: bool, name: str) -> None:
    born = ([1, 2], ["", ""], ["a", "b"], [9, 9], ["00" * 16] * 2, [1, 1], [0, 0], [0, 0], [None, None], 2, strict)
    flat, answers = said(("insert_legs", born), answer=lambda *_: [(1,)])
    assert [each for each, _ in flat] == [name] * 2
    assert answers == [[(1, 2)]]


def test_what_names_no_key_is_said_to_every_lane_of_the_transaction() -> None:
    flat, _ = said(("prune_holds", (10, 1_000)), lanes=(3, 4))
    assert flat == [("prune_holds", [3, 10, 1_000]), ("prune_holds", [4, 10, 1_000])]


def test_nothing_is_asked_about_nothing_but_the_time() -> None:
    flat, answers = said(("find_pools", ([], [], [])), ("load_due", ([], [], [], None, 5)), ("begin", ()))
    assert [name for name, _ in flat] == ["load_due", "begin"]
    assert flat[0][1][0] == 7
    assert len(answers) == 3


def test_who_writes_enters_each_lane_first() -> None:
    """Once, before anything else is said there: also lanes that are only found on the way."""

    def script() -> Script[list[list[Row]]]:
        first = yield (("begin", ()), ("set_lock_timeout", ("100",)), ("lock_pools", ([3, 5], ["", ""], ["a", "b"])))
        second = yield (("lock_pools", ([5, 9], ["", ""], ["b", "c"])), ("commit", ()))
        return [*first, *second]

    running = split_by_lane(script(), (3, 5), writing=True)
    flat = next(running)
    assert [(name, *parameters[:1]) for name, parameters in flat] == [
        ("begin",), ("propagate_settings",), ("set_lock_timeout_to_100",),
        ("pin_lane", 3), ("lock_pools", 3), ("pin_lane", 5), ("lock_pools", 5),
    ]  # fmt: skip
    flat = running.send([[(name, *parameters[:1])] if name == "lock_pools" else [] for name, parameters in flat])
    assert [(name, *parameters[:1]) for name, parameters in flat] == [
        ("lock_pools", 5), ("pin_lane", 9), ("lock_pools", 9), ("commit",),
    ]  # fmt: skip
    with pytest.raises(StopIteration) as ended:
        running.send([[("x",)], [], [("y",)], []])
    assert ended.value.value == [[], [], [("lock_pools", 3), ("lock_pools", 5)], [("x",), ("y",)], []]
