"""The two sides of every comparison, behind the same few methods."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import holdkit
from holdkit.engines.clocks import Clock
from holdkit.engines.port import Engine
from holdkit.kernel import opening

from .by_hand import AsyncByHand, ByHand
from .callers import AsyncStore, Store

Side: TypeAlias = Literal["by_hand", "ours"]
SIDES: Final[tuple[Side, Side]] = ("by_hand", "ours")


def url(path: Path) -> str:
    """How Holdkit names a database file."""
    return f"sqlite:///{path.resolve()}"


def open_sync(side: Side, path: Path) -> Store:
    """A store for threads."""
    return ByHand(path) if side == "by_hand" else holdkit.connect(url(path))


async def open_async(side: Side, path: Path) -> AsyncStore:
    """A store for tasks."""
    return AsyncByHand(path) if side == "by_hand" else await holdkit.connect_async(url(path))


def open_engine(path: Path, clock: Clock | None = None) -> Engine:
    """Our engine with no kernel around it."""
    return opening.open_engine(url(path), clock=clock)
