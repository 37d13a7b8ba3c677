"""The statements of this engine, by name, with the types of their parameters. No SQL is written anywhere else in this package.

The `.sql` files write `holdkit.` before every table; loading them puts another schema's name there. From one block come several
statements: one that ends in `skip locked` has a second form, ``<name>_waiting``, without it; one that declares a cursor of its own
name has ``<name>_next``, which fetches rows, and ``<name>_end``, which closes the cursor.

Rows are passed as one array per column. A lone caller's batch has one row in each, and then takes the *one-row form* of a statement,
which has plain parameters instead: the server plans and runs that in little more than half the time, and there is less to encode. An
insert in that form does not count its row, but raises on a duplicate key: both are `ID_TAKEN`. It is made from the same text.

Where the tables are distributed by lane, every statement must name one lane, so that it stays on one shard. That form is made
from the same text, so that nothing is written twice. Keys that come as columns lose the column `lane`, which becomes one parameter
for the whole statement; every table is bound to that parameter directly; an insert selects from its lane's head row, and raises
on a duplicate key instead of counting its rows, because there an insert cannot be part of another statement. Text in
``/* distributed: … */`` belongs to that form only. `split_by_lane` runs a script whose statements name several lanes: each becomes
one statement per lane, in order of lane, in the same round trip. The scripts need not know, and locks are taken in the usual
order, in which the lane comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from ...core.entries import Action
from ...errors import EngineError
from ..named_sql import load_blocks, load_migrations
from .driver import Row, Script, Statement
from .encoding import OneRow, Sql
from .rows import PARTS

T = TypeVar("T")

FETCHED: Final = 500
"""Rows that a cursor returns at a time."""
SCHEMA: Final = "holdkit"
"""The default schema, and the one that the `.sql` files name."""

_PARAMETER: Final = re.compile(r"\$(\d+)(?:::(\w+(?:\[\])?))?")
_DISTRIBUTED: Final = re.compile(r"\s*/\* distributed: (.*?) \*/", re.DOTALL)
_QUALIFIED: Final = re.compile(rf"\b{SCHEMA}\.")
_CONTROL: Final = ("begin", "commit", "rollback")
_PARTS: Final = {**PARTS, "answering": ", ".join(f"'{action.value}'" for action in Action if action.answers)}
"""Parts of statements that list the columns of holds, or actions."""


@cache
def _texts() -> MappingProxyType[str, str]:
    """Return every named statement as it is written."""
    found = {name: name for name in _CONTROL}
    for name, text in load_blocks(__package__, parts=_PARTS).items():
        found[name] = text
        if text.endswith("skip locked"):
            found[f"{name}_waiting"] = text.removesuffix("skip locked").rstrip()
        if text.startswith(f"declare {name} "):
            found[f"{name}_next"], found[f"{name}_end"] = f"fetch {FETCHED} from {name}", f"close {name}"
    return MappingProxyType(found)


@cache
def load(schema: str = SCHEMA) -> MappingProxyType[str, Sql]:
    """Return every statement by name, for tables on one server."""
    return MappingProxyType(
        {
            name: _with_one_row(_sql(name, in_schema(_DISTRIBUTED.sub("", text), schema)))
            for name, text in _texts().items()
        }
    )


def in_schema(text: str, schema: str) -> str:
    """Return our text with its tables in this schema: the one place where the name enters SQL."""
    return text if schema == SCHEMA else _QUALIFIED.sub(f"{identifier(schema)}.", text)


def identifier(schema: str) -> str:
    """Return a schema's name in SQL: quoted, because it may be a keyword. (`check_schema_name` has excluded quotes.)"""
    return schema if schema == SCHEMA else f'"{schema}"'


def _sql(name: str, text: str) -> Sql:
    """Return a statement with the type that each parameter is cast to."""
    types: dict[int, str] = {}
    for number, cast in _PARAMETER.findall(text):
        types[int(number)] = types.get(int(number)) or cast
    if sorted(types) != list(range(1, len(types) + 1)) or not all(types.values()):
        raise ValueError(f"every parameter of {name} is numbered without a gap and cast where it is first used")
    return Sql(name, text, tuple(types[number] for number in sorted(types)))


def migrations() -> list[tuple[int, str, str]]:
    """Return number, name and text of every migration, in order."""
    return load_migrations(__package__)


class SchemaMigrated(EngineError):
    """While this process was running, the schema was migrated to a version that it does not know."""


def refuse_newer(version: int) -> None:
    """Raise if the schema is newer than this release. Called when the setting `limits_version`, which every transaction reads, is not the
    known one: so a migration that older processes must not survive adds 1,000,000,000 to that setting."""
    newest = migrations()[-1][0]
    if version > newest:
        raise SchemaMigrated(
            f"the database was migrated to schema version {version} while this process was running, which knows {newest}: restart it "
            f"with the release that migrated it, or with a newer one"
        )


# The form for one row

_ARRAY: Final = re.compile(r"\$\d+::\w+\[\]")
_ROWS: Final = re.compile(r"unnest\(((?:\$\d+::\w+\[\](?:,\s*)?)+)\)(\s+\w+\([^()]*\))")
_ONE_INSERT: Final = re.compile(
    r"with \w+ as \(\n\s*(insert .*)\n\s*on conflict do nothing\n\s*returning 1\n\)\nselect 1 / .*", re.DOTALL
)


def _with_one_row(sql: Sql) -> Sql:
    """Return the statement with its one-row form, if rows are passed to it only as columns."""
    found = [columns for columns, _ in _ROWS.findall(sql.text)]
    if not found or len(_ARRAY.findall(sql.text)) != sum([columns.count("[]") for columns in found]):
        return sql
    text = _ROWS.sub(lambda match: f"(select {match[1].replace('[]', '')}){match[2]}", sql.text)
    insert = _ONE_INSERT.fullmatch(text)
    form = _sql(f"{sql.name}_one", text if insert is None else insert[1])
    firsts = tuple(int(_NUMBER.findall(columns)[0]) - 1 for columns in found)
    return structs.replace(sql, one=OneRow(form, firsts, "select 1 / (" in sql.text))


# The form for one lane

_KEYS: Final = re.compile(r"unnest\(\$(\d+)::int\[\], ([^()]*)\)\s+(\w+)\(lane, ([^()]*)\)")
_ANY: Final = re.compile(r"= any\(\$(\d+)(?:::int\[\])?\)")
_SAME_LANE: Final = re.compile(r"\b(\w+)\.lane = \w+\.lane\b")
_ONE_LANE: Final = re.compile(r"\.lane = (\$\d+::int\b)")
_NUMBER: Final = re.compile(r"\$(\d+)")
_COUNT: Final = re.compile(r"count\(\*\) = \$(\d+)::int")
_COUNTED_INSERT: Final = re.compile(r"with \w+ as \(\n\s*(insert .*)\n\)\nselect 1 / \(count.*", re.DOTALL)
_AFTER_FROM: Final = re.compile(r"\n\s*(?:order by|on conflict|returning)\b|$")
_ON_CONFLICT: Final = re.compile(r"\s+on conflict do nothing\b")

ONE_SERVER_ONLY: Final = frozenset(
    {
        "set_lock_timeout",
        "place_holds",
        "insert_operations",
        "lock_lines",
        "lock_lines_waiting",
        "guard_lock",
        "guard_places",
        "guard_lock_pools",
        "guard_moves",
        "guard_call_place",
        "guard_call_end",
        "lock_heads",
        "write_journal",
        "write_journal_with_unnumbered",
        "make_room",
        "read_last_entries",
        "find_due_holds",
        "find_retiring",
        "find_rested_pools",
        "find_closed_pools",
        "find_fed_lines",
        # repair and import, which are refused where the tables are distributed
        "lock_tables",
        "latest_stamp",
        "drop_floors",
        "drop_pools",
        "drop_holds",
        "drop_legs",
        "drop_tallies",
        "drop_records",
        "rescan_pools",
        "is_used",
        # statistics, which are not kept there
        "load_rollup_position",
        "insert_rollup_position",
        "move_rollup_position",
        "store_rollups",
        "load_rollups",
        "load_rollup_interval",
        "prune_rollups",
        "drop_rollups",
        # archiving, which is refused there too
        "first_referred",
        "take_archive",
        "release_archive",
        "lock_archived",
        "put_archived",
        "delete_entries",
        "load_baseline",
        "find_stored_holds",
        "find_told_holds",
        "put_baseline",
        "delete_baseline",
        "page_baseline",
        "measure_baseline",
        "load_archived_holds",
        "read_archivable",
    }
)
"""Statements that distributed tables cannot run; `sql/distributed` has their replacements."""
_WITH_CLOCK: Final = frozenset({"load_due", "load_due_of_holds"})
"""Also sent when they name no pool, because they read the clock."""


class LaneForm(Struct, frozen=True):
    """Says where each parameter of a statement's one-lane form comes from."""

    parameters: tuple[int | None, ...]
    """Indexes into the parameters of the form for several lanes; None: the lane."""
    keys: tuple[tuple[int, tuple[int, ...]], ...]
    """Columns of lanes, each with the columns that belong to it. Empty: the statement goes to every lane."""
    count: int | None
    """The index of the expected number of rows."""
    inserts: bool
    """It returns its rows instead of counting them, and has a second form, `<name>_quiet`, that skips a duplicate key."""


@cache
def load_for_one_lane(schema: str = SCHEMA) -> tuple[MappingProxyType[str, Sql], MappingProxyType[str, LaneForm]]:
    """Return every statement by name, in its one-lane form if it has one; and those forms."""
    found, forms = dict[str, Sql](), dict[str, LaneForm]()
    written = {name: text for name, text in _texts().items() if name not in ONE_SERVER_ONLY}
    for name, text in {**written, **load_blocks(__package__, "sql/distributed", _PARTS)}.items():
        if _KEYS.search(text) or _ANY.search(text) or _DISTRIBUTED.search(text):
            text, form = _for_one_lane(text)
            forms[name] = form
            if form.inserts and form.count is not None:
                found[f"{name}_quiet"] = _sql(name, in_schema(text, schema))
                text = _ON_CONFLICT.sub("", text)
        elif lane := _ONE_LANE.search(text):
            text = _SAME_LANE.sub(rf"\1.lane = {lane[1]}", text)
        found[name] = _sql(name, in_schema(text, schema))
    return MappingProxyType(found), MappingProxyType(forms)


def _for_one_lane(text: str) -> tuple[str, LaneForm]:
    counted = _COUNT.search(text)
    insert = _COUNTED_INSERT.fullmatch(text)
    if insert is not None:
        text = insert[1]
    inserts = "insert into" in text
    text = _DISTRIBUTED.sub(r" \1", text)
    keys = [(int(lane) - 1, tuple(int(n) - 1 for n in _NUMBER.findall(rest))) for lane, rest, *_ in _KEYS.findall(text)]
    lanes = {lane for lane, _ in keys} | {int(n) - 1 for n in _ANY.findall(text)}
    text = _SAME_LANE.sub(r"\1.lane = $lane", _ANY.sub("= $lane", text))
    aliases = {alias for _, _, alias, _ in _KEYS.findall(text)}
    text = _KEYS.sub(("holdkit.heads own cross join " if inserts else "") + r"unnest(\2) \3(\4)", text)
    if inserts:
        text = _AFTER_FROM.sub(r"\n    where own.lane = $lane\g<0>", text, count=1)
    for alias in sorted(aliases):
        text = re.sub(rf"\b{alias}\.lane\b", "own.lane" if inserts else "$lane", text)
    used = sorted({int(n) - 1 for n in _NUMBER.findall(text)} - lanes)
    text = _NUMBER.sub(lambda n: f"${used.index(int(n[1]) - 1) + 2}", text).replace("$lane", "$1::int")
    count = int(counted[1]) - 1 if counted else None
    return text, LaneForm((None, *used), tuple(keys) or tuple((lane, ()) for lane in sorted(lanes)), count, inserts)


def with_lock_timeout(milliseconds: int) -> tuple[str, Sql]:
    """Return the name and text of a statement that sets this lock timeout: SET takes no parameters."""
    text = load_for_one_lane()[0]["set_lock_timeout_to"].text
    name = f"set_lock_timeout_to_{milliseconds}"
    return name, Sql(name, text.replace("= 1", f"= {milliseconds}"))


# Splitting


def split_by_lane(script: Script[T], lanes: Sequence[int], *, writing: bool = False) -> Script[T]:
    """Run a script lane by lane. A statement without keys goes to all of `lanes`. With `writing`, the first statement in each lane is
    `pin_lane`."""
    _, forms = load_for_one_lane()
    pinned: set[int] = set()
    try:
        statements = next(script)
        while True:
            flat: list[Statement] = []
            indexes: list[list[int]] = []
            for statement in statements:
                form = forms.get(statement[0])
                indexes.append([])
                for one in _split(statement, form, lanes):
                    if writing and form is not None and one[1][0] not in pinned:
                        pinned.add(one[1][0])
                        flat.append(("pin_lane", (one[1][0],)))
                    indexes[-1].append(len(flat))
                    flat.append(one)
            answers = (yield tuple(flat)) if flat else []
            merged = [[answers[index] for index in its] for its in indexes]
            statements = script.send(
                [_merge(forms.get(name), rows) for (name, _), rows in zip(statements, merged, strict=True)]
            )
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


def _split(statement: Statement, form: LaneForm | None, lanes: Sequence[int]) -> Iterator[Statement]:
    name, parameters = statement
    if name == "set_lock_timeout":
        yield "propagate_settings", ()
        yield with_lock_timeout(int(parameters[0]))[0], ()
        return
    if form is None:
        yield statement
        return
    if form.inserts and form.count is not None and not parameters[-1]:
        name += "_quiet"
    if form.keys:
        lanes = sorted({lane for column, _ in form.keys for lane in parameters[column]}) or (
            lanes[:1] if name in _WITH_CLOCK else ()
        )
    for lane in lanes:
        theirs = parameters if len(lanes) == 1 else _of_lane(parameters, form, lane)
        yield name, [lane if index is None else theirs[index] for index in form.parameters]


def _of_lane(parameters: Sequence[Any], form: LaneForm, lane: int) -> list[Any]:
    """Return the parameters with the rows of this lane only."""
    theirs = list(parameters)
    for lanes, columns in form.keys:
        rows = [row for row, its in enumerate(parameters[lanes]) if its == lane]
        for column in columns:
            theirs[column] = [parameters[column][row] for row in rows]
        if form.count is not None:
            theirs[form.count] = len(rows)
    return theirs


def _merge(form: LaneForm | None, answers: list[list[Row]]) -> list[Row]:
    """Merge the answers of all lanes into one."""
    if form is None or form.count is None:
        return [row for rows in answers for row in rows]
    counts = [len(rows) if form.inserts else next(count for _, count in rows) for rows in answers]
    return [(1, sum(counts))]
