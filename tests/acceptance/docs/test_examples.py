"""Every Python block of README and docs runs, page by page from top to bottom, and prints exactly what the page shows."""

from __future__ import annotations

import codeop
import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import mcp.client.stdio  # noqa: F401  (it keeps the sys.stderr of its first import: not one that a test has replaced)
import pytest

import holdkit
from tests.acceptance.docs.pages import PAGES, ROOT, Block, blocks

EXECUTED = [page for page in PAGES if any(block.language == "python" for block in blocks(page.read_text("utf-8")))]


def shown_output(text: str, found: list[Block], index: int) -> str:
    """The `text` block that follows a Python block directly; no such block means no output."""
    if index + 1 < len(found):
        following = found[index + 1]
        if following.language == "text" and not text[found[index].end : following.start].strip():
            return following.text
    return ""


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    found = blocks(text)
    module = ModuleType("example")  # one that can be found: frameworks look there for the names in annotations
    monkeypatch.setitem(sys.modules, "example", module)
    namespace: dict[str, Any] = vars(module)
    try:
        for index, block in enumerate(found):
            if block.language != "python":
                continue
            printed = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
            with redirect_stdout(printed):
                exec(code, namespace)
            assert printed.getvalue() == shown_output(text, found, index), f"{page.name}, line {block.line}"
            for value in results_in(namespace):
                assert not faults_of(value), f"{page.name}, line {block.line}: {value!r}"
    finally:
        for value in namespace.values():
            if isinstance(value, holdkit.Kernel):
                value.close()


MADE_BY_CALLERS = ("holdkit.core.commands", "holdkit.core.bounds", "holdkit.testing", "holdkit.errors")
"""Modules of what is no result: commands, the limits of an engine, tools for tests, and exceptions, which are longer."""


def results_in(value: object, depth: int = 3) -> Iterator[object]:
    """What Holdkit has returned: values of its classes, also in lists, pages and dicts."""
    kind = type(value)
    if isinstance(value, list | tuple | set | dict) and depth:
        for element in value.values() if isinstance(value, dict) else value:
            yield from results_in(element, depth - 1)
    elif kind.__module__.startswith("holdkit") and not kind.__module__.startswith(MADE_BY_CALLERS):
        yield value


def faults_of(value: object) -> list[str]:
    """What a repr must not be: longer than a line of 120 characters, or one with None, names of storage or secrets."""
    shown = repr(value)
    secret = getattr(value, "token", None)
    faults = {
        "long": len(shown) > 120,
        "several lines": not shown.isprintable(),
        "None": re.search(r"\bNone\b", shown) is not None,
        "storage": "~" in shown,
        "secret": isinstance(secret, str) and len(secret) > 8 and secret in shown,
    }
    return [name for name, is_fault in faults.items() if is_fault]


def test_results_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    readme = next(block for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.language == "python")
    namespace: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(readme.text, "README.md", "exec", dont_inherit=True), namespace)
    assert {type(value).__name__ for value in results_in(namespace)} >= {"Kernel", "Hold"}
    namespace["hk"].close()


class Told:
    token = "a-secret-text"

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


@pytest.mark.parametrize(
    ("shown", "faults"),
    [
        ("<Hold ab held {show:42: 2}>", []),
        ("x" * 121, ["long"]),
        ("<Hold\n>", ["several lines"]),
        ("Leg(total=None)", ["None"]),
        ("<Item Nonesuch held>", []),
        ("<Hold {~item/A1: 1}>", ["storage"]),
        ("<Hold a-secret-text>", ["secret"]),
    ],
)
def test_faults_of_a_repr(shown: str, faults: list[str]) -> None:
    assert faults_of(Told(shown)) == faults


PASTED = [
    page
    for page in EXECUTED
    if page.name in ("README.md", "tutorial.md") or page.parent.name in ("howto", "explanation")
]


@pytest.mark.parametrize("page", PASTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_can_be_pasted_into_an_interactive_python(page: Path) -> None:
    """Before 3.13 it ends a statement at an empty line, and only there."""
    for block in blocks(page.read_text("utf-8")):
        typed: list[str] = []
        for number, line in enumerate([*block.text.splitlines(), ""] if block.language == "python" else []):
            typed.append(line)
            if codeop.compile_command("\n".join(typed), f"{page.name}, line {block.line + number}") is not None:
                typed.clear()
        assert typed == []


def test_the_first_example_is_short() -> None:
    first = next(block for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.language == "python")
    assert len(first.text.splitlines()) <= 16


def test_examples_are_found() -> None:
    assert {"README.md", "docs/tutorial.md"} <= {str(page.relative_to(ROOT)) for page in EXECUTED}
    assert len(PASTED) > 8
