"""Each tool that invents or replays commands knows every one of them, or says why not; and the pages name it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdkit.core.commands import COMMANDS
from holdkit.wire.batches import DOCUMENTS

ROOT = Path(__file__).parents[2]
TOOLS = {
    "random commands of the core": ("tests.unit.core.command_strategies", "tests.unit.core.world"),
    "the simulation": ("tests.simulation",),
    "the state machine": ("tests.acceptance.state_machine.command_drafts",),
    "the conformance kit": ("holdkit.testing.conformance",),
}
NOT_TRIED = {
    ("random commands of the core", "change_limits"): "limits are the world's, not a caller's: test_limits.py",
    ("the simulation", "feed_line"): "every engine does it by itself after a commit",
    ("the simulation", "leave"): "clients there wait by themselves",
    ("the conformance kit", "leave"): "the end of a blocking call: tests/engines",
}
"""What a tool leaves out, and why."""


def modules(name: str) -> Iterator[ModuleType]:
    """A module; of a package, its modules."""
    found = importlib.import_module(name)
    if not hasattr(found, "__path__"):
        yield found
        return
    for inner in pkgutil.iter_modules(found.__path__):
        if not inner.name.startswith("_"):
            yield importlib.import_module(f"{name}.{inner.name}")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_knows_every_command(tool: str) -> None:
    known = {
        value
        for name in TOOLS[tool]
        for module in modules(name)
        for value in vars(module).values()
        if isinstance(value, type)
    }
    missing = {verb for verb, kind in COMMANDS.items() if kind not in known}
    assert missing == {verb for name, verb in NOT_TRIED if name == tool}


def test_the_pages_name_every_command_of_a_batch() -> None:
    page = (ROOT / "docs/http.md").read_text()
    assert len(DOCUMENTS) > 10
    assert [verb for verb in DOCUMENTS if f"`{verb}`" not in page] == []
