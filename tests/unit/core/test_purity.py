"""The core touches nothing outside its arguments."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdkit.core

pytestmark = pytest.mark.skipif("MUTANT_UNDER_TEST" in os.environ, reason="a mutated copy is not the core")

CORE = Path(holdkit.core.__file__).parent
FILES = sorted(CORE.rglob("*.py"))
FORBIDDEN = {"asyncio", "datetime", "logging", "os", "random", "secrets", "socket", "sqlite3", "threading", "time"}


def imports(tree: ast.AST) -> set[str]:
    """Modules imported anywhere but under TYPE_CHECKING."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).split(".")[0])
        found |= imports(node)
    return found


def test_the_files_are_found() -> None:
    assert len(FILES) >= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_no_clock_no_chance_no_io(path: Path) -> None:
    assert imports(ast.parse(path.read_text(encoding="utf-8"))) & FORBIDDEN == set()


def test_the_check_would_notice() -> None:
    source = "def f():\n    import os.path\nif TYPE_CHECKING:\n    import time\nfrom threading import Lock"
    assert imports(ast.parse(source)) == {"os", "threading"}


def test_importing_the_core_pulls_in_none_of_them() -> None:
    """Measured against msgspec alone, which the standard library makes bring along what it will."""
    modules = [".".join(("holdkit", *path.relative_to(CORE.parent).with_suffix("").parts)) for path in FILES]
    script = f"""
import sys, importlib, types, hashlib, hmac, msgspec, re, enum
before = set(sys.modules)
root = types.ModuleType("holdkit")      # the package root re-exports the kernel: here it stays outside
root.__path__ = [{str(CORE.parent)!r}]
sys.modules["holdkit"] = root
for name in {modules!r}:
    importlib.import_module(name.removesuffix(".__init__"))
print(*sorted(set(sys.modules) - before))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    brought = set(run.stdout.split())
    assert "holdkit.core.decide" in brought
    assert brought & FORBIDDEN == set()
    assert not [
        name
        for name in brought
        if name.startswith("holdkit.") and not name.startswith(("holdkit.core", "holdkit.errors"))
    ]
