"""Headers of a request that the server and applications read alike: who cannot be trusted may have written them."""

from __future__ import annotations

import re
from typing import Final

from .problems import Problem

_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TRACE: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def given_id(raw: bytes | None) -> str | None:
    """Return the id of a request that its caller has chosen; None if there is none, or one that is not fit for a log."""
    return raw.decode() if raw is not None and _ID.fullmatch(raw) else None


def trace_id(raw: bytes | None) -> str | None:
    """Return the trace id of a W3C `traceparent`; None if there is none, or it is malformed."""
    found = None if raw is None else _TRACE.fullmatch(raw.strip())
    return None if found is None or not int(found[1], 16) else found[1].decode()


def retry_key(raw: bytes | None) -> str | None:
    """Return the retry key of a request, from `Idempotency-Key`; None if there is none. Raise `Problem` if it is malformed."""
    if raw is None:
        return None
    key = raw.decode("latin-1").strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 0 < len(key) <= 200 or not key.isascii() or not key.isprintable() or key.isspace():
        detail = "Idempotency-Key must be 1 to 200 printable ASCII characters"
        raise Problem(400, "idempotency_key_malformed", detail)
    return key
