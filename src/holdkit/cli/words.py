"""How a command speaks: lines for people, one JSON document for programs, four exit codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
import msgspec

FINE: Final = 0
FOUND: Final = 1
USAGE: Final = 2
FAILED: Final = 3

as_json: Callable[[Any], Any] = click.option("--json", "in_json", is_flag=True, help="one JSON document, for programs")


def say(document: dict[str, Any], in_json: bool, *lines: str) -> None:
    """The same in either form."""
    if in_json:
        click.echo(msgspec.json.encode(document))
    else:
        for line in lines:
            click.echo(line)
