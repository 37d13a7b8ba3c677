"""Write every public name with its signature to tests/fixtures/api, one file per module (`make gen`): a change of them is seen in review.

`--check` writes nothing and fails if a file is not current. `--budget` writes tools/budget.json (see tools/api_budget.py and tools/house_figures.py). Public are the names in `__all__` of the modules below and of every module
of `holdkit.contrib`, what a kernel's attributes and factories give (`namespaces.txt`), and the members that do not begin with an
underscore.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from msgspec import Struct

import holdkit.contrib

FOLDER: Final = Path(__file__).resolve().parent.parent / "tests/fixtures/api"
MODULES: Final = (
    "holdkit",
    "holdkit.admin",
    "holdkit.client",
    "holdkit.commands",
    "holdkit.errors",
    "holdkit.journal",
    "holdkit.reports",
    "holdkit.resources",
    "holdkit.sagas",
    "holdkit.server",
    "holdkit.server.settings",
    "holdkit.testing",
    "holdkit.testing.conformance",
    "holdkit.testing.postgres",
    "holdkit.testing.stories",
)
ADDRESS: Final = re.compile(
    r"<(?:function|built-in function|class|bound method) '?([\w.]+)[^>]*>|<([\w.]+) object at 0x[0-9a-f]+>"
)


def public_modules() -> list[str]:
    """The modules whose names are promised."""
    found = pkgutil.iter_modules(holdkit.contrib.__path__, "holdkit.contrib.")
    return sorted([*MODULES, *(one.name for one in found if hasattr(_framework(one.name), "__all__"))])


def _framework(name: str) -> ModuleType:
    return importlib.import_module(name)


def described(module: ModuleType) -> Iterator[str]:
    """One line per name, and one per public member of a class."""
    for name in sorted(module.__all__):
        value = getattr(module, name)
        kind = type(value)  # a proxy (`hk` of a framework) would answer for what it stands for
        if issubclass(kind, type) and value.__module__.startswith("holdkit"):
            yield f"class {name}({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"
            yield from members(name, value)
        elif kind is FunctionType:
            yield f"def {name}{signature(value)}"
        else:
            yield f"{name}: {kind.__name__}"


def namespaces() -> Iterator[str]:
    """The classes behind the attributes of the kernels and what their factories make: no module names them."""
    from .api_budget import faces, kernels

    listed: set[type] = set()
    for kind, kernel in kernels().items():
        for path, cls in sorted(faces(kernel).items()):
            yield f"{kind}.{path}: {cls.__name__}"
            if cls not in listed:
                yield from members(cls.__name__, cls)
            listed.add(cls)


def members(token: str, cls: type) -> Iterator[str]:
    """The public members that Holdkit's own classes define, inherited ones too; fields with their types as they are written. What is true of
    a kind of struct as such (`ClassVar`), or of a member of an enumeration, is for our own layers, and no promise."""
    ours = [base for base in reversed(cls.__mro__) if base.__module__.startswith("holdkit")]
    fields = {name: text for base in ours for name, text in inspect.get_annotations(base).items()}
    struct: Any = cls
    defaults = struct.__struct_defaults__ if issubclass(cls, Struct) else ()
    optional = set(struct.__struct_fields__[-len(defaults) :]) if defaults else set()
    names = {name for base in ours for name in vars(base)} | fields.keys()
    if issubclass(cls, Struct):
        names -= {name for name, text in fields.items() if str(text).startswith("ClassVar[")}
    elif issubclass(cls, Enum):
        names -= fields.keys()
    for name in sorted(name for name in names if name == "__init__" or not name.startswith("_")):
        value = inspect.getattr_static(cls, name, None)
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if name in fields:
            default = " = ..." if name in optional else ""
            yield f"  {token}.{name}: {fields[name]}{default}"
        elif isinstance(value, property | cached_property) or not callable(plain):
            yield f"  {token}.{name}"
        else:
            yield f"  {token}.{name}{signature(plain)}"


def signature(value: Any) -> str:
    """The signature as written, without the addresses of defaults; empty if there is none."""
    try:
        return ADDRESS.sub(lambda found: f"<{found[1] or found[2]}>", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def main(arguments: list[str]) -> int:
    """Write the files, or check them; or write the budget."""
    if "--budget" in arguments:
        from . import api_budget, house_figures

        grow = "--grow" in arguments
        api_budget.write(grow=grow)
        house_figures.write(house_figures.all_figures(), grow=grow)
        return 0
    lines = {name: described(importlib.import_module(name)) for name in public_modules()}
    lines["namespaces"] = namespaces()
    wanted = {f"{name}.txt": "\n".join(text) + "\n" for name, text in lines.items()}
    present = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.txt")}
    changed = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if "--check" in arguments:
        for name in changed:
            print(
                f"tests/fixtures/api/{name}: the public names have changed: make gen, and a changelog fragment",
                file=sys.stderr,
            )
        return int(bool(changed))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], "utf-8")
        else:
            (FOLDER / name).unlink()
        print(f"tests/fixtures/api/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
