"""The route table: what every address takes, gives and needs. One table for the dispatcher, the OpenAPI and the tests.

A route that does not say otherwise needs a key; there is no way to register one past this table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec
from msgspec import Struct

from .bodies import Nothing
from .keys import Scope as KeyScope
from .request import Answer, Request, Scope

Handler: TypeAlias = Callable[[Request], Awaitable[Answer | None]]
"""Gives an answer; None if it has sent one itself."""


class Route(Struct, frozen=True, kw_only=True):
    """One address and method."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    """Such as `/v1/holds/{hold}/confirm`."""
    handler: Handler
    summary: str
    answer: Any
    """The type of the answer's body."""
    scope: KeyScope | None = "read"
    """What a key must be allowed; None: no key is needed."""
    operator: bool = False
    """It tells of all tenants: for keys of the default tenant only."""
    body: type[Struct] | None = None
    body_optional: bool = False
    query: type[Struct] = Nothing
    retry_key: Literal["required", "optional"] | None = None
    """Whether `Idempotency-Key` is needed."""
    precondition: bool = False
    """Whether `If-Match` is understood."""
    status: int = 200
    reasons: tuple[str, ...] = ()
    """Refusals of its own."""
    media: str = "application/json"
    kind: str = ""
    """What metrics call it."""

    @property
    def changes(self) -> bool:
        """Whether it may change something: then its answer tells what that survives."""
        return self.method != "GET" and self.scope not in (None, "read")


class Matched(Struct, frozen=True):
    """A route ready to be called: with its decoder, and what its path said."""

    route: Route
    decoder: Any


class Table:
    """Finds the route of a path, in as many steps as the path has segments."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._root: dict[str, Any] = {}
        for route in routes:
            node = self._root
            for segment in route.path.strip("/").split("/"):
                node = node.setdefault("{}" if segment.startswith("{") else segment, {})
            decoder = None if route.body is None else msgspec.json.Decoder(route.body)
            msgspec.json.Decoder(route.query)  # learned before requests come, in whatever thread
            node.setdefault(_METHODS, {})[route.method] = Matched(route, decoder)

    def find(self, segments: list[str]) -> tuple[dict[str, Matched] | None, tuple[str, ...]]:
        """The routes at a path, by method, and the path's variable parts."""
        node: Any = self._root
        names: list[str] = []
        for segment in segments:
            found = node.get(segment)
            if found is None:
                found = node.get("{}")
                if found is None:
                    return None, ()
                names.append(segment)
            node = found
        return node.get(_METHODS), tuple(names)


_METHODS: Final = "\x00methods"  # no segment can be called that: it would not pass as UTF-8 text without controls


def segments_of(scope: Scope) -> list[str] | None:
    """The path below where we are mounted, split before it is decoded: an id may have a slash in it. None if malformed."""
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
        parts = [
            part if "%" not in part else unquote_to_bytes(part).decode() for part in raw.decode("ascii").split("/")
        ]
    except UnicodeDecodeError:
        return None
    if any(not part.isprintable() and "\x00" in part for part in parts):
        return None
    return parts[1:] if parts and not parts[0] else parts
