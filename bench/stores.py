"""The two variants of every comparison, behind the same methods."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import holdkit
from holdkit.engines.clocks import Clock
from holdkit.engines.port import Engine
from holdkit.kernel import opening

from .by_hand import AsyncByHand, ByHand
from .callers import AsyncStore, Store

Variant: TypeAlias = Literal["by_hand", "ours"]
VARIANTS: Final[tuple[Variant, Variant]] = ("by_hand", "ours")


def url(path: Path) -> str:
    """The URL of a database file."""
    return f"sqlite:///{path.resolve()}"


def open_sync(variant: Variant, path: Path) -> Store:
    """A store for threads."""
    return ByHand(path) if variant == "by_hand" else holdkit.connect(url(path))


async def open_async(variant: Variant, path: Path) -> AsyncStore:
    """A store for tasks."""
    return AsyncByHand(path) if variant == "by_hand" else await holdkit.connect_async(url(path))


def open_engine(path: Path, clock: Clock | None = None) -> Engine:
    """Holdkit's engine without a kernel."""
    return opening.open_engine(url(path), clock=clock)
