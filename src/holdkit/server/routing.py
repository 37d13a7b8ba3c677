"""Finds the operation of a request by its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec

from ..operations import Operation
from .request import Answer, Request, Scope

Handler: TypeAlias = Callable[[Request], Awaitable[Answer | None]]
"""Returns an answer, or None if it has sent one itself."""


class Table:
    """Finds the operations of a path, one step per segment."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._root: dict[Any, Any] = {}
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                node = node.setdefault(_VARIABLE if segment.startswith("{") else segment, {})
            for kind in (operation.body, operation.query):
                if kind is not None:
                    msgspec.json.Decoder(
                        kind
                    )  # msgspec must know a type before several threads use it for the first time
            node.setdefault(_METHODS, {})[operation.method] = operation

    def find(self, segments: list[str]) -> tuple[dict[str, Operation] | None, tuple[str, ...]]:
        """The operations of a path by method, and the variable segments of the path."""
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
"""The key of the operations that end at a node, by method."""


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
