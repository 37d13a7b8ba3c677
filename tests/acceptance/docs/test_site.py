"""The documentation site: every page is in its navigation, and every public name in its reference. `make docs` builds it."""

from __future__ import annotations

import importlib
import re

import holdkit
from tests.acceptance.docs.pages import ROOT
from tools import site_pages


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/-]+\.md", nav))
    pages = {
        str(path.relative_to(ROOT / "docs"))
        for path in (ROOT / "docs").rglob("*.md")
        if not re.match(r"\d{4}-", path.name)
    }
    assert len(pages) > 30
    assert pages <= listed, f"not in the nav of mkdocs.yml: {sorted(pages - listed)}"
    written = {"index.md", "reference/routes.md", *dict(site_pages.references())}
    assert listed <= pages | written, f"there is no such page: {sorted(listed - pages - written)}"


def test_every_public_name_is_in_the_reference() -> None:
    shown = re.findall(r"^::: holdkit\.(\w+)$", "\n".join(dict(site_pages.references()).values()), re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert set(shown) >= set(holdkit.__all__)


def test_every_name_of_a_submodule_is_in_the_reference() -> None:
    shown = re.findall(r"^::: (holdkit[\w.]+)$", "\n".join(dict(site_pages.references()).values()), re.MULTILINE)
    assert len(shown) == len(set(shown))
    for module in map(importlib.import_module, site_pages.MODULES):
        for name in module.__all__:
            assert f"{module.__name__}.{name}" in shown or f"holdkit.{name}" in shown, f"{module.__name__}.{name}"
    assert set(site_pages.MODULES) == {f"holdkit.{name}" for name in holdkit._SUBMODULES}


def test_links_that_leave_the_site_are_text() -> None:
    assert site_pages.linked("see [the code](../bench/model.py), [a page](scaling.md#x) and [it](#here)", depth=0) == (
        "see the code, [a page](scaling.md#x) and [it](#here)"
    )
    assert site_pages.linked("[start](../../README.md) `[x](../y)`", depth=1).startswith("[start](../index.md)")
    assert site_pages.linked("[install](../README.md#install)", depth=0) == "[install](index.md#install)"
    code = "```python\n[x](../y)\n```"
    assert site_pages.linked(code, depth=0) == code


def test_a_kernel_for_tasks_is_shown_without_the_same_methods_again() -> None:
    """`members: false` alone still lists what is inherited, private names included."""
    kernels = dict(site_pages.references())["reference/kernel.md"]
    shown = "::: holdkit.AsyncKernel\n    options:\n      members: false\n      inherited_members: false\n"
    assert shown in kernels
    assert "::: holdkit.Kernel\n\n::: holdkit.AsyncKernel\n" in kernels
