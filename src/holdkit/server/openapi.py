"""The OpenAPI 3.1 document, generated from the route table, the documents of `holdkit.wire` and the table of reasons, so that it
cannot differ from what is served."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

from ..engines.durability import LEVELS
from ..operations import Operation
from ..wire.holds import HoldNow
from ..wire.journal import EntryAnswer
from ..wire.pools import PoolNow
from ..wire.problems import TITLES, ProblemAnswer, title_of
from ..wire.stats import Bye, Hello, Summary
from .reasons import REASONS, UNKNOWN, meaning_of, reasons_of, status_of
from .schemas import REF, hook, schemas_of

_variable: Final = re.compile(r"\{(\w+)\}")

TAGS: Final = {
    "holds": "Units of pools, held until a deadline, and then confirmed, released or expired.",
    "pools": "Limited quantities of something.",
    "claims": "Unique keys with a deadline, confirmed for an entity.",
    "items": "Single things, each available, held or confirmed.",
    "seats": "Items with a place in a section.",
    "budgets": "Allowances per window and client, stored under a name.",
    "accounts": "What each customer has.",
    "sagas": "Work in several steps, as its application runs it; read here, or ended by hand.",
    "journal": "Every change, in order; cursors and streams.",
    "keys": "API keys, and the caller that a key belongs to.",
    "webhooks": "Journal entries, delivered to a URL.",
    "admin": "Tenants, limits, maintenance and finding, for operators.",
    "system": "Health, metrics and statistics.",
    "internal": "For the Python client: it may change with any release.",
}
Named: TypeAlias = dict[tuple[int, tuple[str, ...]], str]
"""The names of problem responses, by status and reasons."""
EVENTS: Final[dict[str, Any]] = {"hello": Hello, "entry": EntryAnswer, "summary": Summary, "bye": Bye}
"""The data of the events of a stream; that of an entry has its action as the name of the event."""


def openapi_json(routes: tuple[Operation, ...]) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(document(routes))


def document(routes: tuple[Operation, ...]) -> dict[str, Any]:
    """Return the document."""
    types: list[Any] = [ProblemAnswer, *EVENTS.values()]
    for route in routes:
        types += [kind for kind in (route.body, route.answer) if kind is not None]
    found, components = schemas_of(types)
    named = _problems(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, found, named)
    problem = found[repr(ProblemAnswer)]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdkit",
            "version": "1",
            "description": "Reservations of limited quantities: hold, then confirm, release or let expire.",
        },
        "tags": [{"name": name, "description": says} for name, says in TAGS.items()],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "parameters": _PARAMETERS,
            "headers": _HEADERS,
            "responses": {name: _problem(status, reasons, problem) for (status, reasons), name in named.items()},
            "examples": {reason: _example(reason) for _, reasons in named for reason in reasons},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "hk_<id>_<secret>"}},
        },
    }


def _operation(route: Operation, schemas: dict[str, Any], named: Named) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description(route),
        "responses": _responses(route, schemas, named),
        "x-scope": route.scope or "none",
        "x-operator": route.operator,
    }
    operation["parameters"] = [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)]
    if route.name == "events":
        operation["x-events"] = {name: schemas[repr(kind)] for name, kind in EVENTS.items()}
    if route.scope is None:
        operation["security"] = []
    if route.body is not None:
        content = {"application/json": {"schema": schemas[repr(route.body)]}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    return operation


def _description(route: Operation) -> str:
    """Return the summary, what else a caller has to know, and who may call it."""
    whom = "No API key is needed." if route.scope is None else f"Needs an API key of scope {route.scope}"
    if route.scope is not None:
        whom += ", of the default tenant." if route.operator else "."
    says = f"{route.summary}. {route.says}".strip()
    return f"{says}\n\n{whom}"


def _responses(route: Operation, schemas: dict[str, Any], named: Named) -> dict[str, Any]:
    done: dict[str, Any] = {
        "description": "Done",
        "headers": _headers("X-Request-Id"),
        "content": {route.media: {"schema": schemas[repr(route.answer)]}},
    }
    found: dict[str, Any] = {str(route.status): done}
    if route.changes:
        done["headers"] |= _headers("Holdkit-Durability")
    if route.retry_key is not None:
        done["headers"] |= _headers("Idempotency-Replayed")
    if _tagged(route):
        done["headers"] |= _headers("ETag")
        if route.method == "GET":
            found["304"] = {"description": "Not modified", "headers": _headers("X-Request-Id", "ETag")}
    for status, reasons in reasons_of(route).items():
        found[str(status)] = {"$ref": f"#/components/responses/{named[status, reasons]}"}
    return found


def _problems(routes: tuple[Operation, ...]) -> Named:
    """Return the name of each problem response: routes that give the same reasons with the same status share it."""
    named: Named = {}
    for route in routes:
        for status, reasons in reasons_of(route).items():
            others = sum(known == status for known, _ in named)
            named.setdefault((status, reasons), f"{status}.{others + 1}")
    return named


def _problem(status: int, reasons: tuple[str, ...], problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem response: its reasons, each with its meaning and an example."""
    schema = {"allOf": [problem, {"properties": {"status": {"const": status}, "reason": {"enum": list(reasons)}}}]}
    examples = {reason: {"$ref": f"#/components/examples/{reason}"} for reason in reasons}
    return {
        "description": "\n".join([TITLES[status], "", *(f"- `{name}`: {meaning_of(name)}" for name in reasons)]),
        "headers": _headers("X-Request-Id", *(("Retry-After",) if status in _LATER else ())),
        "content": {"application/problem+json": {"schema": schema, "examples": examples}},
    }


_LATER: Final = (409, 429, 503, 504)
"""Statuses whose answer may say when to try again."""


def _tagged(route: Operation) -> bool:
    """Return whether the answer is one pool or hold, which has an ETag."""
    return route.answer in (PoolNow, HoldNow)


def _example(reason: str) -> dict[str, Any]:
    status = status_of(reason)
    value = {
        "type": f"urn:holdkit:problem:{reason}",
        "title": title_of(reason, status),
        "status": status,
        "detail": meaning_of(reason),
        "reason": reason,
        "effect": "unknown" if reason in UNKNOWN else "none",
        "request_id": "8c1f02a94be6d377",
        "server_time": "2030-01-01T12:00:00.000000Z",
    }
    if reason == "invalid_request":
        value |= {"field": "quantity", "code": "quantity_out_of_range"}
    if reason not in REASONS:
        value["transient"] = False
    return {"summary": meaning_of(reason), "value": value}


def _path_parameters(route: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": "percent-encoded, slashes too",
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _variable.findall(route.path)
    ]


def _query_parameters(route: Operation) -> list[dict[str, Any]]:
    found = []
    for field in msgspec.structs.fields(route.query):
        schema = msgspec.json.schema(field.type, schema_hook=hook, ref_template=REF)
        definitions = schema.pop("$defs", {})
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
        options = schema.get("anyOf")
        if options is not None:  # a query parameter cannot be null: it is left out
            plain = [option for option in options if option.get("type") != "null"]
            plain = [definitions[o["$ref"].rsplit("/", 1)[1]] if "$ref" in o else o for o in plain]
            schema = plain[0]
        parameter = {"name": field.name, "in": "query", "required": False, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema["description"]
        if field.default not in (msgspec.NODEFAULT, None, ""):
            schema = {**schema, "default": field.default}
            parameter["schema"] = schema
        found.append(parameter)
    return found


def _header_parameters(route: Operation) -> list[dict[str, Any]]:
    names = ["X-Request-Id"]
    if route.retry_key is not None:
        names.append("Idempotency-Key" if route.retry_key == "required" else "Idempotency-Key-optional")
    if route.takes_ticket:
        names.append("Holdkit-Ticket")
    if route.precondition:
        names.append("If-Match")
    if route.method == "GET" and _tagged(route):
        names.append("If-None-Match")
    if route.name == "events":
        names.append("Last-Event-ID")
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _header(name: str, says: str, *, required: bool = False, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": says,
        "schema": {"type": "string", **schema},
    }


_RETRY: Final = "the operation id: a retry with the same key and the same request gets the recorded answer"
_KEY_FORM: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 200, "pattern": "^[!#-~]+$"}
_PARAMETERS: Final = {
    "X-Request-Id": _header("X-Request-Id", "your own id for the request, in the server's log", pattern="^[A-Za-z0-9._-]{1,64}$"),
    "Idempotency-Key": _header("Idempotency-Key", _RETRY, required=True, **_KEY_FORM),
    "Idempotency-Key-optional": _header("Idempotency-Key", _RETRY, **_KEY_FORM),
    "Holdkit-Ticket": _header("Holdkit-Ticket", "the ticket of the hold, instead of its id (the path has -) and its token"),
    "If-Match": _header("If-Match", "the ETag of the pool as you last saw it: 412 if it has changed since"),
    "If-None-Match": _header("If-None-Match", "the ETag that you have: 304 if it is still the same"),
    "Last-Event-ID": _header("Last-Event-ID", "the id of the last event that you have seen: the stream continues after it"),
}  # fmt: skip
_HEADERS: Final = {
    "X-Request-Id": {"description": "the id of the request, yours or the server's", "schema": {"type": "string"}},
    "ETag": {"description": "the version of the pool or hold", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds to wait before a retry", "schema": {"type": "integer"}},
    "Idempotency-Replayed": {"description": "true: this is the recorded answer", "schema": {"const": "true"}},
    "Holdkit-Durability": {"description": "what the change survives", "schema": {"enum": list(LEVELS)}},
}


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
