"""Named SQL: statements, and the parts that they have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit import engines
from holdkit.engines.named_sql import completed, parse

FILES = sorted(Path(engines.__file__).parent.glob("*/sql/*.sql"))


def test_a_part_stands_wherever_a_statement_or_a_part_names_it() -> None:
    text = "-- a head\n\n-- part: time\n-- why\nnow()\n\n-- part: row\n-- why\na, {time}\n\n-- name: read\n-- why\nselect {row}\n"
    blocks = list(parse(text))
    assert blocks == [("part", "time", "now()"), ("part", "row", "a, {time}"), ("name", "read", "select {row}")]
    parts = {name: body for kind, name, body in blocks if kind == "part"}
    assert completed("select {row}, {time}", parts) == "select a, now(), now()"
    with pytest.raises(ValueError, match="no part is named nothing"):
        completed("select {nothing}", parts)


def test_every_part_has_a_reason_and_is_used() -> None:
    seen = 0
    for folder in {file.parent for file in FILES}:
        texts = [file.read_text() for file in FILES if file.parent == folder]
        for text in texts:
            for block in text.split("-- part: ")[1:]:
                name, reason, *_ = block.splitlines()
                assert reason.startswith("-- "), name
                assert sum(other.count(f"{{{name}}}") for other in texts) > 1, f"{name} is used less than twice"
                seen += 1
    assert seen >= 6
