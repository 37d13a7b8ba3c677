"""Hooks of the documentation site (mkdocs.yml): the pages that are written from README and code, and links that leave the site.

The start page is README.md. The reference of Python names lists everything in `holdkit.__all__`, by where it is defined, and everything in
the `__all__` of its submodules, so that no name can be forgotten; that of routes comes from the server's own OpenAPI document. In the site, a link to a file outside of docs/ is its
text alone: the site does not carry the sources.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.gen_api import public_modules

ROOT: Final = Path(__file__).resolve().parent.parent
METHODS: Final = ("get", "post", "put", "patch", "delete")
GROUPS: Final = {
    "kernel": ("Kernel", "Opening a kernel, what it does, and what it returns."),
    "faces": ("Faces", "Claims, items and seats, budgets, calendars, resources, sagas."),
    "values": ("Values", "What calls take and return."),
    "errors": (
        "Errors",
        "The errors that programs catch most. [`holdkit.errors`](modules.md) has them all, one class for each reason.",
    ),
}
FIRST: Final = ("connect", "connect_async", "Kernel", "AsyncKernel")
"""What everybody looks for; the kernel that users get is defined beside the faces."""
ASYNC: Final = {"AsyncKernel"}
"""The same methods again."""
PAGES: Final = {
    "client": (
        "Client",
        "The client of a server: `pip install 'holdkit[client]'`. [HTTP](../http.md#the-python-client) shows how it is used.",
    ),
    "server": (
        "Server",
        "The server as a library: `pip install 'holdkit[server]'`. [HTTP](../http.md) explains its routes.",
    ),
    "contrib": ("Frameworks, queues, observability", "Each module needs the extra of its name."),
    "testing": (
        "Testing",
        "What `holdkit.testing` offers to [your own tests](../testing.md) and to [engines](../writing-an-engine.md).",
    ),
}
"""Pages of the other public packages, by their names."""
MODULES: Final = tuple(
    f"holdkit.{name}" for name in ("admin", "commands", "errors", "journal", "reports", "resources", "sagas")
)
"""The modules of `holdkit` for names that a program rarely needs."""
ABOUT_MODULES: Final = (
    "What most programs never import. `import holdkit` loads none of these modules; `holdkit.commands.CreatePool` does."
)

_link = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are written here."""
    from holdkit.operations import OPERATIONS
    from holdkit.server.openapi import openapi_json

    readme = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](")
    openapi = openapi_json(OPERATIONS)
    pages = {
        "index.md": readme,
        "reference/openapi.json": openapi.decode(),
        "reference/routes.md": routes(msgspec.json.decode(openapi)),
        **dict(references()),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave docs/ become text."""
    return linked(markdown, depth=page.file.src_uri.count("/"))


def linked(markdown: str, depth: int) -> str:
    """The text of a page in so many folders, with links as the site can follow them; fenced blocks are left alone."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _link.sub(lambda m: _linked(m, depth), part) for part in parts)


def _linked(link: re.Match[str], depth: int) -> str:
    image, text, target = link[1], link[2], link[3]
    if "://" in target or target.startswith("#") or image:
        return link[0]
    up = "../" * (depth + 1)
    if target.startswith(f"{up}README.md"):
        return f"[{text}]({'../' * depth}index.md{target.removeprefix(f'{up}README.md')})"
    leaves = target.startswith(up) or (
        depth == 0 and (ROOT / target).exists() and not (ROOT / "docs" / target).exists()
    )
    return text if leaves else link[0]


def references() -> Iterator[tuple[str, str]]:
    """A page for each group of public names."""
    import holdkit

    grouped: dict[str, list[str]] = {name: [] for name in GROUPS}
    grouped["kernel"] += FIRST
    for name in sorted({*holdkit.__all__}.difference(FIRST)):
        grouped[group_of(getattr(getattr(holdkit, name), "__module__", ""))].append(name)
    for group, (title, about) in GROUPS.items():
        shown = [one for name in grouped[group] for one in _documented(name)]
        yield f"reference/{group}.md", "\n".join([f"# {title}\n", f"{about}\n", *shown])
    modules = [name for name in public_modules() if name != "holdkit"]
    parts = [part for name in modules if name in MODULES for part in _module(name, set(holdkit.__all__))]
    yield "reference/modules.md", "\n".join([f"# Modules\n\n{ABOUT_MODULES}\n", *parts])
    for package, (title, about) in PAGES.items():
        shown = [part for name in modules if name.split(".")[1] == package for part in _module(name)]
        yield f"reference/{package}.md", "\n".join([f"# {title}\n", f"{about}\n", *shown])


def _module(name: str, elsewhere: Collection[str] = ()) -> Iterator[str]:
    """Everything in the `__all__` of a module that is not on another page."""
    yield f"## {name}\n"
    for member in sorted(set(importlib.import_module(name).__all__).difference(elsewhere)):
        yield f"::: {name}.{member}\n    options:\n      heading_level: 3\n"


def group_of(module: str) -> str:
    """Where a name is listed, by the module that defines it."""
    layer = module.removeprefix("holdkit.").partition(".")[0]
    return layer if layer in ("errors", "kernel", "faces") else "values"


def _documented(name: str) -> Iterator[str]:
    if name in ASYNC:
        yield f"::: holdkit.{name}\n    options:\n      members: false\n      inherited_members: false\n"
    else:
        yield f"::: holdkit.{name}\n"


def routes(whole: dict[str, Any]) -> str:
    """Every route, by tag: what it does, what it takes and what it answers."""
    tags: dict[str, list[str]] = {}
    for path, operations in whole["paths"].items():
        for method, operation in operations.items():
            if method in METHODS:
                tag = operation["tags"][0]
                if tag == "internal":
                    continue
                tags.setdefault(tag, []).append(_route(method, path, operation))
    head = (
        "# Routes\n\nWritten from the [OpenAPI document](openapi.json), which a server offers at `/v1/openapi.json` and shows at "
        "`/docs`. [HTTP](../http.md) explains how the routes work together.\n"
    )
    table = "| Operation | What it does | Takes | Answers |\n|---|---|---|---|\n"
    return head + "".join(f"\n## {tag.capitalize()}\n\n{table}{''.join(rows)}" for tag, rows in tags.items())


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    takes = [f"`{one['name']}`" for one in operation.get("parameters", ()) if one.get("in") == "query"]
    body = operation.get("requestBody", {}).get("content", {})
    takes += [f"`{name}`" for one in body.values() if (name := _schema(one))]
    answers = sorted(code for code in operation.get("responses", {}) if code.startswith("2"))
    named = {
        name
        for code in answers
        for one in operation["responses"][code].get("content", {}).values()
        if (name := _schema(one))
    }
    shown = ", ".join(f"`{name}`" for name in sorted(named)) or ", ".join(answers)
    return f"| `{method.upper()} {path}` | {operation.get('summary', '')} | {', '.join(takes)} | {shown} |\n"


def _schema(content: dict[str, Any]) -> str:
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]
