"""Every Python block of README and docs runs, page by page from top to bottom, and prints exactly what the page shows."""

from __future__ import annotations

import codeop
import io
import sys
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
    finally:
        for value in namespace.values():
            if isinstance(value, holdkit.Kernel):
                value.close()


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
