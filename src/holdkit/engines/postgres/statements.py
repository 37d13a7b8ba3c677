"""The statements of this engine, by name, with the types of their parameters. No SQL is written anywhere else here.

The texts say `holdkit.` before every table; another schema's name is put there once, when they are loaded.
A statement that takes locks has a second form, ``<name>_waiting``: the same without `skip locked`. One that declares a cursor
of its own name has ``<name>_next``, which fetches rows, and ``<name>_end``, which closes it. What is said only where the tables
are distributed by lane, ``/* apart: … */``, is left out here.
"""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ..named_sql import load_blocks, load_migrations

_PARAMETER = re.compile(r"\$(\d+)(?:::(\w+(?:\[\])?))?")
APART = re.compile(r"\s*/\* apart: (.*?) \*/", re.DOTALL)
_CONTROL = ("begin", "commit", "rollback")
FETCHED = 500
"""Rows that a cursor gives at a time."""
SCHEMA: Final = "holdkit"
"""Where the tables are unless somebody says otherwise, and as the texts have it."""
_QUALIFIED: Final = re.compile(rf"\b{SCHEMA}\.")


class Sql(Struct, frozen=True):
    """One statement: its text, and what each parameter is cast to."""

    text: str
    types: tuple[str, ...] = ()


@cache
def texts() -> MappingProxyType[str, str]:
    """Every named statement as it is written."""
    found = {name: name for name in _CONTROL}
    for name, text in load_blocks(__package__).items():
        found[name] = text
        if text.endswith("skip locked"):
            found[f"{name}_waiting"] = text.removesuffix("skip locked").rstrip()
        if text.startswith(f"declare {name} "):
            found[f"{name}_next"], found[f"{name}_end"] = f"fetch {FETCHED} from {name}", f"close {name}"
    return MappingProxyType(found)


@cache
def load(schema: str = SCHEMA) -> MappingProxyType[str, Sql]:
    """Every named statement of this engine, for tables on one server."""
    return MappingProxyType(
        {name: sql_of(name, in_schema(APART.sub("", text), schema)) for name, text in texts().items()}
    )


def in_schema(text: str, schema: str) -> str:
    """A text of ours with its tables in this schema: the one place where its name enters SQL."""
    return text if schema == SCHEMA else _QUALIFIED.sub(f"{identifier(schema)}.", text)


def identifier(schema: str) -> str:
    """A schema's name as SQL has it: quoted, for it may be a word of SQL. (`opening` has checked that it holds no quote.)"""
    return schema if schema == SCHEMA else f'"{schema}"'


def sql_of(name: str, text: str) -> Sql:
    """A statement with the types of its parameters."""
    return Sql(text, types_of(name, text))


def types_of(name: str, text: str) -> tuple[str, ...]:
    """What each parameter is cast to."""
    types: dict[int, str] = {}
    for number, cast in _PARAMETER.findall(text):
        types[int(number)] = types.get(int(number)) or cast
    if sorted(types) != list(range(1, len(types) + 1)) or not all(types.values()):
        raise ValueError(f"every parameter of {name} is numbered without a gap and cast where it is first used")
    return tuple(types[number] for number in sorted(types))


def migrations() -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    return load_migrations(__package__)
