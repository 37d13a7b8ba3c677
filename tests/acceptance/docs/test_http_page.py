"""The page of the HTTP API has a row for each route that callers may rely on, and for no other."""

from __future__ import annotations

import re

from holdkit.operations import OPERATIONS
from tests.acceptance.docs.pages import ROOT, table_rows

_ROUTE = re.compile(r"`(GET|POST|PUT|DELETE) (/[^`]+)`|`…(/[^`]+)`")


def routes_of(cell: str) -> set[str]:
    """The routes of a cell: after `POST /v1/items/confirm`, `…/release` has another last segment."""
    found: list[tuple[str, str]] = []
    for method, path, last in _ROUTE.findall(cell):
        found.append((method, path) if path else (found[-1][0], found[-1][1].rpartition("/")[0] + last))
    return {f"{method} {path}" for method, path in found}


def test_the_table_has_every_route_but_those_of_the_python_client() -> None:
    rows = [row for row in table_rows(ROOT / "docs/http.md") if _ROUTE.match(row[0])]
    shown = set[str]().union(*(routes_of(row[0]) for row in rows))
    assert len(shown) > 80
    public = {f"{one.method} {one.path}" for one in OPERATIONS if one.tag != "internal"}
    assert public - shown == set()
    assert shown - public == set()


def test_what_is_internal_is_named_as_such() -> None:
    internal = {one.name for one in OPERATIONS if one.tag == "internal"}
    assert internal == {"windows", "read_windows", "leave", "show_cursor", "move_cursor"}
