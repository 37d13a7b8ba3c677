"""The statements in the form that names one lane: for tables that are distributed by lane, where each is one shard's affair.

Made from the same text, so that nothing is written twice. Keys that come as columns lose the column `lane`, which becomes one
number for the whole statement; every table is bound to that number itself, not through another table; an insert selects from
its lane's head, which is where it belongs, and raises by its key instead of counting its rows: there, an insert cannot be a
part of another statement. Only texts are made here; `splitting` says which lanes they are said to.
"""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ..named_sql import load_blocks
from .statements import APART, SCHEMA, Sql, in_schema, sql_of, texts

_KEYS: Final = re.compile(r"unnest\(\$(\d+)::int\[\], ([^()]*)\)\s+(\w+)\(lane, ([^()]*)\)")
_ANY: Final = re.compile(r"= any\(\$(\d+)(?:::int\[\])?\)")
_JOINED: Final = re.compile(r"\b(\w+)\.lane = \w+\.lane\b")
_OF_ONE: Final = re.compile(r"\.lane = (\$\d+::int\b)")
_NUMBER: Final = re.compile(r"\$(\d+)")
_COUNT: Final = re.compile(r"count\(\*\) = \$(\d+)::int")
_COUNTED_INSERT: Final = re.compile(r"with \w+ as \(\n\s*(insert .*)\n\)\nselect 1 / \(count.*", re.DOTALL)
_BEHIND_FROM: Final = re.compile(r"\n\s*(?:order by|on conflict|returning)\b|$")
_QUIETLY: Final = re.compile(r"\s+on conflict do nothing\b")

SPANNING: Final = frozenset(
    {
        "set_patience",
        "place_holds",
        "lock_heads",
        "write_journal",
        "write_journal_behind",
        "make_room",
        "read_ends",
        "find_sweep",
        "find_retiring",
        "find_rested_pools",
        "find_closed_pools",
        # repair and import, which are refused where the tables are distributed
        "mend_lock",
        "mend_stamp",
        "mend_floor",
        "drop_pools",
        "drop_holds",
        "drop_legs",
        "drop_records",
        "rescan_pools",
        "is_used",
    }
)
"""Those that no distributed table can do: others are said there (sql/apart)."""


class OneLane(Struct, frozen=True):
    """Where the parameters of a statement's one-lane form come from."""

    parameters: tuple[int | None, ...]
    """Places among the parameters of the form for several lanes; None: the lane."""
    keys: tuple[tuple[int, tuple[int, ...]], ...]
    """Columns of lanes, each with the columns beside it. None: it is said to every lane."""
    count: int | None
    """Where the number of rows is."""
    inserts: bool
    """Whether it gives its rows instead of counting them, and has a second form, `<name>_quiet`, that passes over a key
    that is taken."""


@cache
def load_one_lane(schema: str = SCHEMA) -> tuple[MappingProxyType[str, Sql], MappingProxyType[str, OneLane]]:
    """Every statement by name, those that can be in the form for one lane; and what is to be known of these."""
    found, forms = dict[str, Sql](), dict[str, OneLane]()
    written = {name: text for name, text in texts().items() if name not in SPANNING}
    for name, text in {**written, **load_blocks(__package__, "sql/apart")}.items():
        if _KEYS.search(text) or _ANY.search(text) or APART.search(text):
            text, form = _one_lane(text)
            forms[name] = form
            if form.inserts and form.count is not None:
                found[f"{name}_quiet"] = sql_of(name, in_schema(text, schema))
                text = _QUIETLY.sub("", text)
        elif lane := _OF_ONE.search(text):
            text = _JOINED.sub(rf"\1.lane = {lane[1]}", text)
        found[name] = sql_of(name, in_schema(text, schema))
    return MappingProxyType(found), MappingProxyType(forms)


def _one_lane(text: str) -> tuple[str, OneLane]:
    """The form for one lane, and where its parameters come from."""
    counted = _COUNT.search(text)
    insert = _COUNTED_INSERT.fullmatch(text)
    if insert is not None:
        text = insert[1]
    inserts = "insert into" in text
    text = APART.sub(r" \1", text)
    keys = [(int(lane) - 1, tuple(int(n) - 1 for n in _NUMBER.findall(rest))) for lane, rest, *_ in _KEYS.findall(text)]
    lanes = {lane for lane, _ in keys} | {int(n) - 1 for n in _ANY.findall(text)}
    text = _JOINED.sub(r"\1.lane = $lane", _ANY.sub("= $lane", text))
    aliases = {alias for _, _, alias, _ in _KEYS.findall(text)}
    text = _KEYS.sub(("holdkit.heads own cross join " if inserts else "") + r"unnest(\2) \3(\4)", text)
    if inserts:
        text = _BEHIND_FROM.sub(r"\n    where own.lane = $lane\g<0>", text, count=1)
    for alias in sorted(aliases):
        text = re.sub(rf"\b{alias}\.lane\b", "own.lane" if inserts else "$lane", text)
    used = sorted({int(n) - 1 for n in _NUMBER.findall(text)} - lanes)
    text = _NUMBER.sub(lambda n: f"${used.index(int(n[1]) - 1) + 2}", text).replace("$lane", "$1::int")
    places = tuple(keys) or tuple((lane, ()) for lane in sorted(lanes))
    count = int(counted[1]) - 1 if counted else None
    return text, OneLane((None, *used), places, count, inserts)


def with_patience(milliseconds: int) -> tuple[str, Sql]:
    """The name and text of waiting for so long: a setting has no parameters."""
    text = load_one_lane()[0]["wait_up_to"].text
    return f"wait_up_to_{milliseconds}", Sql(text.replace("= 1", f"= {milliseconds}"))
