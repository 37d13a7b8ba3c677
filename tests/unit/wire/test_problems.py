"""A problem document names every fact that a refusal or the server may give: what it did not name, no client would read."""

from __future__ import annotations

import ast
from pathlib import Path

import holdkit.server
import holdkit.wire
from holdkit import errors
from holdkit.wire.problems import Facts, ProblemAnswer, problem_of


def test_every_fact_of_a_refusal_is_in_the_document() -> None:
    declared = {name for refusal in errors.REFUSALS.values() for name in refusal.fields}
    assert len(declared) > 20
    assert declared - {"holders"} <= set(Facts.__struct_fields__)
    assert "holders" not in Facts.__struct_fields__, "the holds of others are nobody's business who reads the answer"


def test_every_fact_that_the_server_adds_is_in_the_document() -> None:
    own = {"effect", "retry_after"}
    given: set[str] = set()
    for path in (*Path(holdkit.server.__file__).parent.rglob("*.py"), *Path(holdkit.wire.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                given |= {word.arg for word in node.keywords if word.arg is not None}
    assert own <= given
    assert given <= set(ProblemAnswer.__struct_fields__)


def test_a_lost_cursor_says_why_and_not_where() -> None:
    cut = problem_of(errors.CursorLost("entry 7 of lane 3 is gone", position=(3, 7)))
    left = problem_of(errors.CursorLost("archived to /srv/files", position=(3, 7), archived_to="/srv/files"))
    assert [(one.status, one.reason) for one in (cut, left)] == [(410, "cursor_lost")] * 2
    assert cut.detail.startswith("the journal no longer has the entry that this cursor saw")
    assert left.detail.startswith("what follows this cursor was archived")
    assert "/srv" not in left.detail
    assert ("archived" in cut.more, left.more) == (False, {"archived": True})
