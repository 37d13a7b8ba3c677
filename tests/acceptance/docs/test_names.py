from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.docs.pages import PAGES, ROOT, backticked, exists, resolve, table_rows

DOTTED = re.compile(r"holdkit(\.\w+)+")
FOLDERS = ("src/", "tests/", "tools/", "docs/", "bench/", "changelog.d/")
SAFETY_MAP, GLOSSARY = ROOT / "docs/safety-map.md", ROOT / "docs/glossary.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_paths_exist(page: Path) -> None:
    for name in backticked(page):
        if DOTTED.fullmatch(name):
            resolve(name)
        elif name.startswith(FOLDERS) and not re.search(r"[…<*]", name):
            assert exists(name), f"{page.name} names {name}"


def test_resolve_notices_what_is_missing() -> None:
    with pytest.raises(AttributeError):
        resolve("holdkit.core.decide.no_such_function")
    with pytest.raises(AttributeError):
        resolve("holdkit.core.no_such_module")
    assert not exists("tests/acceptance/docs/test_names.py::test_that_is_not_there")
    assert exists("tests/acceptance/docs/test_names.py::test_resolve_notices_what_is_missing")


def test_every_invariant_names_its_function_and_its_test() -> None:
    rows = {row[0]: row for row in table_rows(SAFETY_MAP) if re.fullmatch(r"I\d+", row[0])}
    assert [*rows] == [f"I{number}" for number in range(1, 13)]
    for number, row in rows.items():
        text = " ".join(row)
        if "not yet" in text:
            continue
        assert re.search(r"`holdkit(\.\w+)+`", text), f"{number} names no function"
        assert re.search(r"`tests/[^`]+::[^`]+`", text), f"{number} names no test"


def test_the_tour_names_code() -> None:
    named = [name for name in backticked(ROOT / "docs/tour.md") if DOTTED.fullmatch(name)]
    assert len(named) > 20


def test_glossary_terms_are_sorted_unique_and_their_code_exists() -> None:
    rows = table_rows(GLOSSARY)
    terms = [row[0] for row in rows]
    assert terms == sorted(set(terms), key=str.lower)
    for term, code, meaning in rows:
        assert meaning, term
        for name in re.findall(r"`([^`]+)`", code):
            resolve(name)
