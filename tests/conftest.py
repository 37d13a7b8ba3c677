from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["holdkit.testing.postgres.plugin"]

settings.register_profile(
    "holdkit",
    deadline=None,  # a slow machine is no fault of the code
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # a red run is about the change; elsewhere every run looks somewhere else
    print_blob=True,
)
settings.load_profile("holdkit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests begin first: what is long and comes last keeps one worker busy while the other waits."""
    items.sort(
        key=lambda item: not item.nodeid.startswith(("tests/machine/", "tests/sim/", "tests/faults/test_server"))
    )
