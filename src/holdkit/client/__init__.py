"""A client for the server: `connect("https://…", key="hk_…")` returns a kernel whose commands are sent over HTTP.

Every call that changes something carries a retry key, yours or one that the client makes, and is retried with it
while its outcome is unknown, within bounds. Decides nothing.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ..core.validation import invalid
from ..errors import MissingExtra

try:
    from ._async.remote import AsyncRemoteKernel
    from ._sync.remote import RemoteKernel
    from .problems import NotAdmitted, Policy
    from .unsupported import NOT_REMOTE, NotRemote
except ModuleNotFoundError as missing:
    raise MissingExtra("client", missing) from missing


def connect(url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None) -> RemoteKernel:
    """Return a client for threads. Pass your own `httpx.Client` as `http` if you need proxies or certificates."""
    return RemoteKernel(_checked(url), key=_sendable(key), policy=policy, http=http)


def connect_async(
    url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None
) -> AsyncRemoteKernel:
    """Return a client for tasks: the same names, awaited. `http` may be an `httpx.AsyncClient` of your own."""
    return AsyncRemoteKernel(_checked(url), key=_sendable(key), policy=policy, http=http)


def _checked(url: object) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise invalid("url", "url_malformed", "must begin with http:// or https://")
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise invalid("url", "url_malformed", "must name a server, such as http://127.0.0.1:8420")
    return url


def _sendable(key: object) -> str | None:
    """Check a key, and return it. A key that was read from a file often ends with a line break; the message does not contain the key."""
    if key is None:
        return None
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key or not key:
        raise invalid("key", "key_malformed", "must be the key alone, without spaces and line breaks")
    return key


__all__ = [
    "NOT_REMOTE",
    "AsyncRemoteKernel",
    "NotAdmitted",
    "NotRemote",
    "Policy",
    "RemoteKernel",
    "connect",
    "connect_async",
]
