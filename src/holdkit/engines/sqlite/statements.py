"""The statements of this engine, by name. No SQL is written anywhere else in this package."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from ..named_sql import load_blocks, load_migrations

TOGETHER = 32
"""Rows of one insert. sqlite3 gives up the interpreter's lock around every step: once per row is once too often."""


@cache
def load() -> MappingProxyType[str, str]:
    """Every named statement of this engine."""
    return MappingProxyType(load_blocks(__package__))


@cache
def load_together() -> MappingProxyType[str, str]:
    """The statements that write one row of values, for many rows."""
    found = {}
    for name, text in load().items():
        head, values, row = text.rpartition("values ")
        if values:
            found[name] = head + values + ", ".join([row] * TOGETHER)
    return MappingProxyType(found)


def migrations() -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    return load_migrations(__package__)
