"""JSON Schemas of documents: msgspec makes them from the structs, and what it cannot know is added here.

msgspec requires only fields without a default. That is right for what callers send; an answer has all its fields, unless its
struct leaves defaults out. And msgspec does not see the text under a field, which is its description.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..wire.fields import schema_of_time

REF: Final = "#/components/schemas/{name}"


def schemas_of(types: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of each type, by its repr; and the components that they refer to."""
    schemas, components = msgspec.json.schema_components(types, schema_hook=hook, ref_template=REF)
    described: dict[str, dict[str, dict[str, str]]] = {}
    for kind in _structs(types):
        schema = components.get(kind.__name__, {})
        if "properties" not in schema:
            continue
        config = kind.__struct_config__
        if not config.forbid_unknown_fields and not config.omit_defaults:
            fields = msgspec.structs.fields(kind)
            sent = {field.encode_name for field in fields if field.default is not msgspec.UNSET}
            schema["required"] = [name for name in schema["properties"] if name in sent]
        _describe(kind, schema["properties"], described)
        if {"force", "reason"} <= schema["properties"].keys():
            schema |= _FORCED
    return dict(zip(map(repr, types), schemas, strict=True)), components


_FORCED: Final = {
    "if": {"properties": {"force": {"const": True}}, "required": ["force"]},
    "then": {"properties": {"reason": {"type": "string", "minLength": 1}}, "required": ["reason"]},
}
"""What acts without the token, or past a limit, says why."""


def _structs(types: list[Any]) -> Iterator[type[Struct]]:
    """Yield every struct that these types contain, once."""
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(types))
    seen: set[type] = set()
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                yield info.cls
                waiting += [field.type for field in info.fields]
        else:
            inner = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
            waiting += [part for part in inner if part is not None]
            waiting += [*getattr(info, "types", ()), *getattr(info, "item_types", ())]


def _describe(kind: type[Struct], properties: dict[str, Any], known: dict[str, dict[str, dict[str, str]]]) -> None:
    """Add the text under each field, of the struct or of the one that it inherits the field from."""
    for cls in kind.__mro__:
        module = cls.__module__
        if module not in known:
            known[module] = _texts(module) if module.startswith("holdkit.") else {}
        for field, says in known[module].get(cls.__name__, {}).items():
            schema = properties.get(field, {})
            if "description" not in schema and "$ref" not in schema:
                schema["description"] = says


def _texts(module: str) -> dict[str, dict[str, str]]:
    """Return the texts under the fields of all classes of a module, by class and field; none if there is no source."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    return {
        node.name: {
            field.target.id: " ".join(text.value.value.split())
            for field, text in zip(node.body, node.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def hook(kind: type) -> dict[str, Any]:
    """Return the schema of a type that msgspec does not know."""
    if kind is msgspec.Raw:
        return {"type": "object"}
    if (time := schema_of_time(kind)) is not None:
        return time
    raise NotImplementedError(kind)
