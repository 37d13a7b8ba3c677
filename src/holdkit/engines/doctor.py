"""What `holdkit doctor` finds: the form of a finding, and the checks of files and disks that engines share."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing a health check looked at."""

    name: str
    level: Literal["ok", "warn", "fail"]
    says: str
    advice: str = ""
    """What to do, where something is wrong."""


SCARCE = 256 << 20
"""Bytes left on a disk under which a person should look."""
NONE = 16 << 20
"""Bytes left under which writes are about to fail."""


def examine_path(path: Path) -> Iterator[Finding]:
    """Who may read it, and how much room there is."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield Finding("file mode", "warn", f"{path} is open to others ({mode:o})", f"chmod go= {path}")
    else:
        yield Finding("file mode", "ok", f"{mode:o}: for its owner only")
    free = shutil.disk_usage(path).free
    level, advice = ("ok", "") if free >= SCARCE else ("warn", "make room before writes fail")
    yield Finding("disk space", "fail" if free < NONE else level, f"{free >> 20} MiB free", advice)  # type: ignore[arg-type]
