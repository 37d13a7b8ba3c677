"""The memory engine: the executable reference, in plain dicts. Nothing survives the process."""

from .engine import MemoryEngine

__all__ = ["MemoryEngine"]
