"""All that differs between the colours, under names that differ by their prefix alone. The two never share a queue."""

from __future__ import annotations

from .leading import Submitter
from .pumping import AsyncSubmitter
from .turnstile import Undo

__all__ = ["AsyncSubmitter", "Submitter", "Undo"]
