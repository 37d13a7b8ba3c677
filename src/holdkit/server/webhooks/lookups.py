"""Looking up host names, on threads of our own.

The system's resolver blocks for as long as it likes, and cannot be interrupted. So each lookup has a daemon thread of its own,
and counts against its tenant until it returns, also after its caller has stopped waiting. A tenant whose names hang uses up its
own threads. The threads of the event loop's executor, on which everything else depends, are never used, and a server that stops
waits for no lookup.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

from .slots import FairSlots, Slot


class LookupFailed(Exception):
    """The resolver found no address for the name."""


class Lookups:
    """The lookups of this process."""

    def __init__(self, threads: int, per_tenant: int) -> None:
        self.slots = FairSlots(threads, per_tenant, per_tenant)

    async def addresses(self, tenant: str, host: str, port: int) -> list[str]:
        """Return all addresses of a host. For a host that is an address, return that without a thread."""
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            slot = await self.slots.take(tenant, "")
        try:
            found = self._start(slot, host, port)
        except RuntimeError:
            self.slots.give_back(slot)
            raise LookupFailed("no thread could be started to look up the host name") from None
        return await found

    def _start(self, slot: Slot, host: str, port: int) -> asyncio.Future[list[str]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[str]] = loop.create_future()

        def ended(found: list[str] | LookupFailed) -> None:
            self.slots.give_back(slot)
            if future.done():
                return  # the caller has stopped waiting
            if isinstance(found, LookupFailed):
                future.set_exception(found)
            else:
                future.set_result(found)

        def work() -> None:
            found = _look_up(host, port)
            try:
                loop.call_soon_threadsafe(ended, found)
            except RuntimeError:
                return  # the event loop is closed

        threading.Thread(target=work, name="holdkit-lookup", daemon=True).start()
        return future


def _look_up(host: str, port: int) -> list[str] | LookupFailed:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return LookupFailed("the host name does not resolve")
    return [str(one[4][0]) for one in found]
