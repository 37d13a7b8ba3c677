"""Fail if a test run skipped anything: on a developer's machine a skip is a courtesy, in CI it is a hole."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def skipped(report: Path) -> list[str]:
    """Each skipped test with its reason. An expected failure (xfail) did run, and is none."""
    return [
        f"{case.get('classname')}::{case.get('name')}: {mark.get('message')}"
        for case in ET.parse(report).iter("testcase")
        for mark in case.iter("skipped")
        if mark.get("type") != "pytest.xfail"
    ]


def main(arguments: list[str]) -> int:
    """Read the JUnit report named on the command line."""
    if len(arguments) != 1:
        print("usage: no_skips.py REPORT.xml", file=sys.stderr)
        return 2
    holes = skipped(Path(arguments[0]))
    for hole in holes:
        print(f"skipped: {hole}", file=sys.stderr)
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
