"""The OpenAPI 3.1 document, generated from the route table, so that it cannot differ from what is served."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ..engines.durability import LEVELS
from ..wire.problems import ProblemAnswer
from .problems import STATUSES
from .routing import Route

_REF: Final = "#/components/schemas/{name}"
_variable: Final = re.compile(r"\{(\w+)\}")


def openapi_json(routes: tuple[Route, ...]) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document(routes))


def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document."""
    types: list[Any] = [ProblemAnswer]
    for route in routes:
        types += [kind for kind in (route.body, route.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, schema_hook=_hook, ref_template=_REF)
    found = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdkit",
            "version": "1",
            "description": "Reservations of limited quantities. See docs/http.md.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "hk_<id>_<secret>"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.kind,
        "summary": route.summary,
        "responses": _responses(route, schemas),
        "x-scope": route.scope or "none",
        "x-operator": route.operator,
    }
    parameters = [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)]
    if parameters:
        operation["parameters"] = parameters
    if route.scope is None:
        operation["security"] = []
    if route.body is not None:
        content = {"application/json": {"schema": schemas[repr(route.body)]}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    return operation


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": schemas[repr(ProblemAnswer)]}}
    done = {"description": "done", "content": {route.media: {"schema": schemas[repr(route.answer)]}}}
    if route.changes:
        done["headers"] = {
            "Holdkit-Durability": {"description": "what the change survives", "schema": {"enum": list(LEVELS)}}
        }
    found: dict[str, Any] = {str(route.status): done}
    statuses = {400, 503, 504} | ({401, 403, 429} if route.scope else set())
    if route.body is not None:
        statuses |= {408, 413, 415}
    if route.retry_key is not None:
        statuses |= {409, 422}
    statuses |= {STATUSES.get(reason, 409) for reason in route.reasons}
    if route.method == "GET" and "{" in route.path:
        found["304"] = {"description": "not modified"}
    for status in sorted(statuses):
        reasons = sorted(reason for reason in route.reasons if STATUSES.get(reason, 409) == status)
        found[str(status)] = {"description": ", ".join(reasons) or "see docs/http.md", "content": problem}
    return found


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _variable.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for field in msgspec.structs.fields(route.query):
        schema = msgspec.json.schema(field.type, schema_hook=_hook, ref_template=_REF)
        definitions = schema.pop("$defs", {})
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
        options = schema.get("anyOf")
        if options is not None:  # a query parameter cannot be null: it is left out
            plain = [option for option in options if option.get("type") != "null"]
            plain = [definitions[o["$ref"].rsplit("/", 1)[1]] if "$ref" in o else o for o in plain]
            schema = plain[0]
        found.append({"name": field.name, "in": "query", "required": False, "schema": schema})
    return found


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    if route.retry_key is not None:
        schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!#-~]+$"}
        found.append(
            {"name": "Idempotency-Key", "in": "header", "required": route.retry_key == "required", "schema": schema}
        )
    if route.precondition:
        found.append({"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"}})
    if route.kind == "events":
        found.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"}})
    return found


def _hook(kind: type) -> dict[str, Any]:
    if kind is msgspec.Raw:
        return {"type": "object"}
    raise NotImplementedError(kind)
