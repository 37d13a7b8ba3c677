"""The HTTP request of a webhook delivery: where it may go, and what it carries.

Only public addresses are called, unless the settings allow a host by name. The address that was checked is the one that is
connected to, so that a changed DNS record cannot redirect the request in between. The body is a signed CloudEvents envelope.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from ...core.validation import invalid
from ...kernel.results import JournalEntry
from ...wire.fields import at, encode
from ...wire.journal import entry_answer

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class TargetRefused(Exception):
    """This URL must not be called."""


class Target(Struct, frozen=True):
    """A URL whose host name is replaced by one checked address."""

    url: str
    """The URL with the address instead of the name."""
    host: str
    """For the Host header and the certificate."""
    authority: str


def check_url(url: object) -> str:
    """Check the form of a URL: http or https, no user, no fragment, printable ASCII."""
    if (
        not isinstance(url, str)
        or not 0 < len(url) <= 2_048
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise invalid("url", "url_malformed", "must be a URL of at most 2,048 printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise invalid("url", "url_malformed", "must have the form https://example.org/path") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise invalid("url", "url_malformed", "must have the form https://example.org/path")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise invalid("url", "url_malformed", "must have no user, password or fragment")
    return url


async def system_resolver(host: str, port: int) -> list[str]:
    """All addresses of a host name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


def is_public(address: str) -> bool:
    """Whether an address is public; mapped and tunnelled addresses are unwrapped first."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None:
            ip = inner
        elif ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def pin(url: str, allowed: frozenset[str], resolve: Resolver = system_resolver) -> Target:
    """Resolve the name once, refuse it if any address is not public, and return the first address as the target."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower().rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    trusted = host in allowed
    if parts.scheme != "https" and not trusted:
        raise TargetRefused("the URL must use https, unless the server's settings allow the host")
    try:
        async with asyncio.timeout(5):
            addresses = await resolve(host, port)
    except (OSError, TimeoutError, UnicodeError):
        raise TargetRefused("the host name does not resolve") from None
    if not addresses or (not trusted and not all(is_public(address) for address in addresses)):
        raise TargetRefused("the host name resolves to an address that is not public")
    address = addresses[0].partition("%")[0]
    shown = f"[{address}]" if ":" in address else address
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Target(f"{parts.scheme}://{shown}:{port}{path}{query}", host, parts.netloc)


PREFIX = "whsec_"


def new_secret(randomness: bytes) -> str:
    """A signing secret from 32 random bytes, in the format of Standard Webhooks."""
    return PREFIX + base64.b64encode(randomness).decode()


def event_id(hook: str, entry: JournalEntry) -> str:
    """The id of an event: the same for every attempt, so that a receiver can detect duplicates. It contains the digest of the
    entry, because after a failover or a restore another entry may have the same position."""
    return f"{hook}.{entry.position.lane}.{entry.position.seq}.{entry.digest}"


def hook_of(id: str) -> str:
    """The webhook that an event belongs to."""
    return id.partition(".")[0]


def position_of(id: str) -> tuple[int, int]:
    """Lane and sequence number of the event's entry."""
    _, lane, seq, _ = id.split(".")
    return int(lane), int(seq)


def envelope(source: str, id: str, entry: JournalEntry) -> bytes:
    """The body of a request: CloudEvents 1.0, structured mode."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": f"holdkit.{entry.action}",
        "subject": entry.subject,
        "time": at(entry.slot),
        "datacontenttype": "application/json",
        "generation": entry.generation,
        "data": entry_answer(entry),
    }
    return encode(event)


def signed_headers(id: str, timestamp: int, body: bytes, secret: str) -> dict[str, str]:
    """The headers of Standard Webhooks: id, timestamp, and an HMAC-SHA256 over both and the body."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    content = f"{id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
        "content-type": "application/cloudevents+json",
        "user-agent": "holdkit",
    }
