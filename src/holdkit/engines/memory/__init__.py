"""The memory engine: state and journal live in this process, and end with it."""

from __future__ import annotations

from .batches import BOUNDED
from .engine import MemoryEngine

__all__ = ["BOUNDED", "MemoryEngine"]
