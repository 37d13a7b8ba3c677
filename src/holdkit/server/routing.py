"""The route table: what each route takes, answers and requires. The dispatcher, the OpenAPI document and the tests share it.

A route needs an API key unless it says otherwise, and there is no other way to register one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec
from msgspec import Struct

from ..wire.fields import Nothing
from ..wire.keys import Scope as KeyScope
from .request import Answer, Request, Scope

_ADMINISTRATION: Final = ("/v1/keys", "/v1/tenants", "/v1/limits")
Handler: TypeAlias = Callable[[Request], Awaitable[Answer | None]]
"""Returns an answer, or None if it has sent one itself."""


class Route(Struct, frozen=True, kw_only=True):
    """One path and method."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    """Such as `/v1/holds/{hold}/confirm`."""
    handler: Handler
    summary: str
    answer: Any
    """The type of the answer's body."""
    scope: KeyScope | None = "read"
    """The scope that an API key must have; None: no key is required."""
    operator: bool = False
    """It covers all tenants: for keys of the default tenant only."""
    body: type[Struct] | None = None
    body_optional: bool = False
    query: type[Struct] = Nothing
    retry_key: Literal["required", "optional"] | None = None
    """Whether `Idempotency-Key` is required or optional."""
    precondition: bool = False
    """Whether `If-Match` is supported."""
    status: int = 200
    reasons: tuple[str, ...] = ()
    """The refusals that it may answer."""
    media: str = "application/json"
    kind: str = ""
    """Its name in metrics."""

    @property
    def administers(self) -> bool:
        """Whether an operator's key reaches it however much its tenant has used up: whoever manages keys, tenants and limits must be
        able to stop what is using it up."""
        return self.path.startswith(_ADMINISTRATION)

    @property
    def changes(self) -> bool:
        """Whether it may change something: its answer then carries the durability header."""
        return self.method != "GET" and self.scope not in (None, "read")


class Table:
    """Finds the route of a path, one step per segment."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._root: dict[Any, Any] = {}
        for route in routes:
            node = self._root
            for segment in route.path.strip("/").split("/"):
                node = node.setdefault(_VARIABLE if segment.startswith("{") else segment, {})
            for kind in (route.body, route.query):
                if kind is not None:
                    msgspec.json.Decoder(
                        kind
                    )  # msgspec must know a type before several threads use it for the first time
            node.setdefault(_METHODS, {})[route.method] = route

    def find(self, segments: list[str]) -> tuple[dict[str, Route] | None, tuple[str, ...]]:
        """The routes of a path by method, and the variable segments of the path."""
        node: Any = self._root
        names: list[str] = []
        for segment in segments:
            found = node.get(segment)
            if found is None:
                found = node.get(_VARIABLE)
                if found is None:
                    return None, ()
                names.append(segment)
            node = found
        return node.get(_METHODS), tuple(names)


_VARIABLE: Final = object()
"""The key of a variable segment. No text equals it, so that no segment of a path can be mistaken for it."""
_METHODS: Final = object()
"""The key of the routes that end at a node, by method."""


def segments_of(scope: Scope) -> list[str] | None:
    """The segments of the path below the mount point, or None if it is malformed. Split before decoding, because an id may
    contain a slash."""
    root: str = scope.get("root_path", "")
    raw = scope.get("raw_path")
    if isinstance(raw, bytes):
        raw = raw.partition(b"?")[0]
        if root:
            prefix = quote(root, safe="/:@!$&'()*+,;=~").encode()
            raw = raw[len(prefix) :] if raw.startswith(prefix) else None
    if raw is None:
        path: str = scope["path"]
        if root and path.startswith(root):
            path = path[len(root) :]
        raw = quote(path, safe="/").encode()
    try:
        parts: list[str] = raw.decode("ascii").split("/")
        if b"%" in raw:
            parts = [part if "%" not in part else unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        return None
    if (b"%00" in raw or b"\x00" in raw) and any("\x00" in part for part in parts):
        return None
    return parts[1:] if parts and not parts[0] else parts
