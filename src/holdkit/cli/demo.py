"""``holdkit demo``: a flash sale to watch."""

from __future__ import annotations

import click

from .words import as_json


@click.command()
@click.option("--seconds", type=click.FloatRange(1, 600), default=14, show_default=True, help="length of the sale")
@click.option("--seed", type=int, default=1, show_default=True, help="of the buyers' tempers")
@click.option("--plain", is_flag=True, help="lines of text instead of a live view")
@as_json
def demo(seconds: float, seed: int, plain: bool, in_json: bool) -> int:
    """A flash sale on one SQLite file: many processes, one of them killed, nothing oversold.

    \b
    Example:
      holdkit demo --seconds 5 --plain
    """
    from ..demo.__main__ import main as perform

    options = [*(["--plain"] if plain else []), *(["--json"] if in_json else [])]
    return perform(["--seconds", str(seconds), "--seed", str(seed), *options])
