"""Is this directory a log? Said before anything in it is trusted or changed."""

from __future__ import annotations

import re
from typing import Final

from ...errors import EngineError

OURS: Final = re.compile(r"\d{8}\.log(\.new)?|\d{16}\.snapshot(\.new)?")


def check_names(where: str, names: list[str]) -> bool:
    """Whether a log is here; raises if something else is, or if files are missing."""
    foreign = [name for name in names if OURS.fullmatch(name) is None]
    if foreign:
        raise EngineError(f"{where} holds {foreign[0]!r}, which is not ours: give the log a directory of its own")
    begun = any(name.endswith(".log") for name in names)
    if not begun and any(name.endswith(".snapshot") for name in names):
        raise EngineError(f"{where} has a snapshot but no segments: files are missing; restore a copy")
    return begun


def mixed(where: str) -> EngineError:
    """A snapshot that is not of this log, or of a longer one."""
    return EngineError(
        f"{where} has a snapshot that does not belong to its segments: files were mixed, or are missing. "
        "Nothing was changed; restore a copy"
    )
