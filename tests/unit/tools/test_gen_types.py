from __future__ import annotations

from typing import Any

import pytest

from holdkit.operations import OPERATIONS
from holdkit.server.openapi import document
from tools import gen_types
from tools.gen_types import declaration, typescript, written

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({}, "unknown"),
        ({"anyOf": [TEXT, {"type": "null"}]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "number"),
        ({"enum": ["held", "spent"]}, '"held" | "spent"'),
        ({"const": "a"}, '"a"'),
        ({"type": "array", "items": TEXT}, "string[]"),
        ({"type": "array", "items": {"anyOf": [TEXT, {"type": "null"}]}}, "(string | null)[]"),
        ({"type": "array", "prefixItems": [TEXT, {"type": "integer"}]}, "[string, number]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Record<string, number>"),
        ({"type": "object"}, "Record<string, unknown>"),
        ({"$ref": "#/components/schemas/PoolAnswer"}, "PoolAnswer"),
        ({"$ref": "#/components/schemas/Job[VerifyAnswer]"}, "JobVerifyAnswer"),
    ],
)
def test_a_schema_as_a_type(schema: dict[str, Any], expected: str) -> None:
    assert written(schema) == expected


def test_what_is_not_always_sent_is_optional() -> None:
    schema = {"description": "A thing.", "properties": {"id": TEXT, "note": {**TEXT, "description": "why"}}}
    expected = "/** A thing. */\nexport interface Thing {\n  id: string;\n  /** why */\n  note?: string;\n}\n"
    assert declaration("Thing", {**schema, "required": ["id"]}) == expected


def test_a_long_union_is_folded() -> None:
    words = [f"word-{n:02}" for n in range(20)]
    lines = declaration("Words", {"enum": words}).splitlines()
    assert lines[0] == "export type Words ="
    assert lines[-1] == '  | "word-19";'


def test_the_file_is_current() -> None:
    assert gen_types.TARGET.read_text("utf-8") == typescript(document(OPERATIONS)), "run `make gen`"


def test_answers_are_in_it_and_bodies_are_not() -> None:
    made = typescript(document(OPERATIONS))
    assert "export interface HoldNow {" in made
    assert "export interface Summary {" in made
    assert "export interface NewHold {" not in made


def test_check_tells_without_writing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gen_types, "TARGET", tmp_path / "types.ts")
    monkeypatch.setattr("sys.argv", ["gen_types", "--check"])
    assert gen_types.main() == 1
    assert "make gen" in capsys.readouterr().err
    assert not (tmp_path / "types.ts").exists()
    monkeypatch.setattr("sys.argv", ["gen_types"])
    assert gen_types.main() == 0
    monkeypatch.setattr("sys.argv", ["gen_types", "--check"])
    assert gen_types.main() == 0
