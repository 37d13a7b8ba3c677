"""Where a server may listen.

A reverse proxy stands at the edge and provides TLS. So the server listens on loopback or on a Unix socket, and elsewhere only with
`behind_proxy` and at least one API key. A certificate is for the way between proxy and server, and permits no address.
"""

from __future__ import annotations

import ipaddress
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..core.validation import invalid
from .settings import Settings

KERNEL_BUFFER: Final = 128 * 1024
"""Bytes of one connection that the kernel takes before the client has room for them."""
SOCKET_MODE: Final = 0o660
"""The proxy runs as the server's user, or in its group."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, *, settings: Settings, behind_proxy: bool, keys: bool) -> None:
    """Refuse to expose a server without API keys, or without a proxy in front of it."""
    if is_loopback(host):
        return
    if settings.open:
        raise invalid("host", "host_exposed", "an open server asks for no API key: it may listen on loopback only")
    if not keys:
        raise invalid(
            "host",
            "host_exposed",
            "there is no API key yet: create one (holdkit keys make) before listening beyond loopback",
        )
    if not behind_proxy:
        raise invalid(
            "host",
            "host_exposed",
            "clients must reach the server through a proxy, which provides TLS: listen on loopback or on a socket (--uds), or use "
            "--behind-proxy if the proxy is on another machine or in another container; a certificate is no substitute",
        )


def unix_socket(path: Path) -> socket.socket:
    """Return a socket that listens on this path, in place of the file that an earlier server left behind.

    Raise `InvalidRequest` if another server listens there, or the path is something else.
    """
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise invalid("uds", "uds_unusable", f"{path} exists and is no socket: name another path")
            if _is_live(path):
                raise invalid("uds", "uds_in_use", f"another server listens on {path}: stop it, or name another path")
            path.unlink()
        made = socket.socket(socket.AF_UNIX)
        try:
            made.bind(str(path))
            path.chmod(SOCKET_MODE)
            made.listen()
        except BaseException:
            made.close()
            raise
    except OSError as failed:
        raise invalid("uds", "uds_unusable", f"cannot listen on {path}: {failed.strerror or failed}") from None
    return made


def _is_live(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except (TimeoutError, BlockingIOError):  # its queue is full
            return True
    return True


def bound_kernel(listening: socket.socket, seconds: float) -> None:
    """Bound what the kernel takes for a client, and how long it keeps that, also after the connection is closed."""
    if listening.family == socket.AF_UNIX:
        return
    for name, value in (("TCP_USER_TIMEOUT", round(seconds * 1000)), ("TCP_NOTSENT_LOWAT", KERNEL_BUFFER)):
        if hasattr(socket, name):  # not on every system; the accepted sockets inherit the options
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
