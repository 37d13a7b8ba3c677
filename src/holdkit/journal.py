"""Every change, in order: the entries of `hk.journal`, and what follows, seals and reads them."""

from __future__ import annotations

from .core.entries import Action
from .kernel.follower_state import CursorFile, CursorStore
from .kernel.journal import ALL
from .kernel.journal_archive import JournalArchive
from .kernel.results import JournalEntry, Position, reconstruct
from .kernel.seals import Sealing

__all__ = [
    "ALL",
    "Action",
    "CursorFile",
    "CursorStore",
    "JournalArchive",
    "JournalEntry",
    "Position",
    "Sealing",
    "reconstruct",
]
