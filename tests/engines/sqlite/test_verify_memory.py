"""Verify and repair need little memory, however long the journal: what they fold is on disk meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from bench.journals import fill_sqlite
from bench.verifying import STATUS, measure

ENTRIES: Final = 100_000
BOUND: Final = 80 * 2**20
"""Bytes over the idle process. Everything in memory took 175 MB."""


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not tell a process its memory")
def test_a_long_journal_is_verified_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    fill_sqlite(path, ENTRIES)
    ran = measure(f"sqlite:///{path}")
    assert ran.differences == 0
    assert ran.over < BOUND, f"{ran.over / 2**20:.0f} MiB for {ENTRIES} entries"
