"""The third-party notices name what the wheel contains."""

from __future__ import annotations

import json
import re

from tests.acceptance.docs.pages import ROOT, table_rows

NOTICES = ROOT / "THIRD-PARTY-NOTICES.md"


def test_every_package_in_the_dashboard_and_the_reference_page_is_named() -> None:
    locked = json.loads((ROOT / "dashboard/package-lock.json").read_text("utf-8"))["packages"]
    shipped = {
        name.removeprefix("node_modules/"): package["version"]
        for name, package in locked.items()
        if name and not package.get("dev") and not package.get("optional")
    }
    assert len(shipped) >= 3
    page = (ROOT / "src/holdkit/server/reference/README.md").read_text("utf-8")
    reference = re.search(r"npm package `([^`]+)` ([0-9.]+) ", page)
    assert reference
    named = {row[0].strip("`"): row[1] for row in table_rows(NOTICES) if len(row) == 5 and row[0].startswith("`")}
    assert named == {**shipped, reference[1]: reference[2]}


def test_the_license_text_is_there() -> None:
    assert "Permission is hereby granted, free of charge" in NOTICES.read_text("utf-8")
