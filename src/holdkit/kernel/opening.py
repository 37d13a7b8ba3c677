"""From a URL to a kernel: `connect` and `connect_async`."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import unquote, urlsplit

from ..core.model import Limits
from ..core.validation import invalid
from ..engines.port import Clock, Engine
from ._async.kernel import AsyncKernel
from ._sync.kernel import Kernel
from .minting import Mint, Randomness
from .waiters import AsyncSubmitter, Submitter

DEFAULT_URL = "sqlite:///holds.db"


def open_engine(url: str, *, clock: Clock | None = None, limits: Limits | None = None) -> Engine:
    """The engine behind a URL: ``memory://`` or ``sqlite:///file`` (four slashes for an absolute path)."""
    if not isinstance(url, str):
        raise invalid("url", "url_not_text", f"must be text such as {DEFAULT_URL!r}, not {type(url).__name__}")
    if limits is not None and not isinstance(limits, Limits):
        raise invalid("limits", "limits_malformed", "must be a holdkit.Limits")
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise invalid("url", "url_options", "takes no ?options: pass clock= and limits= to connect")
    if parts.scheme == "memory":
        from ..engines.memory import MemoryEngine

        return MemoryEngine(clock=clock, limits=limits)
    if parts.scheme == "sqlite":
        if parts.netloc or parts.path in ("", "/"):
            raise invalid("url", "url_malformed", "must look like sqlite:///file.db, or sqlite:////absolute/file.db")
        from ..engines.sqlite import open_engine as open_sqlite

        return open_sqlite(unquote(parts.path[1:]), clock=clock, limits=limits)
    known = "memory:// and sqlite:///file.db"
    raise invalid("url", "url_unknown", f"has the scheme {parts.scheme!r}; known are {known}")


def connect(
    url: str = DEFAULT_URL,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    randomness: Randomness = os.urandom,
) -> Kernel:
    """Open a kernel for threads. `clock` and `randomness` replace the machine's in tests and simulations."""
    engine = open_engine(url, clock=clock, limits=limits)
    return Kernel(Submitter(engine), Mint(engine.clock, randomness))


async def connect_async(
    url: str = DEFAULT_URL,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    randomness: Randomness = os.urandom,
) -> AsyncKernel:
    """Open a kernel for the tasks of the running event loop: the same names, awaited."""
    engine = await asyncio.to_thread(open_engine, url, clock=clock, limits=limits)
    return AsyncKernel(AsyncSubmitter(engine), Mint(engine.clock, randomness))
