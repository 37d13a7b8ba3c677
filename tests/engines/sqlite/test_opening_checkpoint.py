"""Opening copies what a dead process left in the WAL into the database file: the page cache is no witness."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.sqlite import open_engine

DIES = """
import os, sys, holdkit
hk = holdkit.connect(f"sqlite:///{sys.argv[1]}")
hk.create_pool("p", total=3)
os._exit(0)
"""


@pytest.mark.parametrize("company", [False, True], ids=["alone", "beside another connection"])
def test_opening_checkpoints_a_wal_that_was_left_behind(company: bool, tmp_path: Path) -> None:
    file = tmp_path / "holds.db"
    subprocess.run([sys.executable, "-c", DIES, str(file)], check=True)
    assert (tmp_path / "holds.db-wal").stat().st_size > 0
    with closing(sqlite3.connect(file)) as other:
        if company:  # SQLite itself copies the WAL only when the last connection closes
            other.execute("select count(*) from holdkit_pools").fetchone()
        with closing(open_engine(file)):
            alone = tmp_path / "alone.db"
            alone.write_bytes(file.read_bytes())  # without its WAL
    with holdkit.connect(f"sqlite:///{alone}") as hk:
        assert hk.pool("p").total == 3
