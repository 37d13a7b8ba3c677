"""The files of the dashboard, and of the page at /docs: read once from the package, served with content types, ETags and a strict security policy.

Only files that were present at the start are served, by exact name: no file path is ever built from a request.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from ..wire.problems import Problem
from .request import Answer, Headers

FOLDER: Final = Path(__file__).parent / "static"
REFERENCE: Final = Path(__file__).parent / "reference"
"""The page at /docs: the reference of the HTTP API, from the OpenAPI document."""
TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".json": b"application/json",
    ".webmanifest": b"application/manifest+json",
    ".woff2": b"font/woff2",
    ".txt": b"text/plain; charset=utf-8",
}
MAX_FILE: Final = 4 * 1024 * 1024
POLICY: Final = (
    b"default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; object-src 'none'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class File:
    """One file in memory."""

    __slots__ = ("body", "headers", "tag")

    def __init__(self, body: bytes, headers: Headers, tag: bytes) -> None:
        self.body, self.headers, self.tag = body, headers, tag


class Static:
    """The files by their path."""

    def __init__(self, folder: Path = FOLDER, reference: Path = REFERENCE) -> None:
        self._files: dict[str, File] = {}
        self._read(folder, "")
        self._read(reference, "docs/")
        if "docs/index.html" in self._files:
            self._files["docs"] = self._files.pop("docs/index.html")

    def _read(self, folder: Path, prefix: str) -> None:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            kind = TYPES.get(path.suffix)
            if kind is not None and path.is_file() and path.stat().st_size <= MAX_FILE:
                self._add(prefix + path.relative_to(folder).as_posix(), path.read_bytes(), kind)

    def _add(self, name: str, body: bytes, kind: bytes) -> None:
        tag = b'"' + hashlib.blake2b(body, digest_size=12).hexdigest().encode() + b'"'
        cacheable = name.startswith("assets/")  # their names contain a hash of their content
        cache = b"public, max-age=31536000, immutable" if cacheable else b"no-cache"
        self._files[name] = File(
            body, ((b"content-type", kind), (b"etag", tag), (b"cache-control", cache), *_SECURITY_HEADERS), tag
        )

    def find(self, segments: list[str], headers: dict[bytes, bytes]) -> Answer:
        """Return a file, `index.html` for the root. Raise a 404 if there is no such file."""
        name = "/".join(segments) or "index.html"
        if name == "docs/":  # the page's links are relative to /docs
            return Answer(status=308, headers=((b"location", b"../docs"), *_SECURITY_HEADERS))
        file = self._files.get(name)
        if file is None:
            raise Problem(404, "not_found", "there is no such file")
        if headers.get(b"if-none-match") == file.tag:
            return Answer(status=304, headers=file.headers, cacheable=True)
        return Answer(file.body, headers=file.headers, cacheable=True)
