"""The HTTP API: an ASGI application around a kernel, its keys, and a way to serve it. Decides nothing, touches no table."""

from __future__ import annotations

from ..faces._async.kernel import AsyncKernel
from ._async.keystore import AsyncKeys
from ._sync.keystore import Keys
from .application import Application
from .keys import KeyInfo, NewKey
from .settings import Settings
from .uvicorn_server import serve, server


def app(source: AsyncKernel | str, *, settings: Settings | None = None, pepper: bytes | None = None) -> Application:
    """An ASGI application for a kernel or a URL. Run it alone, or mount it: then enter `app.lifespan()` in the host's own
    lifespan, for hosts do not pass theirs on."""
    return Application(source, settings=settings, pepper=pepper)


__all__ = ["Application", "AsyncKeys", "KeyInfo", "Keys", "NewKey", "Settings", "app", "serve", "server"]
