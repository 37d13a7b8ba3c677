"""Write dashboard/src/types.ts from the OpenAPI document: the type of every document that the server answers.

Only answers and events: what the dashboard sends is checked by the server. An answer may have fields that this file does not
know, and a field that is not always sent is optional here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdkit.operations import OPERATIONS
from holdkit.server.openapi import document

TARGET = Path(__file__).resolve().parent.parent / "dashboard/src/types.ts"
HEAD = "/** The server's answers. Written by tools/gen_types.py from the OpenAPI document: run `make gen`, do not edit. */\n"
WIDTH = 120
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typescript(made: dict[str, Any]) -> str:
    """The whole file."""
    schemas = made["components"]["schemas"]
    names = sorted(reached(answers(made), schemas))
    return HEAD + "".join("\n" + declaration(name, schemas[name]) for name in names)


def answers(made: dict[str, Any]) -> Iterator[Any]:
    """The schemas of what the server sends: answers, events and problems."""
    yield {"$ref": "#/components/schemas/ProblemAnswer"}
    for path in made["paths"].values():
        for operation in path.values():
            yield operation.get("x-events")
            yield from (answer.get("content") for answer in operation["responses"].values())


def reached(parts: Iterator[Any], schemas: dict[str, Any]) -> set[str]:
    """The names of all schemas that these refer to, directly or by others."""
    found: set[str] = set()
    waiting = [name for part in parts for name in references(part)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(schemas[name])
    return found


def references(value: Any) -> Iterator[str]:
    """The names of schemas in a part of the document."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "$ref" and item.startswith("#/components/schemas/"):
                yield item.rsplit("/", 1)[1]
            else:
                yield from references(item)


def declaration(name: str, schema: dict[str, Any]) -> str:
    """One exported type."""
    comment = described(schema, "")
    if "properties" not in schema:
        return comment + folded(f"export type {identifier(name)} =", written(schema), "")
    required = set(schema.get("required", ()))
    lines = [
        described(kind, "  ")
        + folded(
            f"  {field if _WORD.fullmatch(field) else json.dumps(field)}{'' if field in required else '?'}:",
            written(kind),
            "  ",
        )
        for field, kind in schema["properties"].items()
    ]
    return f"{comment}export interface {identifier(name)} {{\n{''.join(lines)}}}\n"


def folded(head: str, kind: str, indent: str) -> str:
    """A declaration, on several lines if it is a union that one line cannot hold."""
    if len(head) + len(kind) + 2 <= WIDTH or kind.endswith("[]"):
        return f"{head} {kind};\n"
    return head + "".join(f"\n{indent}  | {option}" for option in kind.split(" | ")) + ";\n"


def described(schema: dict[str, Any], indent: str) -> str:
    """The description as a comment."""
    says = schema.get("description")
    return f"{indent}/** {' '.join(says.split())} */\n" if says else ""


def written(schema: dict[str, Any]) -> str:
    """A schema as a TypeScript type."""
    if "$ref" in schema:
        return identifier(schema["$ref"].rsplit("/", 1)[1])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " | ".join(dict.fromkeys(written(option) for option in schema[word]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(written(item) for item in schema["prefixItems"]) + "]"
        inner = written(schema.get("items") or {})
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {written(values) if isinstance(values, dict) else 'unknown'}>"
    return _PLAIN.get(kind or "", "unknown")


def identifier(name: str) -> str:
    """The name of a schema as a name of TypeScript: that of a generic struct contains brackets."""
    return re.sub(r"\W+", "", name)


def main() -> int:
    """Write the file, or with --check say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check that the file is current")
    check = parser.parse_args().check
    made = typescript(document(OPERATIONS))
    if TARGET.exists() and TARGET.read_text("utf-8") == made:
        return 0
    if check:
        print(f"not current: {TARGET}; run `make gen`", file=sys.stderr)
        return 1
    TARGET.write_text(made, "utf-8")
    print(f"written: {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
