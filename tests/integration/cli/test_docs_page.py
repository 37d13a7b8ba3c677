"""docs/cli.md is about the commands there are: each of them, each exit code, each document."""

from __future__ import annotations

import re

import click
from msgspec import Struct

from holdkit.cli import documents, output
from holdkit.cli.root import root
from holdkit.wire import (
    budgets,
    catalog,
    claims,
    history,
    holds,
    items,
    journal,
    keys,
    pools,
    sagas,
    search,
    system,
    tenants,
    webhooks,
)
from tests.acceptance.docs.pages import ROOT, table_rows

PAGE = ROOT / "docs/cli.md"
SHARED = (
    budgets, catalog, claims, history, holds, items, journal, keys, pools, sagas, search, system, tenants, webhooks
)  # fmt: skip


def leaves(command: click.Command, path: str = "holdkit") -> list[str]:
    if not isinstance(command, click.Group):
        return [path]
    return [leaf for name, inner in command.commands.items() for leaf in leaves(inner, f"{path} {name}")]


def test_every_command_is_listed_and_no_other() -> None:
    listed = [row[0].strip("`") for row in table_rows(PAGE) if row[0].startswith("`holdkit ")]
    assert sorted(listed) == sorted(leaves(root))


def test_every_exit_code_is_listed() -> None:
    codes = {value for name, value in vars(output).items() if name.isupper() and isinstance(value, int)}
    listed = {int(code) for row in table_rows(PAGE) for code in re.findall(r"\d+", row[0]) if row[0][0].isdigit()}
    assert codes <= listed


def test_every_document_is_named() -> None:
    own = {name for name, kind in vars(documents).items() if name.endswith("Document") and issubclass(kind, Struct)}
    shared = {name for module in SHARED for name, kind in vars(module).items() if isinstance(kind, type)}
    printed = " ".join(row[2] for row in table_rows(PAGE) if row[0].startswith("`holdkit "))
    named = set(re.findall(r"`([A-Z]\w+)`", printed))
    assert own - {"ErrorDocument"} == {name for name in named if name.endswith("Document")}
    assert named - own <= shared


def test_every_command_takes_json() -> None:
    assert len(leaves(root)) > 30
    for leaf in leaves(root):
        command: click.Command = root
        for name in leaf.split()[1:]:
            assert isinstance(command, click.Group)
            command = command.commands[name]
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options or leaf == "holdkit completion"
