"""`import holdkit` is light, and its lazy names are the ones that type checkers read."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdkit

SOURCE = Path(holdkit.__file__)

HEAVY = (
    "asyncio",
    "email",
    "importlib.metadata",
    "json",
    "logging",
    "msgspec",
    "pathlib",
    "socket",
    "sqlite3",
    "tempfile",
    "zipfile",
)
"""Of the standard library, and msgspec: none of them is needed to name a module."""
OPTIONAL = (
    "click",
    "cryptography",
    "h11",
    "httptools",
    "httpx",
    "prometheus_client",
    "psycopg",
    "rich",
    "starlette",
    "uvicorn",
)
"""What the extras bring."""


def loaded_by(code: str) -> set[str]:
    """The modules that a new process has loaded after this code, without those that every Python loads at its start."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_holdkit_loads_nothing_heavy() -> None:
    loaded = loaded_by("import holdkit")
    assert {name for name in loaded if name.startswith("holdkit")} == {"holdkit"}
    assert loaded & {*HEAVY, *OPTIONAL} == set()


def test_exceptions_need_no_machinery() -> None:
    loaded = loaded_by("import holdkit; holdkit.Overloaded")
    assert {name for name in loaded if name.startswith("holdkit")} == {"holdkit", "holdkit.errors"}
    assert loaded & {"asyncio", "msgspec", *OPTIONAL} == set()


def test_a_kernel_for_threads_loads_no_kernel_for_tasks() -> None:
    loaded = loaded_by("import holdkit; holdkit.connect('memory://').close()")
    assert {"holdkit.faces._sync.kernel", "holdkit.engines.memory"} <= loaded
    assert {name for name in loaded if name.startswith("holdkit.faces._async")} == set()
    assert loaded & {*OPTIONAL, "holdkit.engines.sqlite", "holdkit.engines.postgres", "importlib.metadata"} == set()


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(SOURCE.read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module]
    submodules = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) and not node.module
                  for alias in node.names]  # fmt: skip
    assert submodules == sorted(holdkit._SUBMODULES)
    checked = {alias.name: "." * node.level + (node.module or "") for node in imports for alias in node.names}
    assert len(checked) > 40
    assert checked == holdkit._HOMES
    assert sorted(checked) == sorted(holdkit.__all__)


def test_every_public_name_is_there() -> None:
    missing = [name for name in holdkit.__all__ if not hasattr(holdkit, name)]
    assert missing == []
    assert set(dir(holdkit)) >= {*holdkit.__all__, "__version__"}
    assert holdkit.__version__[0].isdigit()


def test_submodules_come_when_they_are_used() -> None:
    loaded = loaded_by("import holdkit; holdkit.commands.CreatePool")
    assert "holdkit.commands" in loaded
    assert {f"holdkit.{name}" for name in holdkit._SUBMODULES - {"commands", "errors"}} & loaded == set()
    for name in sorted(holdkit._SUBMODULES):
        module = getattr(holdkit, name)
        assert [one for one in module.__all__ if not hasattr(module, one)] == []
        assert sorted(module.__all__) == sorted(set(module.__all__))
        assert set(dir(holdkit)) >= {name}


def test_a_name_of_two_modules_is_the_same_thing() -> None:
    modules = [holdkit, *(getattr(holdkit, name) for name in sorted(holdkit._SUBMODULES))]
    homes: dict[str, set[int]] = {}
    for module in modules:
        for name in module.__all__:
            homes.setdefault(name, set()).add(id(getattr(module, name)))
    assert [name for name, values in homes.items() if len(values) > 1] == []


def test_a_star_import_brings_all_of_them() -> None:
    found: dict[str, object] = {}
    exec("from holdkit import *", found)
    assert {"connect", "Overloaded", "Leg"} <= found.keys() >= set(holdkit.__all__)


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdkit' has no attribute 'conect'"):
        getattr(holdkit, "conect")  # noqa: B009  # a type checker knows that there is none
    with pytest.raises(ImportError, match="cannot import name 'conect' from 'holdkit'"):
        exec("from holdkit import conect")
