from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.docs.pages import PAGES, ROOT, blocks, prose


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert linked.is_relative_to(ROOT), f"{page.name} links outside the project: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}, which has no such heading"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, queue = set(), [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", prose(page))
        queue += [(page.parent / target).resolve() for target in targets if not re.match(r"[a-z]+:", target)]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_readme_shows_exactly_two_commands_and_both_exist() -> None:
    shell = [b.text for b in blocks((ROOT / "README.md").read_text("utf-8")) if b.language == "sh"]
    commands = [line.split("#")[0].strip() for text in shell for line in text.splitlines()]
    assert commands == ["make run", "make test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^run:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)
