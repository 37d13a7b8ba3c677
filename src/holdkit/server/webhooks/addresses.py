"""Where a webhook may be delivered: public addresses only, unless the settings allow a host by name, or a network.

The address that was checked is the one that is connected to, so that a changed DNS record cannot redirect the request in
between. Which addresses are public is a table of our own: what `ipaddress.is_global` says depends on the version of Python.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from ...core.validation import invalid
from ..settings import Webhooks

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_PUBLIC_V4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private use
            "100.64.0.0/10",  # shared by carriers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local: also the metadata services of clouds
            "172.16.0.0/12",  # private use
            "192.0.0.0/24",  # protocol assignments, the dummy address 192.0.0.8 among them
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays, deprecated
            "192.168.0.0/16",  # private use
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
"""IANA's special-purpose registry of IPv4, and multicast."""
GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
"""All that IANA has given to global unicast: loopback, unique local, link-local, `fec0::/10`, discard-only, segment routing and
multicast lie outside."""
NOT_PUBLIC_V6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo and benchmarks among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: any IPv4 address may be inside
            "3fff::/20",  # documentation
        ),
    )
)
"""IANA's special-purpose registry of IPv6, within global unicast."""
EMBEDDING: Final = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""Addresses that stand for the IPv4 address in their last 32 bits: mapped ones, and those of NAT64."""


def is_public(address: str) -> bool:
    """Return whether an address is public."""
    return _is_public(_unwrapped(address))


def _unwrapped(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and any(ip in network for network in EMBEDDING):
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip


def _is_public(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in NOT_PUBLIC_V4)
    return ip in GLOBAL_V6 and not any(ip in network for network in NOT_PUBLIC_V6)


TELLS_TENANT: Final = "the URL must use https, and its host name must lead to public addresses; the server's settings can allow hosts and networks"
"""The tenant's message for every URL that cannot be called: it must not reveal whether a name is unknown, or known on an inside
network only."""


class TargetRefused(Exception):
    """This URL must not be called. The message names the cause, for the operator; a tenant reads `TELLS_TENANT` instead."""


class Target(Struct, frozen=True):
    """A URL, and the checked address to connect to."""

    address: str
    port: int
    tls: bool
    host: str
    """The name that the certificate must have."""
    authority: str
    """For the Host header."""
    path: str
    """With the query."""


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


def receiver_of(url: str) -> tuple[str, int]:
    """Return host name and port of a URL."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower().rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)


class AllowedTargets:
    """Which receivers the settings allow."""

    def __init__(self, delivery: Webhooks) -> None:
        self._hosts = frozenset(host.lower() for host in delivery.allowed)
        self._networks = tuple(_networks(delivery.networks))

    def names(self, url: str) -> bool:
        """Return whether the settings name the host of a URL: then it may have any address."""
        host, _ = receiver_of(url)
        return host in self._hosts

    def choose(self, url: str, addresses: list[str]) -> Target:
        """Return the first of the addresses of a URL's host, if all of them may be called. Raises `TargetRefused`."""
        parts = urlsplit(url)
        host, port = receiver_of(url)
        trusted = host in self._hosts or (bool(addresses) and all(map(self._is_named, addresses)))
        if parts.scheme != "https" and not trusted:
            raise TargetRefused("the URL does not use https")
        if not addresses:
            raise TargetRefused("the host name has no address")
        if not trusted and not all(is_public(address) or self._is_named(address) for address in addresses):
            raise TargetRefused("the host has an address that is not public")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        address = addresses[0].partition("%")[0]
        return Target(address, port, parts.scheme == "https", host, parts.netloc, path)

    def _is_named(self, address: str) -> bool:
        ip = _unwrapped(address)
        return any(ip in network for network in self._networks)


def _networks(named: Iterable[str]) -> Iterable[Network]:
    for network in sorted(named):
        try:
            yield ipaddress.ip_network(network)
        except ValueError as error:
            raise invalid("networks", "network_malformed", f"must be networks such as 10.1.0.0/16: {error}") from None
