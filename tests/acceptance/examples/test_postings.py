"""The example moves money under kills: nothing is made, lost or spent twice. `HOLDKIT_KILLS=1000` for the long run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "postings.py"


def test_no_penny_is_lost() -> None:
    kills = os.environ.get("HOLDKIT_KILLS", "15")
    told = subprocess.run([sys.executable, str(EXAMPLE), "--kills", kills], check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"{kills} kills: ")
    assert told.stdout.endswith("together 4000\n")
    found = re.search(r"'done': (\d+)", told.stdout)
    assert found is not None
    assert int(found[1]) > 0
