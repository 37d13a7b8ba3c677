"""Reads and decodes what callers send: the body within its limits, strict JSON, the query. Refuses the rest with a `Problem`.

It never keeps more than `max_body` bytes, never waits longer than `body_timeout`, and never echoes what was sent.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec

from ..wire.fields import NO_TIME
from ..wire.problems import Problem
from .http_settings import Requests
from .request import Message, Request

T = TypeVar("T")


async def read_body(request: Request) -> int:
    """Read the body and decode it into `request.body`; return its size. A body that is larger than it declared is charged here."""
    operation, limits = request.operation, request.running.requests
    message = await request.receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        raw: bytes = message.get("body", b"")
    else:
        raw = await _gather(request, message, limits.max_body)
    if len(raw) > (request.size or 0):
        request.work.charge_bytes(len(raw))
    if operation.body is None:
        if raw.strip() not in (b"", b"{}"):
            raise Problem(400, "body_unexpected", "this route takes no body")
        return len(raw)
    if not raw and operation.body_optional:
        raw = b"{}"
    elif request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "content_type_unknown", "send Content-Type: application/json")
    request.body = decode_body(raw, operation.body, limits)
    return len(raw)


async def _gather(request: Request, message: Message, max_body: int) -> bytes:
    """Receive the messages after this first one and join their parts to the body."""
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise Problem(400, "body_cut_short", "the connection was closed before the whole body arrived")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > max_body:
            request.work.charge_bytes(size)  # raises
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await request.receive()


def body_late(seconds: float) -> Problem:
    """Return the problem of a body that did not arrive within `requests.body_timeout`."""
    return Problem(408, "body_late", f"the body did not arrive within {seconds:g} s")


def parse_json(body: bytes, max_depth: int) -> Any:
    """Parse strict JSON: refuse what two parsers could read differently (duplicate keys, NaN, numbers that overflow, lone
    surrogates), what is nested too deeply, and NUL in a text."""
    if body.count(b"{") + body.count(b"[") > max_depth and _depth(body) > max_depth:
        raise Problem(400, "body_too_deep", f"the body is nested deeper than {max_depth} levels")
    try:
        value = _strict.decode(body.decode("utf-8"))
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise Problem(400, "body_not_json", "the body must be one JSON object, in UTF-8, without NaN") from None
    if _NUL in body and (field := _with_nul(value)) is not None:
        raise _unprintable(field)
    return value


_NUL: Final = b"\\u0000"
"""The only spelling of NUL in JSON. After another backslash it is plain text, so the parsed value is searched as well."""


def _with_nul(value: Any, path: str = "") -> str | None:
    """Return the first field whose name or text contains NUL, which not every engine can store; None if there is none."""
    if isinstance(value, str):
        return path if "\0" in value else None
    if isinstance(value, dict):
        if any("\0" in name for name in value):
            return path
        parts = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return None
    return next((found for place, item in parts if (found := _with_nul(item, place)) is not None), None)


def _unprintable(path: str) -> Problem:
    """Return the problem of a text with NUL, in the words of the core, which refuses all control characters in its own fields."""
    field = (path or "body")[:128].encode("ascii", "backslashreplace").decode()
    code = f"{field.rpartition('.')[2].partition('[')[0]}_unprintable"
    return Problem(400, "invalid_request", "must not contain control characters", field=field, code=code)


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape that is half of a pair; the other half may be missing."""


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for mark in _brackets(body):
        if mark in b"{[":
            depth += 1
            if depth > deepest:
                deepest = depth
        else:
            depth -= 1
    return deepest


def _brackets(body: bytes) -> bytes:
    """Return the brackets outside of strings. Without a backslash every quote begins or ends a string, so splitting there is enough."""
    if b"\\" not in body:
        return b"".join(body.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    return b"".join(token for token in _token.findall(body) if token in _BRACKETS)


_BRACKETS: Final = (b"{", b"[", b"}", b"]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


_token: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        shown = repr(double[:64]).encode("ascii", "backslashreplace").decode()
        raise Problem(400, "field_twice", f"the field {shown} occurs twice")
    return found


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Problem(400, "invalid_request", "Number out of range", field="body", code="field_malformed")
    return number


_strict: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def decode_body(body: bytes, kind: type[T], limits: Requests) -> T:
    """Decode the body into its struct. Refuse unknown fields, wrong types and all that `parse_json` refuses, and name the field."""
    value = parse_json(body, limits.max_depth)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _invalid_field(error) from None


_at: Final = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_named: Final = re.compile(r"field `(.*)`")


def _invalid_field(error: msgspec.ValidationError, prefix: str = "") -> Problem:
    """Return the problem for a validation error. msgspec reports what it expected and where; of the client's input it repeats only
    the name of an unknown field."""
    text = str(error)
    where = _at.search(text)
    path = where[1] if where else ""
    message = _at.sub("", text)
    named = _named.search(message)
    field = ".".join(part for part in (path, named[1] if named else "") if part) or prefix or "body"
    field = field[:128].encode("ascii", "backslashreplace").decode()
    code = (
        "field_unknown"
        if "unknown field" in message
        else "field_required"
        if "missing" in message
        else "field_malformed"
    )
    if "datetime" in message:
        message = NO_TIME
    shown = message[:200].encode("ascii", "backslashreplace").decode()
    return Problem(400, "invalid_request", shown, field=field, code=code)


def read_query(raw: bytes, kind: type[T], limits: Requests) -> T:
    """Decode the query string into its struct: known names, each at most once, with values of their type."""
    if not raw:
        return kind()
    if len(raw) > limits.max_query:
        raise Problem(414, "query_too_long", f"the query string is longer than {limits.max_query} bytes")
    if b"%00" in raw:
        raise _unprintable("query")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=20
        )
    except ValueError:
        raise Problem(
            400, "query_malformed", "the query string must be name=value pairs, percent-encoded UTF-8"
        ) from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Problem(400, "query_malformed", "each query parameter may be given only once")
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid_field(error, "query") from None
