"""The size of the public API, kept in tools/budget.json: names per module, members per class, parameters of the longest methods, and
the names that the first programs of a newcomer need (examples/first).

``make gen`` lowers the counts to today's; ``python -m tools.gen_api --budget --grow`` raises them too. `tests/acceptance/test_budget.py` fails if a count is above or below its
line, so that growth is a visible change of that file. A name that is added after 1.0 is a line in `added`, with its reason (the decision
record or the issue that wanted it); the counts themselves only fall.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, get_type_hints

import holdkit
from holdkit import client
from holdkit.kernel.arguments import Call

from .gen_api import members, public_modules

FILE: Final = Path(__file__).with_name("budget.json")
LONG: Final = 8
"""A method with more parameters has a line of its own."""
NAMESPACES: Final = ("claims", "items", "seats", "accounts", "sagas", "journal", "admin")
"""Attributes of a kernel that are objects with methods of their own."""
WITHIN: Final = ("admin.records", "admin.catalog", "server", "server.keys", "server.webhooks", "server.tenants")
"""Those of a namespace, and what only the client of a server has."""
RESOURCES: Final = {
    holdkit.Kernel: holdkit.resources.ResourceKernel,
    holdkit.AsyncKernel: holdkit.resources.AsyncResourceKernel,
}
"""What `resource` of a kernel with tables makes; a client has none."""
WITH_MEMBERS: Final = frozenset(
    ["holdkit", "holdkit.client", *(f"holdkit.{name}" for name in
     ("errors", "commands", "journal", "reports", "sagas", "resources", "admin"))]
)  # fmt: skip
"""The modules whose classes have a line. Those of frameworks and of tests follow their frameworks."""


def faces(kernel: Any) -> dict[str, type]:
    """The classes behind the namespaces and the factories of a kernel, by the attribute that gives them."""
    found = {
        name: type(getattr(kernel, name))
        for name in NAMESPACES
        if hasattr(type(kernel), name) and not inspect.isroutine(getattr(kernel, name))
    }
    for path in WITHIN:
        with suppress(AttributeError):
            found[path] = type(attrgetter(path)(kernel))
    allowance = holdkit.Allowance(1, per="day")
    found["budget"] = type(kernel.budget("b", units=allowance))
    found["rate"] = type(kernel.rate("r", allowance))
    found["calendar"] = type(kernel.calendar("c", {"room": 1}))
    if type(kernel) in RESOURCES:
        found["resource"] = RESOURCES[type(kernel)]
    return found


def kernels() -> dict[str, Any]:
    """One of each kind: in this process for threads and tasks, and the client of a server. None of them connects to anything."""
    return {
        "Kernel": holdkit.connect("memory://"),
        "AsyncKernel": asyncio.run(_async_kernel()),
        "RemoteKernel": client.connect("http://127.0.0.1:1"),
        "AsyncRemoteKernel": client.connect_async("http://127.0.0.1:1"),
    }


async def _async_kernel() -> holdkit.AsyncKernel:
    return await holdkit.connect_async("memory://")


def classes() -> dict[str, type]:
    """The public classes whose members are counted, and those behind the kernel's namespaces, by name."""
    found: dict[str, type] = {}
    for module in (importlib.import_module(name) for name in public_modules() if name in WITH_MEMBERS):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and value.__module__.startswith("holdkit") and not _is_plain_error(value):
                found[name] = value
    for kernel in kernels().values():
        found |= {cls.__name__: cls for cls in faces(kernel).values()}
    return dict(sorted(found.items()))


def _is_plain_error(cls: type) -> bool:
    """All exceptions have the members of three, and fields that their reasons need."""
    return issubclass(cls, BaseException) and cls not in (holdkit.HoldkitError, holdkit.Refused, holdkit.InvalidRequest)


def names_of(cls: type) -> list[str]:
    """The public members of a class."""
    lines = (line.split(".", 1)[1] for line in members("x", cls))
    names = [line.replace("(", ":").split(":")[0].strip() for line in lines]
    return [name for name in names if name != "__init__"]


def methods_of(cls: type) -> Iterator[tuple[str, inspect.Signature]]:
    """The public methods of a class with their signatures."""
    for name in names_of(cls):
        value = inspect.getattr_static(cls, name, None)
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(plain):
            yield name, inspect.signature(plain)


def parameters(signature: inspect.Signature) -> list[str]:
    """The parameters without `self`; `**call` is one."""
    return [name for name in signature.parameters if name not in ("self", "cls")]


FORBIDDEN: Final = re.compile(r"^(owner|slot|row)$|_slot$|^~")
"""Words of storage, and one that people took for a person's name. `Seat.row` is a row of seats."""


def forbidden() -> list[str]:
    """The public parameters and fields whose names are forbidden."""
    found = [
        f"{cls}.{name}"
        for cls, value in classes().items()
        for name in names_of(value)
        if FORBIDDEN.search(name) and (cls, name) != ("Seat", "row")
    ]
    found += [
        f"{cls}.{method}({name})"
        for cls, value in classes().items()
        for method, signature in methods_of(value)
        for name in parameters(signature)
        if FORBIDDEN.search(name)
    ]
    found += [
        f"{module}.{function}({name})"
        for module in public_modules()
        if module in WITH_MEMBERS
        for function, value in vars_of(module)
        for name in inspect.signature(value).parameters
        if FORBIDDEN.search(name)
    ]
    return sorted(found)


def vars_of(module: str) -> Iterator[tuple[str, Any]]:
    """The public functions of a module."""
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        if inspect.isfunction(getattr(loaded, name)):
            yield name, getattr(loaded, name)


def words() -> dict[str, str]:
    """The methods of the kernels and of their namespaces, each with one class that has it."""
    found: dict[str, str] = {}
    for kernel in kernels().values():
        for cls in (type(kernel), *faces(kernel).values()):
            found |= {name: cls.__name__ for name, _ in methods_of(cls)}
    return found


PROGRAMS: Final = Path(__file__).resolve().parents[1] / "examples" / "first"


def holdkit_names() -> set[str]:
    """Every name that a program can need: those of modules and members, of parameters, and of the faces of a kernel."""
    names = {"holdkit", *NAMESPACES, *(name.rpartition(".")[2] for name in public_modules())}
    # no first program has a server; a group of its settings is called `requests`, as an amount of program 4 is
    modules = (name for name in public_modules() if not name.startswith("holdkit.server"))
    for module in map(importlib.import_module, modules):
        for name in module.__all__:
            value = getattr(module, name)
            names.add(name)
            if inspect.isclass(value):
                names |= {*names_of(value), *(one for _, how in methods_of(value) for one in parameters(how))}
                names |= set(parameters(inspect.signature(value.__init__)))
            elif inspect.isfunction(value):
                names |= set(inspect.signature(value).parameters)
    for kernel in kernels().values():
        for face in faces(kernel).values():
            names |= {*names_of(face), *(one for _, how in methods_of(face) for one in parameters(how))}
    call = get_type_hints(Call)
    return names | call.keys() | {"actual", "advance", "run"}


def names_in(source: str, known: Collection[str]) -> set[str]:
    """The distinct names of Holdkit that a program uses: what it imports from it, attributes, and keywords."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdkit":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and node.attr in known:
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg is not None and node.arg in known:
            found.add(node.arg)
    return found


def programs() -> dict[str, int]:
    """How many names each of the first programs needs, and all of them together."""
    known = holdkit_names()
    by_program = {path.stem: names_in(path.read_text("utf-8"), known) for path in sorted(PROGRAMS.glob("*.py"))}
    return {name: len(used) for name, used in by_program.items()} | {"all": len(set().union(*by_program.values()))}


def measured() -> dict[str, dict[str, int]]:
    """Today's counts."""
    modules = {name: len(importlib.import_module(name).__all__) for name in public_modules()}
    of_classes = classes()
    long = {
        f"{cls}.{name}": len(parameters(signature))
        for cls, value in of_classes.items()
        for name, signature in methods_of(value)
        if len(parameters(signature)) > LONG
    }
    return {
        "names": modules,
        "members": {name: len(names_of(cls)) for name, cls in of_classes.items()},
        "parameters": long,
        "programs": programs(),
    }


def read() -> dict[str, Any]:
    """The file."""
    document: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return document


def save(document: Mapping[str, Any]) -> None:
    """Write the file."""
    FILE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def difference(kept: Mapping[str, Any], found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The lines of the file that are not today's counts, as they would have to be written."""
    lines = []
    for part, counts in found.items():
        budget = kept[part]
        for name in sorted({*counts, *budget}):
            added = sum(key.rpartition(".")[0] == name for key in kept["added"]) if part in ("names", "members") else 0
            allowed, count = budget.get(name), counts.get(name)
            if allowed is None:
                lines.append(f'{part}: write "{name}": {count}')
            elif count is None:
                lines.append(f'{part}: remove "{name}"')
            elif count != allowed + added:
                lines.append(
                    f'{part}: "{name}" has {count}, allowed are {allowed + added}: write "{name}": {count - added}'
                )
    return lines


def write(*, grow: bool = False) -> None:
    """Write today's counts, less what `added` names. Without `grow` a count only falls, and `leaving` only gets shorter."""
    kept, before = read(), read()
    for part, counts in measured().items():
        added = {} if part in ("parameters", "programs") else {
            name: sum(key.rpartition(".")[0] == name for key in kept["added"]) for name in counts
        }  # fmt: skip
        kept[part] = {name: count - added.get(name, 0) for name, count in counts.items()}
    kept["leaving"] = {
        "words": sorted(words().keys() - {verb for verbs in kept["verbs"].values() for verb in verbs.split()}),
        "names": forbidden(),
    }
    if not grow:
        for part in measured():
            kept[part] = {
                name: min(count, before[part][name]) for name, count in kept[part].items() if name in before[part]
            }
        for key, names in kept["leaving"].items():
            kept["leaving"][key] = [name for name in names if name in before["leaving"][key]]
    save(kept)
