from __future__ import annotations

import pytest

pytest_plugins = ["holdkit.testing.postgres.plugin"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests begin first: what is long and comes last keeps one worker busy while the other waits."""
    items.sort(
        key=lambda item: not item.nodeid.startswith(("tests/machine/", "tests/sim/", "tests/faults/test_server"))
    )
