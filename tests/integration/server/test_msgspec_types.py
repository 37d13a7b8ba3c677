"""msgspec learns a type when it first meets it, and crashes if two threads teach it at the same time: so every type that we
read is learned when its module is imported, by a decoder of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import holdkit

SOURCES = sorted(Path(holdkit.__file__).parent.rglob("*.py"))


def learned_late(source: str) -> list[str]:
    """Types that are named only where something is read."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [
        word.value.id
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "decode"
        for word in call.keywords
        if word.arg == "type" and isinstance(word.value, ast.Name)
    ]
    return [name for name in named if name.lstrip("_")[0].isupper()]


def test_no_type_is_learned_in_the_midst_of_calls() -> None:
    found = {path.name: late for path in SOURCES if (late := learned_late(path.read_text("utf-8")))}
    assert found == {}


def test_one_that_is_would_be_found() -> None:
    assert learned_late("msgspec.json.decode(text, type=WireHold); msgspec.json.decode(text, type=str)") == ["WireHold"]
