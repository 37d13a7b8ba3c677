"""What `hk.items` tells of one item, and which of several free ones lie together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..core.model import Pool
from .keys import ITEMS


class Item(Struct, frozen=True):
    """One item as it was when it was looked at."""

    id: str
    state: Literal["available", "held", "spent", "missing"]
    hold: str | None = None
    """The id of the hold that has it, or spent it; never its token."""


def item_of(id: str, pool: Pool | None) -> Item:
    """What a pool says of its item."""
    if pool is None:
        return Item(id, "missing")
    if pool.held:
        return Item(id, "held", pool.holder)
    return Item(id, "spent", pool.holder) if pool.consumed else Item(id, "available")


def item_name(pool: str) -> str:
    """The item behind a pool."""
    return pool.removeprefix(ITEMS)


def best_of(items: Sequence[Item], count: int, *, adjacent: bool, most: int = 1) -> list[list[str]]:
    """The first choices of so many that are available, best first, none of which has an item of another: side by side in the
    order given, or anywhere. At most `most` of them."""
    choices: list[list[str]] = []
    chosen: list[str] = []
    for item in items:
        if item.state == "available":
            chosen.append(item.id)
            if len(chosen) == count:
                choices.append(chosen)
                chosen = []
                if len(choices) == most:
                    break
        elif adjacent:
            chosen = []
    return choices
