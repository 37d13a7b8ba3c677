from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.trials import ForkServer


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """One per test process. In memory where there is such a place: these faults are not about the disk's own speed."""
    memory = Path("/dev/shm")
    within = memory if os.access(memory, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="holdkit-faults-", dir=within) as place,
        ForkServer(Path(place)) as fork_server,
    ):
        yield fork_server
