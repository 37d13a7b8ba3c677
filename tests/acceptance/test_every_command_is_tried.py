"""Each tool that invents or replays commands knows every one of them, or says why not; and the pages name it. The same of the
abilities that an engine may have. What else asks for a new verb, field, reason or ability is in docs/tour.md."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import holdkit
from holdkit.core.commands import COMMANDS
from holdkit.engines.port import Capabilities
from holdkit.testing.stories import commands as stories
from holdkit.testing.stories import read_stories
from holdkit.testing.stories.parser import VERBS
from holdkit.wire.batches import DOCUMENTS
from tools.api_budget import methods_of

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
WITHOUT_A_CHECK = {
    "archive": "it needs files: tests/engines/test_archive.py",
    "guards": "of PostgreSQL: tests/engines/postgres/test_guarded_batches.py",
    "lock_times": "of PostgreSQL: tests/engines/postgres/test_lock_times.py",
}
"""The abilities of an engine that the conformance kit does not try, and why."""


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


def test_every_word_of_a_command_is_in_a_story() -> None:
    told = [one for story in read_stories(ROOT / "tests/stories") for one in story.statements]
    used = {one.verb for statement in told for one in (statement, *statement.inside)}
    words = {word for word in stories.COMMANDS if word in VERBS}
    assert len(words) > 15
    assert words - used == set()


def test_the_page_about_transactions_names_every_verb_that_joins_one() -> None:
    page = (ROOT / "docs/transactions.md").read_text().partition("\n## ")[0]
    verbs = [name for name, how in methods_of(holdkit.Kernel) if "call" in how.parameters]
    assert len(verbs) > 8
    blocks = ["holding", "lease"]
    assert [verb for verb in verbs if f"`{verb}`" not in page and verb not in blocks] == []


def test_every_ability_of_an_engine_is_tried_by_the_conformance_kit() -> None:
    texts = [inspect.getsource(module) for module in modules("holdkit.testing.conformance")]
    asked = {name for text in texts for name in re.findall(r"capabilities\.(\w+)", text)}
    assert {*Capabilities.__struct_fields__} - asked == {*WITHOUT_A_CHECK}
